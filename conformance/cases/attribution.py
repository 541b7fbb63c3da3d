"""Which row of the register a failure is charged to: the nearest one that binds who was asked, and by which basis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from conformance import codec
from conformance.cases.model import LEVELS, Case, CaseSummary, ExpectRejection, Verdict
from conformance.cases.requirement import Requirement

WRITING_OPS = ("encode", "size")
"""The operations whose cases ask a writer."""

_BINDS_WRITERS = frozenset(("encode", "reject-encode", "roundtrip", "size", "producer"))
"""The kinds of test by which a row binds writers."""

_LAYOUT_RULES = {
    "INT8": "int8.layout",
    "INT16": "int16.layout",
    "INT32": "int32.layout",
    "INT64": "int64.layout",
    "UINT16": "uint16.layout",
    "UINT32": "uint32.layout",
    "VARINT": "varint.zigzag-formula",
    "VARLONG": "varlong.zigzag-formula",
    "UNSIGNED_VARINT": "uvarint.no-zigzag",
    "FLOAT64": "float64.layout",
    "UUID": "uuid.layout",
    "BOOLEAN": "boolean.size",
    "STRING": "string.layout",
    "NULLABLE_STRING": "nullable-string.layout",
    "COMPACT_STRING": "compact-string.layout",
    "COMPACT_NULLABLE_STRING": "compact-nullable-string.layout",
    "BYTES": "bytes.layout",
    "NULLABLE_BYTES": "nullable-bytes.layout",
    "COMPACT_BYTES": "compact-bytes.layout",
    "COMPACT_NULLABLE_BYTES": "compact-nullable-bytes.layout",
    "RECORDS": "records.layout",
    "COMPACT_RECORDS": "compact-records.layout",
    "ARRAY": "array.layout",
    "NULLABLE_ARRAY": "array.layout",
    "COMPACT_ARRAY": "compact-array.layout",
    "COMPACT_NULLABLE_ARRAY": "compact-array.layout",
    "TAGGED_FIELDS": "tagged.section-layout",
    "RECORD": "record.field-order",
    "RECORD_BATCH": "batch.header-61-bytes",
    "MESSAGE_SET": "message-set.entry-layout",
    "LOG": "format.magic-versions",
    "CONTROL_RECORD": "control.key-layout",
    "MESSAGE": "definitions.field-order-is-wire-order",
}
"""The name of a type, without what it is made of, to the requirement that gives its layout."""


def layout_rule(wire: codec.WireType) -> str:
    """The requirement that gives the layout of a type: readers and writers of it both have to keep it.

    A type that the documents give no layout of its own only has to be written exactly.
    """
    return _LAYOUT_RULES.get(wire.name.partition("<")[0], "general.exact-encoding")


def applies_to_writers(row: Requirement) -> bool:
    """Whether a row says what a writer does, or only what a reader or a broker does."""
    return not _BINDS_WRITERS.isdisjoint(row.tests)


def writer_requirement(rule: str, wire: codec.WireType, requirements: Mapping[str, Requirement]) -> Requirement:
    """The row that a writer of a type breaks with `rule`.

    Where that binds readers only, it is the row which it names for writers, or the layout of the type, at a level no
    higher than its own.
    """
    row = requirements[rule]
    if applies_to_writers(row):
        return row
    nearest = requirements[row.writer or layout_rule(wire)]
    level = max(row.level, nearest.level, key=LEVELS.index)
    return nearest if level == nearest.level else structs.replace(nearest, level=level)


_CHECKED = "crc.broker-validates"
_MESSAGES_CHECKED = "legacy.crc-checked"
_VALIDATED = "broker.validates-records"
_LARGEST, _LARGEST_BY_BROKER = "batch.max-timestamp", "broker.writes-max-timestamp"


def broker_requirement(case: Case, requirements: Mapping[str, Requirement]) -> Case:
    """The case of an append, charged to what binds a broker: where it has to refuse, or to write a field itself.

    The documents state that of a wrong checksum alone; that other bytes are refused is what Apache Kafka does.
    """
    if case.requirement == _LARGEST:
        return _charged(case, requirements[_LARGEST_BY_BROKER])
    if not isinstance(case.expect, ExpectRejection):
        return case
    checked = _MESSAGES_CHECKED if case.type == "MESSAGE_SET" else _CHECKED
    return _charged(case, requirements[checked if case.expect.said == "corrupt" else _VALIDATED])


def _charged(case: Case, row: Requirement) -> Case:
    return replace(case, requirement=row.id, level=row.level, disputed=row.disputed(case.op))


def basis_of(row: Requirement, case: CaseSummary) -> str:
    """The basis on which a case is judged by a row.

    A document that states the layout does not state that bytes or values which break it are refused: where a refusal
    is due and the row does not itself say that, it is implied (docs/concepts.md#requirements).
    """
    refusal = "reject-encode" if case.op in WRITING_OPS else "reject-decode"
    is_only_implied = row.basis == "stated" and refusal not in row.tests and row.id in case.refused_by
    return "implied" if is_only_implied else row.basis


def attribute(
    case: Case, verdict: Verdict, requirements: Mapping[str, Requirement]
) -> tuple[Verdict, Requirement | None, str, frozenset[str]]:
    """The verdict, the row of the requirement that it is about, its level, and the verdicts that are disputed.

    What was written wrongly is charged to a row that binds writers.
    """
    if verdict.requirement not in requirements:
        return verdict, requirements.get(case.requirement), verdict.level or case.level, case.disputed
    row = requirements[verdict.requirement]
    if case.op in (*WRITING_OPS, "convert"):
        row = writer_requirement(verdict.requirement, case.wire, requirements)
    charged = verdict if verdict.requirement == row.id else structs.replace(verdict, requirement=row.id)
    return charged, row, verdict.level or row.level, row.disputed(case.op)
