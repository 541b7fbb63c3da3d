"""The answer to a probe confirms or disproves a claim."""

from types import SimpleNamespace

import pytest

from conformance import codec
from conformance.cases.model import Rejected, Unsupported, VerdictKind
from conformance.codec.message_spec import type_name
from conformance.codec.record_batch import stored_magic
from conformance.definitions.loader import shipped_types
from conformance.runner.policy import FailurePolicy
from conformance.runner.target_runner import TargetRunner
from conformance.targets import protocol
from conformance.targets.probes import probe_case, probe_verdict, probes_for


@pytest.mark.parametrize(
    ("op", "name", "kind"),
    [
        ("encode", "MESSAGE<MetadataRequest,1>", VerdictKind.PASS),
        ("size", "MESSAGE<MetadataRequest,1>", VerdictKind.PASS),
        ("decode", "MESSAGE<MetadataRequest,1>", VerdictKind.PROTOCOL),
        ("encode", "VARINT", VerdictKind.PROTOCOL),
        ("decode", "VARINT", VerdictKind.PROTOCOL),
    ],
)
def test_unsupported_disproves_a_claim_except_for_one_of_many_messages(op, name, kind):
    wire = shipped_types().wire(name) if "<" in name else codec.wire(name)
    assert probe_verdict(probe_case(op, wire), Unsupported("the code cannot be given this")).kind is kind


def test_a_disproved_message_claim_affects_no_other_message(catalog):
    class Target:
        """A target that claims two messages and reads one."""

        def describe(self):
            both = {"ResponseHeader": "0-1", "HeartbeatResponse": "0-4"}
            answer = {"ok": True, "name": "t", "supports": {"decode": ["MESSAGE"]}, "messages": both}
            return protocol.description(answer)

        starts = 0

        def stop(self):
            pass

        def ask(self, cases, *_, **__):
            for case in cases:
                is_header = case.type.startswith("MESSAGE<ResponseHeader")
                yield Unsupported("no headers") if is_header else Rejected("other")

    types = [type_name("ResponseHeader", 1), type_name("HeartbeatResponse", 0), type_name("ResponseHeader", 0)]
    cases = [probe_case("decode", shipped_types().wire(name)) for name in types]
    runner = TargetRunner(SimpleNamespace(name="t", open=Target), catalog.requirements, FailurePolicy())
    [disproved] = runner.disprove_claims(cases)
    assert (disproved.case.type, disproved.verdict.kind) == (types[0], VerdictKind.PROTOCOL)
    first, heartbeat, last = runner.results(cases)
    assert heartbeat.failed
    reason = "the claim to decode MESSAGE<ResponseHeader{}> is false, as a probe shows"
    assert [first.verdict.detail, last.verdict.detail] == [reason.format(",1"), reason.format(",0")]


def test_the_requests_of_a_client_are_not_probed(catalog):
    described = protocol.description({"ok": True, "name": "t", "supports": {"read": True, "send": True}})
    cases = [catalog.cases["request/size"], probe_case("read", codec.wire("LOG"))]
    assert [probe.op for probe in probes_for(described, cases)] == ["read"]


@pytest.mark.parametrize(("claimed", "expected"), [([0], 0), ([1, 0], 1), ([0, 1, 2], 2), ([2, 9], 2), (None, 2)])
def test_a_probe_log_has_the_newest_claimed_magic(claimed, expected):
    magics = {} if claimed is None else {"magics": claimed}
    reads = {"supports": {"read": True, "decode": ["LOG"]}}
    described = protocol.description({"ok": True, "name": "t", **reads, **magics})
    cases = [probe_case("read", codec.wire("LOG")), probe_case("decode", codec.wire("LOG"))]
    probes = [*probes_for(described, cases)]
    assert len(probes) == 2
    assert {stored_magic(probe.data) for probe in probes} == {expected}


@pytest.mark.parametrize(("claimed", "expected"), [([0], 0), ([0, 1], 1), ([2, 1, 0], 1), (None, 1)])
def test_a_probe_message_set_has_the_newest_possible_magic(claimed, expected):
    magics = {} if claimed is None else {"magics": claimed}
    described = protocol.description({"ok": True, "name": "t", "supports": {"decode": ["MESSAGE_SET"]}, **magics})
    (probe,) = probes_for(described, [probe_case("decode", codec.wire("MESSAGE_SET"))])
    assert stored_magic(probe.data) == expected
