"""`python -m conformance.targets.brokers HOST:PORT | broker.yaml PYTHON`: a broker behind the line protocol."""

import sys
from pathlib import Path

from conformance.targets.brokers.bundled import BrokerError, Running, read_broker
from conformance.targets.brokers.connection import Late, Lost
from conformance.targets.brokers.serving import Address, serve
from conformance.targets.live.frames import Garbled
from conformance.targets.manifests import BROKER


def main() -> None:
    """Serve until the input ends; what keeps the broker from being asked is the last line of standard error."""
    given = sys.argv[1]
    try:
        if Path(given).name == BROKER:
            with Running(read_broker(Path(given), sys.argv[2])) as running:
                serve(Address.of(running), lambda: _restarted(running))
        else:
            host, _, port = given.rpartition(":")
            serve(Address(host, int(port), f"broker {given}"))
    except BrokerError as problem:
        sys.exit(str(problem))
    except (OSError, Lost, Late, Garbled) as problem:
        sys.exit(f"the broker does not answer: {problem}")


def _restarted(running: Running) -> Address:
    """Start a broker anew: where it listens now. Raises BrokerError or OSError."""
    running.restart()
    return Address.of(running)


if __name__ == "__main__":
    main()
