"""The requests of a target are the same, whether cases are stored as bytes or not."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from conformance.cases.stored_cases import stored_all
from conformance.codec.message_spec import VersionRange
from conformance.targets import protocol, reference
from conformance.targets.claims import Claims

CASES = ("metadata/v9-unknown-tags-in-elements", "varint/six-bytes", "int8/zero:encode", "batch/three-records")


def requests(cases, messages):
    """The requests of cases for the reference, if its description has these messages."""
    claims = Claims(structs.replace(protocol.description(reference.describe()), messages=messages))
    lines = [claims.request_for(case).line for case in cases]
    assert all(line.count(b'"definition":') <= 1 for line in lines)
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def cases(catalog):
    """Return some cases; the last one contains the definition of its message."""
    some = [catalog.cases[name] for name in CASES]
    brings = {**some[0].request, "definition": some[0].wire.message.source}
    return [*some, replace(some[0], request=brings)]


def test_a_target_without_messages_gets_each_definition_once(cases):
    sent = requests(stored_all(cases), None)
    assert sent == requests(cases, None)
    assert ["definition" in request for request in sent] == [True, False, False, False, True]
    assert sent[0]["definition"] == cases[0].wire.message.source
    assert sent[-1] == cases[-1].request


def test_a_target_with_its_own_messages_gets_unchanged_requests(cases):
    has_it = {"MetadataRequest": VersionRange(0, 13), "MetadataResponse": VersionRange(0, 13)}
    sent = requests(stored_all(cases[:4]), has_it)
    assert sent == requests(cases[:4], has_it) == [case.request for case in cases[:4]]


def test_a_request_has_the_timeout_group_and_the_measured_bytes_of_its_case(catalog):
    case = replace(catalog.cases["int8/zero"], measured_bytes=7)
    request = Claims(protocol.description(reference.describe())).request_for(case)
    assert (request.timeout_group, request.measured_bytes) == ("decode int8.layout", 7)
