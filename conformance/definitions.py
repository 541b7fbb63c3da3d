"""Message definitions: JSON with comments → parsed messages, every rule that is broken as a finding.

They are read from a folder (a source checkout's, say), from a file, or from a jar or zip that holds them.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conformance.codec.messages import LAST, NONE, SCALARS, Member, Message, Versions


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule of the document that a definition breaks, and where."""

    file: str
    path: str
    """Names of fields from the message down, joined by dots; empty for the message itself."""
    requirement: str
    problem: str

    def __str__(self) -> str:
        where = f"{self.file}: {self.path}: " if self.path else f"{self.file}: "
        return f"{where}{self.problem} ({self.requirement})"


class DefinitionError(Exception):
    """Definitions that cannot be used: everything that is wrong with them."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("\n".join(map(str, self.findings)))


@dataclass(frozen=True, slots=True)
class Definitions:
    """The messages of a set of definitions by name, and what was found in reading them."""

    messages: dict[str, Message] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    files: dict[str, str] = field(default_factory=dict)
    """Message name to the file it came from."""


# --- files --------------------------------------------------------------------------------------------

_ARCHIVES = (".jar", ".zip", ".whl")
_MARKS = ("validVersions", "fields", "flexibleVersions", "apiKey")
"""A JSON object with one of these is meant to be a definition."""


def read_definitions(path: Path) -> Definitions:
    """All definitions of a folder, file, jar or zip, with every finding. Raises DefinitionError when there are none."""
    texts = list(_texts(path))
    alone = len(texts) == 1 and path.is_file() and path.suffix not in _ARCHIVES
    found: dict[str, Message] = {}
    findings: list[Finding] = []
    files: dict[str, str] = {}
    for name, text in texts:
        try:
            document = parse_json(text)
        except ValueError as error:
            findings.append(Finding(name, "", "definitions.comments", f"no JSON: {error}"))
            continue
        if not isinstance(document, dict) or not (alone or any(mark in document for mark in _MARKS)):
            if alone:
                findings.append(Finding(name, "", "definitions.field-attributes", "a definition is a JSON object"))
            continue
        message, wrong = parse_definition(document, name)
        findings += wrong
        if message is None:
            continue
        if message.name in found:
            hint = f"{message.name} is defined already in {files[message.name]}"
            findings.append(Finding(name, "", "definitions.field-attributes", hint))
            continue
        found[message.name], files[message.name] = replace(message, origin=str(path)), name
    if not found and not findings:
        raise DefinitionError([Finding(str(path), "", "definitions.field-attributes", "there is no definition in it")])
    return Definitions(found, tuple(findings), files)


def usable(path: Path) -> Definitions:
    """The definitions of a path, to be used. Raises DefinitionError with everything that keeps any from being read."""
    found = read_definitions(path)
    named = {finding.file for finding in found.findings} - set(found.files.values())
    broken = [finding for finding in found.findings if finding.file in named]
    if broken:
        raise DefinitionError(broken)
    return found


def _texts(path: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every JSON file. Raises DefinitionError for a path that holds none or cannot be read."""
    try:
        if path.is_dir():
            for file in sorted(path.rglob("*.json")):
                yield str(file), file.read_text("utf-8")
        elif path.suffix in _ARCHIVES:
            with zipfile.ZipFile(path) as archive:
                for name in sorted(archive.namelist()):
                    if name.endswith(".json"):
                        yield f"{path}!{name}", _unpacked(archive, name)
        else:
            yield str(path), path.read_text("utf-8")
    except (OSError, zipfile.BadZipFile, UnicodeDecodeError) as error:
        hint = getattr(error, "strerror", None) or str(error)
        raise DefinitionError([Finding(str(path), "", "definitions.comments", hint)]) from None


_LARGEST = 16 * 2**20
"""Bytes of one definition that are taken out of an archive."""


def _unpacked(archive: zipfile.ZipFile, name: str) -> str:
    with archive.open(name) as member:
        data = member.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise zipfile.BadZipFile(f"{name} is larger than {_LARGEST} bytes")
    return data.decode("utf-8")


_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*')


def parse_json(text: str) -> Any:
    """JSON with // comments to the end of a line, anywhere but in strings. Raises ValueError with line and column."""
    return json.loads(_COMMENT.sub(lambda match: match[1] or "", text), object_pairs_hook=_no_key_twice)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


# --- one definition -----------------------------------------------------------------------------------

_MESSAGE_KEYS = {
    *("name", "type", "apiKey", "validVersions", "flexibleVersions", "deprecatedVersions", "fields", "commonStructs"),
    *("listeners", "latestVersionUnstable", "about"),
}
_FIELD_KEYS = {
    *("name", "type", "versions", "nullableVersions", "tag", "taggedVersions", "flexibleVersions", "default"),
    *("ignorable", "mapKey", "entityType", "about", "fields", "zeroCopy"),
}
_KINDS = ("request", "response", "header", "metadata", "data", "coordinator-key", "coordinator-value")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*\Z")
_RANGE = re.compile(r"(\d{1,5})(?:(\+)|-(\d{1,5}))?\Z")


class _Unusable(Exception):
    """A part of a definition that nothing can be made of; the finding is on the list already."""


def parse_definition(document: Mapping[str, Any], file: str = "") -> tuple[Message | None, list[Finding]]:
    """A definition as a message, or None where nothing can be made of it; and every rule that it breaks."""
    parser = _Parser(file, document)
    try:
        return parser.message(), parser.findings
    except _Unusable:
        return None, parser.findings


class _Parser:
    """Reads one definition."""

    def __init__(self, file: str, document: Mapping[str, Any]) -> None:
        self.findings: list[Finding] = []
        self._file, self._document = file, document
        self._structures: dict[str, tuple[Member, ...]] = {}
        self._open: list[str] = []
        self._flexible = NONE
        self._valid = NONE

    # --- finding fault ------------------------------------------------------------------------------

    def _blame(self, path: str, requirement: str, problem: str) -> None:
        self.findings.append(Finding(self._file, path, requirement, problem))

    def _refuse(self, path: str, requirement: str, problem: str) -> _Unusable:
        self._blame(path, requirement, problem)
        return _Unusable()

    def _known(self, path: str, row: Mapping[str, Any], keys: set[str]) -> None:
        for key in row:
            if key not in keys:
                self._blame(path, "definitions.field-attributes", f"{key!r} is no attribute that is known")

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
            raise self._refuse(path, rule, f"{key} {given!r} is no range of versions (0, 0-2, 0+ or none)")
        low = int(match[1])
        high = LAST if match[2] else int(match[3] or match[1])
        if high > LAST or low > high:
            rule = "definitions.version-16-bit" if high > LAST else rule
            raise self._refuse(path, rule, f"{key} {given!r} goes from {low} to {high}")
        return Versions(low, high)

    # --- the message --------------------------------------------------------------------------------

    def message(self) -> Message:
        """The message; its structures are read on the way."""
        document = self._document
        name = self._name("", document)
        kind = document.get("type")
        if kind not in _KINDS:
            self._blame("", "definitions.field-attributes", f"type {kind!r}: a message is one of {', '.join(_KINDS)}")
        self._known("", document, _MESSAGE_KEYS)
        if "validVersions" not in document:
            raise self._refuse("", "definitions.valid-versions", "validVersions is missing")
        self._valid = self._range("", document, "validVersions", "definitions.valid-versions")
        if self._valid.high == LAST:
            hint = "validVersions has no end: it always names the highest version"
            raise self._refuse("", "definitions.valid-versions-closed", hint)
        self._read_flexible()
        commons = self._list("", document, "commonStructs")
        fields = self._list("", document, "fields")
        self._commons = {self._name("commonStructs", row): row for row in commons}
        for common, row in self._commons.items():
            self._structure(common, row, common)
        self._structures[name] = self._members(fields, "")
        text = json.dumps(document, sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        key = self._api_key(str(kind))
        return Message(name, str(kind), self._valid, self._flexible, self._structures, key, document, digest=digest)

    def _read_flexible(self) -> None:
        rule = "flexible.declared-per-api"
        if "flexibleVersions" not in self._document and self._valid:
            self._blame("", rule, "flexibleVersions is missing")
        self._flexible = self._range("", self._document, "flexibleVersions", rule, NONE)
        if self._flexible and self._flexible.high != LAST:
            self._blame("", rule, f"flexibleVersions {self._flexible} has an end")

    def _api_key(self, kind: str) -> int | None:
        key = self._document.get("apiKey")
        needed = kind in ("request", "response")
        if key is None and not needed:
            return None
        if type(key) is not int or not -(1 << 15) <= key < 1 << 15:
            self._blame("", "definitions.api-key-16-bit", f"apiKey {key!r} is no 16-bit number")
            return None
        return key

    def _name(self, path: str, row: Any) -> str:
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str) or not _NAME.match(name):
            raise self._refuse(path, "definitions.field-attributes", f"name {name!r} is none of letters and digits")
        return name

    def _list(self, path: str, row: Mapping[str, Any], key: str) -> list[Any]:
        found = row.get(key, [])
        if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
            raise self._refuse(path, "definitions.field-attributes", f"{key} is no list of objects")
        return found

    # --- structures ---------------------------------------------------------------------------------

    def _structure(self, name: str, row: Mapping[str, Any], path: str) -> None:
        if name in self._structures:
            return
        if name in self._open:
            raise self._refuse(path, "definitions.type-unknown", f"{name} contains itself")
        self._open.append(name)
        self._structures[name] = self._members(self._list(path, row, "fields"), path)
        self._open.pop()

    def _members(self, rows: list[Any], path: str) -> tuple[Member, ...]:
        found: list[Member] = []
        for row in rows:
            try:
                found.append(self._member(row, path))
            except _Unusable:
                continue
        if len(found) != len(rows):
            raise _Unusable
        self._unique(found, path)
        return tuple(found)

    def _unique(self, members: list[Member], path: str) -> None:
        names = [member.name for member in members]
        tags = [member.tag for member in members if member.tag is not None]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self._blame(_joined(path, name), "definitions.field-attributes", "the name stands twice in one structure")
        for tag in sorted({tag for tag in tags if tags.count(tag) > 1}):
            self._blame(path, "definitions.tag-reuse-forbidden", f"tag {tag} stands twice in one structure")

    def _member(self, row: Mapping[str, Any], outer: str) -> Member:
        name = self._name(outer, row)
        path = _joined(outer, name)
        self._known(path, row, _FIELD_KEYS)
        kind = row.get("type")
        if not isinstance(kind, str):
            raise self._refuse(path, "definitions.field-attributes", "type is missing")
        is_array = kind.startswith("[]")
        element = kind[2:] if is_array else kind
        if "versions" not in row:
            raise self._refuse(path, "definitions.field-attributes", "versions is missing")
        versions = self._range(path, row, "versions", "definitions.field-attributes")
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
            rigid=row.get("flexibleVersions") == "none",
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
            raise self._refuse(path, "definitions.type-unknown", f"there is no type {element!r}")
        if "fields" in row:
            if element in self._structures or element in self._commons:
                self._blame(path, "definitions.type-array", f"a structure {element} is defined already")
            self._structure(element, row, path)
        elif element in self._commons:
            self._structure(element, self._commons[element], element)
        else:
            raise self._refuse(path, "definitions.type-unknown", f"there is no structure {element!r}")

    def _flag(self, path: str, row: Mapping[str, Any], key: str) -> bool:
        found = row.get(key, False)
        if not isinstance(found, bool):
            self._blame(path, "definitions.field-attributes", f"{key} is true or false, not {found!r}")
        return found is True

    def _tag(self, path: str, row: Mapping[str, Any]) -> tuple[int | None, Versions]:
        tag = row.get("tag")
        tagged = self._range(path, row, "taggedVersions", "definitions.tagged-needs-tag-and-versions", NONE)
        if (tag is not None) != bool(tagged):
            hint = "tag and taggedVersions come together"
            raise self._refuse(path, "definitions.tagged-needs-tag-and-versions", hint)
        if tag is None:
            return None, NONE
        if type(tag) is not int or not 0 <= tag < 1 << 31:
            raise self._refuse(path, "definitions.tagged-needs-tag-and-versions", f"tag {tag!r} is no number from 0")
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
            return self._null_default(path, element, is_array=is_array, spans=spans), None
        if is_array or element not in _IMPLIED:
            if given not in (None, ""):
                kind = "bytes" if element in ("bytes", "records") and not is_array else "array"
                self._blame(
                    path, f"definitions.no-custom-default-{kind}", f"default {given!r}, where there can be none"
                )
            return False, () if is_array else _IMPLIED_OTHERS.get(element)
        if given in (None, ""):
            return False, _IMPLIED[element]
        try:
            return False, _scalar(element, given)
        except ValueError as error:
            self._blame(path, "definitions.custom-default-fits-type", f"default {given!r}: {error}")
            return False, _IMPLIED[element]

    def _null_default(self, path: str, element: str, *, is_array: bool, spans: tuple[Versions, Versions]) -> bool:
        versions, nullable = spans
        if element in _NEVER_NULL and not is_array:
            self._blame(path, "definitions.custom-default-fits-type", f"null is no {element}")
            return False
        if not versions.shared(self._valid).within(nullable):
            hint = f"the default is null, but the field is nullable in {nullable} and there in {versions}"
            self._blame(path, "definitions.default-null-needs-all-nullable", hint)
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
_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)\Z")


def _scalar(kind: str, given: Any) -> Any:
    """A custom default as a wire value. Raises ValueError with what it should be."""
    text = given if isinstance(given, str) else json.dumps(given)
    if kind == "string":
        return text
    if kind == "bool":
        if text not in ("true", "false"):
            raise ValueError("true or false")
        return text == "true"
    if kind == "float64":
        return int.from_bytes(struct.pack(">d", float(text)), "big")
    bits, signed = _BITS[kind]
    number = _integer(text)
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    if not low <= number <= high:
        raise ValueError(f"an {kind} goes from {low} to {high}")
    return number


def _integer(text: str) -> int:
    """Decimal, 0x hexadecimal or 0 octal. Raises ValueError."""
    if match := _HEX.match(text):
        return int(match[1] + match[2], 16)
    if match := _OCTAL.match(text):
        return int(match[1] + match[2], 8)
    if _DECIMAL.match(text):
        return int(text)
    raise ValueError("no decimal, 0x hexadecimal or 0 octal number")
