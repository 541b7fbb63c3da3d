"""One fault for each requirement on message definitions."""

from __future__ import annotations

from conformance.cases.model import Answer, Request
from conformance.selftest.mutators import (
    Change,
    Condition,
    Mutator,
    accept_invalid,
    accept_unencodable,
    answer_as,
    change_bytes,
    change_size,
    change_value,
    combine,
    empty_to_null,
    encode_other_value,
    field_change,
    null_to,
    on,
    reject_valid,
    signed,
    unsigned,
)
from conformance.targets.reference import answer as correct_answer


def _field(message: str, name: str, change: Change, version: int | None = None) -> Mutator:
    """Show another value of a field of a message."""
    return change_value(
        message, field_change("", name, change), lambda request, _: version in (None, request["version"])
    )


def _in_version(version: int) -> Condition:
    return lambda request, _: request["version"] == version


def _has_field(name: str, version: int) -> Condition:
    return lambda request, _: request["version"] == version and name in request["value"]


def _default(message: str, **wrong: object) -> Mutator:
    """Write another default for fields without a value."""
    return encode_other_value(message, lambda value: {**wrong, **value})


@on("", when=lambda request, _: request.get("version", 0) > 255, accepted=None)
def _version_modulo_256(request: Request, _: Answer) -> Answer:
    return correct_answer({**request, "version": request["version"] % 256})


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
    "definitions.type-records": _field("SuiteSized", "Set", empty_to_null),
    "definitions.type-array": _field("SuiteArrays", "Points", lambda points: points[:1]),
    "definitions.type-unknown": change_value(
        "SuiteNested", lambda value: {**value, "Inner": {"A": value["Inner"]["A"] + 1}}
    ),
    "definitions.bool-never-null": accept_unencodable("SuiteNumbers"),
    "definitions.int-never-null": accept_unencodable("SuiteNumbers"),
    "definitions.float-never-null": accept_unencodable("SuiteNumbers"),
    "definitions.string-may-be-nullable": _field("SuiteNullable", "Text", null_to("")),
    "definitions.bytes-may-be-nullable": _field("SuiteNullable", "Raw", null_to("")),
    "definitions.null-in-non-nullable": combine(
        accept_invalid("definitions.null-in-non-nullable"), accept_unencodable("SuiteNullable SuiteArrays SuiteNested")
    ),
    "definitions.nullable-versions-range": accept_unencodable("SuiteNullable"),
    "definitions.flexible-fixed-width-unchanged": change_bytes("SuiteNumbers", lambda data: data[1:], _in_version(1)),
    "definitions.flexible-compact-encodings": answer_as("decode", lambda _: {"version": 0}, "SuiteSized"),
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
    "definitions.version-16-bit": _version_modulo_256,
    "definitions.one-object-all-versions": reject_valid("SuiteVersions", _has_field("Late", 0), op="encode"),
    "definitions.ignorable-omitted": reject_valid("SuiteVersions", _has_field("Early", 2), op="encode"),
    "definitions.ignorable-default-false": accept_invalid(
        "definitions.non-ignorable-non-default-error", types="SuiteVersions"
    ),
    "definitions.write-omits-absent-fields": change_bytes("SuiteDropped", lambda data: b"\0\0" + data, _in_version(0)),
    "definitions.non-ignorable-non-default-error": accept_invalid("definitions.non-ignorable-non-default-error"),
    "definitions.non-ignorable-default-omitted": reject_valid("SuiteDropped", _has_field("Timeout", 0), op="encode"),
    "definitions.custom-default-overrides": _default("SuiteDropped", Timeout=0),
    "definitions.read-resets-absent-fields": change_value(
        "SuiteDropped", lambda value: {**value, "Hint": "kept"}, _in_version(0)
    ),
    "definitions.custom-default-fills-old-versions": change_value(
        "SuiteDropped", lambda value: {**value, "Timeout": 0}, _in_version(0)
    ),
    "definitions.records-may-be-nullable": _field("SuiteNullable", "Set", null_to("")),
    "definitions.array-may-be-nullable": _field("SuiteNullable", "List", null_to([])),
    "definitions.uuid-may-be-nullable": change_bytes(
        "SuiteNullable", lambda data: data[:-16] + b"\xff" * 16, _in_version(1)
    ),
    "definitions.custom-default-types": _default("SuiteDefaults", Int=0),
    "definitions.custom-default-hex": _default("SuiteDefaults", Hex=0),
    "definitions.custom-default-octal": _default("SuiteDefaults", Octal=10),
    "definitions.default-null-literal": _default("SuiteDefaults", NullText="null"),
    "definitions.default-string": _default("SuiteDefaults", PlainText=None),
    "definitions.default-bytes": _default("SuitePlainDefaults", Raw=None),
    "definitions.default-uuid": _default("SuitePlainDefaults", Id="ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "definitions.default-records": _default("SuiteSized", Set=""),
    "definitions.default-array": _default("SuiteArrays", Numbers=None),
    "definitions.tagged-anywhere": change_value("SuiteTaggedInside", field_change("List", "T", lambda _: 0)),
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
