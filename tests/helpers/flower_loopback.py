"""The Flower app without processes: real messages and apps, a grid that calls the nodes itself.

    python flower_loopback.py <folder of the app> <algorithm> <name>=<value> ...

Run with the Python of Flower's environment. Prints, as JSON, how far each array of the result is from
the simulator's. Replies are handed out in the reverse order, as Flower may.
"""

import json
import sys
import tempfile
import tomllib
from pathlib import Path

import numpy as np
from flwr.app import Context, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

APP = Path(sys.argv[1])
sys.path.insert(0, str(APP))

from workbook_flower import entry  # noqa: E402


class Loopback(Grid):
    """Nodes with numbers from 0: first the clients, then the servers of shares."""

    def __init__(self, config, keys):
        roles = [("client", i) for i in range(config["clients"])]
        roles += [("server", j) for j in range(config["servers"])]
        self.contexts = {
            100 + k: Context(7, 100 + k, self.own(role, number, keys), RecordDict(), config)
            for k, (role, number) in enumerate(roles)
        }
        self.replies, self.sent = [], 0

    @staticmethod
    def own(role, number, keys):
        """What the operator of a node tells it."""
        return {
            "role": role,
            "number": number,
            "keys": str(keys),
            "models": str(keys / f"model-{number}.npy"),
        }

    def set_run(self, run):
        """Not needed."""

    @property
    def run(self):
        """Not needed."""

    def create_message(self, *arguments, **named):
        """Not needed."""

    def send_and_receive(self, messages, *, timeout=None):
        """Not needed."""

    def get_node_ids(self):
        return list(self.contexts)

    def push_messages(self, messages):
        ids = []
        for message in messages:
            self.sent += 1
            ids.append(f"message-{self.sent}")
            message.metadata.__dict__["_message_id"] = ids[-1]
            reply = entry.client_app(message, self.contexts[message.metadata.dst_node_id])
            reply.metadata.__dict__["_src_node_id"] = message.metadata.dst_node_id
            self.replies.append(reply)
        return ids

    def pull_messages(self, message_ids):
        found, self.replies = self.replies[::-1], []
        return found


def outcome():
    """Run the algorithm over the loopback and in the simulator, and compare."""
    TaskIdentity.task_id = TaskIdentity.node_id = 1
    TaskIdentity.run_id = 7
    config = tomllib.loads((APP / "pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
    config |= {"algorithm": sys.argv[2]}
    config |= {name: int(value) for name, value in (pair.split("=") for pair in sys.argv[3:])}
    with tempfile.TemporaryDirectory() as folder:
        if entry.algorithm(config["algorithm"]).NEEDS_SERVERS:
            # not taken along with the other algorithms
            from workbook_flower.sealed import make_keys

            for j in range(config["servers"]):
                make_keys(Path(folder) / f"server-{j}.key", Path(folder) / f"server-{j}.pub")
        config["result"] = str(Path(folder) / "model.npz")
        grid = Loopback(config, Path(folder))
        entry.server_app(grid, Context(7, 1, {}, RecordDict(), config))
        with np.load(config["result"]) as result:
            found = dict(result)
        kept = sorted(Path(folder).glob("model-*.npy"))
        if kept:
            found["models"] = np.stack([np.load(path) for path in kept])
    expected = entry.algorithm(config["algorithm"]).simulated(config)
    away = {
        name: float(np.abs(found[name].ravel() - value.ravel()).max())
        for name, value in expected.items()
    }
    largest = {name: float(np.abs(value).max()) for name, value in expected.items()}
    return {"rounds": len(found["seconds"]), "away": away, "largest": largest}


if __name__ == "__main__":
    print(json.dumps(outcome()))
