"""Finding data files: embedded, local cache, mirror folder, official address, in this order.

`data/registry.toml` lists every file with address, checksum, size, licence and citation. A file is
handed out only after its sha256 has been compared; a download that breaks off is taken up again
where it stopped, and takes its final name only when it is whole. An embedded file may be compressed
(its name then ends in .xz); size and checksum are those of its content.
"""

from __future__ import annotations

import hashlib
import lzma
import os
import sys
import tomllib
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from repro import paths
from repro._validate import choice
from repro.atomic import SUFFIX

MIRROR = "REPRO_DATA_MIRROR"
"""The environment variable that names a folder with copies of the files, flat."""

COMPRESSED = ".xz"
"""What the name of a compressed embedded file adds to the registry's."""

_BLOCK = 1 << 16  # bytes; what is lost at most when the line breaks
_PATIENCE = (10, 60)  # seconds to connect, seconds between two blocks
_TRIES = 3


class DataError(Exception):
    """A data file is missing, incomplete or altered; the message says which and what to do."""


@dataclass(frozen=True)
class Entry:
    """One file of the registry.

    Attributes:
        name: key in the registry.
        file: file name in the cache and in mirrors.
        sha256: checksum of the file, hexadecimal.
        bytes: its size.
        url: official address; empty where the file exists in mirrors only.
        subset: empty, or the phrase for pictures made from this part of a data set.
        whole: for a subset, the name of the entry with the complete data.
        title, homepage, licence, citation, checksum_source: for readers.
    """

    name: str
    file: str
    sha256: str
    bytes: int
    title: str = ""
    url: str = ""
    subset: str = ""
    whole: str = ""
    homepage: str = ""
    licence: str = ""
    citation: str = ""
    checksum_source: str = ""


def entries(registry: Path | None = None) -> dict[str, Entry]:
    """Every entry of the registry by name.

    Raises:
        DataError: the registry is missing, unreadable, or an entry lacks a field or has one too
            many.
    """
    source = registry or paths.DATA / "registry.toml"
    try:
        with open(source, "rb") as stream:
            tables = tomllib.load(stream)
        return {
            name: Entry(name=name, **table)
            for name, table in tables.items()
            if isinstance(table, dict)
        }
    except (OSError, tomllib.TOMLDecodeError, TypeError) as problem:
        raise DataError(f"cannot read the data registry {source}: {problem}") from problem


def names(registry: Path | None = None) -> tuple[str, ...]:
    """The names that `fetch` knows."""
    return tuple(entries(registry))


def entry(name: str, registry: Path | None = None) -> Entry:
    """One entry.

    Raises:
        DataError: no entry of that name; the message lists those there are.
    """
    known = entries(registry)
    if name not in known:
        raise DataError(f"no data set {name!r} in the registry; it has {', '.join(sorted(known))}")
    return known[name]


def find(name: str, registry: Path | None = None, *, embedded: bool = True) -> Path | None:
    """The verified file, embedded, in the cache or in the mirror; None where it is in none of them.

    Never downloads. The path of a compressed embedded file ends in `COMPRESSED`: `content` reads
    either kind. With `embedded=False` the embedded files are passed over.

    Raises:
        DataError: a file of that name is there but is not the one the registry describes.
    """
    wanted = entry(name, registry)
    for folder, remedy in _folders():
        at_home = folder == paths.EMBEDDED
        if at_home and not embedded:
            continue
        for end in ("", COMPRESSED) if at_home else ("",):
            candidate = folder / (wanted.file + end)
            if candidate.exists():
                verify(candidate, wanted, remedy)
                return candidate
    return None


def fetch(name: str, registry: Path | None = None, *, embedded: bool = True) -> Path:
    """The verified file of `name` as `find` has it, else downloaded into the cache.

    Raises:
        DataError: unknown name; file altered or truncated; nowhere to be found; download failed.
    """
    wanted = entry(name, registry)
    present = find(name, registry, embedded=embedded)
    if present is not None:
        return present
    mirror = os.environ.get(MIRROR, "")
    looked = f"{wanted.file} is neither in {paths.CACHE} nor in " + (
        f"{mirror} ({MIRROR})" if mirror else "a mirror"
    )
    if not wanted.url:
        whole = f", or use the complete data set {wanted.whole!r}" if wanted.whole else ""
        raise DataError(
            f"{looked}, and it cannot be downloaded: set {MIRROR} to a folder that has it "
            f"({wanted.bytes:,} bytes, sha256 {wanted.sha256}){whole}"
        )
    return _download(wanted, looked)


def content(name: str) -> bytes:
    """The bytes of the registry's file `name`, decompressed where it is embedded compressed.

    Raises:
        DataError: as for `fetch`.
    """
    with _opened(fetch(name)) as stream:
        return stream.read()


def verify(path: Path, wanted: Entry, remedy: str) -> None:
    """Compare size and sha256 of `path` with the registry; `remedy` ends the message.

    Raises:
        DataError: the file differs or cannot be read.
    """
    try:
        size, found = _measured(path)
    except (lzma.LZMAError, EOFError) as problem:
        raise DataError(f"{path} is truncated or altered ({problem}); {remedy}") from problem
    except OSError as problem:
        raise DataError(f"cannot read {path}: {problem.strerror or problem}; {remedy}") from problem
    if size != wanted.bytes:
        how = "truncated" if size < wanted.bytes else "altered"
        raise DataError(f"{path} is {how}: {size:,} bytes, expected {wanted.bytes:,}; {remedy}")
    if found != wanted.sha256:
        raise DataError(f"{path} is altered: sha256 {found}, expected {wanted.sha256}; {remedy}")


def _folders() -> Iterator[tuple[Path, str]]:
    yield paths.EMBEDDED, "take it from the repository again (git checkout)"
    yield paths.CACHE, "delete it and run again"
    if mirror := os.environ.get(MIRROR):
        yield Path(mirror).expanduser(), f"replace it, or unset {MIRROR}"


def _opened(path: Path) -> BinaryIO:
    return lzma.open(path) if path.suffix == COMPRESSED else open(path, "rb")


def _measured(path: Path) -> tuple[int, str]:
    """Size and sha256 of the content."""
    size, running = 0, hashlib.sha256()
    with _opened(path) as stream:
        while block := stream.read(1 << 20):
            size += len(block)
            running.update(block)
    return size, running.hexdigest()


def _innermost(problem: BaseException) -> str:
    """The first line of what lies at the bottom of an error of requests, such as "Connection refused"."""
    while inner := next((one for one in problem.args if isinstance(one, BaseException)), None):
        problem = inner
    if isinstance(reason := getattr(problem, "reason", None), BaseException):
        return _innermost(reason)
    while cause := problem.__cause__:
        problem = cause
    said = getattr(problem, "strerror", None) or str(problem)
    return said.splitlines()[0] if said else type(problem).__name__


def _download(wanted: Entry, looked: str) -> Path:
    """Download through pooch, which checks the sum before the file gets its final name."""
    import pooch
    import requests

    try:
        paths.CACHE.mkdir(parents=True, exist_ok=True)
        pooch.get_logger().setLevel("WARNING")  # the progress below says what it would say
        found = pooch.retrieve(
            wanted.url,
            known_hash=f"sha256:{wanted.sha256}",
            fname=wanted.file,
            path=paths.CACHE,
            downloader=_Resuming(wanted),
        )
    except requests.RequestException as problem:
        raise DataError(
            f"{looked}, and the download of {wanted.url} failed ({_innermost(problem)}); run again to resume, "
            f"or put the file ({wanted.bytes:,} bytes, sha256 {wanted.sha256}) into {paths.CACHE}"
        ) from problem
    except ValueError as problem:  # pooch: the sum does not match; it has removed what came
        raise DataError(
            f"what {wanted.url} sends is not {wanted.file} as the registry knows it (expected "
            f"{wanted.bytes:,} bytes, sha256 {wanted.sha256}); nothing was kept: look at "
            f"{wanted.homepage or 'its home page'}, or use a mirror"
        ) from problem
    except OSError as problem:
        raise DataError(
            f"cannot write {wanted.file} to {paths.CACHE}: {problem.strerror or problem}"
        ) from problem
    return Path(found)


class _Resuming:
    """Downloads for pooch; keeps what came when the line breaks and asks only for the rest."""

    def __init__(self, wanted: Entry) -> None:
        self.wanted = wanted

    def __call__(self, url: str, output_file: str, pooch: object) -> None:
        part = paths.CACHE / f".{self.wanted.file}.{self.wanted.sha256[:12]}.part{SUFFIX}"
        for attempt in range(_TRIES):
            try:
                self._transfer(url, part)
                break
            except _broken():
                if attempt == _TRIES - 1:
                    raise
        os.replace(part, output_file)

    def _transfer(self, url: str, part: Path) -> None:
        import requests

        have = part.stat().st_size if part.exists() else 0
        if have >= self.wanted.bytes:
            have = 0
        header = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
        with requests.get(url, stream=True, timeout=_PATIENCE, headers=header) as answer:
            answer.raise_for_status()
            resumed = have > 0 and answer.status_code == 206
            done = have if resumed else 0
            with (
                open(part, "ab" if resumed else "wb") as stream,
                _progress(self.wanted, done) as advance,
            ):
                for block in answer.iter_content(_BLOCK):
                    stream.write(block)
                    advance(len(block))
        if part.stat().st_size < self.wanted.bytes and "Content-Length" not in answer.headers:
            return  # nothing to compare with; the checksum decides
        expected = int(answer.headers.get("Content-Length", 0)) + done
        if part.stat().st_size < expected:
            raise requests.ConnectionError(
                f"the connection ended after {part.stat().st_size:,} of {expected:,} bytes"
            )


def _broken() -> tuple[type[Exception], ...]:
    """The errors after which asking for the rest makes sense."""
    import requests

    return (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)


@contextmanager
def _progress(wanted: Entry, done: int) -> Iterator:
    """A bar on a terminal, one line elsewhere, nothing where REPRO_QUIET is set."""
    if os.environ.get("REPRO_QUIET"):
        yield lambda count: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn(wanted.file),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("", total=wanted.bytes, completed=done)
            yield lambda count: bar.advance(task, count)
    else:
        print(
            f"downloading {wanted.url} ({wanted.bytes / 1e6:.0f} MB) to {paths.CACHE}",
            file=sys.stderr,
            flush=True,
        )
        yield lambda count: None


# Reading -----------------------------------------------------------------------------------------


def arrays(name: str, wanted: tuple[str, ...]) -> dict[str, NDArray]:
    """The arrays `wanted` of the registry's file `name`.

    Raises:
        DataError: the file is missing or altered, or is no npz file with these arrays.
    """
    path: Path = fetch(name)
    try:
        with np.load(path, allow_pickle=False) as content:
            return {key: content[key] for key in wanted}
    except (OSError, KeyError, ValueError, zipfile.BadZipFile, zlib.error) as problem:
        raise DataError(
            f"{path} cannot be read ({problem}); expected arrays {', '.join(wanted)}; "
            "get the file again"
        ) from problem


def expect(name: str, good: bool, expected: str) -> None:
    """Raise a `DataError` that names the file and what was expected of it, unless `good`."""
    if not good:
        raise DataError(f"the file of {name!r} is not what it should be: expected {expected}")


def wants_subset(name: str, part: str, version: str, others: tuple[str, ...] = ()) -> bool:
    """Whether to read the subset of one part instead of the official files.

    Args:
        name: of the official files in the registry; its subsets are `name`_train and `name`_test.
        part: "train" or "test".
        version: "official"; "subset"; or "auto": whichever is already on this machine, the official
            one first, and the official one (to be downloaded) if neither is.
        others: versions that the caller has dealt with, for the message.

    Raises:
        ValueError: an unknown part or version.
    """
    choice("part", part, ("train", "test"))
    choice("version", version, ("auto", "official", "subset", *others))
    if version != "auto":
        return version == "subset"
    return find(name) is None and find(f"{name}_{part}") is not None
