"""The end of a client before the next one starts, and the connections of a mock broker."""

import asyncio
import socket
import sys
from contextlib import suppress

import pytest
from log_bytes import batch
from tiny_client import frame

from conformance.cases.client_scenarios import SCENARIOS
from conformance.live_clients import driver_process
from conformance.live_clients.driver_process import DriverProcess
from conformance.mock_broker.server import MockBrokerServer
from conformance.mock_broker.topic import MockTopic

HELLO = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
HELLO += 'print(\'{"version": "1"}\', flush=True); sys.stdin.read()'


def test_a_client_is_ended_only_after_its_process_group(monkeypatch):
    looks = iter([True, True, False])
    groups = []

    def is_alive(group):
        groups.append(group)
        return next(looks)

    async def end():
        client = DriverProcess((sys.executable, "-c", HELLO), {})
        await client.start(30)
        assert driver_process._is_alive(client._process.pid)
        monkeypatch.setattr(driver_process, "_is_alive", is_alive)
        await client.close()
        assert groups == [client._process.pid] * 3

    asyncio.run(end())


def test_connections_wait_for_a_busy_mock_broker():
    """The broker accepts no connection meanwhile, because it runs in this thread."""

    async def connect():
        server = MockBrokerServer(pytest.fail)
        broker = await server.start()
        address = (broker.host, broker.port)
        held = [socket.create_connection(address, timeout=10) for _ in range(300)]
        for one in held:
            one.close()
        await server.close()

    asyncio.run(connect())


METADATA = frame("Metadata", 1, {"Topics": ()})
_PART = {"Partition": 0, "FetchOffset": 0, "PartitionMaxBytes": 1}
FETCH = frame("Fetch", 4, {"MaxWaitMs": 1, "MinBytes": 1, "Topics": ({"Topic": "t", "Partitions": (_PART,)},)})


@pytest.mark.parametrize("scenario", ["connection-closed", "broker-restarted"])
def test_a_restarting_broker_closes_all_connections_and_accepts_none_for_a_while(scenario):
    kind, restarts, made = SCENARIOS[scenario], scenario == "broker-restarted", []

    async def connected(broker):
        made.append(await asyncio.open_connection(broker.host, broker.port))
        return made[-1]

    async def answers(connection, request):
        reader, writer = connection
        writer.write(request)
        try:
            size = await asyncio.wait_for(reader.readexactly(4), 10)
            return bool(await reader.readexactly(int.from_bytes(size, "big")))
        except (ConnectionError, asyncio.IncompleteReadError):
            return False

    async def converse():
        server = MockBrokerServer(pytest.fail)
        broker = await server.start()
        broker.downtime_s, broker.topics = kind.refuse_connections_s, {"t": MockTopic(batch(0), 0, 1).with_faults(kind)}
        other, first = await connected(broker), await connected(broker)
        assert await answers(other, METADATA)
        assert not await answers(first, FETCH)
        assert await answers(other, METADATA) is not restarts
        began, tried = asyncio.get_running_loop().time(), []
        while not (tried and tried[-1]):
            assert asyncio.get_running_loop().time() - began < 10
            tried.append(await answers(await connected(broker), METADATA))
        assert (len(tried) > 1) is restarts
        for _, writer in made:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        await server.close()

    asyncio.run(converse())
