"""The definitions that the suite ships: field by field what Apache Kafka's own are, in every version."""

from pathlib import Path

import pytest

import conformance
from conformance.definitions.files import read_definitions
from conformance.targets.resolve import adapters

SHIPPED = Path(conformance.__file__).parent / "vectors" / "definitions"
EVERY_CLIENT_SPEAKS = (
    *(f"{name}{side}" for name in ("Request", "Response") for side in ("Header",)),
    *(
        f"{api}{side}"
        for api in (
            *("ApiVersions", "Metadata", "Produce", "Fetch", "ListOffsets", "FindCoordinator", "InitProducerId"),
            *("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup", "OffsetCommit", "OffsetFetch"),
            *("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn"),
            *("SaslHandshake", "SaslAuthenticate"),
        )
        for side in ("Request", "Response")
    ),
    *("ConsumerProtocolSubscription", "ConsumerProtocolAssignment", "EndTxnMarker"),
)


# What Apache Kafka 3.9 calls a field that has another name since 4.0.
OLDER_NAMES = {"GenerationIdOrMemberEpoch": "GenerationId"}


def fields(message, structure, version, *, valid, current):
    """The fields of a version, in order: names, types, nulls, tags and defaults, structures opened."""
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
def test_shipped_definitions_are_apache_kafkas_in_every_version(fixture, request):
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
