"""The shipped definitions equal Apache Kafka's own, field by field and in every version."""

import pytest

from conformance.catalog.catalog_builder import read_catalog
from conformance.definitions._parser import parse_definition
from conformance.definitions.loader import SHIPPED, read_definitions, shipped_types, types_with
from conformance.errors import FileError
from conformance.targets.reference import answer
from conformance.targets.resolve import adapters

EVERY_CLIENT_SPEAKS = (
    *(f"{name}{side}" for name in ("Request", "Response") for side in ("Header",)),
    *(
        f"{api}{side}"
        for api in (
            *("ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets", "FindCoordinator", "InitProducerId"),
            *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
            *("OffsetForLeaderEpoch",),
            *("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
            *("SaslHandshake", "SaslAuthenticate"),
            *("GetTelemetrySubscriptions", "PushTelemetry"),
        )
        for side in ("Request", "Response")
    ),
    *("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "EndTxnMarker"),
)


# names in Apache Kafka 3.9 of fields that 4.0 renamed
OLDER_NAMES = {"GenerationIdOrMemberEpoch": "GenerationId"}


def fields(message, structure, version, *, valid, current):
    """Return the fields of a version in order: names, types, nulls, tags, defaults, nested fields."""
    return [
        (
            member.name if current else OLDER_NAMES.get(member.name, member.name),
            fields(message, member.type, version, valid=valid, current=current)
            if member.type in message.structures
            else member.type,
            member.is_array,
            version in member.nullable,
            member.tag if version in member.tagged else None,
            member.default,
            member.ignorable
            if current and valid.low not in member.versions
            else None,  # it matters where the field is absent
            member.rigid,
        )
        for member in message.structures[structure]
        if version in member.versions
    ]


def messages_of_jar(name):
    return read_definitions(next((adapters()[name].home / "target" / "lib").glob("kafka-clients-*.jar"))).messages


def test_the_messages_that_every_client_speaks_are_shipped():
    assert sorted(read_definitions(SHIPPED).messages) == sorted(EVERY_CLIENT_SPEAKS)


def test_the_shipped_definitions_break_no_rule():
    assert read_definitions(SHIPPED).findings == ()


@pytest.mark.parametrize("fixture", ["kafka_clients", "kafka_clients_3"])
def test_shipped_definitions_equal_apache_kafkas_in_every_version(fixture, request):
    theirs = messages_of_jar(request.getfixturevalue(fixture))
    current = fixture == "kafka_clients"
    compared = 0
    for ours in read_definitions(SHIPPED).messages.values():
        if ours.name not in theirs:
            assert not current
            continue
        their = theirs[ours.name]
        assert (ours.kind, ours.api_key, ours.flexible) == (their.kind, their.api_key, their.flexible)
        assert their.valid.low >= ours.valid.low
        assert their.valid.high == ours.valid.high or not current
        for version in their.valid:
            mine, other = (fields(one, one.name, version, valid=their.valid, current=current) for one in (ours, their))
            assert mine == other, f"{ours.name} {version}"
            compared += 1
    assert compared > 250


# --- use of the shipped definitions -------------------------------------------------------------------

OWN_HEADER = {
    **{"name": "ResponseHeader", "type": "header", "validVersions": "0-7", "flexibleVersions": "none"},
    "fields": [{"name": "Other", "type": "int8", "versions": "0+"}],
}


def test_a_user_definition_replaces_the_shipped_one_with_its_name():
    message, findings = parse_definition(OWN_HEADER)
    assert not findings
    types = types_with([message])
    assert types.wire("MESSAGE<ResponseHeader,7>").message is message
    assert types.wire("MESSAGE<FetchRequest,12>") is shipped_types().wire("MESSAGE<FetchRequest,12>")
    assert shipped_types().messages["ResponseHeader"] is not message


def test_a_vector_may_name_a_shipped_message_without_a_definition_in_its_file(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "- {id: own/header, type: MESSAGE, message: ResponseHeader, version: 1, "
        "requirement: definitions.field-order-is-wire-order, value: {CorrelationId: 5}, hex: '0000000500'}\n"
    )
    message, _ = parse_definition(OWN_HEADER)
    for messages in ((), [message]):  # a user's definition does not change the type of a vector
        case = read_catalog([path], messages).cases["own/header"]
        assert case.wire is shipped_types().wire("MESSAGE<ResponseHeader,1>")
        assert answer(case.request) == {"ok": True, "value": {"CorrelationId": 5}, "consumed": 5}


def test_a_message_without_any_definition_is_rejected(tmp_path):
    path = tmp_path / "own.yaml"
    path.write_text(
        "- {id: own/x, type: MESSAGE, message: Nobody, version: 1, requirement: definitions.valid-versions}"
    )
    with pytest.raises(FileError, match="no message 'Nobody' under `definitions` of the file, nor among the shipped"):
        read_catalog([path])
