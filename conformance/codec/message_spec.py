"""What the definition of a message says: its versions, its fields, their defaults (message-definitions.md)."""

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
        """Whether every version of this range is in the other."""
        return not self or (self.low in other and self.high in other)

    def shared(self, other: VersionRange) -> VersionRange:
        """The versions in both ranges."""
        return VersionRange(max(self.low, other.low), min(self.high, other.high))


NONE = VersionRange(1, 0)

FIXED = {
    **{"bool": "BOOLEAN", "int8": "INT8", "int16": "INT16", "uint16": "UINT16", "int32": "INT32", "uint32": "UINT32"},
    **{"int64": "INT64", "float64": "FLOAT64", "uuid": "UUID"},
}
SIZED = {"string": "STRING", "bytes": "BYTES", "records": "BYTES"}
"""Types with a length. What is in records is not looked into here: nullability aside, they are bytes."""

SCALARS = (*FIXED, *SIZED)


class FieldSpec(Struct, frozen=True):
    """A field of a message or structure, as its definition says."""

    name: str
    type: str
    """One of SCALARS or the name of a structure; of an array, what its elements are."""
    versions: VersionRange
    is_array: bool
    default: Any
    """As a wire value. Structures that are not null by default have the defaults of their fields instead."""
    nullable: VersionRange
    tagged: VersionRange
    tag: int | None
    ignorable: bool
    rigid: bool
    """Never in its compact form (`"flexibleVersions": "none"` on the field)."""
    null_default: bool
    """Whether the definition gives null as the default."""
    is_map_key: bool = False
    """Whether it is a key, or a part of one, of the set that an array of its structure is."""

    @property
    def is_struct(self) -> bool:
        """Whether it is a structure (not an array of them)."""
        return self.type not in SCALARS and not self.is_array


@dataclass(frozen=True, slots=True)
class MessageSpec:
    """A message as its definition says, its structures by name; the message itself stands under its own name."""

    name: str
    kind: str
    """request, response, header, data…"""
    valid: VersionRange
    flexible: VersionRange
    structures: Mapping[str, tuple[FieldSpec, ...]] = field(hash=False, compare=False)
    api_key: int | None = None
    source: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)
    """The definition as JSON, comments gone, as it travels in requests."""
    origin: str = field(default="", hash=False, compare=False)
    """Where the definition was read from, as somebody named it; empty for one that came otherwise."""
    digest: str = ""
    """Of the definition's text: messages of one name and digest are the same."""
    is_shipped: bool = field(default=False, hash=False, compare=False)
    """Whether the suite ships the definition; any other of its name replaces it."""

    @property
    def members(self) -> tuple[FieldSpec, ...]:
        """The fields of the message itself."""
        return self.structures[self.name]


def header_version(message: MessageSpec, version: int) -> int:
    """The version of the header before a request or response (decisions#tagged-fields-and-messages)."""
    flexible = version in message.flexible
    if message.kind == "request":
        # ControlledShutdown 0 comes with the header that has no client id.
        return 0 if (message.name, version) == ("ControlledShutdownRequest", 0) else 1 + flexible
    # An answer to ApiVersions must be readable by those who do not know yet what is flexible.
    return 0 if message.name == "ApiVersionsResponse" else int(flexible)


# --- defaults -----------------------------------------------------------------------------------------

UNKNOWN = "_unknownTaggedFields"
"""Where tagged fields that the definition does not know are kept, as TAGGED_FIELDS."""


def default_of(message: MessageSpec, member: FieldSpec) -> Any:
    """The default of a field as a wire value, that of a structure with all its fields."""
    if not member.is_struct or member.null_default:
        return member.default
    return {inner.name: default_of(message, inner) for inner in message.structures[member.type]}


def is_default(message: MessageSpec, member: FieldSpec, value: Any) -> bool:
    """Whether a value is the field's default, in itself and in all its parts; parts left out are at theirs."""
    if not member.is_struct or member.null_default or value is None:
        return bool(value == default_of(message, member))
    return not value.get(UNKNOWN) and all(
        inner.name not in value or is_default(message, inner, value[inner.name])
        for inner in message.structures[member.type]
    )


def type_name(message: str, version: int) -> str:
    """What a message in a version is called as a type."""
    return f"MESSAGE<{message},{version}>"
