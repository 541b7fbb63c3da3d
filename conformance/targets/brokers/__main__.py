"""`python -m conformance.targets.brokers HOST:PORT`: a broker behind the line protocol."""

import sys

from conformance.targets.brokers.connection import Late, Lost
from conformance.targets.brokers.serving import Address, serve
from conformance.targets.live.frames import Garbled

_SECONDS = 5.0


def main() -> None:
    """Serve until the input ends; what keeps the broker from being asked is the last line of standard error."""
    host, _, port = sys.argv[1].rpartition(":")
    try:
        serve(Address(host, int(port), f"broker {sys.argv[1]}"), _SECONDS)
    except (OSError, Lost, Late, Garbled) as problem:
        sys.exit(f"the broker does not answer: {problem}")


if __name__ == "__main__":
    main()
