"""What a run says of itself: commit, versions, host and cost."""

import subprocess

import numpy as np

from reproduce import fingerprint, provenance


def git(folder, *arguments):
    name = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *name, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_commit_is_named_and_changes_are_told(tmp_path):
    assert provenance.commit(tmp_path) == "unknown"
    git(tmp_path, "init", "-q")
    assert provenance.commit(tmp_path) == "unknown"
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert provenance.commit(tmp_path) == head
    (tmp_path / "figures.txt").write_text("a result is no change of the code")
    assert provenance.commit(tmp_path) == head
    (tmp_path / "src" / "a.py").write_text("2")
    assert provenance.commit(tmp_path) == f"{head}+changes"
    assert provenance.commit(tmp_path / "src") == "unknown"


def test_provenance_names_commit_versions_host_and_cost():
    found = provenance.describe({"repro.x": "abc"}, 1.26)
    assert found["versions"]["python"].startswith("3.")
    assert found["versions"]["numpy"] == np.__version__
    assert (found["code"], found["seconds"]) == ({"repro.x": "abc"}, 1.3)
    assert found["host"]["cores"] >= 1
    assert found["peak_mib"] > 0


def test_peak_memory_grows_with_what_is_held():
    before = provenance.peak_mib()
    block = np.ones(2**24)  # 128 MiB
    assert provenance.peak_mib() >= before
    assert provenance.peak_mib() > block.nbytes / 2**20


def test_a_result_does_not_depend_on_the_patch_level_of_python():
    every, counted = provenance.versions(), fingerprint.versions()
    assert every["python"].startswith(f"{counted['python']}.")
    assert every["python"].count(".") == 2 and counted["python"].count(".") == 1
    assert counted | {"python": ""} == every | {"python": ""}
