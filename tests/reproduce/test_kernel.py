"""Code in a fresh kernel: what the last cell printed, the first error, and a kernel that dies."""

import os

import pytest

from reproduce import kernel


def test_cells_share_names_and_stop_at_the_first_error(tmp_path):
    environment = dict(os.environ)
    assert kernel.execute(["x = 1\nprint(0)", "print(x + 1)"], tmp_path, environment) == ("2\n", "")
    printed, error = kernel.execute(["print(1)\nx", "print(2)"], tmp_path, environment)
    assert printed == "1\n" and error == "NameError: name 'x' is not defined"


def test_a_kernel_that_dies_is_told(tmp_path):
    with pytest.raises(kernel.DeadKernel):
        kernel.execute(["import os\nos._exit(1)"], tmp_path, dict(os.environ))
