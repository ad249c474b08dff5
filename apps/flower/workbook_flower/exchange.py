"""Messages between the server and the nodes: who is who, one exchange, arrays in records."""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

ARRAYS, CONFIG = "arrays", "config"
ROLES = ("client", "server")

PATIENCE = 1800.0
"""Seconds that the server waits for nodes to connect, or for the replies of one exchange."""

_PAUSE = 0.2  # seconds between two looks; Flower's own `send_and_receive` waits 3


def packed(arrays: Mapping[str, NDArray], **values: int | float | str | bytes | list) -> RecordDict:
    """Named arrays and values as the content of a message."""
    record = ArrayRecord({name: Array(np.asarray(value)) for name, value in arrays.items()})
    return RecordDict({ARRAYS: record, CONFIG: ConfigRecord(values)})


def arrays(content: RecordDict) -> dict[str, NDArray]:
    """The named arrays of a message."""
    return {name: array.numpy() for name, array in content[ARRAYS].items()}


def values(content: RecordDict) -> ConfigRecord:
    """The named values of a message."""
    return content[CONFIG]


def introduction(context: Context) -> RecordDict:
    """Role and number of this node, as its operator has set them.

    Raises:
        ValueError: the node's configuration has no role, or no number.
    """
    role, number = context.node_config.get("role"), context.node_config.get("number")
    if role not in ROLES or not isinstance(number, int) or number < 0:
        raise ValueError(
            f"--node-config must have role={' or '.join(ROLES)} and number>=0, got role={role!r} and number={number!r}"
        )
    return packed({}, role=role, number=number)


class Nodes:
    """The connected nodes by role and number.

    Args:
        grid: the connection to the SuperLink.
        clients: how many clients are waited for, numbered from 0.
        servers: how many servers of secret shares, numbered from 0.

    Raises:
        TimeoutError: not all of them connected in time.
        RuntimeError: a node answered with an error.
    """

    def __init__(self, grid: Grid, *, clients: int, servers: int) -> None:
        self._grid = grid
        self._places: dict[tuple[str, int], int] = {}
        wanted = {("client", i) for i in range(clients)} | {("server", j) for j in range(servers)}
        known: set[int] = set()
        deadline = time.monotonic() + PATIENCE
        while not wanted <= self._places.keys():
            if time.monotonic() > deadline:
                missing = sorted(wanted - self._places.keys())
                raise TimeoutError(f"nodes that did not connect in {PATIENCE:.0f} s: {missing}")
            fresh = sorted(set(grid.get_node_ids()) - known)
            known |= set(fresh)
            for node, told in self._exchange(dict.fromkeys(fresh, packed({})), MessageType.QUERY):
                who = values(told)
                self._places[who["role"], who["number"]] = node
            time.sleep(_PAUSE)

    def ask(self, role: str, contents: Mapping[int, RecordDict]) -> dict[int, RecordDict]:
        """Send each node of a role its message; the replies, sorted by the nodes' numbers.

        Sums over replies are then the same in every run: Flower hands replies out in the order in
        which they arrive.
        """
        numbers = {self._places[role, number]: number for number in contents}
        messages = {self._places[role, number]: content for number, content in contents.items()}
        replies = self._exchange(messages, MessageType.TRAIN)
        return dict(sorted((numbers[node], content) for node, content in replies))

    def _exchange(
        self, contents: Mapping[int, RecordDict], kind: str
    ) -> list[tuple[int, RecordDict]]:
        """Send messages to nodes and wait for every reply."""
        messages = [
            Message(content=content, dst_node_id=node, message_type=kind)
            for node, content in contents.items()
        ]
        open_ids = set(self._grid.push_messages(messages)) if messages else set()
        found, deadline = [], time.monotonic() + PATIENCE
        while open_ids:
            for reply in self._grid.pull_messages(open_ids):
                sender = reply.metadata.src_node_id
                if reply.has_error():
                    raise RuntimeError(f"node {sender} failed: {reply.error.reason}")
                open_ids.discard(reply.metadata.reply_to_message_id)
                found.append((sender, reply.content))
            if open_ids and time.monotonic() > deadline:
                raise TimeoutError(f"{len(open_ids)} replies did not come in {PATIENCE:.0f} s")
            time.sleep(_PAUSE if open_ids else 0.0)
        return found
