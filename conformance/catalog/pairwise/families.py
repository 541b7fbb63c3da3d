"""The covering sets (pairwise tests) by name: their factors, and the cases of their numbered rows.

`vectors/covering/<family>.csv` stores the rows, because case ids contain their numbers. A new level adds rows at the
end: `python -m conformance.catalog.pairwise` writes them.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from msgspec import Struct

from conformance.cases.model import Case, CaseOrigin, NotTestable
from conformance.cases.operations import WHOLE_LOG
from conformance.catalog.case_builder import decode_case, encode_case, log_case
from conformance.catalog.catalog import Catalog
from conformance.catalog.pairwise import (
    PREFIX,
    control_records,
    fetches,
    full_messages,
    message_sets,
    messages,
    producer_sequences,
    record_batches,
)
from conformance.catalog.pairwise.algorithm import FactorTable, Row, RowRequest
from conformance.catalog.vector_files import VECTORS
from conformance.errors import FileError

ROWS = VECTORS / "covering"
"""The folder of the CSV files."""


class PairwiseSet(Struct, frozen=True):
    """A covering set: its factors, and the requests of a numbered row."""

    table: FactorTable
    requests: Callable[[Row, int], Iterator[RowRequest]]
    prefix: str
    """The prefix of its case ids."""


FAMILIES = {
    "record-batch": PairwiseSet(record_batches.TABLE, record_batches.requests, PREFIX),
    "log": PairwiseSet(fetches.TABLE, fetches.requests, f"{PREFIX}log/"),
    "marker": PairwiseSet(control_records.TABLE, control_records.requests, f"{PREFIX}marker/"),
    "message-set": PairwiseSet(message_sets.TABLE, message_sets.requests, f"{PREFIX}message-set/"),
    "message": PairwiseSet(messages.table(), messages.requests, f"{PREFIX}message/"),
    "whole-message": PairwiseSet(full_messages.table(), full_messages.requests, f"{PREFIX}whole-message/"),
    "sequence": PairwiseSet(producer_sequences.TABLE, producer_sequences.requests, f"{PREFIX}sequence/"),
}


def numbered_rows(name: str, folder: Path = ROWS) -> list[Row]:
    """Return the rows of a family; the first has number 1. Raises FileError for an unknown or missing level."""
    path, factors = folder / f"{name}.csv", FAMILIES[name].table.factors
    with path.open(newline="", encoding="utf-8") as file:
        rows = [*csv.DictReader(file)]
    for number, row in enumerate(rows, 1):
        if list(row) != [*factors] or any(row[factor] not in levels for factor, levels in factors.items()):
            raise FileError(path, f"row {number} does not have a valid level for each factor", number + 1)
    return rows


def covering_cases(catalog: Catalog, folder: Path = ROWS) -> Iterator[Case]:
    """Yield the cases of all rows of all families. Raises FileError."""
    for name, family in FAMILIES.items():
        for number, row in enumerate(numbered_rows(name, folder), 1):
            for request in family.requests(row, number):
                with suppress(NotTestable):
                    yield _case(f"{family.prefix}{number:03}{request.suffix}", request, row, catalog)


def _case(identity: str, request: RowRequest, row: Row, catalog: Catalog) -> Case:
    """Return the case for a request of a row. The reference determines the expected result."""
    wire = catalog.types.wire(request.type)
    if request.op == "decode":
        case = decode_case(identity, wire, bytes.fromhex(request.request["hex"]), catalog)
    elif request.op in WHOLE_LOG:
        case = log_case(identity, request.op, request.request, catalog)
    else:
        case = encode_case(identity, wire, request.request["value"], catalog)
    note = "covering set: " + ", ".join(f"{factor} {level}" for factor, level in row.items())
    source = catalog.requirements[case.requirement].source[0]
    return replace(case, kind=CaseOrigin.VECTOR, note=note, source=source)
