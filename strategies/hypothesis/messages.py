"""Strategies of messages: values of one version, and values of other versions that are written in this one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conformance.codec import TYPES, Unencodable
from conformance.codec.cursor import Cursor, Findings
from conformance.codec.derived_fields import Values
from conformance.codec.message_layout import wire_of
from conformance.codec.message_spec import FIXED, SIZED, UNKNOWN, FieldSpec, MessageSpec, default_of
from conformance.strategies.hypothesis.building import FOR_TYPE, SMALL, contents_of, named, steps_of, tuples
from conformance.strategies.hypothesis.primitives import tagged_fields
from conformance.strategies.seeded._messages import writable

_MOST = 3
"""The most structures, strings and byte strings in an array."""
_EDGE_COUNTS = steps_of(lambda count: TYPES["UNSIGNED_VARINT"].encode(count + 1) + bytes(count), SMALL)


def from_message(message: MessageSpec, version: int, *, unknown_tags: bool = False) -> SearchStrategy[Values]:
    """Generate values of a message version, with all its fields: edges, nulls and defaults are among them.

    With `unknown_tags`, values of a flexible version also have tagged fields that the definition does not have, after
    the known ones. Shrinks to 0, empty strings and arrays, null in nullable fields, and tagged fields at their default.
    Raises TypeError, or ValueError for a version that the message does not have.
    """
    _given(message, version)
    plain = _structure(message, version, message.name)
    if unknown_tags and version in message.flexible:
        first = max((member.tag for member in message.members if member.tag is not None), default=-1) + 1
        plain = st.builds(_with_tags, plain, tagged_fields(max_size=2), st.just(first))
    return named("from_message", plain, _MessageRepr(message), version, unknown_tags=unknown_tags or None)


def version_skews(message: MessageSpec, version: int) -> SearchStrategy[tuple[Values, Values | None]]:
    """Generate pairs: a value with the fields of any version, and a reader's value after it was written in this one.

    A writer drops fields that this version lacks if they are ignorable or at their default; a reader has their default.
    The second half is None if a writer must reject the value: a field is set that it must not drop, or a field is null
    that cannot be null (message-definitions.md, Ignorable Fields). Raises TypeError or ValueError.
    """
    _given(message, version)
    others = st.sampled_from(sorted(message.valid, key=lambda other: (abs(other - version), other)))
    values = others.flatmap(lambda other: _structure(message, other, message.name))
    values = values.map(lambda value: writable(message, version, value)) | values
    return named(
        "version_skews",
        values.map(lambda value: (value, _arrived(message, version, value))),
        _MessageRepr(message),
        version,
    )


def _given(message: object, version: object) -> None:
    if not isinstance(message, MessageSpec):
        raise TypeError(f"message must be a definition (conformance.definitions), not {message!r}")
    if isinstance(version, bool) or not isinstance(version, int):
        raise TypeError(f"version must be an int, not {version!r}")
    if version not in message.valid:
        raise ValueError(f"{message.name} has versions {message.valid}, not {version}")


class _MessageRepr:
    """A message as an argument in a repr."""

    def __init__(self, message: MessageSpec) -> None:
        self._name = message.name

    def __repr__(self) -> str:
        return self._name


def _arrived(message: MessageSpec, version: int, value: Values) -> Values | None:
    wire = wire_of(message, version)
    try:
        data = wire.encode(value)
    except Unencodable:
        return None
    arrived: Values = wire.decode(Cursor(data, Findings()))
    return arrived


def _with_tags(value: Values, fields: tuple[Values, ...], first: int) -> Values:
    """Return the value with tagged fields, from the first free tag on."""
    tags = tuple({**field, "tag": field["tag"] + first} for field in fields if field["tag"] + first < 1 << 31)
    return {**value, UNKNOWN: tags} if tags else value


def _structure(message: MessageSpec, version: int, name: str) -> SearchStrategy[Values]:
    rows = {
        member.name: _member(message, version, member)
        for member in message.structures[name]
        if version in member.versions
    }
    return st.fixed_dictionaries(rows)


def _member(message: MessageSpec, version: int, member: FieldSpec) -> SearchStrategy[Any]:
    one = _one(message, version, member)
    if member.is_array:
        flat = member.type in FIXED
        one = tuples(one, (0, None if flat else _MOST), _EDGE_COUNTS if flat else ())
    # The zero UUID means an absent one, so null is not a separate value.
    if version in member.nullable and (member.type != "uuid" or member.is_array):
        one = st.none() | one
    return st.just(default_of(message, member)) | one if version in member.tagged else one


def _one(message: MessageSpec, version: int, member: FieldSpec) -> SearchStrategy[Any]:
    """Generate a field, or an element of an array."""
    if member.type in FIXED:
        return FOR_TYPE[FIXED[member.type]]()
    if member.type in SIZED:
        # The compact form is used, because the size of its length has steps.
        return contents_of(TYPES[f"COMPACT_{SIZED[member.type]}"], (0, SMALL))
    return _structure(message, version, member.type)
