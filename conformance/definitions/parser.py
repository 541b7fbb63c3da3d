"""One message definition, JSON already parsed → a message, and every rule of the document that it breaks.

Depths and numbers of fields are bounded before anything is made of them.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import struct
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from conformance.codec.messages import LAST, NONE, SCALARS, SIZED, Member, Message, Versions


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule of the document that a definition breaks, and where."""

    file: str
    path: str
    """Names of fields from the message down, joined by dots; empty for the message itself."""
    requirement: str
    problem: str

    open: bool = False
    """The document is silent here, or in conflict with itself: another reading finds no fault."""

    def __str__(self) -> str:
        return self.text("open" if self.open else "")

    def text(self, level: str) -> str:
        """One printable line; `level` stands behind the requirement."""
        where = f"{self.file}: {self.path}: " if self.path else f"{self.file}: "
        line = f"{where}{self.problem} ({', '.join(filter(None, (self.requirement, level)))})"
        # Names out of archives and folders may hold anything.
        return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


SOME = 5
"""So many of a kind are told, where a broken file could have any number."""


def shown(value: Any) -> str:
    """Any value of a definition, short enough for a message."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_MESSAGE_KEYS = {
    *("name", "type", "apiKey", "validVersions", "flexibleVersions", "deprecatedVersions", "fields", "commonStructs"),
    *("listeners", "latestVersionUnstable", "about"),
}
_FIELD_KEYS = {
    *("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "flexibleVersions", "default"),
    *("ignorable", "mapKey", "entityType", "about", "fields", "zeroCopy"),
}
_KINDS = ("request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value")
_COMMON_KEYS = {"name", "versions", "fields", "about"}
_WHOLE = re.compile(r"[0-9]{1,10}\Z")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*\Z")
_RANGE = re.compile(r"([0-9]{1,9})(?:(\+)|-([0-9]{1,9}))?\Z")
_DEEPEST = 32
"""Structures within structures. Apache Kafka's go 5 deep."""
_MOST = 5000
"""Fields of a definition, also counted once for each place that a structure stands in. Apache Kafka's have up to 90."""


class _Unusable(Exception):
    """A part of a definition that nothing can be made of; the finding is on the list already."""


def parse_definition(document: Mapping[str, Any], file: str = "") -> tuple[Message | None, list[Finding]]:
    """A definition as a message, or None where nothing can be made of it; and every rule it breaks, open ones last."""
    parser = _Parser(file, document)
    try:
        if _depth(document) > 3 * _DEEPEST:
            raise parser.refuse("", "definitions.field-attributes", "it is nested too deeply")
        message: Message | None = parser.message()
    except _Unusable:
        message = None
    return message, sorted(parser.findings, key=lambda finding: finding.open)


def _depth(document: Any) -> int:
    """How deep objects and lists stand in one another, as far as that matters."""
    level = [document]
    for depth in range(4 * _DEEPEST):
        if not level:
            return depth
        inner = (node.values() if isinstance(node, dict) else node for node in level)
        level = [child for children in inner for child in children if isinstance(child, (dict, list))]
    return 4 * _DEEPEST


class _Parser:
    """Reads one definition."""

    def __init__(self, file: str, document: Mapping[str, Any]) -> None:
        self.findings: list[Finding] = []
        self._file, self._document = file, document
        self._structures: dict[str, tuple[Member, ...]] = {}
        self._commons: dict[str, Mapping[str, Any]] = {}
        self._open: list[str] = []
        self._broken: set[str] = set()
        self._weights: dict[str, int] = {}
        self._count = 0
        self._flexible = NONE
        self._valid = NONE

    # --- finding fault ------------------------------------------------------------------------------

    def _blame(self, path: str, requirement: str, problem: str) -> None:
        self.findings.append(Finding(self._file, path, requirement, problem))

    def _note(self, path: str, requirement: str, problem: str) -> None:
        """Of what the document leaves open."""
        self.findings.append(Finding(self._file, path, requirement, problem, open=True))

    def refuse(self, path: str, requirement: str, problem: str) -> _Unusable:
        """Note what makes a part unusable, to be raised."""
        self._blame(path, requirement, problem)
        return _Unusable()

    def _known(self, path: str, row: Mapping[str, Any], keys: set[str]) -> None:
        unknown = [key for key in row if key not in keys]
        if unknown:
            names = ", ".join(map(shown, unknown[:SOME])) + (", …" if len(unknown) > SOME else "")
            self._blame(path, "definitions.field-attributes", f"{names}: no attribute that is known")

    def _range(
        self, path: str, row: Mapping[str, Any], key: str, rule: str, missing: Versions | None = None
    ) -> Versions:
        given = row.get(key)
        if given is None and missing is not None:
            return missing
        if given == "none":
            return NONE
        match = _RANGE.match(given) if isinstance(given, str) else None
        if match is None:
            raise self.refuse(path, rule, f"{key} {shown(given)} is no range of versions (0, 0-2, 0+ or none)")
        low = int(match[1])
        high = LAST if match[2] else int(match[3] or match[1])
        if max(low, high) > LAST:
            raise self.refuse(path, "definitions.version-16-bit", f"{key} {given!r}: versions end at {LAST}")
        if low > high:
            raise self.refuse(path, rule, f"{key} {given!r} ends before it starts")
        return Versions(low, high)

    # --- the message --------------------------------------------------------------------------------

    def message(self) -> Message:
        """The message; its structures are read on the way."""
        document = self._document
        name = self._name("", document)
        kind = document.get("type")
        if kind not in _KINDS:
            self._blame(
                "", "definitions.field-attributes", f"type {shown(kind)}: a message is one of {', '.join(_KINDS)}"
            )
        self._known("", document, _MESSAGE_KEYS)
        if "validVersions" not in document:
            raise self.refuse("", "definitions.valid-versions", "validVersions is missing")
        self._valid = self._range("", document, "validVersions", "definitions.valid-versions")
        if self._valid.high == LAST:
            hint = "validVersions has no end: it always names the highest version"
            raise self.refuse("", "definitions.valid-versions-closed", hint)
        self._read_flexible()
        if "fields" not in document and self._valid:
            self._blame("", "definitions.field-attributes", "fields is missing")
        self._flag("", document, "latestVersionUnstable")
        self._read_structures(name)
        text = json.dumps(document, sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        key = self._api_key(str(kind))
        return Message(name, str(kind), self._valid, self._flexible, self._structures, key, document, digest=digest)

    def _read_structures(self, name: str) -> None:
        """The common structures, and the fields of the message under its own name."""
        self._open.append(name)
        for row in self._list("", self._document, "commonStructs"):
            common = self._name("commonStructs", row)
            self._known(common, row, _COMMON_KEYS)
            if common in self._commons or common == name:
                self._blame(common, "definitions.type-array", "the structure is defined twice")
            self._commons[common] = row
        whole = [self._is_read(common, row) for common, row in self._commons.items()]
        self._structures[name] = self._members(self._list("", self._document, "fields"), "")
        self._weigh(name, "")
        if not all(whole):
            raise _Unusable

    def _is_read(self, common: str, row: Mapping[str, Any]) -> bool:
        try:
            self._structure(common, row, common)
        except _Unusable:
            del self._open[1:]
            return False
        return True

    def _read_flexible(self) -> None:
        rule = "flexible.declared-per-api"
        if "flexibleVersions" not in self._document and self._valid:
            self._blame("", rule, "flexibleVersions is missing")
        self._flexible = self._range("", self._document, "flexibleVersions", rule, NONE)
        if self._flexible and self._flexible.high != LAST:
            self._note("", rule, f"flexibleVersions {self._flexible} has an end")

    def _api_key(self, kind: str) -> int | None:
        key = self._document.get("apiKey")
        needed = kind in ("request", "response")
        if key is None and not needed:
            return None
        key = self._unquoted("", "definitions.api-key-16-bit", "apiKey", key)
        if type(key) is not int or not -(1 << 15) <= key < 1 << 15:
            self._blame("", "definitions.api-key-16-bit", f"apiKey {shown(key)} is no 16-bit number")
            return None
        return key

    def _unquoted(self, path: str, rule: str, key: str, given: Any) -> Any:
        """A number, also where it stands in quotes, as Apache Kafka reads it."""
        if isinstance(given, str) and _WHOLE.match(given):
            self._note(path, rule, f"{key} {given!r} is a string, not a number")
            return int(given)
        return given

    def _name(self, path: str, row: Any) -> str:
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str) or not _NAME.match(name):
            raise self.refuse(path, "definitions.field-attributes", f"name {shown(name)} is none of letters and digits")
        return name

    def _list(self, path: str, row: Mapping[str, Any], key: str) -> list[Any]:
        found = row.get(key, [])
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            raise self.refuse(path, "definitions.field-attributes", f"{key} is no list of objects")
        return found

    # --- structures ---------------------------------------------------------------------------------

    def _structure(self, name: str, row: Mapping[str, Any], path: str) -> None:
        if name in self._structures:
            return
        if name in self._broken:
            raise _Unusable
        if len(self._open) > _DEEPEST:
            raise self.refuse(path, "definitions.type-array", f"structures stand more than {_DEEPEST} deep")
        self._open.append(name)
        self._broken.add(name)
        self._structures[name] = self._members(self._list(path, row, "fields"), path)
        self._weigh(name, path)
        self._broken.remove(name)
        self._open.pop()

    def _weigh(self, name: str, path: str) -> None:
        """Keep what is made of nested structures in bounds."""
        self._weights[name] = sum(1 + self._weights.get(member.type, 0) for member in self._structures[name])
        if self._weights[name] > _MOST:
            hint = f"written out it has more than {_MOST} fields"
            raise self.refuse(path, "definitions.type-array", hint)

    def _members(self, rows: list[Any], path: str) -> tuple[Member, ...]:
        self._count += len(rows)
        if self._count > _MOST:
            raise self.refuse(path, "definitions.field-attributes", f"there are more than {_MOST} fields")
        found: list[Member] = []
        depth = len(self._open)
        for row in rows:
            try:
                found.append(self._member(row, path))
            except _Unusable:
                del self._open[depth:]
        if len(found) != len(rows):
            raise _Unusable
        self._unique(found, path)
        return tuple(found)

    def _unique(self, members: list[Member], path: str) -> None:
        names = Counter(member.name for member in members)
        tags: dict[int, str] = {}
        for name in (name for name, times in names.items() if times > 1):
            self._blame(_joined(path, name), "definitions.field-attributes", "the name stands twice in one structure")
        for member in members:
            if member.tag is not None and tags.setdefault(member.tag, member.name) != member.name:
                hint = f"tag {member.tag} is that of {tags[member.tag]} already"
                self._blame(_joined(path, member.name), "definitions.tag-reuse-forbidden", hint)

    def _member(self, row: Mapping[str, Any], outer: str) -> Member:
        name = self._name(outer, row)
        path = _joined(outer, name)
        self._known(path, row, _FIELD_KEYS)
        kind = row.get("type")
        if not isinstance(kind, str):
            raise self.refuse(path, "definitions.field-attributes", "type is missing")
        is_array = kind.startswith("[]")
        element = kind[2:] if is_array else kind
        versions = self._versions(path, row)
        self._read_element(element, row, path)
        nullable = self._range(path, row, "nullableVersions", "definitions.nullable-versions-range", NONE)
        if nullable and not is_array and element in _NEVER_NULL:
            self._blame(path, _NEVER_NULL[element], f"a {element} cannot be null")
            nullable = NONE
        tag, tagged = self._tag(path, row)
        null, default = self._default(path, row, element, is_array=is_array, spans=(versions, nullable))
        return Member(
            name,
            element,
            versions,
            is_array,
            default,
            nullable=nullable,
            tagged=tagged,
            tag=tag,
            ignorable=self._flag(path, row, "ignorable"),
            map_key=self._flag(path, row, "mapKey"),
            rigid=self._rigid(path, row, sized=element in SIZED and not is_array),
            entity=str(row.get("entityType", "")),
            null_default=null,
        )

    def _read_element(self, element: str, row: Mapping[str, Any], path: str) -> None:
        """Make sure of a field's type; a structure is read here, or stands among the common ones."""
        if element in SCALARS:
            if row.get("fields"):
                self._blame(path, "definitions.type-array", f"a {element} has no fields")
            return
        if not element[:1].isupper() or not _NAME.match(element):
            raise self.refuse(path, "definitions.type-unknown", f"there is no type {shown(element)}")
        if "fields" in row:
            if element in (*self._structures, *self._commons, *self._open, *self._broken):
                raise self.refuse(path, "definitions.type-array", f"a structure {element} is defined already")
            self._structure(element, row, path)
        elif element in self._open:
            raise self.refuse(path, "definitions.type-unknown", f"{element} contains itself")
        elif element in self._commons:
            self._structure(element, self._commons[element], element)
        else:
            raise self.refuse(path, "definitions.type-unknown", f"there is no structure {shown(element)}")

    def _versions(self, path: str, row: Mapping[str, Any]) -> Versions:
        rule = "definitions.field-attributes"
        if "versions" in row:
            return self._range(path, row, "versions", rule)
        if "taggedVersions" not in row:
            raise self.refuse(path, rule, "versions is missing")
        self._note(path, rule, "versions is missing; taken from taggedVersions")
        return self._range(path, row, "taggedVersions", rule)

    def _rigid(self, path: str, row: Mapping[str, Any], *, sized: bool) -> bool:
        """Whether a field keeps its plain form in flexible versions, as the client id of request headers does."""
        given = row.get("flexibleVersions")
        if given is None:
            return False
        if given != "none" or not sized:
            hint = f"flexibleVersions {shown(given)}: on a field it is none, and the field string, bytes or records"
            raise self.refuse(path, "flexible.declared-per-api", hint)
        return True

    def _flag(self, path: str, row: Mapping[str, Any], key: str) -> bool:
        found = row.get(key, False)
        if not isinstance(found, bool):
            self._blame(path, "definitions.field-attributes", f"{key} is true or false, not {shown(found)}")
        return found is True

    def _tag(self, path: str, row: Mapping[str, Any]) -> tuple[int | None, Versions]:
        rule = "definitions.tagged-needs-tag-and-versions"
        tag = self._unquoted(path, rule, "tag", row.get("tag"))
        tagged = self._range(path, row, "taggedVersions", rule, NONE)
        if (tag is not None) != bool(tagged):
            raise self.refuse(path, rule, "tag and taggedVersions come together")
        if tag is None:
            return None, NONE
        if type(tag) is not int or not 0 <= tag < 1 << 31:
            raise self.refuse(path, rule, f"tag {shown(tag)} is no number from 0 to 2147483647")
        if tagged.high != LAST:
            self._blame(path, "definitions.tagged-versions-open-ended", f"taggedVersions {tagged} has an end")
        if not tagged.shared(Versions(self._valid.low, LAST)).within(self._flexible):
            hint = f"taggedVersions {tagged} is not within the flexible versions {self._flexible}"
            self._blame(path, "definitions.tagged-only-flexible", hint)
        return tag, tagged

    # --- defaults -----------------------------------------------------------------------------------

    def _default(
        self, path: str, row: Mapping[str, Any], element: str, *, is_array: bool, spans: tuple[Versions, Versions]
    ) -> tuple[bool, Any]:
        """Whether the default is null, and the default as a wire value."""
        given = row.get("default")
        if given == "null":
            null = self._null_default(path, element, is_array=is_array, spans=spans)
            # A null uuid is the zero one (primitive-types#uuid).
            return null, bytes(16) if element == "uuid" and not is_array else None
        if is_array or element not in _IMPLIED:
            if given not in (None, ""):
                self._no_default(path, "array" if is_array else element, given)
            return False, () if is_array else _IMPLIED_OTHERS.get(element)
        if given in (None, ""):
            return False, _IMPLIED[element]
        try:
            return False, _scalar(element, given)
        except ValueError as error:
            self._blame(path, "definitions.custom-default-fits-type", f"default {shown(given)}: {error}")
            return False, _IMPLIED[element]

    def _no_default(self, path: str, kind: str, given: Any) -> None:
        hint = f"default {shown(given)}, where there can be none"
        if kind in ("array", "bytes"):
            self._blame(path, f"definitions.no-custom-default-{kind}", hint)
        else:
            # Neither among the types that can have one nor among those that cannot.
            self._note(path, "definitions.custom-default-types", hint)

    def _null_default(self, path: str, element: str, *, is_array: bool, spans: tuple[Versions, Versions]) -> bool:
        versions, nullable = spans
        if element in _NEVER_NULL and not is_array:
            self._blame(path, "definitions.custom-default-fits-type", f"null is no {element}")
            return False
        rule = "definitions.default-null-needs-all-nullable"
        hint = f"the default is null, but the field is nullable in {nullable} and there in {versions}"
        if not versions.shared(self._valid).within(nullable):
            self._blame(path, rule, hint)
        elif not versions.within(nullable):
            self._note(path, rule, hint)
        return True


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


_NEVER_NULL = {
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
_IMPLIED: dict[str, Any] = {**dict.fromkeys(_BITS, 0), "bool": False, "float64": 0, "string": ""}
"""Defaults of the types that can have another."""
_IMPLIED_OTHERS: dict[str, Any] = {"bytes": b"", "uuid": bytes(16)}
"""Those of the others; records and structures have none of their own."""
_HEX = re.compile(r"(-?)0[xX]([0-9a-fA-F]+)\Z")
_OCTAL = re.compile(r"(-?)0([0-7]+)\Z")
_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?\Z")


def _scalar(kind: str, given: Any) -> Any:
    """A custom default as a wire value. Raises ValueError with what it should be."""
    if isinstance(given, (dict, list)):
        raise ValueError("a single value")  # noqa: TRY004 - told like all that a default cannot be
    text = given if isinstance(given, str) else json.dumps(given)
    if kind == "string":
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise ValueError("half of a surrogate pair is no text") from None
        return text
    if kind == "bool":
        if text.lower() not in ("true", "false"):
            raise ValueError("true or false")
        return text.lower() == "true"
    if kind == "float64":
        return int.from_bytes(struct.pack(">d", _float(text)), "big")
    bits, signed = _BITS[kind]
    number = _integer(text)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise ValueError(f"{kind} goes from {low} to {high}")
    return number


def _integer(text: str) -> int:
    """Decimal, 0x hexadecimal or 0 octal. Raises ValueError."""
    if len(text) <= 100:
        if match := _HEX.match(text):
            return int(match[1] + match[2], 16)
        if match := _OCTAL.match(text):
            return int(match[1] + match[2], 8)
        if _DECIMAL.match(text):
            return int(text)
    raise ValueError("no decimal, 0x hexadecimal or 0 octal number")


def _float(text: str) -> float:
    """As JSON writes numbers, and what IEEE 754 has besides. Raises ValueError."""
    if text in ("NaN", "Infinity", "-Infinity"):
        return float(text)
    if not _FLOAT.match(text):
        raise ValueError("no number")
    number = float(text)
    if math.isinf(number):
        raise ValueError("float64 ends at 1.8e308")
    return number
