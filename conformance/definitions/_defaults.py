"""The default of a field: from the text of its definition to a wire value, with the rules that it breaks."""

from __future__ import annotations

import json
import math
import re
import struct
from typing import TypeAlias

from msgspec import Struct

from conformance.codec.message_spec import VersionRange
from conformance.definitions._attributes import AttributeReader
from conformance.definitions.findings import shown

Value: TypeAlias = int | bool | str | bytes | tuple[()] | None
"""A default as a wire value."""

NEVER_NULL = {
    "bool": "definitions.bool-never-null",
    "float64": "definitions.float-never-null",
    **dict.fromkeys(
        ("int8", "int16", "uint16", "int32", "uint32", "int64"),
        "definitions.int-never-null",
    ),
}
_BITS = {
    **{"int8": (8, True), "int16": (16, True), "uint16": (16, False)},
    **{"int32": (32, True), "uint32": (32, False), "int64": (64, True)},
}
_IMPLIED: dict[str, Value] = {**dict.fromkeys(_BITS, 0), "bool": False, "float64": 0, "string": ""}
"""Implied defaults of the types for which a definition can give another."""
_IMPLIED_OTHERS: dict[str, Value] = {"bytes": b"", "uuid": bytes(16)}
"""Implied defaults of the other types; records and structures have none."""
_HEX = re.compile(r"(-?)0[xX]([0-9a-fA-F]+)\Z")
_OCTAL = re.compile(r"(-?)0([0-7]+)\Z")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")


class DefaultContext(Struct, frozen=True):
    """The properties of a field that its default depends on."""

    element: str
    """Its type, or the type of its elements."""
    is_array: bool
    versions: VersionRange
    nullable: VersionRange


def read_default(
    attributes: AttributeReader, path: str, given: object, field: DefaultContext, valid: VersionRange
) -> tuple[bool, Value]:
    """Return True if the default is null, and the default as a wire value; `valid` are the message's versions."""
    element, is_array = field.element, field.is_array
    if given == "null":
        null = _null_default(attributes, path, field, valid)
        # A null uuid is the zero one (primitive-types#uuid).
        return null, bytes(16) if element == "uuid" and not is_array else None
    if is_array or element not in _IMPLIED:
        if given not in (None, ""):
            _no_default(attributes, path, "array" if is_array else element, given)
        return False, () if is_array else _IMPLIED_OTHERS.get(element)
    if given in (None, ""):
        return False, _IMPLIED[element]
    try:
        return False, _scalar(element, given)
    except ValueError as error:
        attributes.blame(path, "definitions.custom-default-fits-type", f"default {shown(given)}: {error}")
        return False, _IMPLIED[element]


_WITHOUT_DEFAULT = {"array": "definitions.no-custom-default-array", "bytes": "definitions.no-custom-default-bytes"}
"""The requirement that a default breaks, for types that cannot have one."""


def _no_default(attributes: AttributeReader, path: str, kind: str, given: object) -> None:
    hint = f"default {shown(given)}: a field of this type cannot have a default"
    if kind in _WITHOUT_DEFAULT:
        attributes.blame(path, _WITHOUT_DEFAULT[kind], hint)
    else:
        # The document puts this type neither in the list with a custom default nor in the list without.
        attributes.note(path, "definitions.custom-default-types", hint)


def _null_default(attributes: AttributeReader, path: str, field: DefaultContext, valid: VersionRange) -> bool:
    versions, nullable = field.versions, field.nullable
    if field.element in NEVER_NULL and not field.is_array:
        attributes.blame(path, "definitions.custom-default-fits-type", f"null is not a value of {field.element}")
        return False
    rule = "definitions.default-null-needs-all-nullable"
    hint = f"the default is null, but the field exists in {versions} and is nullable in {nullable}"
    if not versions.shared(valid).within(nullable):
        attributes.blame(path, rule, hint)
    elif not versions.within(nullable):
        attributes.note(path, rule, hint)
    return True


def _scalar(kind: str, given: object) -> int | bool | str:
    """Return a custom default as a wire value. Raises ValueError with the expected form."""
    if isinstance(given, (dict, list)):
        raise ValueError("expected a single value")  # noqa: TRY004 - a wrong default like the others
    text = given if isinstance(given, str) else json.dumps(given)
    if kind == "string":
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("expected text without lone surrogates") from None
        return text
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ValueError("expected true or false")
        return text.lower() == "true"
    if kind == "float64":
        return int.from_bytes(struct.pack(">d", _float(text)), "big")
    bits, signed = _BITS[kind]
    number = _integer(text)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise ValueError(f"{kind} is from {low} to {high}")
    return number


def _integer(text: str) -> int:
    """Return the value of a decimal, 0x hexadecimal or 0 octal number. Raises ValueError."""
    if len(text) <= 100:
        if match := _HEX.match(text):
            return int(match[1] + match[2], 16)
        if match := _OCTAL.match(text):
            return int(match[1] + match[2], 8)
        if _DECIMAL.match(text):
            return int(text)
    raise ValueError("expected a decimal, 0x hexadecimal or 0 octal number")


def _float(text: str) -> float:
    """Return the value of a JSON number, NaN or an infinity. Raises ValueError."""
    if text in ("NaN", "Infinity", "-Infinity"):
        return float(text)
    if not _FLOAT.match(text):
        raise ValueError("expected a number")
    number = float(text)
    if math.isinf(number):
        raise ValueError("float64 is at most 1.8e308")
    return number
