"""Violations of the requirements on message definitions: what a generated message class does."""

from __future__ import annotations

from conformance.cases.model import Answer, Request
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import (
    Change,
    When,
    accept_invalid,
    accepts_values,
    as_null,
    both,
    change_bytes,
    change_size,
    change_value,
    decode_as,
    encode_other_value,
    entry,
    null_as,
    reject_valid,
    signed,
    unsigned,
)
from conformance.targets.reference import answer as honest


def _field(message: str, name: str, change: Change, version: int | None = None) -> Mutator:
    """Show another field of a message."""
    return change_value(message, entry("", name, change), lambda request, _: version in (None, request["version"]))


def _in_version(version: int) -> When:
    return lambda request, _: request["version"] == version


def _has(name: str, version: int) -> When:
    """Whether a value of that version names the field."""
    return lambda request, _: request["version"] == version and name in request["value"]


def _fills(message: str, **wrong: object) -> Mutator:
    """Write another default than the right one for a field without a value."""
    return encode_other_value(message, lambda value: {**wrong, **value})


def _in_eight_bits(request: Request, answer: Answer) -> Answer:
    """Take the version of a message modulo 256."""
    version = request.get("version", 0)
    return honest({**request, "version": version % 256}) if version > 255 else answer


MESSAGES: dict[str, Mutator] = {
    "definitions.type-bool": _field("SuiteNumbers", "Flag", lambda flag: not flag),
    "definitions.type-int8": _field("SuiteNumbers", "Small", unsigned(8)),
    "definitions.type-int16": _field("SuiteNumbers", "Short", unsigned(16)),
    "definitions.type-uint16": _field("SuiteNumbers", "Port", signed(16)),
    "definitions.type-int32": _field("SuiteNumbers", "Int", unsigned(32)),
    "definitions.type-uint32": _field("SuiteNumbers", "Unsigned", signed(32)),
    "definitions.type-int64": _field("SuiteNumbers", "Long", unsigned(64)),
    "definitions.type-float64": _field("SuiteNumbers", "Double", lambda digits: bytes.fromhex(digits)[::-1].hex()),
    "definitions.type-string": _field("SuiteSized", "Text", lambda text: text.encode().decode("latin-1")),
    "definitions.type-uuid": _field("SuiteNumbers", "Id", lambda text: text[::-1].replace("-", "")[:8] + text[8:]),
    "definitions.type-bytes": _field("SuiteSized", "Raw", lambda digits: digits.replace("ff", "7f")),
    "definitions.type-records": _field("SuiteSized", "Set", as_null),
    "definitions.type-array": _field("SuiteArrays", "Points", lambda points: points[:1]),
    "definitions.type-unknown": change_value(
        "SuiteNested", lambda value: {**value, "Inner": {"A": value["Inner"]["A"] + 1}}
    ),
    "definitions.bool-never-null": accepts_values("SuiteNumbers"),
    "definitions.int-never-null": accepts_values("SuiteNumbers"),
    "definitions.float-never-null": accepts_values("SuiteNumbers"),
    "definitions.string-may-be-nullable": _field("SuiteNullable", "Text", null_as("")),
    "definitions.bytes-may-be-nullable": _field("SuiteNullable", "Raw", null_as("")),
    "definitions.null-in-non-nullable": both(
        accept_invalid("definitions.null-in-non-nullable"), accepts_values("SuiteNullable SuiteArrays SuiteNested")
    ),
    "definitions.nullable-versions-range": accepts_values("SuiteNullable"),
    "definitions.flexible-fixed-width-unchanged": change_bytes("SuiteNumbers", lambda data: data[1:], _in_version(1)),
    "definitions.flexible-compact-encodings": decode_as("SuiteSized", version=0),
    "definitions.size-before-write": change_size("MESSAGE", lambda size: size - 1),
    "definitions.default-int": _field("SuitePlainDefaults", "Int", lambda _: -1),
    "definitions.default-float": _field("SuitePlainDefaults", "Double", lambda _: "7ff8000000000000"),
    "definitions.default-bool": _field("SuitePlainDefaults", "Flag", lambda _: True),
    "definitions.map-key-makes-set": _field("SuiteMap", "Keys", lambda keys: keys[:0]),
    "definitions.map-key-order-kept": _field("SuiteMap", "Keys", lambda keys: sorted(keys, key=lambda one: one["Key"])),
    "definitions.field-order-is-wire-order": change_value(
        "SuiteVersions", lambda value: {**value, "Always": value["Last"], "Last": value["Always"]}
    ),
    "definitions.field-removed-closed-range": change_bytes(
        "SuiteVersions", lambda data: data[:1] + data[3:], _in_version(1)
    ),
    "definitions.field-added-open-range": change_bytes(
        "SuiteVersions", lambda data: data[:1] + data[5:], _in_version(3)
    ),
    "definitions.write-by-version": change_bytes(
        "SuiteVersions", lambda data: data[:1] + bytes(4) + data[1:], _in_version(1)
    ),
    "definitions.version-16-bit": _in_eight_bits,
    "definitions.one-object-all-versions": reject_valid("SuiteVersions", _has("Late", 0), op="encode"),
    "definitions.ignorable-omitted": reject_valid("SuiteVersions", _has("Early", 2), op="encode"),
    "definitions.ignorable-default-false": accept_invalid(
        "definitions.non-ignorable-non-default-error", types="SuiteVersions"
    ),
    "definitions.write-omits-absent-fields": change_bytes("SuiteDropped", lambda data: b"\0\0" + data, _in_version(0)),
    "definitions.non-ignorable-non-default-error": accept_invalid("definitions.non-ignorable-non-default-error"),
    "definitions.non-ignorable-default-omitted": reject_valid("SuiteDropped", _has("Timeout", 0), op="encode"),
    "definitions.custom-default-overrides": _fills("SuiteDropped", Timeout=0),
    "definitions.read-resets-absent-fields": change_value(
        "SuiteDropped", lambda value: {**value, "Hint": "kept"}, _in_version(0)
    ),
    "definitions.custom-default-fills-old-versions": change_value(
        "SuiteDropped", lambda value: {**value, "Timeout": 0}, _in_version(0)
    ),
    "definitions.records-may-be-nullable": _field("SuiteNullable", "Set", null_as("")),
    "definitions.array-may-be-nullable": _field("SuiteNullable", "List", null_as([])),
    "definitions.uuid-may-be-nullable": change_bytes(
        "SuiteNullable", lambda data: data[:-16] + b"\xff" * 16, _in_version(1)
    ),
    "definitions.custom-default-types": _fills("SuiteDefaults", Int=0),
    "definitions.custom-default-hex": _fills("SuiteDefaults", Hex=0),
    "definitions.custom-default-octal": _fills("SuiteDefaults", Octal=10),
    "definitions.default-null-literal": _fills("SuiteDefaults", NullText="null"),
    "definitions.default-string": _fills("SuiteDefaults", PlainText=None),
    "definitions.default-bytes": _fills("SuitePlainDefaults", Raw=None),
    "definitions.default-uuid": _fills("SuitePlainDefaults", Id="ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "definitions.default-records": _fills("SuiteSized", Set=""),
    "definitions.default-array": _fills("SuiteArrays", Numbers=None),
    "definitions.tagged-anywhere": change_value("SuiteTaggedInside", entry("List", "T", lambda _: 0)),
    "definitions.tagged-default-omitted": reject_valid(
        "SuiteTagged", lambda request, _: request["hex"].endswith("0100")
    ),
    "definitions.tagged-absent-is-default": _field("SuiteTagged", "Old", lambda value: 0 if value == 5 else value),
    "definitions.tagged-added-to-existing-version": reject_valid("SuiteUntagged", _in_version(1)),
    "definitions.map-key-append-last": encode_other_value(
        "SuiteMap", lambda value: {"Keys": [value["Keys"][-1], *value["Keys"][:-1]]}
    ),
    "definitions.primitive-array-to-struct-array": change_bytes("SuiteBoxed", lambda data: data + b"\0"),
    "robustness.tagged-field-size": accept_invalid("robustness.tagged-field-size", "tagged.size-bounds-data"),
}
