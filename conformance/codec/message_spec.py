"""Message definitions: versions, fields, and defaults (message-definitions.md)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct

LAST = (1 << 15) - 1
"""The end of an open range: versions are 16-bit numbers."""


class VersionRange(Struct, frozen=True):
    """A range of versions, both ends included; empty where the low end is above the high one."""

    low: int
    high: int

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.low, self.high + 1))

    def __bool__(self) -> bool:
        return self.low <= self.high

    def __str__(self) -> str:
        if not self:
            return "none"
        if self.high == LAST:
            return f"{self.low}+"
        return f"{self.low}-{self.high}" if self.low < self.high else f"{self.low}"

    def within(self, other: VersionRange) -> bool:
        """Return True if every version of this range is in the other."""
        return not self or (self.low in other and self.high in other)

    def shared(self, other: VersionRange) -> VersionRange:
        """Return the versions in both ranges."""
        return VersionRange(max(self.low, other.low), min(self.high, other.high))


NONE = VersionRange(1, 0)

FIXED = {
    **{"bool": "BOOLEAN", "int8": "INT8", "int16": "INT16", "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32"},
    **{"int64": "INT64", "float64": "FLOAT64", "uuid": "UUID"},
}
SIZED = {"string": "STRING", "bytes": "BYTES", "records": "BYTES"}
"""Types with a length. Records count as bytes here; their content is not parsed."""

SCALARS = (*FIXED, *SIZED)


class FieldSpec(Struct, frozen=True):
    """A field of a message or structure in its definition."""

    name: str
    type: str
    """One of SCALARS or the name of a structure; for an array, the type of its elements."""
    versions: VersionRange
    is_array: bool
    default: Any
    """A wire value. Structures that are not null by default have the defaults of their fields instead."""
    nullable: VersionRange
    tagged: VersionRange
    tag: int | None
    ignorable: bool
    rigid: bool
    """True if it has no compact form (`"flexibleVersions": "none"` on the field)."""
    null_default: bool
    """True if the definition gives null as the default."""
    is_map_key: bool = False
    """True if it is the key, or part of the key, of an array of its structure."""

    @property
    def is_struct(self) -> bool:
        """True if it is a structure (not an array of them)."""
        return self.type not in SCALARS and not self.is_array


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """A message definition, with its structures by name; the message's own fields are under its name."""

    name: str
    kind: str
    """request, response, header, data…"""
    valid: VersionRange
    flexible: VersionRange
    structures: Mapping[str, tuple[FieldSpec, ...]] = field(hash=False, compare=False)
    api_key: int | None = None
    source: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)
    """The definition as JSON without comments, as requests carry it."""
    origin: str = field(default="", hash=False, compare=False)
    """The file or source of the definition, as the user named it; empty if there is none."""
    digest: str = ""
    """The digest of the definition's text: messages with equal names and digests are equal."""
    is_shipped: bool = field(default=False, hash=False, compare=False)
    """True if the suite ships the definition; another one of the same name replaces it."""

    @property
    def members(self) -> tuple[FieldSpec, ...]:
        """The fields of the message itself."""
        return self.structures[self.name]


def header_version(message: MessageSpec, version: int) -> int:
    """Return the version of the header before a request or response (decisions#tagged-fields-and-messages)."""
    flexible = version in message.flexible
    if message.kind == "request":
        # ControlledShutdown 0 has the header without a client id.
        return 0 if (message.name, version) == ("ControlledShutdownRequest", 0) else 1 + flexible
    # A client reads the ApiVersions response before it knows the flexible versions of the broker.
    return 0 if message.name == "ApiVersionsResponse" else int(flexible)


# --- defaults -----------------------------------------------------------------------------------------

UNKNOWN = "_unknownTaggedFields"
"""The key of the tagged fields that the definition does not have, as TAGGED_FIELDS."""


def default_of(message: MessageSpec, member: FieldSpec) -> Any:
    """Return the default of a field as a wire value; a structure has all its fields."""
    if not member.is_struct or member.null_default:
        return member.default
    return {inner.name: default_of(message, inner) for inner in message.structures[member.type]}


def is_default(message: MessageSpec, member: FieldSpec, value: Any) -> bool:
    """Return True if a value is the field's default in all its parts; missing parts have the default."""
    if not member.is_struct or member.null_default or value is None:
        return bool(value == default_of(message, member))
    return not value.get(UNKNOWN) and all(
        inner.name not in value or is_default(message, inner, value[inner.name])
        for inner in message.structures[member.type]
    )


def type_name(message: str, version: int) -> str:
    """Return the name of a message version as a type."""
    return f"MESSAGE<{message},{version}>"
