"""The generated cases of messages in a run depend on the messages of its targets."""

import pytest

from conformance.catalog.catalog_builder import read_catalog
from conformance.codec.message_spec import VersionRange
from conformance.definitions._parser import parse_definition
from conformance.definitions.loader import shipped_types
from conformance.runner.selection import Selection, claimed_messages, selected_cases
from conformance.strategies.seeded.cases import TYPES
from conformance.targets.limits import ResourceLimits
from conformance.targets.protocol import TargetDescription
from conformance.targets.resolve import target_spec

SHIPPED = shipped_types().messages


def describing(**messages):
    """Return a target with the messages in these versions."""
    claimed = {name: VersionRange(*versions) for name, versions in messages.items()}
    return TargetDescription("", supports={"decode": frozenset(["MESSAGE"])}, messages=claimed)


GENERIC = TargetDescription("", supports={"encode": frozenset(["MESSAGE"])})
WITHOUT = TargetDescription("", supports={"decode": frozenset(["INT8"])})


def test_a_run_generates_cases_of_the_messages_and_versions_of_its_targets():
    targets = [describing(FetchRequest=(4, 5)), describing(FetchRequest=(5, 6), Nobody=(0, 9)), WITHOUT]
    assert claimed_messages([], (), lambda: targets) == [f"MESSAGE<FetchRequest,{version}>" for version in (4, 5, 6)]


def test_a_generic_codec_gets_all_shipped_messages_and_a_target_without_messages_gets_none():
    of_all = claimed_messages([], (), lambda: [GENERIC])
    assert len(of_all) == sum(len(list(message.valid)) for message in SHIPPED.values())
    assert claimed_messages([], (), lambda: [WITHOUT]) == claimed_messages([], (), list) == []


def test_a_selection_narrows_the_messages():
    found = claimed_messages(["type:MESSAGE<Sasl*Request,1>", "varint/zero"], (), lambda: [GENERIC])
    assert found == ["MESSAGE<SaslAuthenticateRequest,1>", "MESSAGE<SaslHandshakeRequest,1>"]


def test_no_target_is_started_for_a_selection_without_messages():
    assert claimed_messages(["type:INT8", "varint/*"], (), lambda: pytest.fail("it was asked")) == []


def own(name, valid):
    message, findings = parse_definition(
        {"name": name, "type": "data", "validVersions": valid, "flexibleVersions": "none", "fields": []}
    )
    assert not findings
    return message


def test_definitions_add_messages_and_replace_shipped_ones():
    found = claimed_messages([], [own("Own", "0-1"), own("EndTxnMarker", "3-4")], lambda: [GENERIC])
    assert {"MESSAGE<Own,0>", "MESSAGE<Own,1>", "MESSAGE<EndTxnMarker,3>", "MESSAGE<EndTxnMarker,4>"} <= {*found}
    assert "MESSAGE<EndTxnMarker,0>" not in found


@pytest.mark.parametrize(
    ("messages", "name", "count"),
    [((), "MESSAGE<EndTxnMarker,0>", 50), ((), "MESSAGE<SaslHandshakeRequest,1>", 25), (["1-4"], "MESSAGE<Own,4>", 50)],
)
def test_shipped_messages_get_a_quarter_of_the_cases_over_all_versions(messages, name, count):
    messages = tuple(own("Own", valid) for valid in messages)
    selection = Selection((f"type:{name}",), messages=messages)
    cases = selected_cases(selection, read_catalog((), messages), [target_spec("reference", None, ResourceLimits())])
    assert len({case.id.partition(":")[0] for case in cases if case.id.startswith("gen/")}) == count


def test_a_target_that_cannot_start_has_no_messages(catalog):
    dead = target_spec("command:false", None, ResourceLimits())
    cases = selected_cases(Selection(generated=1), catalog, [dead])
    generated = [case for case in cases if case.id.startswith("gen/")]
    assert {case.id.split("/")[2] for case in generated} <= set(TYPES)
    assert generated
