"""What an answer to a probe says of the claim that was probed."""

import pytest

from conformance import codec
from conformance.cases.due import AsDue
from conformance.cases.model import Kind, Unsupported
from conformance.codec.message_definition import type_name
from conformance.definitions.shipped import shipped_types
from conformance.targets import protocol
from conformance.targets.claims import ClaimedTarget
from conformance.targets.probes import claim_verdict, probe_case


@pytest.mark.parametrize(
    ("op", "name", "kind"),
    [
        ("encode", "MESSAGE<MetadataRequest,1>", Kind.PASS),
        ("size", "MESSAGE<MetadataRequest,1>", Kind.PASS),
        ("decode", "MESSAGE<MetadataRequest,1>", Kind.PROTOCOL),
        ("encode", "VARINT", Kind.PROTOCOL),
        ("decode", "VARINT", Kind.PROTOCOL),
    ],
)
def test_unsupported_disproves_a_claim_but_for_one_message_of_many_that_cannot_be_written(op, name, kind):
    wire = shipped_types().wire(name) if "<" in name else codec.wire(name)
    assert claim_verdict(probe_case(op, wire), Unsupported("the code cannot be given this")).kind is kind


def test_a_message_that_is_claimed_in_vain_takes_no_other_with_it():
    class Target:
        """Claims two messages and reads one."""

        def describe(self):
            both = {"ResponseHeader": "0-1", "HeartbeatResponse": "0-4"}
            answer = {"ok": True, "name": "t", "supports": {"decode": ["MESSAGE"]}, "messages": both}
            return protocol.description(answer)

        def ask(self, cases):
            for case in cases:
                is_header = case.type.startswith("MESSAGE<ResponseHeader")
                yield Unsupported("no headers") if is_header else AsDue()

    types = [type_name("ResponseHeader", 1), type_name("HeartbeatResponse", 0), type_name("ResponseHeader", 0)]
    cases = [probe_case("decode", shipped_types().wire(name)) for name in types]
    target = ClaimedTarget(Target())
    [(answer, verdict)] = target.disprove(cases)
    assert (answer.case.type, verdict.kind) == (types[0], Kind.PROTOCOL)
    found = [answer.outcome for answer in target.ask(cases)]
    assert isinstance(found[1], AsDue)
    reason = "the claim to decode MESSAGE<ResponseHeader{}> was disproved at the start"
    assert [found[0].reason, found[2].reason] == [reason.format(",1"), reason.format(",0")]
