"""Rules over one set of definitions: its messages beside one another, and each field in its message."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from conformance.codec.message_spec import Member, Message, Versions
from conformance.definitions.files import Definitions
from conformance.definitions.ranges import over, without
from conformance.definitions.rules import Problems, Rule


class Place(Struct, frozen=True):
    """A field in its message."""

    message: Message
    member: Member


def _exchanges(definitions: Definitions) -> Iterator[tuple[Message, Message]]:
    """Each request with its response, where both are there."""
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
    there = over(versions, place.message.valid)
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
