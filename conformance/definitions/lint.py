"""`conformance lint`: message definitions held against the rules of their document, alone and against an older set.

What the parser cannot read right is its finding already. Here stand the rules over what it read: a row each, of the
requirement and a function that yields what is wrong.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Generic, TypeVar

from conformance import __version__
from conformance.cases.catalog import VECTORS
from conformance.cases.vector_files import Requirement, read_requirements
from conformance.codec.messages import NONE, SCALARS, Member, Message, Versions
from conformance.definitions.files import Definitions, Finding, read_definitions, usable
from conformance.definitions.parser import shown

_SCALARS = frozenset(SCALARS)
T = TypeVar("T")
Problems = Iterator[tuple[str, str]]
"""Where, within what a rule looks at, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class Rule(Generic[T]):
    """A row of a table below."""

    requirement: str
    check: Callable[[T], Problems]
    open: bool = False
    """The document leaves this open."""


def lint(path: Path, against: Path | None = None) -> list[Finding]:
    """Everything that is wrong with a set of definitions, and with what became of an older set in it.

    Raises DefinitionError for a path without definitions, and for an older set that cannot be read.
    """
    found = read_definitions(path)
    old = usable(against) if against else None
    findings = [*found.findings, *_alone(found)]
    if old is not None:
        findings += _evolved(old, found, whole=path.is_dir() or len(found.files) > 1)
    # Structures that stand in several places are looked at in each.
    return sorted(dict.fromkeys(findings), key=lambda finding: (finding.file, finding.path))


# --- one set ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """A field in its message."""

    message: Message
    member: Member


def _alone(found: Definitions) -> Iterator[Finding]:
    for row in OF_A_SET:
        for name, problem in row.check(found):
            yield Finding(found.files[name], "", row.requirement, problem, row.open)
    for message in found.messages.values():
        for path, member in _fields(message):
            place = Place(message, member)
            for rule in OF_A_FIELD:
                for _, problem in rule.check(place):
                    yield Finding(found.files[message.name], path, rule.requirement, problem, rule.open)


def _fields(message: Message) -> Iterator[tuple[str, Member]]:
    """The fields of a message and of its structures, with their paths; those of common structures below their name."""
    commons = _commons(message)
    todo = [("", message.name), *((name, name) for name in commons)]
    while todo:
        outer, structure = todo.pop(0)
        for member in message.structures[structure]:
            path = _joined(outer, member.name)
            yield path, member
            if member.type not in _SCALARS and member.type not in commons:
                todo.append((path, member.type))


def _commons(message: Message) -> list[str]:
    """The names of the structures that a message defines apart from its fields."""
    return [row["name"] for row in message.source.get("commonStructs", [])]


def _joined(path: str, name: str) -> str:
    return ".".join(filter(None, (path, name)))


def _exchanges(found: Definitions) -> Iterator[tuple[Message, Message]]:
    """Each request with its response, where both are there."""
    for request in found.messages.values():
        response = found.messages.get(request.name.removesuffix("Request") + "Response")
        if request.kind == "request" and response is not None and response.kind == "response":
            yield request, response


def _shared_api_key(found: Definitions) -> Problems:
    owners: dict[int, str] = {}
    for message in found.messages.values():
        if message.kind == "request" and message.api_key is not None:
            owner = owners.setdefault(message.api_key, message.name)
            if owner != message.name:
                yield message.name, f"apiKey {message.api_key} is that of {owner} already"


def _other_api_key(found: Definitions) -> Problems:
    for request, response in _exchanges(found):
        if None not in (request.api_key, response.api_key) and request.api_key != response.api_key:
            yield response.name, f"apiKey is {response.api_key}, but {request.api_key} in {request.name}"


def _unanswered_versions(found: Definitions) -> Problems:
    for request, response in _exchanges(found):
        for versions in _without(request.valid, response.valid):
            yield response.name, f"validVersions {response.valid}: {request.name} also has {versions}"


def _unasked_versions(found: Definitions) -> Problems:
    for request, response in _exchanges(found):
        for versions in _without(response.valid, request.valid):
            yield response.name, f"{request.name} does not have {versions}"


_MEANING = re.compile(r"(validate|verify|check)only|dryrun", re.IGNORECASE)


def _ignorable_meaning(place: Place) -> Problems:
    member = place.member
    if place.message.kind == "request" and member.type == "bool" and member.ignorable and _MEANING.search(member.name):
        yield "", "it is ignorable, but it changes what the request means"


def _null_too_early(place: Place) -> Problems:
    yield from _too_early("nullable", place, place.member.nullable)


def _tagged_too_early(place: Place) -> Problems:
    yield from _too_early("tagged", place, place.member.tagged)


def _too_early(what: str, place: Place, versions: Versions) -> Problems:
    """Where a field is something before it exists; that such ranges stay open when it ends takes nothing away."""
    there = _over(versions, place.message.valid)
    if there and place.member.versions and there.low < place.member.versions.low:
        yield "", f"it is {what} from version {there.low} on, where it does not exist"


def _in_no_version(place: Place) -> Problems:
    valid, versions = place.message.valid, place.member.versions
    # Fields of versions that were dropped may stay.
    if valid and versions and versions.low > valid.high:
        yield "", f"validVersions {valid} end before its versions {versions}"


OF_A_SET: tuple[Rule[Definitions], ...] = (
    Rule("definitions.api-key-16-bit", _shared_api_key),
    Rule("definitions.response-api-key-matches", _other_api_key),
    Rule("definitions.response-version-matches", _unanswered_versions),
    Rule("definitions.response-version-matches", _unasked_versions, open=True),
)
OF_A_FIELD: tuple[Rule[Place], ...] = (
    Rule("definitions.meaning-changing-not-ignorable", _ignorable_meaning),
    Rule("definitions.nullable-versions-range", _null_too_early, open=True),
    Rule("definitions.tagged-needs-tag-and-versions", _tagged_too_early, open=True),
    Rule("definitions.field-added-open-range", _in_no_version, open=True),
)


# --- two sets -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evolution:
    """A message of an older set, and what became of it."""

    old: Message
    new: Message
    released: Versions
    """The versions of the old one, without one that it calls unstable."""

    @property
    def kept(self) -> Versions:
        """The released versions that the new one has as well."""
        return _over(self.released, self.new.valid)


@dataclass(frozen=True)
class StructureChange:
    """A structure of an older message, and the one in its place; the message itself is one."""

    message: Evolution
    old: tuple[Member, ...]
    new: tuple[Member, ...]
    kept: Versions
    """The versions in which bytes of both were written: in these nothing may change."""

    @cached_property
    def pairs(self) -> list[tuple[Member, Member]]:
        """Fields with what became of them, in the old order."""
        names = {member.name: member for member in self.new}
        pairs = {member.name: names[member.name] for member in self.old if member.name in names}
        lost = [member for member in self.old if member.name not in pairs]
        fresh = [member for member in self.new if member.name not in pairs]
        for member in lost:
            other = next((one for one in fresh if self._is_renamed(member, one)), None)
            if other is not None:
                pairs[member.name] = other
                fresh.remove(other)
        return [(member, pairs[member.name]) for member in self.old if member.name in pairs]

    def _is_renamed(self, old: Member, new: Member) -> bool:
        there = bool(old.versions.shared(self.kept))
        return there and old.tag is None and new.tag is None and _same_bytes(self.message, old, new, self.kept)

    @property
    def gone(self) -> list[Member]:
        """Fields of the old one that the new one does not have under any name."""
        kept = {old.name for old, _ in self.pairs}
        return [member for member in self.old if member.name not in kept]

    @property
    def fresh(self) -> list[Member]:
        """Fields of the new one that the old one did not have under any name."""
        kept = {new.name for _, new in self.pairs}
        return [member for member in self.new if member.name not in kept]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field of an older message, and the one in its place."""

    message: Evolution
    old: Member
    new: Member
    kept: Versions = field(default=NONE)
    """As of the structure around it."""

    @property
    def shared(self) -> Versions:
        """The kept versions in which both exist."""
        return _over(_over(self.kept, self.old.versions), self.new.versions)


def _evolved(old: Definitions, new: Definitions, *, whole: bool) -> Iterator[Finding]:
    """What is wrong with what became of the older set. Messages that are gone count where the new set is `whole`."""
    for message in old.messages.values():
        successor = _successor(message, new)
        released = _released(message, old)
        if successor is not None:
            file = new.files[successor.name]
            for requirement, path, problem, is_open in _changes(Evolution(message, successor, released)):
                yield Finding(file, path, requirement, problem, is_open)
        elif whole and released:
            hint = f"{message.name} is gone, and with it {_spoken(released)}"
            yield Finding(old.files[message.name], "", "definitions.no-version-dropped", hint)


def _released(message: Message, old: Definitions) -> Versions:
    """The versions of a message but for one that it, or the request that it answers, calls unstable."""
    request = old.messages.get(message.name.removesuffix("Response") + "Request", message)
    unstable = any(
        one.source.get("latestVersionUnstable") is True and one.valid.high == message.valid.high
        for one in (message, request)
    )
    return Versions(message.valid.low, message.valid.high - unstable)


def _successor(message: Message, new: Definitions) -> Message | None:
    """The message of that name, or the one that has its place on the wire now."""
    if message.name in new.messages or message.api_key is None:
        return new.messages.get(message.name)
    place = (message.kind, message.api_key)
    return next((one for one in new.messages.values() if (one.kind, one.api_key) == place), None)


def _changes(evolution: Evolution) -> Iterator[tuple[str, str, str, bool]]:
    """Requirement, path, problem and whether it is open, of all that is wrong with a message."""
    for row in OF_A_MESSAGE:
        for _, problem in row.check(evolution):
            yield row.requirement, "", problem, row.open
    for path, change in _structures(evolution):
        for rule in OF_A_STRUCTURE:
            for name, problem in rule.check(change):
                yield rule.requirement, _joined(path, name), problem, rule.open
        for old, now in change.pairs:
            pair = FieldChange(evolution, old, now, change.kept)
            for one in OF_A_PAIR:
                for _, problem in one.check(pair):
                    yield one.requirement, _joined(path, now.name), problem, one.open


def _structures(evolution: Evolution) -> Iterator[tuple[str, StructureChange]]:
    """The message and the structures inside it, each beside the old one, once for the versions it is there in."""
    commons = _commons(evolution.new)
    seen: set[tuple[str, str, Versions]] = set()
    todo = [("", evolution.old.name, evolution.new.name, evolution.kept)]
    while todo:
        path, old, now, kept = todo.pop(0)
        if (old, now, kept) in seen:
            continue
        seen.add((old, now, kept))
        change = StructureChange(evolution, evolution.old.structures[old], evolution.new.structures[now], kept)
        yield path, change
        for one, other in change.pairs:
            if _SCALARS.isdisjoint((one.type, other.type)):
                inner = other.type if other.type in commons else _joined(path, other.name)
                todo.append((inner, one.type, other.type, FieldChange(evolution, one, other, kept).shared))


def _dropped_versions(change: Evolution) -> Problems:
    for versions in _without(change.released, change.new.valid):
        if not change.new.valid or versions.high < change.new.valid.low:
            yield "", f"validVersions {change.new.valid}: {_spoken(versions)} no longer there"


def _lost_versions(change: Evolution) -> Problems:
    for versions in _without(change.released, change.new.valid):
        if change.new.valid and versions.low > change.new.valid.high:
            yield "", f"validVersions {change.new.valid}: {_spoken(versions)} no longer there"


def _moved_message(change: Evolution) -> Problems:
    if change.old.api_key != change.new.api_key and change.kept:
        yield "", f"apiKey was {change.old.api_key} and is {change.new.api_key} now"


def _flexibility(change: Evolution) -> Problems:
    yield from _presence("flexible", change.old.flexible, change.new.flexible, change.kept)


def _presence(what: str, old: Versions, new: Versions, kept: Versions) -> Problems:
    """Where something was and is not any more, and the reverse, in versions that are not to change."""
    for versions in _without(_over(old, kept), new):
        yield "", f"{_spoken(versions)}: it was {what} there, and is not any more"
    for versions in _without(_over(new, kept), old):
        yield "", f"{_spoken(versions)}: it was not {what} there, and is now"


def _removed(change: StructureChange) -> Problems:
    taken = {member.tag for member in change.fresh}
    for member in change.gone:
        versions = _over(member.versions, change.kept)
        if versions and (member.tag is None or member.tag not in taken):
            yield member.name, f"it is gone, but {_spoken(versions)} had it: an end to its versions takes it out"


def _renamed(change: StructureChange) -> Problems:
    for old, new in change.pairs:
        if old.name != new.name:
            yield new.name, f"it was called {old.name}; the bytes are the same"


def _added(change: StructureChange) -> Problems:
    for member in change.fresh:
        for versions in _without(_over(member.versions, change.kept), member.tagged):
            yield member.name, f"it is new in {_spoken(versions)}, which had been released without it"


def _tag_reused(change: StructureChange) -> Problems:
    owners = {member.tag: member.name for member in change.old if member.tag is not None}
    for member in change.new:
        owner = owners.get(member.tag) if member.tag is not None else None
        if owner is not None and owner != member.name:
            yield member.name, f"tag {member.tag} was that of {owner}"


def _reordered(change: StructureChange) -> Problems:
    before = [new.name for _, new in change.pairs]
    now = [member.name for member in change.new if member.name in set(before)]
    moved = [index for index, (one, other) in enumerate(zip(before, now, strict=True)) if one != other]
    if moved:
        window = slice(moved[0], moved[-1] + 1)
        yield "", f"the order was {_listed(before[window])} and is {_listed(now[window])} now"


def _listed(names: list[str]) -> str:
    return ", ".join([*names[:8], *["…"] * (len(names) > 8)])


def _reordered_on_the_wire(change: StructureChange) -> Problems:
    places = {new.name: index for index, (_, new) in enumerate(change.pairs)}
    mates = {new.name: old for old, new in change.pairs}
    now = [member for member in change.new if member.name in places]
    if [places[member.name] for member in now] == sorted(places.values()):
        return
    ends = {end for pair in change.pairs for one in pair for end in _ends(one)}
    for version in sorted(version for version in ends | {change.kept.low} if version in change.kept):
        written = [
            places[member.name]
            for member in now
            if _is_written(member, version) and _is_written(mates[member.name], version)
        ]
        if written != sorted(written):
            yield "", f"the order in which version {version} writes its fields has changed"
            return


def _ends(member: Member) -> tuple[int, ...]:
    """The versions from which on a field is written otherwise than before."""
    return (member.versions.low, member.versions.high + 1, member.tagged.low, member.tagged.high + 1)


def _is_written(member: Member, version: int) -> bool:
    """Whether a field stands among the ordinary ones."""
    return version in member.versions and version not in member.tagged


def _type(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    if _is_alike(old, new):
        return
    if not (old.is_array and new.is_array and new.type not in _SCALARS):
        yield "", f"the type was {_type_name(old)} and is {_type_name(new)} now"
    elif not _is_boxed(change):
        hint = "the structures do not have the bytes of the plain values"
        yield "", f"the type was {_type_name(old)} and is {_type_name(new)} now: {hint}"


def _is_alike(old: Member, new: Member) -> bool:
    """Whether two fields have one type; what a structure is called does not matter."""
    same = old.type == new.type or _SCALARS.isdisjoint((old.type, new.type))
    return same and old.is_array == new.is_array


def _is_boxed(change: FieldChange) -> bool:
    """Whether the new structures are written as the old plain elements were."""
    message, shared = change.message, change.shared
    inner = [one for one in message.new.structures[change.new.type] if one.versions.shared(shared)]
    flexible = _over(shared, message.old.flexible) or _over(shared, message.new.flexible)
    return not shared or (
        # In flexible versions each structure ends with its tagged fields.
        not flexible
        and len(inner) == 1
        and not inner[0].is_array
        and inner[0].type == change.old.type
        and not _over(inner[0].nullable, shared)
        and shared.within(inner[0].versions)
    )


def _type_name(member: Member) -> str:
    return f"{'[]' * member.is_array}{member.type}"


def _default(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    # What the parts of a structure default to is told of its fields.
    if _is_alike(old, new) and (old.null_default, old.default) != (new.null_default, new.default):
        yield "", f"the default was {_told(old)} and is {_told(new)} now"


def _told(member: Member) -> str:
    """The default of a field."""
    if member.null_default:
        return "null"
    if member.type == "float64" and not member.is_array:
        return str(struct.unpack(">d", member.default.to_bytes(8, "big"))[0])
    return "not null" if member.type not in _SCALARS or member.is_array else shown(member.default)


def _existence(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    # Tagged fields may come to versions that exist, and their support may end.
    for versions in _without(_over(old.versions, change.kept), new.versions):
        for plain in _without(versions, old.tagged):
            yield "", f"{_spoken(plain)} had it, and {_has(plain)} not any more"
    for versions in _without(_over(new.versions, change.kept), old.versions):
        for plain in _without(versions, new.tagged):
            yield "", f"{_spoken(plain)} did not have it, and {_has(plain)} now"


def _nullability(change: FieldChange) -> Problems:
    yield from _presence("nullable", change.old.nullable, change.new.nullable, change.shared)


def _tagging(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    yield from _presence("tagged", old.tagged, new.tagged, change.shared)
    if old.tag != new.tag and _over(_over(old.tagged, new.tagged), change.shared):
        yield "", f"its tag was {old.tag} and is {new.tag} now"


def _compactness(change: FieldChange) -> Problems:
    if change.old.rigid != change.new.rigid and _over(change.shared, change.message.new.flexible):
        forms = ("plain", "compact")
        yield "", f"in flexible versions it was {forms[not change.old.rigid]} and is {forms[not change.new.rigid]} now"


def _same_bytes(message: Evolution, old: Member, new: Member, kept: Versions) -> bool:
    """Whether two fields are there in the same versions, and written alike in them."""
    shared = _over(old.versions, kept)
    looks = ((old, old.versions, old.nullable), (new, new.versions, new.nullable))
    one, other = ((m.is_array, m.rigid, _over(there, kept), _over(null, shared)) for m, there, null in looks)
    if one != other:
        return False
    if {old.type, new.type} & _SCALARS:
        return old.type == new.type
    inner = (message.old.structures[old.type], message.new.structures[new.type])
    left, right = ([member for member in members if _over(member.versions, shared)] for members in inner)
    return len(left) == len(right) and all(
        a.tag == b.tag and _over(a.tagged, shared) == _over(b.tagged, shared) and _same_bytes(message, a, b, shared)
        for a, b in zip(left, right, strict=True)
    )


OF_A_MESSAGE: tuple[Rule[Evolution], ...] = (
    Rule("definitions.no-version-dropped", _dropped_versions),
    Rule("definitions.released-version-frozen", _lost_versions),
    Rule("definitions.released-version-frozen", _moved_message),
    Rule("definitions.released-version-frozen", _flexibility),
)
OF_A_STRUCTURE: tuple[Rule[StructureChange], ...] = (
    Rule("definitions.field-removed-closed-range", _removed),
    Rule("definitions.released-version-frozen", _added),
    Rule("definitions.released-version-frozen", _renamed, open=True),
    Rule("definitions.tag-reuse-forbidden", _tag_reused),
    Rule("definitions.fields-not-reordered", _reordered),
    Rule("definitions.released-version-frozen", _reordered_on_the_wire),
)
OF_A_PAIR: tuple[Rule[FieldChange], ...] = (
    Rule("definitions.type-unchanged", _type),
    Rule("definitions.default-unchanged", _default),
    Rule("definitions.released-version-frozen", _existence),
    Rule("definitions.released-version-frozen", _nullability),
    Rule("definitions.released-version-frozen", _tagging),
    Rule("definitions.released-version-frozen", _compactness),
)


# --- ranges -------------------------------------------------------------------------------------------


def _over(one: Versions, other: Versions) -> Versions:
    """The versions in both; NONE where there are none, so that results can be compared."""
    return one.shared(other) or NONE


def _without(one: Versions, other: Versions) -> list[Versions]:
    """The ranges of one that are not in the other."""
    if not one.shared(other):
        return [one] if one else []
    parts = (Versions(one.low, other.low - 1), Versions(other.high + 1, one.high))
    return [part for part in parts if part]


def _spoken(versions: Versions) -> str:
    return f"version{'s' * (versions.low < versions.high)} {versions}"


def _has(versions: Versions) -> str:
    return "have" if versions.low < versions.high else "has"


# --- the command --------------------------------------------------------------------------------------

OPEN = "open"


@cache
def _register() -> dict[str, Requirement]:
    return read_requirements(VECTORS / "requirements.yaml")


def levels(findings: Iterable[Finding]) -> list[tuple[Finding, str]]:
    """Findings with what each weighs: the level of its requirement, or OPEN."""
    return [(finding, OPEN if finding.open else _register()[finding.requirement].level) for finding in findings]


def counts(level: str, *, fail_on: str, strict: bool) -> bool:
    """Whether a finding of a level makes the exit status 1."""
    return level == "must" or (level == "should" and fail_on == "should") or (level == OPEN and strict)


def summary(found: list[tuple[Finding, str]]) -> str:
    """How many findings of each level."""
    tally = Counter(level for _, level in found)
    parts = ", ".join(f"{tally[level]} {level}" for level in ("must", "should", "may", OPEN) if tally[level])
    return f"{len(found)} finding{'s' * (len(found) != 1)} ({parts})" if found else "no findings"


def as_json(found: list[tuple[Finding, str]]) -> dict[str, Any]:
    """The findings as plain data."""
    tally = Counter(level for _, level in found)
    return {
        "suite": {"name": "kafka-conformance", "version": __version__},
        "summary": {level: tally[level] for level in ("must", "should", "may", OPEN)},
        "findings": [
            {
                "file": finding.file,
                "path": finding.path,
                "requirement": finding.requirement,
                "level": level,
                "problem": finding.problem,
            }
            for finding, level in found
        ],
    }
