"""The parts of lint rules (a row of a table, and walks through the fields of a message), and the rules of one set."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from msgspec import Struct

from conformance.codec.message_spec import NONE, SCALARS, FieldSpec, MessageSpec, VersionRange
from conformance.definitions.loader import Definitions


def over(one: VersionRange, other: VersionRange) -> VersionRange:
    """Return the versions in both ranges. Without a common version, return the empty range NONE, not None."""
    return one.shared(other) or NONE


def without(one: VersionRange, other: VersionRange) -> list[VersionRange]:
    """Return the ranges of one that are not in the other."""
    if not one.shared(other):
        return [one] if one else []
    parts = (VersionRange(one.low, other.low - 1), VersionRange(other.high + 1, one.high))
    return [part for part in parts if part]


def versions_text(versions: VersionRange) -> str:
    """Return `version 3` or `versions 3-5`."""
    return f"version{'s' * (versions.low < versions.high)} {versions}"


def has(versions: VersionRange) -> str:
    """Return the verb that follows `versions_text`."""
    return "have" if versions.low < versions.high else "has"


PLAIN = frozenset(SCALARS)
"""Types that are not structures."""
T = TypeVar("T")
Problems = Iterator[tuple[str, str]]
"""The place, within the object that a rule checks, and the problem."""


class LintRule(Struct, Generic[T], frozen=True):
    """A row of a table of rules: the requirement, and a function that yields the problems."""

    requirement: str
    check: Callable[[T], Problems]
    open: bool = False
    """True if the document does not decide this."""


def fields_of(message: MessageSpec) -> Iterator[tuple[str, FieldSpec]]:
    """Yield the fields of a message and its structures with their paths; common structures begin a path."""
    commons = commons_of(message)
    todo = [("", message.name), *((name, name) for name in commons)]
    while todo:
        outer, structure = todo.pop(0)
        for member in message.structures[structure]:
            path = joined(outer, member.name)
            yield path, member
            if member.type not in PLAIN and member.type not in commons:
                todo.append((path, member.type))


def commons_of(message: MessageSpec) -> list[str]:
    """Return the names of the structures that a message defines outside of its fields."""
    return [row["name"] for row in message.source.get("commonStructs", [])]


def joined(path: str, name: str) -> str:
    """Return the path of a field, or of the structure itself for an empty name."""
    return ".".join(filter(None, (path, name)))


class FieldInMessage(Struct, frozen=True):
    """A field in its message."""

    message: MessageSpec
    member: FieldSpec


def _exchanges(definitions: Definitions) -> Iterator[tuple[MessageSpec, MessageSpec]]:
    """Yield each request with its response, if both exist."""
    for request in definitions.messages.values():
        response = definitions.messages.get(request.name.removesuffix("Request") + "Response")
        if request.kind == "request" and response is not None and response.kind == "response":
            yield request, response


def _shared_api_key(definitions: Definitions) -> Problems:
    owners: dict[int, str] = {}
    for message in definitions.messages.values():
        if message.kind == "request" and message.api_key is not None:
            owner = owners.setdefault(message.api_key, message.name)
            if owner != message.name:
                yield message.name, f"{owner} already has apiKey {message.api_key}"


def _other_api_key(definitions: Definitions) -> Problems:
    for request, response in _exchanges(definitions):
        if None not in (request.api_key, response.api_key) and request.api_key != response.api_key:
            yield response.name, f"apiKey is {response.api_key}, but {request.api_key} in {request.name}"


def _unanswered_versions(definitions: Definitions) -> Problems:
    for request, response in _exchanges(definitions):
        for versions in without(request.valid, response.valid):
            yield response.name, f"validVersions {response.valid}: {request.name} also has {versions}"


def _unasked_versions(definitions: Definitions) -> Problems:
    for request, response in _exchanges(definitions):
        for versions in without(response.valid, request.valid):
            yield response.name, f"{request.name} does not have {versions}"


_MEANING = re.compile(r"(validate|verify|check)only|dryrun", re.IGNORECASE)


def _ignorable_meaning(place: FieldInMessage) -> Problems:
    member = place.member
    if place.message.kind == "request" and member.type == "bool" and member.ignorable and _MEANING.search(member.name):
        yield "", "the field is ignorable, but it changes the meaning of the request"


def _null_too_early(place: FieldInMessage) -> Problems:
    yield from _too_early("nullable", place, place.member.nullable)


def _tagged_too_early(place: FieldInMessage) -> Problems:
    yield from _too_early("tagged", place, place.member.tagged)


def _too_early(what: str, place: FieldInMessage, versions: VersionRange) -> Problems:
    """Yield versions in which a field has a property before it exists. Versions after its end are harmless."""
    there = over(versions, place.message.valid)
    if there and place.member.versions and there.low < place.member.versions.low:
        yield "", f"the field is {what} from version {there.low} on, where it does not exist"


def _in_no_version(place: FieldInMessage) -> Problems:
    valid, versions = place.message.valid, place.member.versions
    # A field of versions that were dropped may remain.
    if valid and versions and versions.low > valid.high:
        yield "", f"its versions {versions} begin after validVersions {valid}"


OF_A_SET: tuple[LintRule[Definitions], ...] = (
    LintRule("definitions.api-key-16-bit", _shared_api_key),
    LintRule("definitions.response-api-key-matches", _other_api_key),
    LintRule("definitions.response-version-matches", _unanswered_versions),
    LintRule("definitions.response-version-matches", _unasked_versions, open=True),
)
OF_A_FIELD: tuple[LintRule[FieldInMessage], ...] = (
    LintRule("definitions.meaning-changing-not-ignorable", _ignorable_meaning),
    LintRule("definitions.nullable-versions-range", _null_too_early, open=True),
    LintRule("definitions.tagged-needs-tag-and-versions", _tagged_too_early, open=True),
    LintRule("definitions.field-added-open-range", _in_no_version, open=True),
)
