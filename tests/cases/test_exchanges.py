"""The requests that a broker is sent, and what is due for each."""

import pytest

from conformance.cases.raw_requests import NAMES, TOPIC_ID, due_for, frame_bytes, parse_frames, request_version
from conformance.codec.json_notation import DASHED, NotationError
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import request_in

EDGES = (DASHED.render(bytes(16)), DASHED.render(b"\xff" * 16))
"""Ids that no topic has."""


def exchanges(catalog):
    return [case for case in catalog.cases.values() if case.op == "exchange"]


def test_every_version_of_metadata_is_asked_for_in_each_way(catalog):
    valid = shipped_types().messages["MetadataRequest"].valid
    for version in valid:
        ways = ["", "-edges", "-null"] + ["-tags"] * (version >= 9)
        assert all(f"exchange/metadata-{version}{way}" in catalog.cases for way in ways)


def test_every_message_is_asked_for_in_every_version_but_what_would_change_something(catalog):
    asked = {case.type for case in exchanges(catalog)}
    left_out = {"OffsetCommit", "Produce", "TxnOffsetCommit"}
    for message in shipped_types().messages.values():
        if message.kind == "request" and message.name.removesuffix("Request") not in left_out:
            assert {f"MESSAGE<{message.name},{version}>" for version in message.valid} <= asked


def test_what_writes_is_always_refused_or_plain(catalog):
    """Offsets are committed by a member that there is not, and batches are plain ones in the topic of the run."""
    for case in exchanges(catalog):
        for frame in case.request["frames"]:
            body = frame.get("body", {})
            if frame.get("message") in ("OffsetCommitRequest", "TxnOffsetCommitRequest"):
                assert (body["GenerationIdOrMemberEpoch"], body["MemberId"]) == (7, "conformance-nobody")
            if (
                frame.get("message") == "JoinGroupRequest"
            ):  # a broker gives a member id to who has none, and makes a group
                assert (body["GroupId"], body["MemberId"]) == ("{group}", "conformance-nobody")
            if frame.get("message") == "ProduceRequest":
                names = {row.get("Name", row.get("TopicId")) for row in body["TopicData"]}
                assert names <= {"{topic}", *([] if frame["version"] < 13 else [DASHED.render(TOPIC_ID), *EDGES])}
                assert (body["Acks"], body["TransactionalId"]) == (1, None)


def test_each_frame_but_broken_ones_is_a_request_of_its_definition(catalog):
    frames = [(case, at, frame) for case in exchanges(catalog) for at, frame in enumerate(case.request["frames"])]
    assert len(frames) > 100
    for case, at, frame in frames:
        if request_version(frame) is None:
            continue
        request = request_in(frame_bytes(frame, at, NAMES)[4:])
        assert (request.name, request.version) == request_version(frame), case.id
        assert case.expect.due[at].must_answer


def test_every_edge_of_a_field_is_tried_alone(catalog):
    abouts = [frame.get("about") for frame in catalog.cases["exchange/metadata-12-edges"].request["frames"]]
    assert abouts == [
        *(None, None, None, None, "Topics empty", "Topics many", "Topics.TopicId zero", "Topics.TopicId ones"),
        "IncludeTopicAuthorizedOperations true",
    ]
    nulls = [frame.get("about") for frame in catalog.cases["exchange/metadata-12-null"].request["frames"]]
    assert nulls == [None, "Topics null"]


def test_nothing_but_the_topic_of_the_run_is_named(catalog):
    """Versions before 4 of Metadata make the topics that they name."""
    for version in range(14):
        for kind in ("", "-edges"):
            for frame in catalog.cases[f"exchange/metadata-{version}{kind}"].request["frames"]:
                assert {row["Name"] for row in frame["body"]["Topics"]} <= {"{topic}"}
                assert not frame["body"].get("AllowAutoTopicCreation")


def test_names_of_the_run_are_filled_in():
    frame = {"message": "MetadataRequest", "version": 1, "body": {"Topics": [{"Name": "{topic}"}]}}
    request = request_in(frame_bytes(frame, 4, {"{topic}": "mine"})[4:])
    assert (request.body["Topics"], request.header["CorrelationId"]) == (({"Name": "mine"},), 5)


def test_a_broken_frame_and_a_version_of_no_broker_may_be_refused():
    of_later = {"version": 0, "header": {"RequestApiVersion": 999}}
    frames = [{"hex": "00"}, *({"message": f"{name}Request", **of_later} for name in ("Heartbeat", "ApiVersions"))]
    broken, unknown, of_versions = due_for(frames)
    assert (broken.must_answer, broken.may_wait, broken.must_refuse) == (False, True, False)
    assert (unknown.must_answer, unknown.may_wait, unknown.must_refuse) == (False, False, True)
    assert (of_versions.must_answer, of_versions.version, of_versions.must_refuse) == (True, 0, True)


@pytest.mark.parametrize(
    "given",
    [None, [], {}, "x", [5], [{}], [{"message": "MetadataRequest"}], [{"message": "MetadataRequest", "version": 99}],
     [{"message": "MetadataResponse", "version": 1}], [{"hex": "0"}], [{"hex": 5}],
     [{"message": "MetadataRequest", "version": 1, "body": {"Topics": 5}}],
     [{"message": "MetadataRequest", "version": 1, "body": []}],
     [{"message": "MetadataRequest", "version": 1, "header": 5}],
     [{"message": ["MetadataRequest"], "version": 1}],
     [{"message": "MetadataRequest", "version": 0, "body": {"Topics": None}}]],
    ids=str,
)  # fmt: skip
def test_what_is_not_a_list_of_frames_is_told(given):
    with pytest.raises(NotationError):
        parse_frames(given)
