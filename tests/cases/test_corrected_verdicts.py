"""Verdicts that were once false failures of a library (decisions#how-we-judge-with-this-page, rule 8)."""

from __future__ import annotations

import pytest

from conformance import codec
from conformance.cases.model import Accepted, ExpectConsumerView, Rejected, VerdictKind
from conformance.cases.operations import parts_of
from conformance.catalog.case_builder import decode_case, log_case
from conformance.codec.compare import by_name
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.judging.judge import judge
from conformance.semantics.consumer_view import VIEW_NOTATION
from conformance.targets.probes import plain_log

REFUSED = Rejected("malformed")
THREE = {"records": [{"key": "6b", "value": "76"}] * 3}
ZSTD_0 = [{"offset": "5", "key": "6b", "value": "61"}]
ZSTD_1 = [{"offset": "5", "timestamp": "1000", "key": "6b", "value": "61"}]
TWICE = [{"Key": 1, "Value": 1}, {"Key": 1, "Value": 2}]


@pytest.mark.parametrize(
    ("identity", "outcome", "kind"),
    [
        ("tagged-fields/encode-out-of-order", REFUSED, "either"),
        ("tagged-fields/encode-out-of-order", Accepted({"hex": "02000161010162"}), "either"),
        ("tagged-fields/encode-out-of-order", Accepted({"hex": "02010162000161"}), "fail"),
        ("tagged-fields/encode-out-of-order-late", Accepted({"hex": "03000004000500"}), "either"),
        ("tagged-fields/encode-duplicate", Accepted({"hex": "01000161"}), "either"),
        ("tagged-fields/encode-duplicate", Accepted({"hex": "01000162"}), "either"),
        ("tagged-fields/encode-duplicate", Accepted({"hex": "02000161000162"}), "fail"),
        ("record/attributes-one-unwritable", REFUSED, "either"),
        ("record/attributes-one-unwritable", Accepted({"hex": "10000000026b027600"}), "either"),
        ("record/attributes-one-unwritable", Accepted({"hex": "10010000026b027600"}), "fail"),
        ("metadata/v0-null-topics", REFUSED, "either"),
        ("metadata/v0-null-topics", Accepted({"hex": "00000000"}), "either"),
        ("metadata/v0-null-topics", Accepted({"hex": "ffffffff"}), "fail"),
        ("convert/lz4-to-v0", REFUSED, "either"),
        ("sequence/first-anywhere", Accepted({"value": ["out-of-order", "out-of-order"]}), "either"),
        ("sequence/wrap", Accepted({"value": ["accept", "accept", "accept", "accept"]}), "pass"),
        ("gzip/zlib-stream", REFUSED, "either"),
        ("gzip/zlib-stream", Accepted({"value": THREE}), "either"),
        ("gzip/zlib-stream", Accepted({"value": {"records": []}}), "fail"),
        ("gzip/zlib-stream:read", REFUSED, "either"),
        ("gzip/zlib-stream:read", Accepted({"value": {**THREE, "nextOffset": "3"}}), "either"),
        ("gzip/zlib-stream:read", Accepted({"value": {"records": [], "nextOffset": "3"}}), "fail"),
        ("message-set/v0-zstd", REFUSED, "either"),
        ("message-set/v0-zstd", Accepted({"value": ZSTD_0}), "either"),
        ("message-set/v0-zstd", Accepted({"value": []}), "fail"),
        ("message-set/v1-zstd", REFUSED, "either"),
        ("message-set/v1-zstd", Accepted({"value": ZSTD_1}), "either"),
        ("message/map-key-twice", REFUSED, "either"),
        ("message/map-key-twice", Accepted({"value": {"Keys": TWICE}}), "either"),
        ("message/map-key-twice", Accepted({"value": {"Keys": TWICE[:1]}}), "either"),
        ("message/map-key-twice", Accepted({"value": {"Keys": TWICE[1:]}}), "either"),
        ("message/map-key-twice", Accepted({"value": {"Keys": []}}), "fail"),
        ("compact-array/count-2-to-32-minus-2", Accepted({"value": []}), "fail"),
        ("compact-nullable-array/count-2-to-32-minus-2", Accepted({"value": None}), "either"),
        ("crc/records-swapped:read", REFUSED, "pass"),
        ("crc/records-swapped:read", Accepted({"value": {"records": [], "nextOffset": "3"}}), "fail"),
    ],
)
def test_only_the_correct_answers_of_real_libraries_pass(catalog, identity, outcome, kind):
    assert judge(catalog.cases[identity], outcome).kind == VerdictKind(kind)


def test_a_missing_checksum_check_fails_at_should_even_if_records_are_out_of_order(catalog):
    case = catalog.cases["crc/records-swapped:read"]
    assert isinstance(case.expect, ExpectConsumerView)
    assert (case.level, case.expect.open) == ("should", False)


@pytest.mark.parametrize("identity", ["batch/magic-zero", "batch/magic-one"])
def test_a_batch_of_another_magic_has_no_codec(catalog, identity):
    assert (catalog.cases[identity].codecs, catalog.cases[identity].magics) == (set(), set())


@pytest.mark.parametrize(
    ("requirement", "level"),
    [
        ("batch.record-count-mismatch", "should"),
        ("convert.down-for-old-consumers", "should"),
        ("definitions.non-ignorable-non-default-error", "should"),
        ("definitions.one-object-all-versions", "should"),
        ("reader.lz4-in-magic-0", "should"),
        ("reader.lz4-in-magic-0-any-header-checksum", "may"),
        ("reader.snappy-xerial-versions", "may"),
    ],
)
def test_a_duty_without_an_explicit_sentence_in_the_documents_is_no_must(catalog, requirement, level):
    assert catalog.requirements[requirement].level == level


@pytest.mark.parametrize(
    "identity",
    [
        "message-set/v0-lz4-any-header-checksum",
        "message-set/v0-lz4-header-checksum-of-ff",
        "snappy/xerial-version-0",
        "snappy/xerial-compatible-0",
        "snappy/xerial-compatible-minus-one",
    ],
)
def test_bytes_that_no_library_writes_are_judged_at_may(catalog, identity):
    assert catalog.cases[identity].level == "may"


def test_zstd_in_a_message_set_belongs_to_the_requirement_of_its_magic(catalog):
    assert catalog.cases["message-set/v0-zstd"].requirement == "legacy.v0-attributes"
    assert catalog.cases["message-set/v1-zstd"].requirement == "legacy.v1-attributes"


@pytest.mark.parametrize(
    ("form", "rule"),
    [
        ("zstd/two-frames", "reader.zstd-frames"),
        ("zstd/skippable-frame-first", "reader.zstd-frames"),
        ("gzip/two-members", "reader.gzip-members"),
        ("snappy/raw-literal", "reader.snappy-raw"),
    ],
)
@pytest.mark.parametrize("kind", ["RECORD_BATCH", "LOG", "read", "append"])
def test_user_cases_in_a_rare_compression_form_have_the_requirement_of_their_vectors(catalog, form, rule, kind):
    if kind in ("read", "append"):
        case = log_case("made", kind, parts_of(catalog.cases[f"{form}:{kind}"]), catalog)
    else:
        case = decode_case("made", codec.wire(kind), catalog.cases[form].data, catalog)
    assert (case.requirement, case.level) == (rule, "should")


def test_tags_newer_than_the_definition_are_accepted_as_unknown_tags(catalog):
    """Kafka added tagged fields to ApiVersionsResponse 3 without a new version, and may do so in nested structures."""
    case = catalog.cases["covering/message/032"]
    right = case.wire.notation.render(case.expect.value)
    epoch = {"tag": 1, "data": "8000000000000000"}
    older = {name: shown for name, shown in right.items() if name != "FinalizedFeaturesEpoch"}
    older["_unknownTaggedFields"] = [epoch, *right["_unknownTaggedFields"]]
    assert judge(case, Accepted({"value": older, "consumed": case.expect.consumed})).kind is VerdictKind.PASS
    for tag, data in ((1, "8000000000000001"), (1, "80"), (1, "800000000000000000"), (5, "")):
        shown = {**older, "_unknownTaggedFields": [{"tag": tag, "data": data}, *right["_unknownTaggedFields"]]}
        assert judge(case, Accepted({"value": shown, "consumed": case.expect.consumed})).kind is VerdictKind.FAIL
        parsed = case.wire.notation.parse(shown)
        assert (by_name(case.wire, parsed) == parsed) == (data != "8000000000000001"), (
            "only valid data becomes a known field"
        )
    twice = {**older, "FinalizedFeaturesEpoch": "1"}
    assert judge(case, Accepted({"value": twice, "consumed": case.expect.consumed})).kind is VerdictKind.FAIL


def test_unknown_tags_of_a_nested_structure_are_accepted_too(catalog):
    case = next(case for case in catalog.cases.values() if case.id == "fetch/v12-leader-in-tags-of-a-partition")
    wire, value = case.wire, case.expect.value
    (response, *_), shown = value["Responses"], codec.decode(case.wire, case.data).value
    partition = response["Partitions"][0]
    leader = partition["CurrentLeader"]
    data = leader["LeaderId"].to_bytes(4, "big") + leader["LeaderEpoch"].to_bytes(4, "big") + b"\0"
    older = {name: part for name, part in partition.items() if name != "CurrentLeader"}
    older["_unknownTaggedFields"] = ({"tag": 1, "data": data},)
    nested = shown | {"Responses": ({**response, "Partitions": (older, *response["Partitions"][1:])},)}
    assert by_name(wire, nested)["Responses"][0]["Partitions"][0]["CurrentLeader"] == leader


def test_unknown_tags_inside_array_elements_are_accepted_too(catalog):
    case = next(
        case for case in catalog.cases.values() if case.note.endswith("message ProduceResponse 10, fields filled")
    )
    (response,) = case.expect.value["Responses"]
    (partition,) = response["PartitionResponses"]
    leader = partition["CurrentLeader"]
    data = leader["LeaderId"].to_bytes(4, "big") + leader["LeaderEpoch"].to_bytes(4, "big") + b"\0"
    older = {name: part for name, part in partition.items() if name != "CurrentLeader"}
    older["_unknownTaggedFields"] = ({"tag": 0, "data": data},)
    nested = case.expect.value | {"Responses": ({**response, "PartitionResponses": (older,)},)}
    assert by_name(case.wire, nested)["Responses"][0]["PartitionResponses"][0]["CurrentLeader"] == leader


def test_wrong_offsets_of_uncompressed_messages_fail_at_may_and_other_fields_at_their_level(catalog):
    case = catalog.cases["message-set/v0-null-key-null-value:encode"]
    minus_one = b"\xff" * 8 + case.data[8:]
    verdict = judge(case, Accepted({"hex": minus_one.hex()}))
    assert (verdict.kind, verdict.level, verdict.requirement) == (
        VerdictKind.FAIL,
        "may",
        "legacy.uncompressed-offsets-free",
    )
    keyed = codec.encode("MESSAGE_SET", [{"offset": -1, "key": b"k", "value": None}], magic=0)
    verdict = judge(case, Accepted({"hex": keyed.hex()}))
    assert (verdict.kind, verdict.level, verdict.path) == (VerdictKind.FAIL, "", "[0].key")


FETCHED = "0000000000000001 0000 00000001 00000000 0000 0000000000000000 {size} {records}"
"""FetchResponse 3 with one unnamed topic, one partition and its records."""


@pytest.mark.parametrize(
    ("records", "kind"), [("112f25932b", VerdictKind.EITHER), (plain_log(2).hex(), VerdictKind.FAIL)]
)
def test_a_reader_of_fetch_responses_may_reject_records_that_are_no_batch(records, kind, catalog):
    size = f"{len(records) // 2:08x}"
    data = bytes.fromhex(FETCHED.format(size=size, records=records))
    case = decode_case("gen/x", shipped_types().wire(type_name("FetchResponse", 3)), data, catalog)
    assert judge(case, REFUSED).kind is kind


WRONG_CHECKSUM = (279, 281, 285, 287, 291, 293, 297, 299, 303, 305, 321, 322)
"""Covering logs with checkCrcs false and a wrong checksum in a control batch or an aborted batch."""


@pytest.mark.parametrize("number", WRONG_CHECKSUM)
def test_a_reader_may_verify_checksums_with_check_crcs_false(number, catalog):
    """A wrong checksum is unspecified there, also in a batch that the consumer skips (rule 6)."""
    case = catalog.cases[f"covering/log/{number}"]
    assert case.request["checkCrcs"] is False
    data = bytes.fromhex(case.request["hex"])
    wrong = next(entry for entry in codec.entries(data) if entry.violations)
    start = int(case.request["fetchOffset"])
    before = [record for record in case.expect.view.records if record["offset"] < wrong.first_offset]
    stopped = {
        **VIEW_NOTATION.render({"records": before, "nextOffset": max(start, wrong.first_offset)}),
        "error": "corrupt",
    }
    for outcome in (REFUSED, Rejected("corrupt"), Accepted({"value": stopped})):
        assert judge(case, outcome).kind is VerdictKind.EITHER
    read = VIEW_NOTATION.render({"records": case.expect.view.records, "nextOffset": case.expect.view.next_offset})
    assert judge(case, Accepted({"value": read})).kind is VerdictKind.EITHER
    invented = {**read, "records": [*read["records"], {"offset": str(wrong.first_offset), "key": None, "value": "00"}]}
    assert judge(case, Accepted({"value": invented})).kind is VerdictKind.FAIL


def test_no_read_with_check_crcs_false_fails_a_verifying_reader(catalog):
    """A reader may reject the log in each vector and each covering log with checkCrcs false."""
    unchecked = [case for case in catalog.cases.values() if case.op == "read" and "checkCrcs" in case.request]
    damaged = [
        case
        for case in unchecked
        if any(entry.violations for entry in codec.entries(bytes.fromhex(case.request["hex"])))
    ]
    assert len(damaged) > 40
    assert {str(judge(case, Rejected("corrupt")).kind) for case in damaged} <= {"either", "pass"}
