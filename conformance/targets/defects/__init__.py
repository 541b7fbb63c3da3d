"""The seeded defects: what `conformance selftest` switches on, one at a time, to see whether the suite notices.

Each requirement has one, the violation that shows that its cases bite. The others are in the tables of this folder: a
defect is added there, in one place.
"""

from __future__ import annotations

from collections.abc import Iterator

from conformance.targets.defects.model import SeededDefect
from conformance.targets.violations import TABLES

_AREAS = {
    ("logs", "sequence"): "sequences",
    ("logs", "producer-epoch"): "sequences",
    ("logs", "convert"): "conversion",
    ("record batches", "control"): "control records",
    **{("record batches", family): "codecs" for family in ("codec", "compression", "reader")},
}
"""The area of a requirement by its table and the first part of its id, where that is not the table's."""


def _violations() -> Iterator[SeededDefect]:
    """A defect for each requirement."""
    for area, table in TABLES.items():
        for name, lie in table.items():
            own_area = _AREAS.get((area, name.partition(".")[0]), area)
            yield SeededDefect(f"violates/{name}", own_area, "", name, lie, (name,))


DEFECTS: dict[str, SeededDefect] = {defect.id: defect for defect in _violations()}
"""Every seeded defect by its id."""
