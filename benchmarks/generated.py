"""How many generated cases a second are made with their expectation, on one core.

    python benchmarks/generated.py [TYPE…]

A row for each type: cases, bytes of a case, cases a second, and how much longer each takes than decoding it alone. The
last row is that of all cases of 100 to 400 bytes. Only processor time counts. Compare the figures of one run with one
another; machines differ.
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
"""Indexes of each type that are measured, after a tenth of that which is not."""
ABOUT_200 = range(100, 401)
"""Bytes of a case that is about 200 bytes long."""


@dataclass
class Measured:
    """Cases, their bytes, and the seconds of processor time that making them took, and decoding them alone."""

    cases: int = 0
    size: int = 0
    making: float = 0.0
    decoding: float = 0.0

    def add(self, cases: list[Case], making: float, decoding: float) -> None:
        """Count cases that were made together."""
        self.cases += len(cases)
        self.size += sum(len(case.data or b"") for case in cases)
        self.making += making
        self.decoding += decoding

    def told(self, name: str) -> str:
        """A row of the table."""
        ratio = f"{self.making / self.decoding:6.1f}" if self.decoding else "     -"
        size = self.size // max(self.cases, 1)
        return (
            f"{name:<36}{self.cases:>7,} cases{size:>8,} B{self.cases / self.making:>9,.0f} cases/s{ratio} × decoding"
        )


def measured(name: str, catalog: Catalog, alike: Measured) -> Measured:
    """The cases of a type; those of about 200 bytes are counted in `alike`, too."""
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
        print(found.told(name), flush=True)
        whole.cases, whole.size = whole.cases + found.cases, whole.size + found.size
        whole.making, whole.decoding = whole.making + found.making, whole.decoding + found.decoding
    print(whole.told("all"))
    if alike.cases:
        print(alike.told("those of 100 to 400 bytes"))


if __name__ == "__main__":
    main(sys.argv[1:])
