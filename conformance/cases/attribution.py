"""Attribution: the requirement, level and basis of a failure.

`judge` returns the broken rule, if it can identify one. The failure is attributed to this rule, or else to the
requirement of the case. `writer_requirement` replaces a rule that applies only to readers, if a writer fails.
`broker_requirement` returns an append case with a requirement for brokers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from msgspec import structs

from conformance import codec
from conformance.cases.model import LEVELS, Case, CaseSummary, ExpectRejection, Verdict
from conformance.cases.requirement import Requirement

WRITING_OPS = ("encode", "size")
"""The operations that test a writer."""

_WRITER_TEST_KINDS = frozenset(("encode", "reject-encode", "roundtrip", "size", "producer"))
"""A requirement with one of these kinds of test applies to writers."""

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
"""The layout requirement of each type, by its name without the part in `<>`."""


def layout_rule(wire: codec.WireType) -> str:
    """Return the layout requirement of a type, for readers and writers; `general.exact-encoding` if it has none."""
    return _LAYOUT_RULES.get(wire.name.partition("<")[0], "general.exact-encoding")


def applies_to_writers(row: Requirement) -> bool:
    """Return True if a requirement applies to writers, and not only to readers or brokers."""
    return not _WRITER_TEST_KINDS.isdisjoint(row.tests)


def writer_requirement(rule: str, wire: codec.WireType, requirements: Mapping[str, Requirement]) -> Requirement:
    """Return the requirement for a writer whose bytes break `rule`.

    A `rule` only for readers is replaced by its `writer` requirement, or by the layout of the type. The replacement
    never gets a stricter level than `rule`.
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
    """Return an append case; if it tests maxTimestamp or a rejection, its requirement becomes the one for brokers.

    The documents require brokers to check the checksum. Apache Kafka also rejects other invalid bytes.
    """
    if case.requirement == _LARGEST:
        return _with_requirement(case, requirements[_LARGEST_BY_BROKER])
    if not isinstance(case.expect, ExpectRejection):
        return case
    checked = _MESSAGES_CHECKED if case.type == "MESSAGE_SET" else _CHECKED
    return _with_requirement(case, requirements[checked if case.expect.shown_error == "corrupt" else _VALIDATED])


def _with_requirement(case: Case, row: Requirement) -> Case:
    return replace(case, requirement=row.id, level=row.level, disputed=row.disputed(case.op))


def basis_of(row: Requirement, case: CaseSummary) -> str:
    """Return the basis on which a requirement applies to a case.

    A document can state a layout, but not that readers reject all other bytes. The rejection is then only implied,
    unless the requirement itself demands it (docs/concepts.md#requirements).
    """
    rejection = "reject-encode" if case.op in WRITING_OPS else "reject-decode"
    is_only_implied = row.basis == "stated" and rejection not in row.tests and row.id in case.refused_by
    return "implied" if is_only_implied else row.basis


def attribute(
    case: Case, verdict: Verdict, requirements: Mapping[str, Requirement]
) -> tuple[Verdict, Requirement | None, str, frozenset[str]]:
    """Return the verdict with its final requirement id, and the requirement, its level and its disputed verdicts."""
    if verdict.requirement not in requirements:
        return verdict, requirements.get(case.requirement), verdict.level or case.level, case.disputed
    row = requirements[verdict.requirement]
    if case.op in (*WRITING_OPS, "convert"):
        row = writer_requirement(verdict.requirement, case.wire, requirements)
    attributed = verdict if verdict.requirement == row.id else structs.replace(verdict, requirement=row.id)
    return attributed, row, verdict.level or row.level, row.disputed(case.op)
