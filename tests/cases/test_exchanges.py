"""Raw requests to a broker, and the expected response of each."""

import pytest

from conformance.cases.raw_requests import (
    NAMES,
    TOPIC_ID,
    expected_responses,
    frame_bytes,
    parse_frames,
    request_version,
)
from conformance.codec.json_notation import DASHED, NotationError
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import request_in

EDGES = (DASHED.render(bytes(16)), DASHED.render(b"\xff" * 16))
"""Topic ids that do not exist."""


def exchanges(catalog):
    return [case for case in catalog.cases.values() if case.op == "exchange"]


def test_every_version_of_metadata_is_sent_in_each_form(catalog):
    valid = shipped_types().messages["MetadataRequest"].valid
    for version in valid:
        ways = ["", "-edges", "-null"] + ["-tags"] * (version >= 9)
        assert all(f"exchange/metadata-{version}{way}" in catalog.cases for way in ways)


def test_every_request_without_side_effects_is_sent_in_every_version(catalog):
    sent = {case.type for case in exchanges(catalog)}
    left_out = {"OffsetCommit", "Produce", "TxnOffsetCommit"}
    for message in shipped_types().messages.values():
        if message.kind == "request" and message.name.removesuffix("Request") not in left_out:
            assert {f"MESSAGE<{message.name},{version}>" for version in message.valid} <= sent


def test_writing_requests_are_plain_or_are_rejected(catalog):
    """Offsets are committed by a member that does not exist; batches are plain and in the topic of the run."""
    for case in exchanges(catalog):
        for frame in case.request["frames"]:
            body = frame.get("body", {})
            if frame.get("message") in ("OffsetCommitRequest", "TxnOffsetCommitRequest"):
                assert (body["GenerationIdOrMemberEpoch"], body["MemberId"]) == (7, "conformance-nobody")
            # A broker would assign an id to a member without one and create a group.
            if frame.get("message") == "JoinGroupRequest":
                assert (body["GroupId"], body["MemberId"]) == ("{group}", "conformance-nobody")
            if frame.get("message") == "ProduceRequest":
                names = {row.get("Name", row.get("TopicId")) for row in body["TopicData"]}
                assert names <= {"{topic}", *([] if frame["version"] < 13 else [DASHED.render(TOPIC_ID), *EDGES])}
                assert (body["Acks"], body["TransactionalId"]) == (1, None)


def test_each_valid_frame_is_a_request_of_its_definition(catalog):
    frames = [(case, at, frame) for case in exchanges(catalog) for at, frame in enumerate(case.request["frames"])]
    assert len(frames) > 100
    for case, at, frame in frames:
        if request_version(frame) is None:
            continue
        request = request_in(frame_bytes(frame, at, NAMES)[4:])
        assert (request.name, request.version) == request_version(frame), case.id
        assert case.expect.expected[at].must_answer


def test_every_edge_value_of_a_field_is_sent_alone(catalog):
    abouts = [frame.get("about") for frame in catalog.cases["exchange/metadata-12-edges"].request["frames"]]
    assert abouts == [
        *(None, None, None, None, "Topics empty", "Topics many", "Topics.TopicId zero", "Topics.TopicId ones"),
        "IncludeTopicAuthorizedOperations true",
    ]
    nulls = [frame.get("about") for frame in catalog.cases["exchange/metadata-12-null"].request["frames"]]
    assert nulls == [None, "Topics null"]


def test_metadata_requests_name_only_the_topic_of_the_run(catalog):
    """Metadata before version 4 creates the topics that it names."""
    for version in range(14):
        for kind in ("", "-edges"):
            for frame in catalog.cases[f"exchange/metadata-{version}{kind}"].request["frames"]:
                assert {row["Name"] for row in frame["body"]["Topics"]} <= {"{topic}"}
                assert not frame["body"].get("AllowAutoTopicCreation")


def test_placeholders_are_replaced_by_the_names_of_the_run():
    frame = {"message": "MetadataRequest", "version": 1, "body": {"Topics": [{"Name": "{topic}"}]}}
    request = request_in(frame_bytes(frame, 4, {"{topic}": "mine"})[4:])
    assert (request.body["Topics"], request.header["CorrelationId"]) == (({"Name": "mine"},), 5)


def test_a_broken_frame_and_an_unknown_version_may_be_rejected():
    of_later = {"version": 0, "header": {"RequestApiVersion": 999}}
    frames = [{"hex": "00"}, *({"message": f"{name}Request", **of_later} for name in ("Heartbeat", "ApiVersions"))]
    broken, unknown, of_versions = expected_responses(frames)
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
def test_an_invalid_list_of_frames_is_an_error(given):
    with pytest.raises(NotationError):
        parse_frames(given)
