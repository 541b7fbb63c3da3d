"""`python -m conformance.live_brokers HOST:PORT | broker.yaml`: a broker behind the line protocol."""

import argparse
import sys
from pathlib import Path

from msgspec.structs import replace

from conformance.definitions.request_frames import MalformedFrame
from conformance.errors import FileError
from conformance.live_brokers.bridge import serve
from conformance.live_brokers.bundled_broker import BrokerError, BundledBroker, read_broker
from conformance.live_brokers.cleaning import delete_topics
from conformance.live_brokers.connection import AccessDenied, BrokerConnection, ConnectionClosed, ResponseTimeout
from conformance.live_brokers.scope import Scope
from conformance.live_brokers.topics import TopicNotAvailable
from conformance.targets.broker_address import BrokerAddress, address_of
from conformance.targets.manifests import BROKER
from conformance.targets.reference import serve as answer_all

_SECONDS = 30.0
"""Timeout of each answer while topics are deleted."""


def main() -> None:
    """Serve until the input ends; if the broker cannot be tested, write the reason as the last line of stderr."""
    given, address = _arguments(), None
    try:
        address = _given_address(given)
        if address is None:
            with BundledBroker(read_broker(Path(given.broker)), given.python) as running:
                serve(running.address, lambda: _restarted(running), keeps_log=running.keeps_data)
        elif given.clean:
            _clean(address)
        else:
            serve(address)
    except (BrokerError, FileError) as problem:
        sys.exit(str(problem))
    except (AccessDenied, TopicNotAvailable) as problem:
        # A retry has the same result, and a broker may count failed logins.
        if given.clean:
            sys.exit(str(problem))
        gone = {"targetUnavailable": str(problem)}
        answer_all(sys.stdin.buffer, sys.stdout.buffer, lambda _: gone)
    except (OSError, ConnectionClosed, ResponseTimeout, MalformedFrame) as problem:
        is_plain = isinstance(problem, ConnectionClosed) and address is not None and address.security.tls is None
        hint = f"; where it listens for TLS, a {BROKER} says so" if is_plain else ""
        sys.exit(f"the broker does not answer: {problem}{hint}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m conformance.live_brokers", description=__doc__)
    parser.add_argument("broker", metavar="HOST:PORT|broker.yaml")
    parser.add_argument("--python", default=sys.executable, help="interpreter for a broker that is a Python program")
    parser.add_argument("--run", default="", help="a text in the topic names of one run")
    parser.add_argument("--clean", action="store_true", help="delete the topics of that run, and end")
    parser.add_argument("--log-dir", type=Path, help="where the broker's segments lie, a folder a partition")
    parser.add_argument("--follow-redirects", action="store_true", help="connect to the other brokers of its cluster")
    given = parser.parse_args()
    if given.clean and not given.run:
        parser.error("--clean needs --run")
    return given


def _given_address(given: argparse.Namespace) -> BrokerAddress | None:
    """Return the address in the arguments; None for a broker that the suite starts.

    Raises FileError or ValueError.
    """
    address = address_of(given.broker)
    if address is None:
        return None
    of_run = address.of_run(given.run) if given.run else address
    return replace(of_run, log_dir=given.log_dir, follow_redirects=given.follow_redirects)


def _clean(address: BrokerAddress) -> None:
    """Delete the topics of a run. Raises BrokerError, OSError, ConnectionClosed, ResponseTimeout or MalformedFrame."""
    connection = BrokerConnection(address.host, address.port, _SECONDS, address.security, Scope.of(address))
    try:
        delete_topics(connection, address.prefix)
    finally:
        connection.close()


def _restarted(running: BundledBroker) -> BrokerAddress:
    """Restart a broker, and return its new address. Raises BrokerError or OSError."""
    running.restart()
    return running.address


if __name__ == "__main__":
    main()
