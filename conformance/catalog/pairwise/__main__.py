"""`python -m conformance.catalog.pairwise`: adds missing rows to the files of the covering sets."""

from __future__ import annotations

import csv
import sys

from conformance.catalog.pairwise.algorithm import rows
from conformance.catalog.pairwise.families import FAMILIES, ROWS, numbered_rows


def main() -> None:
    """Write the rows of all families, existing ones first, and print their number."""
    for name, family in FAMILIES.items():
        path = ROWS / f"{name}.csv"
        whole = rows(family.table, numbered_rows(name) if path.exists() else ())
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, [*family.table.factors], lineterminator="\n")
            writer.writeheader()
            writer.writerows(whole)
        sys.stdout.write(f"{name}: {len(whole)} rows\n")


if __name__ == "__main__":
    main()
