"""Files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from repro import atomic


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def no_space(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_makes_folders_and_replaces(tmp_path):
    path = tmp_path / "a" / "b.txt"
    atomic.write_text(path, "one")
    atomic.write_text(path, "two")
    assert path.read_text() == "two"
    assert names(path.parent) == ["b.txt"]


def test_full_disk_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "x.json"
    atomic.write_json(path, {"old": 1})
    monkeypatch.setattr(atomic.os, "fsync", no_space)
    with pytest.raises(atomic.WriteError, match=r"cannot write .*x\.json: No space left on device"):
        atomic.write_json(path, {"new": 2})
    assert names(tmp_path) == ["x.json"]
    assert '"old"' in path.read_text()


def test_read_only_folder_is_one_clear_error(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))

    monkeypatch.setattr(Path, "touch", refuse)  # root may write anywhere, so the refusal is made up
    with pytest.raises(atomic.WriteError, match="Permission denied") as caught:
        atomic.write_text(tmp_path / "x", "1")
    assert caught.value.errno == errno.EACCES
    assert names(tmp_path) == []


def test_a_failing_body_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), atomic.replacing(tmp_path / "x") as scratch:
        scratch.write_text("half")
        raise KeyboardInterrupt
    assert names(tmp_path) == []


def test_together_renames_none_when_one_cannot_be_written(tmp_path, monkeypatch):
    first, second = tmp_path / "1", tmp_path / "2"
    atomic.write_together({first: b"a", second: b"b"})
    write, calls = Path.write_bytes, []

    def fails_second(self, data):
        calls.append(self)
        if len(calls) == 2:
            no_space()
        return write(self, data)

    monkeypatch.setattr(Path, "write_bytes", fails_second)
    with pytest.raises(atomic.WriteError):
        atomic.write_together({first: b"A", second: b"B"})
    assert (first.read_bytes(), second.read_bytes()) == (b"a", b"b")
    assert names(tmp_path) == ["1", "2"]


def test_together_renames_in_the_order_given(tmp_path, monkeypatch):
    renamed = []
    replace = os.replace
    monkeypatch.setattr(
        atomic.os, "replace", lambda a, b: (renamed.append(Path(b).name), replace(a, b))
    )
    atomic.write_together({tmp_path / "png": b"", tmp_path / "pdf": b"", tmp_path / "json": b""})
    assert renamed == ["png", "pdf", "json"]


def test_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        atomic.write_json(tmp_path / "x.json", {"a": float("nan")})
    assert names(tmp_path) == []
