"""Finding, downloading and reading data files; every kind of damage gives one clear line."""

import functools
import gzip
import hashlib
import http.server
import os
import struct
import threading
import zipfile

import numpy as np
import pytest

from repro import paths
from repro.datasets import (
    DataError,
    emnist,
    entry,
    fetch,
    find,
    load_digits,
    load_emnist_byclass,
    names,
    registry,
)

CONTENT = bytes(range(256)) * 4000  # about 1 MB


def idx(array):
    return (
        b"\x00\x00\x08"
        + bytes([array.ndim])
        + struct.pack(f">{array.ndim}I", *array.shape)
        + array.tobytes()
    )


def one_line(error):
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty cache, an empty mirror, no network to wait for."""
    monkeypatch.setattr(paths, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(paths, "EMBEDDED", tmp_path / "embedded")
    (tmp_path / "mirror").mkdir()
    monkeypatch.setenv(registry.MIRROR, str(tmp_path / "mirror"))
    monkeypatch.setenv("REPRO_QUIET", "1")
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    load_emnist_byclass.cache_clear()
    yield tmp_path
    load_emnist_byclass.cache_clear()


def book(place, url="", content=CONTENT, **more):
    """A registry with one file, `blob`."""
    lines = {"file": "blob.bin", "sha256": hashlib.sha256(content).hexdigest(), "url": url, **more}
    text = (
        "[blob]\n"
        + "".join(f'{key} = "{value}"\n' for key, value in lines.items())
        + f"bytes = {len(content)}\n"
    )
    path = place / "registry.toml"
    path.write_text(text)
    return path


class Server(http.server.SimpleHTTPRequestHandler):
    """Sends `blob.bin`; can break off after some bytes, and understands Range if told so."""

    ranges, breaks, damage = True, [], b""
    seen: list = []

    def do_GET(self):
        start = 0
        wanted = self.headers.get("Range")
        type(self).seen.append(wanted)
        if wanted and self.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        body = (self.damage or CONTENT)[start:]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        cut = type(self).breaks.pop(0) if type(self).breaks else len(body)
        self.wfile.write(body[:cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    handler = type("Handler", (Server,), {"seen": [], "breaks": []})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        handler.url = f"http://127.0.0.1:{running.server_port}/blob.bin"
        yield handler
        running.shutdown()


# ------------------------------------------------------------------------- looking up


def test_the_registry_of_the_project_is_complete():
    assert set(names()) >= {"emnist_byclass", "emnist_byclass_train", "emnist_byclass_test"}
    for name in names():
        one = entry(name)
        assert len(one.sha256) == 64 and int(one.sha256, 16) and one.bytes > 0
        assert one.licence and one.citation and one.homepage and one.checksum_source
        assert one.url.startswith("https://") or (one.subset and one.whole in (*names(), ""))


def test_the_cache_comes_before_the_mirror_and_neither_needs_the_network(place):
    listing = book(place, url="http://127.0.0.1:9/nobody")
    (place / "mirror" / "blob.bin").write_bytes(CONTENT)
    assert fetch("blob", listing) == place / "mirror" / "blob.bin"
    paths.CACHE.mkdir()
    (paths.CACHE / "blob.bin").write_bytes(CONTENT)
    assert fetch("blob", listing) == find("blob", listing) == paths.CACHE / "blob.bin"


@pytest.mark.parametrize("where", ["cache", "mirror"])
@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (CONTENT[:-1], "truncated"),
        (b"", "truncated"),
        (CONTENT[:-1] + b"x", "altered"),
        (CONTENT + b"x", "altered"),
    ],
)
def test_a_damaged_file_is_named_with_what_was_expected_and_what_to_do(place, where, damage, word):
    listing = book(place)
    paths.CACHE.mkdir()
    (place / where / "blob.bin").write_bytes(damage)
    with pytest.raises(DataError) as error:
        fetch("blob", listing)
    message = one_line(error)
    assert str(place / where / "blob.bin") in message and word in message
    assert ("expected 1,024,000" in message) or (hashlib.sha256(CONTENT).hexdigest() in message)
    assert ("delete it" if where == "cache" else "replace it") in message


def test_an_unknown_name_and_a_missing_file(place, monkeypatch):
    listing = book(place, whole="other")
    with pytest.raises(DataError, match="no data set 'blub' in the registry; it has blob"):
        fetch("blub", listing)
    with pytest.raises(DataError) as error:
        fetch("blob", listing)
    message = one_line(error)
    assert "blob.bin" in message and "set REPRO_DATA_MIRROR" in message and "'other'" in message
    assert find("blob", listing) is None
    monkeypatch.delenv(registry.MIRROR)
    with pytest.raises(DataError, match="nor in a mirror"):
        fetch("blob", listing)


@pytest.mark.parametrize("text", ["not toml [", "[blob]\nfile = 'x'\n", "[blob]\ncolour = 1\n"])
def test_a_broken_registry_is_one_line_too(place, text):
    path = place / "registry.toml"
    path.write_text(text)
    with pytest.raises(DataError, match="cannot read the data registry") as error:
        names(path)
    one_line(error)


# ------------------------------------------------------------------------- downloading


def test_a_download_lands_in_the_cache_and_is_used_from_there(place, server):
    listing = book(place, url=server.url)
    found = fetch("blob", listing)
    assert found == paths.CACHE / "blob.bin" and found.read_bytes() == CONTENT
    assert fetch("blob", listing) == found and len(server.seen) == 1
    assert os.listdir(paths.CACHE) == ["blob.bin"]


def test_a_broken_download_is_taken_up_where_it_stopped(place, server):
    server.breaks = [300_000]
    listing = book(place, url=server.url)
    assert fetch("blob", listing).read_bytes() == CONTENT
    assert len(server.seen) == 2 and server.seen[0] is None
    assert int(server.seen[1].removeprefix("bytes=").removesuffix("-")) > 0


def test_after_giving_up_the_next_call_resumes(place, server):
    server.breaks = [100_000, 100_000, 100_000]
    listing = book(place, url=server.url)
    with pytest.raises(DataError) as error:
        fetch("blob", listing)
    message = one_line(error)
    assert (
        server.url in message and "run again to resume" in message and str(paths.CACHE) in message
    )
    assert not (paths.CACHE / "blob.bin").exists() and find("blob", listing) is None
    assert fetch("blob", listing).read_bytes() == CONTENT
    assert server.seen[-1] is not None


def test_a_server_that_cannot_resume_sends_all_again(place, server):
    server.breaks, server.ranges = [300_000], False
    listing = book(place, url=server.url)
    assert fetch("blob", listing).read_bytes() == CONTENT


def test_what_the_server_sends_must_have_the_checksum(place, server):
    server.damage = b"an error page that came with status 200"
    listing = book(place, url=server.url)
    with pytest.raises(DataError, match="is not blob.bin as the registry knows it") as error:
        fetch("blob", listing)
    one_line(error)
    assert os.listdir(paths.CACHE) == []
    server.damage = b""
    assert fetch("blob", listing).read_bytes() == CONTENT


def test_no_network(place):
    listing = book(place, url="http://127.0.0.1:9/blob.bin")
    told = r"download of http://127.0.0.1:9/blob.bin failed \(Connection refused\); run again"
    with pytest.raises(DataError, match=told) as error:
        fetch("blob", listing)
    one_line(error)


def test_a_cache_that_cannot_be_made(place, server):
    (place / "cache").write_text("a file where the folder should be")
    with pytest.raises(DataError, match="cannot write blob.bin") as error:
        fetch("blob", book(place, url=server.url))
    one_line(error)


# ------------------------------------------------------------------------- reading


def test_digits():
    train, test = load_digits("train"), load_digits("test")
    assert train.images.shape == (1440, 8, 8) and test.images.shape == (357, 8, 8)
    assert train.images.dtype == np.uint8 and train.images.max() == 16 and train.brightest == 16
    assert train.classes == tuple("0123456789") and set(train.labels) == set(range(10))
    assert train.subset == "" and len(train.sha256) == 64 and train.sha256 != test.sha256
    from sklearn.datasets import load_digits as original

    both = np.concatenate([train.images, test.images]).reshape(1797, -1).astype(int)
    assert sorted(map(tuple, both)) == sorted(map(tuple, original().data.astype(int)))
    with pytest.raises(ValueError, match="read-only"):
        train.images[0] = 0
    with pytest.raises(ValueError, match="part must"):
        load_digits("validation")


def characters(count=62 * 2, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 28, 28), dtype=np.uint8), (np.arange(count) % 62).astype(
        np.uint8
    )


def describe(place, monkeypatch, files):
    """Let the project's registry describe these files, which lie in the mirror."""
    known = registry.entries()
    for name, file in files.items():
        content = (place / "mirror" / file).read_bytes()
        changed = {
            **vars(known[name]),
            "sha256": hashlib.sha256(content).hexdigest(),
            "bytes": len(content),
        }
        known[name] = registry.Entry(**changed)
    monkeypatch.setattr(registry, "entries", lambda path=None: known)


def archive(place, monkeypatch, members):
    with zipfile.ZipFile(place / "mirror" / "emnist_gzip.zip", "w") as target:
        for name, content in members.items():
            target.writestr(f"gzip/{name}", gzip.compress(content))
    describe(place, monkeypatch, {"emnist_byclass": "emnist_gzip.zip"})


def members(images, labels, part="train"):
    return {
        f"emnist-byclass-{part}-images-idx3-ubyte.gz": idx(images),
        f"emnist-byclass-{part}-labels-idx1-ubyte.gz": idx(labels),
    }


def test_the_official_archive_is_read_and_its_images_put_upright(place, monkeypatch):
    images, labels = characters()
    monkeypatch.setattr(emnist, "COUNTS", {"train": len(images), "test": len(images)})
    archive(place, monkeypatch, members(images, labels))
    data = load_emnist_byclass("train")
    assert np.array_equal(data.images[3], images[3].T) and np.array_equal(data.labels, labels)
    assert data.subset == "" and data.labels.dtype == np.int64 and data.images.flags.c_contiguous
    assert data.classes[10] == "A" and data.classes[61] == "z"


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda files: files.popitem(), "has no member emnist-byclass-train-labels"),
        (lambda files: files.update({k: v[:-5] for k, v in files.items()}), "header announces"),
        (lambda files: files.update({k: b"\x00\x00\x0d\x01" for k in files}), "not an idx file"),
        (lambda files: files.update({k: b"" for k in files}), "not an idx file"),
        (lambda files: files.update(members(*characters(62))), "expected 124 images"),
        (
            lambda files: files.update(members(characters()[0], np.zeros(124, np.uint8))),
            "do not cover exactly the 62 classes",
        ),
        (
            lambda files: files.update(members(characters()[0], np.full(124, 62, np.uint8))),
            "do not cover",
        ),
    ],
)
def test_an_archive_with_other_content_is_refused(place, monkeypatch, spoil, message):
    monkeypatch.setattr(emnist, "COUNTS", {"train": 124, "test": 124})
    files = members(*characters())
    spoil(files)
    archive(place, monkeypatch, files)
    with pytest.raises(DataError, match=message) as error:
        load_emnist_byclass("train", "official")
    assert "emnist_gzip.zip" in one_line(error)


def test_the_counts_of_the_official_files_are_those_of_the_paper():
    assert emnist.COUNTS == {"train": 697_932, "test": 814_255 - 697_932}


def subset(place, monkeypatch, classes=emnist.CLASSES, **change):
    images, labels = characters()
    content = {"images": images, "labels": labels, "classes": np.array(classes), **change}
    for part in ("train", "test"):
        np.savez(place / "mirror" / f"emnist_byclass_{part}.npz", **content)
    describe(
        place,
        monkeypatch,
        {f"emnist_byclass_{p}": f"emnist_byclass_{p}.npz" for p in ("train", "test")},
    )
    return images


def test_a_subset_is_recognised_and_says_so(place, monkeypatch):
    images = subset(place, monkeypatch)
    data = load_emnist_byclass("train")  # "auto": only the subset is there
    assert np.array_equal(data.images, images) and len(data) == 124
    assert "subset" in data.subset and "70,000" in data.subset and "real EMNIST" in data.subset
    assert data.sha256 == registry.entries()["emnist_byclass_train"].sha256
    assert data.majority_share == pytest.approx(2 / 124)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"images": np.zeros((124, 28, 27), np.uint8)}, "expected 124 images of 28x28"),
        ({"images": np.zeros((124, 28, 28), np.float32)}, "expected 124 images of 28x28"),
        ({"labels": np.zeros(7, np.uint8)}, "expected 124 images"),
        ({"classes": emnist.CLASSES[::-1]}, "classes are not 0-9, A-Z, a-z"),
    ],
)
def test_a_subset_of_another_shape_is_refused(place, monkeypatch, change, message):
    subset(place, monkeypatch, **change)
    with pytest.raises(DataError, match=message) as error:
        load_emnist_byclass("test", "subset")
    one_line(error)


def test_a_subset_file_that_is_no_archive(place, monkeypatch):
    (place / "mirror" / "emnist_byclass_train.npz").write_bytes(b"PK but not really")
    describe(place, monkeypatch, {"emnist_byclass_train": "emnist_byclass_train.npz"})
    with pytest.raises(DataError, match="cannot be read") as error:
        load_emnist_byclass("train", "subset")
    one_line(error)


def test_the_official_file_goes_before_the_subset_and_can_be_demanded(place, monkeypatch):
    images, labels = characters(seed=1)
    monkeypatch.setattr(emnist, "COUNTS", {"train": 124, "test": 124})
    subset(place, monkeypatch)
    archive(place, monkeypatch, members(images, labels))
    describe(
        place,
        monkeypatch,
        {"emnist_byclass": "emnist_gzip.zip", "emnist_byclass_train": "emnist_byclass_train.npz"},
    )
    assert load_emnist_byclass("train").subset == ""
    assert load_emnist_byclass("train", "subset").subset
    for arguments in (("validation",), ("train", "all")):
        with pytest.raises(ValueError, match="must be one of"):
            load_emnist_byclass(*arguments)


@pytest.mark.skipif(
    not all(
        os.path.exists(os.path.join(os.environ.get(registry.MIRROR, ""), f"emnist_byclass_{p}.npz"))
        for p in ("train", "test")
    ),
    reason="no mirror with the EMNIST subset",
)
def test_the_real_subset():
    load_emnist_byclass.cache_clear()
    train, test = (load_emnist_byclass(part, "subset") for part in ("train", "test"))
    assert (len(train), len(test)) == (70_000, 12_000) and train.subset
    pixels = (
        functools.reduce(lambda a, b: a + b, (float(d.images.mean()) for d in (train, test)))
        / 2
        / 255
    )
    assert pixels == pytest.approx(emnist.PIXEL_MEAN, abs=0.002)
    assert train.images.std() / 255 == pytest.approx(emnist.PIXEL_DEVIATION, abs=0.002)
