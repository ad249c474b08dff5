"""Many clients in one place: one party acts for all of them, over one connection for each server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

from repro.secagg.certificates import client_links
from repro.secagg.client import Address, Sender
from repro.secagg.frames import TOGETHER
from repro.secagg.ring import Elements, Ring
from repro.secagg.shares import share


class HostedClients(Sender):
    """The clients of link `number`: simulated ones, or those of one site.

    A round: `connect`, `model`, `submit`. Every client has keys of its own, and a server sees of each
    client what it would see from the client itself. Only the handshakes are fewer: the servers have
    the word of this party, and no proof, that a share is the named client's.

    Args:
        number: which of the links, counted from 0.
        folder: with the certificate of that link, see `certificates.client_links`.
        clients: n, all clients.
        links: how many parties act for them.
        servers: addresses of the m >= 2 intermediate servers, in order.
        parameters: address of the parameter server.
        time_limit: seconds for each step, > 0; the same as the servers'. A whole round has to fit
            into it: the servers give up `time_limit` after they have opened the round.

    Attributes:
        clients: the range of clients for whom this party acts.

    Raises:
        ValueError: an argument out of range, or no certificate in `folder`.
    """

    def __init__(
        self,
        number: int,
        folder: str | os.PathLike[str],
        *,
        clients: int,
        links: int,
        servers: Sequence[Address],
        parameters: Address,
        time_limit: float = 30.0,
    ) -> None:
        if len(servers) < 2:
            raise ValueError(f"servers must be at least two addresses, got {len(servers)}")
        names = client_links(clients, links)
        if number not in range(links):
            raise ValueError(f"number must be in [0, {links - 1}], got {number!r}")
        name = list(names)[number]
        self.clients = names[name]
        super().__init__(
            name, folder, servers=servers, parameters=parameters, time_limit=time_limit
        )

    def together(self, size: int, ring: Ring) -> int:
        """How many clients' vectors of `size` elements travel in one frame, at least 1."""
        return max(1, TOGETHER // (size * ring.dtype.itemsize))

    def submit(
        self,
        number: int,
        batches: Iterable[Elements],
        ring: Ring,
        progress: Callable[[int], None] = lambda clients: None,
    ) -> None:
        """Share the vectors of all clients and send the shares, a batch at a time.

        The servers add while the next batch is made, so memory holds a few batches and no more.

        Args:
            number: the round.
            batches: encoded vectors of the clients in order, each batch of shape
                (k, size) with k at most `together(size, ring)`; they are overwritten.
            ring: of the elements; the same as the servers'.
            progress: called after each batch with how many clients' shares have been sent.

        Raises:
            ValueError: more or fewer vectors than clients, or a batch that is too large; the
                connections are ended and the round fails.
            RoundError: a server has left or is too slow. The parameter server is told.
        """
        with self._or_failed():
            at = self.clients.start
            for encoded in batches:
                shares = share(encoded, servers=len(self._servers), ring=ring, overwrite=True)
                count, most = len(encoded), self.together(encoded.shape[1], ring)
                if not 1 <= count <= min(most, self.clients.stop - at):
                    raise ValueError(
                        f"batches must hold 1 to {most} vectors each and {len(self.clients)} in "
                        f"all, got {count} after {at - self.clients.start}"
                    )
                keys = [shares.keys[:, j] for j in range(shares.servers - 1)]
                self._give(number, [*keys, shares.last], at)
                at += count
                progress(at - self.clients.start)
            if at != self.clients.stop:
                raise ValueError(
                    f"batches must hold {len(self.clients)} vectors in all, got "
                    f"{at - self.clients.start}"
                )
            self._finish(number)
