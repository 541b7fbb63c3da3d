"""The brokers that a client meets beside its own: they offer other versions, or answer in another way."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from conformance.targets.live.broker import Broker
from conformance.targets.live.kinds import KINDS, OTHER, Kind
from conformance.targets.live.offers import OFFERS, Offer
from conformance.targets.live.server import Server
from conformance.targets.live.sessions import Sessions


class Beside:
    """A broker for each kind of conversation that its topics alone do not make, and one that offers everything."""

    untagged: Broker
    """Offers everything."""

    def __init__(self, notice: Callable[[str], object], offers: str) -> None:
        """Nothing listens before `start`. `notice` is told why a request was not answered."""
        apart = {name: kind for name, kind in KINDS.items() if kind.offers or kind.in_pieces or kind.has_two}
        self.servers = {name: Server(notice, _offer(kind, offers)) for name, kind in apart.items()}
        self._others = {
            name: Server(notice, _offer(kind, offers), self.servers[name].witness)
            for name, kind in apart.items()
            if kind.has_two
        }
        self._full = Server(notice, OFFERS["full"])

    async def start(self) -> None:
        """Let them listen. Raises OSError."""
        self.untagged = await self._full.start()
        self.brokers = {name: await server.start() for name, server in self.servers.items()}
        for name, broker in self.brokers.items():
            kind = KINDS[name]
            broker.is_tagged, broker.in_pieces, broker.is_strict = kind.is_tagged, kind.in_pieces, kind.is_strict
            broker.sessions = Sessions() if kind.has_sessions else None
        for name, server in self._others.items():
            broker, other = self.brokers[name], await server.start()
            other.node, other.topics = OTHER, broker.topics
            broker.fellows, other.fellows = (other,), (broker,)

    def offer(self, offers: str) -> None:
        """Offer what the client's own broker does, where the kind does not say."""
        for name, broker in self.brokers.items():
            for one in broker.nodes:
                one.offered = _offer(KINDS[name], offers)

    async def close(self) -> None:
        """End them."""
        servers = (self._full, *self.servers.values(), *self._others.values())
        await asyncio.gather(*(server.close() for server in servers))


def _offer(kind: Kind, offers: str) -> Offer:
    return {**OFFERS[kind.offers or offers], **kind.but}
