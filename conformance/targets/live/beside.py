"""The brokers that a client meets beside its own: they offer other versions, or answer in another way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from conformance.targets.live.broker import Broker
from conformance.targets.live.consuming import NULL, SESSION, THROTTLED
from conformance.targets.live.offers import OFFERS
from conformance.targets.live.server import Server
from conformance.targets.live.sessions import Sessions

HOLLOW = {NULL: (NULL, NULL), THROTTLED: (THROTTLED, THROTTLED), SESSION: (SESSION,)}
"""How the first fetches bring nothing, where they do."""
OFFERED_ALL = ("tagged", SESSION)
"""The conversations in which everything is offered, whatever the client's own broker offers."""


class Beside:
    """A broker for each conversation that is not held with the client's own, and one that offers everything.

    `bare` offers the least; `tagged` everything, with tagged fields that nobody knows in its answers; `session`
    everything, and keeps fetch sessions. The others offer what the client's own does: `pieces` cuts its answers, and
    with `null` and `throttled` a topic's first fetches bring nothing.
    """

    untagged: Broker
    """Offers everything."""

    def __init__(self, notice: Callable[[str], object], offers: str) -> None:
        """Nothing listens before `start`. `notice` is told why a request was not answered."""
        fixed = {"bare": "bare", **dict.fromkeys(OFFERED_ALL, "full")}
        kinds = (*fixed, "pieces", NULL, THROTTLED)
        self.servers = {kind: Server(notice, OFFERS[fixed.get(kind, offers)]) for kind in kinds}
        self._full = Server(notice, OFFERS["full"])
        self._fixed = {*fixed}

    async def start(self) -> None:
        """Let them listen. Raises OSError."""
        self.untagged = await self._full.start()
        self.brokers = {kind: await server.start() for kind, server in self.servers.items()}
        self.brokers["tagged"].is_tagged = self.brokers["pieces"].in_pieces = True
        self.brokers[SESSION].sessions = Sessions()

    def offer(self, offers: str) -> None:
        """Offer what the client's own broker does, where that is not fixed."""
        for kind in {*self.brokers} - self._fixed:
            self.brokers[kind].offered = OFFERS[offers]

    async def close(self) -> None:
        """End them."""
        await asyncio.gather(*(server.close() for server in (self._full, *self.servers.values())))
