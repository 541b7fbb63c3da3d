"""`python -m conformance.targets.live DRIVER.yaml PYTHON`: a live client behind the line protocol."""

import asyncio
import sys
from pathlib import Path

from conformance.targets.live.baseline import BaselineError
from conformance.targets.live.clients import DriverError
from conformance.targets.live.drivers import read_driver
from conformance.targets.live.serving import serve


def main() -> None:
    """Serve until the input ends; what keeps the client from starting is the last line of standard error."""
    try:
        asyncio.run(serve(read_driver(Path(sys.argv[1]), sys.argv[2])))
    except BaselineError as problem:
        sys.exit(str(problem))
    except (OSError, DriverError) as problem:
        sys.exit(f"the driver did not start: {problem or type(problem).__name__}")


if __name__ == "__main__":
    main()
