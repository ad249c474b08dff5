"""The ServerApp and the ClientApp: they pass messages on to the algorithm of the run configuration."""

from __future__ import annotations

import os
import time
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from workbook_flower import ALGORITHMS
from workbook_flower.exchange import Nodes, introduction

server_app = ServerApp()
client_app = ClientApp()


def algorithm(name: object) -> ModuleType:
    """The module of an algorithm.

    Raises:
        ValueError: no algorithm of that name.
    """
    if name not in ALGORITHMS:
        raise ValueError(f"algorithm must be one of {', '.join(ALGORITHMS)}, got {name!r}")
    return import_module(f"workbook_flower.{name}")


@client_app.query()
def introduce(message: Message, context: Context) -> Message:
    """Tell the server which client, or which server of secret shares, this node is."""
    return Message(content=introduction(context), reply_to=message)


@client_app.train()
def respond(message: Message, context: Context) -> Message:
    """Do the node's part of a step."""
    own = algorithm(context.run_config["algorithm"])
    return Message(content=own.respond(message.content, context), reply_to=message)


@server_app.main()
def main(grid: Grid, context: Context) -> None:
    """Run all rounds; write the model and the seconds of each round to the file `result`."""
    config = context.run_config
    chosen = algorithm(config["algorithm"])
    servers = int(config["servers"]) if chosen.NEEDS_SERVERS else 0
    nodes = Nodes(grid, clients=int(config["clients"]), servers=servers)
    seconds, began = [], time.perf_counter()
    for after in chosen.serve(nodes, config):
        model = after
        seconds.append(time.perf_counter() - began)
        began = time.perf_counter()
    write(Path(str(config["result"])), model | {"seconds": np.array(seconds)})


def write(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write an npz file that is there whole, or not at all."""
    partial = path.with_name(f"{path.name}.partial")
    with partial.open("wb") as file:
        np.savez(file, **arrays)
    os.replace(partial, path)
