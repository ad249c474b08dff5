"""What every test needs: one thread for numerical libraries, and no figure left open by another test.

The tests run on tiny arrays, several processes at a time. Threads that wait for each other there make
some of them hundreds of times slower, and the number of threads would decide last digits; so the
variables are set before the first of these libraries is imported.
"""

import os
import sys
from collections.abc import Iterator

import pytest

from reproduce.machine import one_thread

os.environ.update(one_thread())


@pytest.fixture(autouse=True)
def _no_open_figures() -> Iterator[None]:
    """Close the figures of a test: Matplotlib keeps them, and warns from the twentieth on."""
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")
