"""What an answer to a probe says of the claim that was probed."""

import pytest

from conformance import codec
from conformance.cases.model import Kind, Unsupported
from conformance.definitions.shipped import shipped_types
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
