"""Generated cases per second, with their expectations, on one core.

    python benchmarks/generated.py [TYPE…]

A row for each type: cases, bytes per case, cases per second, and the ratio to the time of a decode alone. The last row
is for all cases of 100 to 400 bytes. Only CPU time counts. Compare only figures of one run, because machines differ.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

from conformance import codec
from conformance.cases.model import Case
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.strategies.seeded.cases import TYPES, cases_at

COUNT = 400
"""Measured indexes of each type, after a tenth as many for warm-up."""
ABOUT_200 = range(100, 401)
"""Range in bytes of a case of about 200 bytes."""


@dataclass
class Measured:
    """Cases, their bytes, and the CPU seconds to generate them and to only decode them."""

    cases: int = 0
    size: int = 0
    making: float = 0.0
    decoding: float = 0.0

    def add(self, cases: list[Case], making: float, decoding: float) -> None:
        """Count cases that were generated together."""
        self.cases += len(cases)
        self.size += sum(len(case.data or b"") for case in cases)
        self.making += making
        self.decoding += decoding

    def row(self, name: str) -> str:
        """Return a row of the table."""
        ratio = f"{self.making / self.decoding:6.1f}" if self.decoding else "     -"
        size = self.size // max(self.cases, 1)
        return (
            f"{name:<36}{self.cases:>7,} cases{size:>8,} B{self.cases / self.making:>9,.0f} cases/s{ratio} × decoding"
        )


def measured(name: str, catalog: Catalog, alike: Measured) -> Measured:
    """Measure the cases of a type; cases of about 200 bytes also count in `alike`."""
    for index in range(COUNT // 10):
        list(cases_at(name, 0, index, catalog))
    found = Measured()
    for index in range(COUNT):
        began = time.process_time()
        cases = list(cases_at(name, 1, index, catalog))
        made = time.process_time()
        for case in cases:
            if case.data is not None:
                codec.decode(case.wire, case.data)
        took = (made - began, time.process_time() - made)
        found.add(cases, *took)
        if cases and cases[0].data is not None and len(cases[0].data) in ABOUT_200:
            alike.add(cases, *took)
    return found


def main(names: list[str]) -> None:
    """Print the table."""
    catalog, alike, whole = read_catalog(), Measured(), Measured()
    for name in names or TYPES:
        found = measured(name, catalog, alike)
        print(found.row(name), flush=True)
        whole.cases, whole.size = whole.cases + found.cases, whole.size + found.size
        whole.making, whole.decoding = whole.making + found.making, whole.decoding + found.decoding
    print(whole.row("all"))
    if alike.cases:
        print(alike.row("those of 100 to 400 bytes"))


if __name__ == "__main__":
    main(sys.argv[1:])
