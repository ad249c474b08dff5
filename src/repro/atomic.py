"""Writing files so that a reader finds the old content or the new one, never a part of it.

The content goes to a hidden file in the same folder, is flushed to the disk, and takes the final
name in one rename. Whatever interrupts the writing (a full disk, Ctrl-C, `kill -9`), the old file
stays.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

SUFFIX = ".partial"
"""The ending of unfinished files; they begin with a dot and may be deleted at any time."""


class WriteError(OSError):
    """A file could not be written; the message names it and the cause. Nothing changed."""

    def __init__(self, path: Path, cause: OSError) -> None:
        reason = cause.strerror or str(cause)
        super().__init__(
            cause.errno, f"cannot write {path}: {reason} (the old content is untouched)"
        )

    def __str__(self) -> str:
        return str(self.args[1])


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a scratch path beside `path`; on a clean exit it is renamed to `path`.

    Missing folders are made. When the body fails, the scratch file is removed and `path` is left
    as it was; an `OSError` (no space, no permission) becomes a `WriteError` that names `path`.
    """
    final = Path(path)
    scratch: Path | None = None
    try:
        final.parent.mkdir(parents=True, exist_ok=True)
        scratch = final.with_name(f".{final.name}.{os.getpid()}.{secrets.token_hex(4)}{SUFFIX}")
        scratch.touch(exist_ok=False)
        yield scratch
        _flush(final, scratch)
        os.replace(scratch, final)
    except WriteError:
        raise
    except OSError as cause:
        raise WriteError(final, cause) from cause
    finally:
        if scratch is not None:
            with suppress(OSError):
                scratch.unlink()


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write `content` to `path`, whole or not at all."""
    with replacing(path) as scratch:
        scratch.write_bytes(content)


def write_text(path: str | os.PathLike[str], content: str) -> None:
    """Write `content` (UTF-8, newlines as given) to `path`, whole or not at all."""
    write_bytes(path, content.encode("utf-8"))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write `value` as indented JSON with sorted keys; NaN and infinity raise `ValueError`."""
    write_text(path, json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n")


def write_together(contents: Mapping[Path, bytes]) -> None:
    """Write several files that belong together.

    All of them are on the disk under scratch names before the first is renamed, in the order
    given, so that a full disk leaves every one as it was; name the file last that readers look at
    first.
    """
    with ExitStack() as stack:
        for path in reversed(contents):  # contexts end in reverse: the last file is renamed last
            scratch = stack.enter_context(replacing(path))
            scratch.write_bytes(contents[path])
            _flush(path, scratch)


def _flush(final: Path, scratch: Path) -> None:
    """Force the content of `scratch` onto the disk."""
    try:
        with open(scratch, "rb+") as stream:
            os.fsync(stream.fileno())
    except OSError as cause:
        raise WriteError(final, cause) from cause
