"""The requests that a broker is sent, and what is due for each."""

import pytest

from conformance.cases.exchanges import NAMES, asked_in, due_for, frame_bytes, frames_of
from conformance.codec.notation import NotationError
from conformance.definitions.shipped import shipped_types
from conformance.targets.live.frames import request_in


def exchanges(catalog):
    return [case for case in catalog.cases.values() if case.op == "exchange"]


def test_every_version_of_metadata_is_asked_for_in_each_way(catalog):
    valid = shipped_types().messages["MetadataRequest"].valid
    for version in valid:
        ways = ["", "-edges", "-null"] + ["-tags"] * (version >= 9)
        assert all(f"exchange/metadata-{version}{way}" in catalog.cases for way in ways)


def test_each_frame_but_broken_ones_is_a_request_of_its_definition(catalog):
    frames = [(case, at, frame) for case in exchanges(catalog) for at, frame in enumerate(case.request["frames"])]
    assert len(frames) > 100
    for case, at, frame in frames:
        if asked_in(frame) is None:
            continue
        request = request_in(frame_bytes(frame, at, NAMES)[4:])
        assert (request.name, request.version) == asked_in(frame), case.id
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
    frames = [{"hex": "00"}, {"message": "ApiVersionsRequest", "version": 0, "header": {"RequestApiVersion": 999}}]
    assert [due.must_answer for due in due_for(frames)] == [False, False]


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
        frames_of(given)
