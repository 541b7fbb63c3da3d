"""Vectors of operations on whole logs: their keys, and the cases built from them."""

from __future__ import annotations

import re

import pytest
from log_bytes import ABORT, COMMIT, batch, marker, message, part, wrapper

from conformance.cases.log_requests import convert_question, delivery_as_stated, read_expectation
from conformance.cases.model import (
    Accepted,
    ExpectAnyOf,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectRejection,
    ExpectSequenceResults,
    NotTestable,
    Rejected,
    VerdictKind,
)
from conformance.catalog._vector_cases import make_cases
from conformance.catalog.vector_files import read_vectors
from conformance.codec.record_batch import with_checksums
from conformance.errors import FileError
from conformance.judging.judge import judge
from conformance.judging.log_operations import judge_read

PLAIN = batch(0, [0, 1]).hex()
BAD = (batch(0, [0, 1]) + bytes(8) + bytes(4)).hex()
SKEWED = (batch(5) + batch(0)).hex()
STRANGE = marker(0, bytes((0, 0, 0, 9))).hex()
ZSTD = batch(0, compression=4).hex()
ONE = '{producerId: "7", producerEpoch: 0, baseSequence: 0, recordCount: 3}'


def cases(tmp_path, catalog, keys):
    """Return the cases of one vector with these keys (YAML, flow style)."""
    path = tmp_path / "t.yaml"
    text = f"- {{id: t/one, type: LOG, requirement: offset.next-formula, source: derived, {keys}}}"
    path.write_text(f"# a comment\n{text}\n", encoding="utf-8")
    return [case for vector in read_vectors(path) for case in make_cases(vector, catalog.requirements, str(path))]


def one(tmp_path, catalog, keys):
    (case,) = cases(tmp_path, catalog, keys)
    return case


WRONG = {
    "unknown operation": ('op: reed, hex: "", value: {}', "op: expected one of read, convert, sequence"),
    "operation that is no string": ('op: 5, hex: "", value: {}', "op: expected one of"),
    "a part of another request": ('op: read, magic: 1, hex: "", value: {}', "'magic' is not a field of a read request"),
    "a part of no request": ('op: read, canonical: false, hex: "", value: {}', "'canonical' is not a field"),
    "a batch list beside bytes": ('op: convert, batches: [], hex: "", magic: 1, value: []', "'batches' is not a field"),
    "send with the type of a log": ("op: send, scenario: consume, check: offered", "type: REQUEST is the type of all"),
    "no outcome": (f'op: read, hex: "{PLAIN}"', "one of value, reject and either"),
    "two outcomes": (f'op: read, hex: "{PLAIN}", value: {{}}, either: any', "one of value, reject and either"),
    "read without bytes": ("op: read, value: {}", "hex is missing"),
    "sequence with bytes": (
        f'op: sequence, hex: "", batches: [{ONE}], value: [accept]',
        "a sequence request has none",
    ),
    "isolation": (
        f'op: read, hex: "{PLAIN}", isolation: committed, value: {{}}',
        "isolation: expected one of",
    ),
    "fetchOffset": (f'op: read, hex: "{PLAIN}", fetchOffset: "x", value: {{}}', "decimal"),
    "fetchOffset too large": (
        f'op: read, hex: "{PLAIN}", fetchOffset: "9223372036854775808", value: {{}}',
        "fetchOffset: 9223372036854775808 is not an INT64",
    ),
    "highWatermark too low": (
        f'op: read, hex: "{PLAIN}", highWatermark: "-9223372036854775809", value: {{}}',
        "highWatermark: -9223372036854775809 is not an INT64",
    ),
    "half an aborted transaction": (
        f'op: read, hex: "{PLAIN}", aborted: [{{producerId: "7"}}], value: {{}}',
        "aborted: expected objects with producerId and firstOffset",
    ),
    "aborted": (f'op: read, hex: "{PLAIN}", aborted: 7, value: {{}}', "a list"),
    "next offset": (f'op: read, hex: "{PLAIN}", value: {{nextOffset: "3"}}', "differs from the bytes at nextOffset"),
    "record": (
        f'op: read, hex: "{PLAIN}", value: {{records: [{{}}, {{key: null}}]}}',
        r"differs from the bytes at records\[1\].key",
    ),
    "number of records": (
        f'op: read, hex: "{PLAIN}", value: {{records: [{{}}]}}',
        r"differs from the bytes at records\[1\]",
    ),
    "unknown field": (f'op: read, hex: "{PLAIN}", value: {{recods: []}}', "recods is not a field"),
    "unknown field of a record": (f'op: read, hex: "{PLAIN}", value: {{records: [{{ofset: "0"}}]}}', "records.ofset"),
    "reject of sound bytes": (f'op: read, hex: "{PLAIN}", reject: malformed', "the log is not damaged"),
    "unknown class": (f'op: read, hex: "{BAD}", reject: broken', "reject: expected one of"),
    "value of damaged bytes": (f'op: read, hex: "{BAD}", value: {{}}', r"batch\.length-wrong-rejected"),
    "value for unspecified bytes": (f'op: read, hex: "{STRANGE}", value: {{}}', "use `either`"),
    "value where any outcome will do": (f'op: read, hex: "{SKEWED}", fetchOffset: "0", value: {{}}', "use `either`"),
    "either of another word": (f'op: read, hex: "{STRANGE}", either: some', "either: expected `any`, or"),
    "either without a value": (f'op: read, hex: "{STRANGE}", either: [reject]', "either: expected `any`, or"),
    "either with consumed": (
        f'op: read, hex: "{STRANGE}", either: [reject, {{value: {{}}, consumed: 2}}]',
        "either: expected `any`, or",
    ),
    "either that contradicts": (
        f'op: read, hex: "{STRANGE}", either: [reject, {{value: {{nextOffset: "0"}}}}]',
        "differs from the bytes at nextOffset",
    ),
    "convert without magic": (f'op: convert, hex: "{PLAIN}", value: []', "magic is missing"),
    "converted": (
        f'op: convert, hex: "{PLAIN}", magic: 1, value: [{{}}, {{magic: 2}}]',
        r"at \[1\]\.magic",
    ),
    "converted to less": (f'op: convert, hex: "{PLAIN}", magic: 1, value: []', r"differs from the bytes at"),
    "converted without a list": (f'op: convert, hex: "{PLAIN}", magic: 1, value: {{}}', "a list"),
    "converted damage": (f'op: convert, hex: "{BAD}", magic: 1, value: []', "use `either: any`"),
    "converted unspecified bytes": (f'op: convert, hex: "{STRANGE}", magic: 1, value: []', "use `either: any`"),
    "converted tail": (f'op: convert, hex: "{PLAIN}00", magic: 1, value: [{{}}, {{}}]', "use `either: any`"),
    "appended batch": (
        f'op: convert, hex: "{PLAIN}", magic: 2, baseOffset: "5", value: [{{}}, {{}}]',
        "use `either: any`",
    ),
    "converted with readings": (f'op: convert, hex: "{PLAIN}", magic: 1, either: [reject, {{value: []}}]', "any"),
    "conversion there is not": (
        f'op: convert, hex: "{ZSTD}", magic: 1, value: []',
        "use `reject: invalid-value`",
    ),
    "conversion there is": (
        f'op: convert, hex: "{PLAIN}", magic: 1, reject: invalid-value',
        "this conversion exists",
    ),
    "no batches": ("op: sequence, value: [accept]", "batches is missing"),
    "half a batch": ('op: sequence, batches: [{producerId: "7"}], value: [accept]', "expected objects with producerId"),
    "more than a batch": (
        f"op: sequence, batches: [{ONE[:-1]}, codec: 1}}], value: [accept]",
        "expected objects with producerId",
    ),
    "wrong fate": (f"op: sequence, batches: [{ONE}, {ONE}], value: [accept, accept]", "accept, duplicate"),
    "fates of fewer": (f"op: sequence, batches: [{ONE}], value: []", "value: expected accept"),
    "rejected fates": (f"op: sequence, batches: [{ONE}], reject: other", "value: expected accept"),
}


@pytest.mark.parametrize(("keys", "problem"), WRONG.values(), ids=WRONG)
def test_an_invalid_vector_is_reported_with_file_line_and_id(tmp_path, catalog, keys, problem):
    with pytest.raises(FileError, match=problem) as caught:
        cases(tmp_path, catalog, keys)
    assert (caught.value.path, caught.value.line) == (str(tmp_path / "t.yaml"), 2)
    assert str(caught.value).startswith(f"{caught.value.path}:2: ")
    assert "t/one" in str(caught.value)
    assert len(str(caught.value)) < 500


# --- the cases ----------------------------------------------------------------------------------------


def test_a_read_request_contains_all_defaults(tmp_path, catalog):
    case = one(tmp_path, catalog, f'op: read, hex: "{PLAIN}", value: {{}}, note: why, found-in: x')
    assert case.request == {
        **{"op": "read", "hex": PLAIN, "isolation": "read_uncommitted", "fetchOffset": "0", "highWatermark": "2"},
        "aborted": [],
    }
    assert (case.id, case.op, case.type, case.level) == ("t/one", "read", "LOG", "must")
    assert (case.note, case.found_in, case.source, case.data.hex()) == ("why", "x", "derived", PLAIN)
    assert (case.codecs, case.magics) == ({"none"}, {2})
    assert isinstance(case.expect, ExpectConsumerView)
    assert not case.expect.open


def test_a_read_request_contains_the_settings_of_the_vector(tmp_path, catalog):
    log = part(4) + marker(6, ABORT) + batch(7)
    keys = 'isolation: read_committed, fetchOffset: "5", highWatermark: "90", checkCrcs: false'
    listed = '[{producerId: "7", firstOffset: "4"}]'
    value = '{records: [{offset: "7", key: "6b"}], nextOffset: "8"}'
    case = one(tmp_path, catalog, f'op: read, hex: "{log.hex()}", {keys}, aborted: {listed}, value: {value}')
    assert case.request == {
        **{"op": "read", "hex": log.hex(), "isolation": "read_committed", "fetchOffset": "5", "highWatermark": "90"},
        **{"aborted": [{"producerId": "7", "firstOffset": "4"}], "checkCrcs": False},
    }
    assert [record["offset"] for record in case.expect.view.records] == [7]


def test_unspecified_bytes_allow_a_rejection_or_any_outcome(tmp_path, catalog):
    case = one(tmp_path, catalog, f'op: read, hex: "{STRANGE}", either: [reject, {{value: {{nextOffset: "1"}}}}]')
    assert case.expect.open
    assert one(tmp_path, catalog, f'op: read, hex: "{STRANGE}", either: any').expect == ExpectAnyOf()
    assert one(tmp_path, catalog, f'op: read, hex: "{SKEWED}", either: any').expect == ExpectAnyOf()


def test_excess_varint_bits_may_only_be_dropped_or_rejected():
    """A reader that keeps them gets an offsetDelta beyond INT32, which neither the documents nor Apache Kafka allow."""
    log = with_checksums(batch(0)[:61] + bytes.fromhex("18 00 00 8080808010 026b 0276 00"))
    _, expect = read_expectation(log)
    assert expect.open
    (record,) = expect.view.records
    assert record["offset"] == 0
    shown = {
        "offset": "0",
        "timestamp": "1000",
        "timestampType": "CreateTime",
        "key": "6b",
        "value": "76",
        "headers": [],
    }
    assert judge_read(expect, {"records": [shown], "nextOffset": "1"}).kind is VerdictKind.EITHER
    assert judge_read(expect, {"records": [], "error": "malformed", "nextOffset": "0"}).kind is VerdictKind.EITHER
    kept = judge_read(expect, {"records": [{**shown, "offset": str(1 << 31)}], "nextOffset": "1"})
    assert (kept.kind, kept.requirement) == (VerdictKind.FAIL, "varint.fifth-byte-excess-bits"), (
        "as in a decode, at may"
    )


def test_a_read_should_verify_checksums(tmp_path, catalog):
    wrong = (batch(0)[:17] + bytes(4) + batch(0)[21:]).hex()
    assert one(tmp_path, catalog, f'op: read, hex: "{wrong}", reject: corrupt').level == "should"
    assert one(tmp_path, catalog, f'op: read, hex: "{BAD}", reject: malformed').level == "must"
    decode, read = cases(tmp_path, catalog, f'hex: "{wrong}", reject: corrupt')
    assert (decode.level, read.id, read.level) == ("must", "t/one:read", "should")


def test_every_vector_of_a_log_has_a_read_case_too(tmp_path, catalog):
    decode, read = cases(tmp_path, catalog, f'hex: "{PLAIN}", value: {{partial: 0}}')
    assert (decode.id, read.id, read.op) == ("t/one", "t/one:read", "read")
    assert read.request["isolation"] == "read_uncommitted"
    _, read = cases(tmp_path, catalog, f'hex: "{STRANGE}", either: [reject, {{value: {{partial: 0}}}}]')
    assert read.expect.open
    _, read = cases(tmp_path, catalog, f'hex: "{STRANGE}", either: any')
    assert read.expect == ExpectAnyOf()


def test_a_conversion_is_judged_by_its_records(tmp_path, catalog):
    case = one(tmp_path, catalog, f'op: convert, hex: "{PLAIN}", magic: 1, value: [{{offset: "0"}}, {{}}]')
    assert case.request == {"op": "convert", "hex": PLAIN, "magic": 1}
    assert isinstance(case.expect, ExpectConvertedRecords)
    assert [record["offset"] for record in case.expect.records] == [0, 1]
    old = wrapper(3, 9).hex()
    case = one(
        tmp_path, catalog, f'op: convert, hex: "{old}", magic: 2, baseOffset: "5", value: [{{offset: "5"}}, {{}}]'
    )
    assert case.request["baseOffset"] == "5"
    assert (case.codecs, case.magics) == ({"gzip"}, {1})
    case = one(tmp_path, catalog, f'op: convert, hex: "{marker(0, COMMIT).hex()}", magic: 0, value: []')
    assert case.expect == ExpectConvertedRecords(())


def test_a_conversion_may_be_rejected_or_allow_any_outcome(tmp_path, catalog):
    case = one(tmp_path, catalog, f'op: convert, hex: "{ZSTD}", magic: 0, reject: invalid-value')
    assert case.expect == ExpectRejection(None, "invalid-value")
    for keys in (
        f'hex: "{PLAIN}00", magic: 1',
        f'hex: "{BAD}", magic: 1',
        f'hex: "{PLAIN}", magic: 2, baseOffset: "5"',
    ):
        assert one(tmp_path, catalog, f"op: convert, {keys}, either: any").expect == ExpectAnyOf()


def test_only_message_sets_of_one_producer_request_are_converted_up():
    testable = [message(0), message(0) + message(4), message(0, 0), wrapper(1, 2), wrapper(1, 2, magic=0)]
    other = [batch(0), message(0) + message(1, 0), wrapper(0, 1) + message(2), wrapper(0) + wrapper(1), b""]
    other += [message(0, timestamp=-1, timestampType=1), message(0)[:-1]]
    other += [message(0, timestamp=-1) + message(1, timestamp=(1 << 63) - 1)]
    for log in testable:
        assert isinstance(convert_question(log, 2, 5)[1], ExpectConvertedRecords)
    for log in other:
        with pytest.raises(NotTestable):
            convert_question(log, 2, 5)


def test_sequence_cases_have_no_bytes(tmp_path, catalog):
    overlap = ONE.replace("recordCount: 3", "recordCount: 2")
    keys = f"op: sequence, batches: [{ONE}, {ONE}, {overlap}], value: [accept, duplicate, either]"
    case = one(tmp_path, catalog, keys)
    assert (case.op, case.data, len(case.request["batches"])) == ("sequence", None, 3)
    assert isinstance(case.expect, ExpectSequenceResults)
    assert [len(right) for right in case.expect.answers] == [1, 1, 4]


def test_old_messages_are_read_as_logs_too(tmp_path, catalog):
    log = (message(0) + message(1, 0)).hex()
    case = one(tmp_path, catalog, f'op: read, hex: "{log}", value: {{nextOffset: "2"}}')
    assert case.magics == {0, 1}


# --- the bundled vectors ------------------------------------------------------------------------------


def test_bundled_vectors_of_whole_logs_are_named_by_their_operation(catalog):
    found = [case for case in catalog.cases.values() if case.op in ("read", "convert", "sequence")]
    own = [case for case in found if not case.id.endswith(":read")]
    assert len(own) > 300
    for case in own:
        assert re.match(rf"({case.op}|mixed|covering/[a-z-]+)/", case.id), case.id


def test_cited_threads_are_links(vectors):
    for vector in vectors:
        if "op" in vector.row and "found-in" in vector.row:
            assert re.search(r", https://github\.com/[\w.-]+/[\w.-]+/(issues|pull)/\d+$", vector.row["found-in"]), (
                vector.id
            )


THREE = [{"offset": str(offset), "key": "6b", "value": "76"} for offset in range(3)]


def delivered(records, **more):
    return Accepted({"ok": True, "value": {"records": records, **more}})


@pytest.mark.parametrize(
    ("name", "records"),
    [("gzip/wrong-crc:read", THREE), ("message-set/v0-zstd:read", [{"offset": "5", "key": "6b", "value": "61"}])],
)
def test_records_that_may_be_rejected_are_delivered_as_stated_or_not_at_all(catalog, name, records):
    case = catalog.cases[name]
    stop = str(int(records[-1]["offset"]) + 1)
    for right in (
        delivered(records, nextOffset=stop),
        delivered([], error="malformed"),
        delivered(records[:-1], error="malformed"),
        Rejected("malformed"),
    ):
        assert judge(case, right).kind is VerdictKind.EITHER
    for wrong in (
        [*records[:-1], {**records[-1], "value": "28b52ffd"}],
        [{**record, "offset": str(int(record["offset"]) + 1)} for record in records],
        records[:-1],
        [*records, {**records[-1], "offset": stop}],
    ):
        verdict = judge(case, delivered(wrong, nextOffset=stop))
        assert (verdict.kind, verdict.requirement or case.requirement) == (VerdictKind.FAIL, case.requirement)


@pytest.mark.parametrize(
    "name",
    [
        "batch/base-offset-max:read",
        "batch/base-offset-minus-one:read",
        "batch/last-offset-delta-min:read",
        "message-set/v0-wrapper-beyond-the-last:read",
        "message-set/v0-wrapper-null-value:read",
        "message-set/v1-inner-offsets-fall:read",
        "message-set/v1-negative-offset:read",
        "offset/deltas-repeated:read",
        "size/empty-batch-last-offset-delta-minus-one:read",
    ],
)
def test_non_consecutive_or_decreasing_offsets_allow_any_delivery(catalog, name):
    assert catalog.cases[name].expect == ExpectAnyOf()


@pytest.mark.parametrize("data", [batch(0, [0, 2]), batch(0, [0, 1])[:40]], ids=["a gap", "a cut header"])
def test_a_header_that_does_not_determine_the_offsets_allows_any_delivery(data):
    assert delivery_as_stated(data, {"records": ({"key": b"k"}, {"key": b"k"})}, "codec.gzip", 0) == ExpectAnyOf()
