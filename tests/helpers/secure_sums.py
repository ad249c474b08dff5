"""Servers of a secure sum as threads of this process, with real connections between them."""

import socket
import threading
from contextlib import suppress

from repro.secagg import Operator, RoundError, issue
from repro.secagg.certificates import PARAMETERS, server_names
from repro.secagg.parameter_server import ParameterServer
from repro.secagg.server import IntermediateServer

LIMIT = 30.0
"""Seconds; nothing in the tests waits for them to pass."""


class Servers:
    """Three intermediate servers and the parameter server (of the class `centre`)."""

    def __init__(self, folder, *, clients, ring, links=None, centre=ParameterServer):
        names = server_names(3)
        issue(folder, servers=3, clients=clients, links=links)
        listeners = {n: socket.create_server(("127.0.0.1", 0)) for n in (PARAMETERS, *names)}
        at = {name: listener.getsockname()[:2] for name, listener in listeners.items()}
        common = {"clients": clients, "links": links, "ring": ring, "time_limit": LIMIT}
        self.folder, self.ring = folder, ring
        self.places = {"servers": [at[n] for n in names], "parameters": at[PARAMETERS]}
        self.nodes = {PARAMETERS: centre(folder, listeners[PARAMETERS], servers=3, **common)}
        for j, name in enumerate(names):
            self.nodes[name] = IntermediateServer(
                j, folder, listeners[name], parameters=at[PARAMETERS], **common
            )
        for node in self.nodes.values():
            threading.Thread(target=node.run, daemon=True).start()
        self.operator = Operator(folder, parameters=at[PARAMETERS], time_limit=LIMIT)

    def round(self, parties, give, size, model):
        """`give(party, number)` submits the shares of each party; the sum, as elements.

        What a party meets is not raised: the parameter server says how the round ended.
        """
        for one in (self.operator, *parties):
            one.connect()
        self.operator.start(size, self.ring, model)
        numbers = [one.model(LIMIT)[0] for one in parties]
        for one, number in zip(parties, numbers, strict=True):
            with suppress(RoundError):
                give(one, number)
        return self.operator.result()[1]
