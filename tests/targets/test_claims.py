"""The requests to a target: equal for packed and unpacked cases."""

import json
from dataclasses import replace

import pytest
from msgspec import structs

from conformance.cases.model import Unsupported
from conformance.cases.packed_cases import LazyCases, SerializedCases
from conformance.codec.message_spec import VersionRange
from conformance.targets import protocol, reference
from conformance.targets.claims import ClaimedTarget

CASES = ("metadata/v9-unknown-tags-in-elements", "varint/six-bytes", "int8/zero:encode", "batch/three-records")


class Asked:
    """A target that records its requests, with `messages` in its description."""

    starts = 0

    def __init__(self, messages):
        self.messages, self.requests = messages, []

    def describe(self):
        return structs.replace(protocol.description(reference.describe()), messages=self.messages)

    def ask(self, cases):
        for at, case in enumerate(cases):
            written = cases.written_at(at) if isinstance(cases, LazyCases) else protocol.body(case.request)
            assert written.count(b'"definition":') <= 1
            self.requests.append(json.loads(written))
            yield Unsupported("never mind")


def put(cases, messages):
    target = Asked(messages)
    assert len(list(ClaimedTarget(target).ask(cases))) == len(cases)
    return target.requests


@pytest.fixture(scope="module")
def cases(catalog):
    """Return some cases; the last one contains the definition of its message."""
    some = [catalog.cases[name] for name in CASES]
    brings = {**some[0].request, "definition": some[0].wire.message.source}
    return [*some, replace(some[0], request=brings)]


def test_a_target_without_messages_gets_each_definition_once(cases):
    packed = put(SerializedCases(cases), None)
    assert packed == put(cases, None)
    assert ["definition" in request for request in packed] == [True, False, False, False, True]
    assert packed[0]["definition"] == cases[0].wire.message.source
    assert packed[-1] == cases[-1].request


def test_a_target_with_its_own_messages_gets_unchanged_requests(cases):
    has_it = {"MetadataRequest": VersionRange(0, 13), "MetadataResponse": VersionRange(0, 13)}
    assert put(SerializedCases(cases[:4]), has_it) == put(cases[:4], has_it) == [case.request for case in cases[:4]]
