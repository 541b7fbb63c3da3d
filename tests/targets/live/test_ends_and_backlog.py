"""A client that is ended is gone before the next one starts; as many may connect at once as the broker holds."""

import asyncio
import socket
import sys

import pytest

from conformance.targets.live import clients
from conformance.targets.live.clients import Client
from conformance.targets.live.server import Server

HELLO = "import subprocess, sys; child = subprocess.Popen([sys.executable, '-c', 'while True: pass'])\n"
HELLO += 'print(\'{"version": "1"}\', flush=True); sys.stdin.read()'


def test_a_client_is_not_ended_before_its_group_is_gone(monkeypatch):
    looks = iter([True, True, False])
    groups = []

    def is_alive(group):
        groups.append(group)
        return next(looks)

    async def end():
        client = Client((sys.executable, "-c", HELLO), {})
        await client.start(30)
        assert clients._is_alive(client._process.pid)
        monkeypatch.setattr(clients, "_is_alive", is_alive)
        await client.close()
        assert groups == [client._process.pid] * 3

    asyncio.run(end())


def test_connections_wait_for_a_busy_broker_instead_of_being_turned_away():
    """None is accepted meanwhile: this thread is the broker's."""

    async def connect():
        server = Server(pytest.fail)
        broker = await server.start()
        address = (broker.host, broker.port)
        held = [socket.create_connection(address, timeout=10) for _ in range(300)]
        for one in held:
            one.close()
        await server.close()

    asyncio.run(connect())
