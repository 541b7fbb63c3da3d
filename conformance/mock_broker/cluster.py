"""The brokers that a client meets beside its own: one for each scenario, and one that offers everything."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from conformance.cases.api_versions_profiles import VERSION_PROFILES, ApiVersions
from conformance.cases.client_scenarios import NODE_1, NODE_2, ClientScenario
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.fetch_sessions import FetchSessionCache
from conformance.mock_broker.request_recorder import RequestRecorder
from conformance.mock_broker.server import MockBrokerServer


class MockCluster:
    """Opens them. `close` it."""

    full_version_broker: MockBroker
    """Offers everything."""

    def __init__(self, notice: Callable[[str], object]) -> None:
        """Nothing listens before `start`. `notice` is told why a request was not answered."""
        self._full = MockBrokerServer(notice, VERSION_PROFILES["full"])
        self._servers = [self._full]

    async def start(self) -> None:
        """Let the one that offers everything listen. Raises OSError."""
        self.full_version_broker = await self._full.start()

    async def start_cluster(
        self, kind: ClientScenario, offered: ApiVersions, witness: RequestRecorder, notice: Callable[[str], object]
    ) -> MockBroker:
        """A broker for a scenario, and its other node where it has one; `witness` keeps what comes to either.

        It listens as long as the others: no broker gets its port, at which the client may still knock. Raises OSError.
        """
        nodes = []
        for node in (NODE_1, NODE_2)[: 1 + kind.has_two_nodes]:
            server = MockBrokerServer(notice, {**offered, **kind.version_overrides}, witness)
            self._servers.append(server)
            broker = await server.start()
            broker.node = node
            broker.is_tagged, broker.in_pieces, broker.is_strict = kind.is_tagged, kind.in_pieces, kind.is_strict
            broker.downtime_s, broker.aliases, broker.finalized_features = (
                kind.refuse_connections_s,
                kind.aliases,
                kind.finalized_features,
            )
            broker.sessions = FetchSessionCache() if kind.has_sessions else None
            nodes.append(broker)
        for broker in nodes:
            broker.topics = nodes[0].topics
            broker.other_nodes = tuple(other for other in nodes if other is not broker)
        return nodes[0]

    async def close(self) -> None:
        """End them."""
        await asyncio.gather(*(server.close() for server in self._servers))
