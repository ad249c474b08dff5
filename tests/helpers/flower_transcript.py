"""What somebody who reads every message of DDP-SA's Flower app learns of a client's vector.

    python flower_transcript.py <folder of the app> <rounds> [<file with the bytes that a SuperLink received>]

Run with the Python of Flower's environment. The app runs over the loopback, once as it is and once with
shares that are not sealed. Every message is written down as bytes. The reader even knows the vectors and
looks for them: the encoded or real coordinates themselves, or a key and a share, at any two places, that
add up to a vector. Prints, as JSON, how many of the vectors are found in each transcript.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, sys.argv[1])
sys.argv, arguments = [sys.argv[0], sys.argv[1], "ddpsa", f"rounds={sys.argv[2]}"], sys.argv[3:]

from workbook_flower import ddpsa  # noqa: E402
from workbook_flower.exchange import ARRAYS, CONFIG  # noqa: E402

import flower_loopback  # noqa: E402
from repro.secagg.stream import KeyStream  # noqa: E402


def windows(transcript, width):
    """All runs of `width` bytes, shape (places, width)."""
    return np.lib.stride_tricks.sliding_window_view(np.frombuffer(transcript, np.uint8), width)


def recovered(transcript, vectors):
    """How many of the vectors (uint64, and as real numbers) somebody finds who reads the transcript."""
    words = np.ascontiguousarray(windows(transcript, 8)).view(np.uint64).ravel()
    words = np.unique(words)
    first = np.array([encoded.ravel()[0] for encoded, _ in vectors])
    found = np.array(
        [np.isin([*e.ravel(), *r.ravel().view(np.uint64)], words).any() for e, r in vectors]
    )
    keys = np.unique(windows(transcript, 16), axis=0)
    streams = np.empty((len(keys), 1), np.uint64)
    for key, stream in zip(keys, streams, strict=True):
        KeyStream(key, ddpsa.ENCODING.ring).fill(stream)
    found |= np.isin(first - streams, words).any(axis=0)
    return int(found.sum())


def content(record):
    """The values of a message as bytes."""
    told = b"".join(array.data for array in record[ARRAYS].values())
    for value in record[CONFIG].values():
        parts = value if isinstance(value, list) else [value]
        told += b"".join(p if isinstance(p, bytes) else str(p).encode() for p in parts)
    return told


def run():
    """The bytes of all messages of a run, and the clients' vectors."""
    written, vectors = [], []

    class Reader(flower_loopback.Loopback):
        def push_messages(self, messages):
            messages = list(messages)
            written.extend(content(message.content) for message in messages)
            return super().push_messages(messages)

        def pull_messages(self, message_ids):
            replies = super().pull_messages(message_ids)
            written.extend(content(reply.content) for reply in replies)
            return replies

    def share(encoded, **given):
        vectors.append((encoded.copy(), ddpsa.ENCODING.decode(encoded)))
        return kept(encoded, **given)

    kept, ddpsa.share = ddpsa.share, share
    loopback, flower_loopback.Loopback = flower_loopback.Loopback, Reader
    try:
        told = flower_loopback.outcome()
    finally:
        ddpsa.share, flower_loopback.Loopback = kept, loopback
    return b"".join(written), vectors, max(told["away"].values())


def main():
    sealed, vectors, away = run()
    told = {"vectors": len(vectors), "bytes": len(sealed), "found": recovered(sealed, vectors)}
    if arguments:
        seen = Path(arguments[0]).read_bytes()
        told |= {"superlink_bytes": len(seen), "superlink_found": recovered(seen, vectors)}
    ddpsa.seal, ddpsa.unseal = lambda share, *_: share, lambda sealed, *_: sealed
    clear, vectors, also = run()
    told |= {"found_without_seals": recovered(clear, vectors), "away": max(away, also)}
    print(json.dumps(told))


if __name__ == "__main__":
    main()
