"""From one definition as parsed JSON to a message, with every rule of the document that it breaks.

Depths and numbers of fields are limited before they are used.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter

from conformance.codec.message_spec import LAST, NONE, SCALARS, SIZED, FieldSpec, MessageSpec, VersionRange
from conformance.definitions._attributes import NAME, AttributeReader, Row, UnusableDefinition
from conformance.definitions._defaults import NEVER_NULL, DefaultContext, read_default
from conformance.definitions.findings import LintFinding, shown

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
_DEEPEST = 32
"""The deepest nesting of structures. Apache Kafka's definitions are nested 5 deep."""
_MOST = 5000
"""The most fields of a definition, counted at each place of their structure. Apache Kafka's have up to 90."""


def parse_definition(document: Row, file: str = "") -> tuple[MessageSpec | None, list[LintFinding]]:
    """Return a definition as a message, or None if it is unusable, and the broken rules, unspecified ones last."""
    parser = _Parser(file, document)
    try:
        if _depth(document) > 3 * _DEEPEST:
            raise parser.attributes.refuse("", "definitions.field-attributes", "the definition is nested too deeply")
        message: MessageSpec | None = parser.message()
    except UnusableDefinition:
        message = None
    return message, sorted(parser.attributes.findings, key=lambda finding: finding.open)


def _depth(document: object) -> int:
    """Return the nesting depth of objects and lists, up to a limit."""
    # Level by level, because recursion over a hostile document could exhaust the stack.
    level: list[object] = [document]
    for depth in range(4 * _DEEPEST):
        if not level:
            return depth
        inner = (node.values() if isinstance(node, dict) else node for node in level if isinstance(node, (dict, list)))
        level = [child for children in inner for child in children if isinstance(child, (dict, list))]
    return 4 * _DEEPEST


class _Parser:
    """A parser of one definition."""

    def __init__(self, file: str, document: Row) -> None:
        self.attributes = AttributeReader(file)
        self._document = document
        self._structures: dict[str, tuple[FieldSpec, ...]] = {}
        self._commons: dict[str, Row] = {}
        self._open: list[str] = []
        self._broken: set[str] = set()
        self._weights: dict[str, int] = {}
        self._count = 0
        self._flexible = NONE
        self._valid = NONE

    # --- the message --------------------------------------------------------------------------------

    def message(self) -> MessageSpec:
        """Parse the message and its structures."""
        document = self._document
        name = self.attributes.name("", document)
        kind = document.get("type")
        if kind not in _KINDS:
            self.attributes.blame(
                "", "definitions.field-attributes", f"type {shown(kind)}: expected one of {', '.join(_KINDS)}"
            )
        self.attributes.check_names("", document, _MESSAGE_KEYS)
        if "validVersions" not in document:
            raise self.attributes.refuse("", "definitions.valid-versions", "validVersions is missing")
        self._valid = self.attributes.versions("", document, "validVersions", "definitions.valid-versions")
        if self._valid.high == LAST:
            hint = "validVersions has no end, expected the highest version"
            raise self.attributes.refuse("", "definitions.valid-versions-closed", hint)
        self._read_flexible()
        if "fields" not in document and self._valid:
            self.attributes.blame("", "definitions.field-attributes", "fields is missing")
        self.attributes.flag("", document, "latestVersionUnstable")
        self._read_structures(name)
        text = json.dumps(document, sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        key = self._api_key(str(kind))
        return MessageSpec(name, str(kind), self._valid, self._flexible, self._structures, key, document, digest=digest)

    def _read_structures(self, name: str) -> None:
        """Read the common structures, and the message's fields as a structure with the message's name."""
        self._open.append(name)
        for row in self.attributes.objects("", self._document, "commonStructs"):
            common = self.attributes.name("commonStructs", row)
            self.attributes.check_names(common, row, _COMMON_KEYS)
            if common in self._commons or common == name:
                self.attributes.blame(common, "definitions.type-array", "the structure is defined twice")
            self._commons[common] = row
        whole = [self._is_read(common, row) for common, row in self._commons.items()]
        self._structures[name] = self._members(self.attributes.objects("", self._document, "fields"), "")
        self._weigh(name, "")
        if not all(whole):
            raise UnusableDefinition

    def _is_read(self, common: str, row: Row) -> bool:
        try:
            self._structure(common, row, common)
        except UnusableDefinition:
            del self._open[1:]
            return False
        return True

    def _read_flexible(self) -> None:
        rule = "flexible.declared-per-api"
        if "flexibleVersions" not in self._document and self._valid:
            self.attributes.blame("", rule, "flexibleVersions is missing")
        self._flexible = self.attributes.versions("", self._document, "flexibleVersions", rule, NONE)
        if self._flexible and self._flexible.high != LAST:
            self.attributes.note("", rule, f"flexibleVersions {self._flexible} has an end")

    def _api_key(self, kind: str) -> int | None:
        key = self._document.get("apiKey")
        needed = kind in ("request", "response")
        if key is None and not needed:
            return None
        key = self.attributes.unquoted("", "definitions.api-key-16-bit", "apiKey", key)
        if type(key) is not int or not -(1 << 15) <= key < 1 << 15:
            self.attributes.blame("", "definitions.api-key-16-bit", f"apiKey {shown(key)} is not a 16-bit number")
            return None
        return key

    # --- structures ---------------------------------------------------------------------------------

    def _structure(self, name: str, row: Row, path: str) -> None:
        if name in self._structures:
            return
        if name in self._broken:
            raise UnusableDefinition
        if len(self._open) > _DEEPEST:
            raise self.attributes.refuse(
                path, "definitions.type-array", f"structures are nested more than {_DEEPEST} deep"
            )
        self._open.append(name)
        # A structure counts as broken until it is read, so that its problems are reported once.
        self._broken.add(name)
        self._structures[name] = self._members(self.attributes.objects(path, row, "fields"), path)
        self._weigh(name, path)
        self._broken.remove(name)
        self._open.pop()

    def _weigh(self, name: str, path: str) -> None:
        """Limit the number of fields after the expansion of nested structures."""
        self._weights[name] = sum(1 + self._weights.get(member.type, 0) for member in self._structures[name])
        if self._weights[name] > _MOST:
            hint = f"the structure has more than {_MOST} fields, nested ones included"
            raise self.attributes.refuse(path, "definitions.type-array", hint)

    def _members(self, rows: list[Row], path: str) -> tuple[FieldSpec, ...]:
        self._count += len(rows)
        if self._count > _MOST:
            raise self.attributes.refuse(path, "definitions.field-attributes", f"there are more than {_MOST} fields")
        members: list[FieldSpec] = []
        depth = len(self._open)
        for row in rows:
            try:
                members.append(self._member(row, path))
            except UnusableDefinition:
                del self._open[depth:]
        if len(members) != len(rows):
            raise UnusableDefinition
        self._unique(members, path)
        return tuple(members)

    def _unique(self, members: list[FieldSpec], path: str) -> None:
        names = Counter(member.name for member in members)
        tags: dict[int, str] = {}
        hint = "the name occurs twice in one structure"
        for name in (name for name, times in names.items() if times > 1):
            self.attributes.blame(
                _joined(path, name), "definitions.field-attributes", "the name occurs twice in one structure"
            )
        for member in members:
            if member.tag is not None and tags.setdefault(member.tag, member.name) != member.name:
                hint = f"{tags[member.tag]} already has tag {member.tag}"
                self.attributes.blame(_joined(path, member.name), "definitions.tag-reuse-forbidden", hint)

    def _member(self, row: Row, outer: str) -> FieldSpec:
        name = self.attributes.name(outer, row)
        path = _joined(outer, name)
        self.attributes.check_names(path, row, _FIELD_KEYS)
        kind = row.get("type")
        if not isinstance(kind, str):
            raise self.attributes.refuse(path, "definitions.field-attributes", "type is missing")
        is_array = kind.startswith("[]")
        element = kind[2:] if is_array else kind
        versions = self._versions(path, row)
        self._read_element(element, row, path)
        nullable = self.attributes.versions(path, row, "nullableVersions", "definitions.nullable-versions-range", NONE)
        if nullable and not is_array and element in NEVER_NULL:
            self.attributes.blame(path, NEVER_NULL[element], f"a {element} cannot be null")
            nullable = NONE
        tag, tagged = self._tag(path, row)
        typed = DefaultContext(element, is_array, versions, nullable)
        null, default = read_default(self.attributes, path, row.get("default"), typed, self._valid)
        ignorable = self.attributes.flag(path, row, "ignorable")
        map_key = self.attributes.flag(path, row, "mapKey")
        return FieldSpec(
            name,
            element,
            versions,
            is_array,
            default,
            nullable=nullable,
            tagged=tagged,
            tag=tag,
            ignorable=ignorable,
            rigid=self._rigid(path, row, sized=element in SIZED and not is_array),
            null_default=null,
            is_map_key=map_key,
        )

    def _read_element(self, element: str, row: Row, path: str) -> None:
        """Check a field's type. Its structure is read here, or is a common one."""
        if element in SCALARS:
            if row.get("fields"):
                self.attributes.blame(path, "definitions.type-array", f"a {element} has no fields")
            return
        if not element[:1].isupper() or not NAME.match(element):
            raise self.attributes.refuse(path, "definitions.type-unknown", f"the type {shown(element)} does not exist")
        if "fields" in row:
            if element in (*self._structures, *self._commons, *self._open, *self._broken):
                raise self.attributes.refuse(
                    path, "definitions.type-array", f"the structure {element} is already defined"
                )
            self._structure(element, row, path)
        elif element in self._open:
            raise self.attributes.refuse(path, "definitions.type-unknown", f"{element} contains itself")
        elif element in self._commons:
            self._structure(element, self._commons[element], element)
        else:
            raise self.attributes.refuse(
                path, "definitions.type-unknown", f"the structure {shown(element)} is not defined"
            )

    def _versions(self, path: str, row: Row) -> VersionRange:
        rule = "definitions.field-attributes"
        if "versions" in row:
            return self.attributes.versions(path, row, "versions", rule)
        if "taggedVersions" not in row:
            raise self.attributes.refuse(path, rule, "versions is missing")
        self.attributes.note(path, rule, "versions is missing; taken from taggedVersions")
        return self.attributes.versions(path, row, "taggedVersions", rule)

    def _rigid(self, path: str, row: Row, *, sized: bool) -> bool:
        """Return True if a field keeps its plain form in flexible versions, like the client id of request headers."""
        given = row.get("flexibleVersions")
        if given is None:
            return False
        if given != "none" or not sized:
            hint = f"flexibleVersions {shown(given)}: expected none, on a string, bytes or records field"
            raise self.attributes.refuse(path, "flexible.declared-per-api", hint)
        return True

    def _tag(self, path: str, row: Row) -> tuple[int | None, VersionRange]:
        rule = "definitions.tagged-needs-tag-and-versions"
        tag = self.attributes.unquoted(path, rule, "tag", row.get("tag"))
        tagged = self.attributes.versions(path, row, "taggedVersions", rule, NONE)
        if (tag is not None) != bool(tagged):
            raise self.attributes.refuse(path, rule, "a tagged field needs both tag and taggedVersions")
        if tag is None:
            return None, NONE
        if type(tag) is not int or not 0 <= tag < 1 << 31:
            raise self.attributes.refuse(path, rule, f"tag {shown(tag)} is not a number from 0 to 2147483647")
        if tagged.high != LAST:
            self.attributes.blame(path, "definitions.tagged-versions-open-ended", f"taggedVersions {tagged} has an end")
        if not tagged.shared(VersionRange(self._valid.low, LAST)).within(self._flexible):
            hint = f"taggedVersions {tagged} is not within the flexible versions {self._flexible}"
            self.attributes.blame(path, "definitions.tagged-only-flexible", hint)
        return tag, tagged


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
