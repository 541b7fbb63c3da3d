"""Verdicts on the requests of a client: each check finds its own fault and no other."""

import gzip
import struct

import pytest

from conformance import codec
from conformance.cases.client_checks import CHECKS
from conformance.cases.client_requests import TOGETHER, batches_for
from conformance.cases.client_scenarios import REQUESTED_METRIC
from conformance.cases.model import Case, ExpectClientRequests, VerdictKind
from conformance.codec.message_spec import header_version, type_name
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import SENT, api_of, frame_wire
from conformance.judging import client_requests
from conformance.judging._consumer_behavior import SCENARIO_CHECKS
from conformance.judging.client_requests import failed_checks
from conformance.judging.judge import judge
from conformance.targets import reference
from conformance.targets.protocol import outcome

METADATA = {"Topics": ({"Name": "t"},)}


def frame(name, version, body, *, correlation=7, header=None):
    message = shipped_types().messages[f"{name}Request"]
    fields = {"RequestApiKey": message.api_key, "RequestApiVersion": version, "CorrelationId": correlation}
    of = header_version(message, version) if header is None else header
    data = codec.encode(shipped_types().wire(type_name("RequestHeader", of)), {**fields, "ClientId": "c"})
    data += codec.encode(shipped_types().wire(type_name(f"{name}Request", version)), body)
    return struct.pack(">i", len(data)) + data


def row(data, *, in_flight=(), offered=(0, 99)):
    return {"hex": data, "inFlight": in_flight, "offered": offered}


def verdict(check, *rows, isolation="read_uncommitted", of=""):
    case = Case(
        "x/y", "send", codec.wire("LOG"), "x.y", "must", {"op": "send"}, ExpectClientRequests(check, isolation, of)
    )
    return judge(case, outcome({"ok": True, "value": SENT.render(rows)}))


def test_each_check_has_exactly_one_function():
    assert CHECKS.keys() == SCENARIO_CHECKS.keys() | client_requests._CHECKS.keys()
    assert not SCENARIO_CHECKS.keys() & client_requests._CHECKS.keys()


@pytest.mark.parametrize("check", [*CHECKS][:4])
@pytest.mark.parametrize("version", [1, 9, 13])
def test_a_valid_request_passes_every_check(check, version):
    data = frame("Metadata", version, METADATA)
    assert verdict(check, row(data)).kind is VerdictKind.PASS
    assert list(failed_checks(row(data))) == []


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (lambda data: struct.pack(">i", len(data)) + data[4:], "the request size is 22, but 18 bytes follow"),
        (lambda data: data + b"\0", "the request size is 18, but 19 bytes follow"),
        (lambda _: b"\xff\xff\xff\xff", "the request size is -1, but 0 bytes follow"),
        (lambda _: struct.pack(">i", 3) + bytes(3), "the request size is 3, but 3 bytes follow"),
    ],
    ids=["too-large", "bytes-after", "negative", "no-header"],
)
def test_a_request_size_that_differs_from_the_bytes_is_found(change, detail):
    found = verdict("size-field", row(change(frame("Metadata", 1, METADATA))))
    assert (found.kind, found.requirement, found.path) == (VerdictKind.FAIL, "request.size", "[0].Size")
    assert found.detail == detail


def resized(data):
    return struct.pack(">i", len(data) - 4) + data[4:]


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (resized(frame("Metadata", 1, METADATA) + b"\0"), "request.size"),
        (resized(frame("Metadata", 1, METADATA)[:-1]), "string.truncated-rejected"),
        (frame("Metadata", 9, METADATA, header=1), ""),
        (resized(frame("Metadata", 9, {})[:-1] + b"\2\1\0\0\0"), "tagged.strictly-ascending"),
    ],
    ids=["bytes-after-the-body", "cut", "header-of-another-version", "tags-descend"],
)
def test_a_body_or_header_that_breaks_its_definition_is_found(data, rule):
    found = verdict("well-formed", row(data))
    assert found.kind is VerdictKind.FAIL
    assert rule in ("", found.requirement)
    assert "well-formed" in failed_checks(row(data))


def test_a_request_should_not_contain_unspecified_bytes():
    data = frame("Metadata", 9, {})
    padded = resized(data[:-5] + b"\x81\x00" + data[-4:])  # a topic count of 0, padded to two bytes
    found = verdict("well-formed", row(padded))
    assert (found.kind, found.requirement, found.level) == (VerdictKind.FAIL, "uvarint.non-minimal", "should")


def offsets(version, level, *times, offered=(0, 99)):
    level = {} if level is None else {"IsolationLevel": level}
    parts = tuple({"PartitionIndex": at, "Timestamp": time} for at, time in enumerate(times))
    body = {"ReplicaId": -1, **level, "Topics": ({"Name": "t", "Partitions": parts},)}
    return row(frame("ListOffsets", version, body), offered=offered)


@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (offsets(2, 1, -1), VerdictKind.PASS),
        (offsets(2, 0, -1), VerdictKind.FAIL),
        (offsets(7, 0, -2, -1), VerdictKind.FAIL),
        (offsets(7, 0, -2), VerdictKind.SKIP),
        (offsets(1, None, -1), VerdictKind.FAIL),
        (offsets(1, None, -1, offered=(0, 1)), VerdictKind.SKIP),
        (offsets(1, None, -1, offered=None), VerdictKind.SKIP),
    ],
    ids=["at it", "not at it", "one of two", "the first", "too old", "no newer one offered", "none offered"],
)
def test_list_offsets_uses_the_configured_isolation_level(request_, kind):
    assert verdict("isolation-level", request_, isolation="read_committed", of="ListOffsets").kind is kind


def committed_of(version, **fields):
    body = {"GroupId": "g", "Topics": (), **fields} if version < 8 else {"Groups": (), **fields}
    return row(frame("OffsetFetch", version, body))


@pytest.mark.parametrize(
    ("request_", "isolation", "kind"),
    [
        (committed_of(7, RequireStable=True), "read_committed", VerdictKind.PASS),
        (committed_of(7, RequireStable=False), "read_committed", VerdictKind.FAIL),
        (committed_of(9, RequireStable=False), "read_committed", VerdictKind.FAIL),
        (committed_of(6), "read_committed", VerdictKind.SKIP),
        (committed_of(9, RequireStable=False), "read_uncommitted", VerdictKind.SKIP),
    ],
    ids=["stable", "any", "any of several groups", "too old", "of all records"],
)
def test_a_read_committed_consumer_requests_stable_offsets(request_, isolation, kind):
    found = verdict("isolation-level", request_, isolation=isolation, of="OffsetFetch")
    assert (found.kind, found.path) == (kind, "[0].Body.RequireStable" if kind is VerdictKind.FAIL else "")


SUBSCRIPTIONS = {  # of topic t; compared with ConsumerProtocol of Apache Kafka 4.4.0
    "v0": ("000000000001000174ffffffff", ""),
    "v1": ("000100000001000174ffffffff00000000", ""),
    "a-later-version-that-has-more": ("7fff00000001000174ffffffff00000000ffffffff00010203", ""),
    "v1-marked-without-owned-partitions": ("00010000000100017400000000", "int.truncated-rejected"),
    "v1-with-owned-partitions-null": ("000100000001000174ffffffffffffffff", "definitions.null-in-non-nullable"),
    "nothing-but-a-version": ("0000", "int.truncated-rejected"),
}
ASSIGNMENTS = {
    "v1": ("000100000001000174000000010000000000000000", ""),
    "of-another-kind": ("7b2274223a5b305d7d", "array.too-few-elements-rejected"),
    "v1-without-user-data": ("0001000000010001740000000100000000", "int.truncated-rejected"),
}


@pytest.mark.parametrize(("data", "rule"), SUBSCRIPTIONS.values(), ids=SUBSCRIPTIONS)
@pytest.mark.parametrize("version", [2, 9])
def test_subscription_metadata_matches_its_version(data, rule, version):
    protocols = ({"Name": "range", "Metadata": bytes.fromhex(data)},)
    body = {"GroupId": "g", "SessionTimeoutMs": 1, "MemberId": "", "Protocols": protocols}
    found = verdict("well-formed", row(frame("JoinGroup", version, {**body, "ProtocolType": "consumer"})))
    assert (found.kind, found.requirement) == ((VerdictKind.FAIL, rule) if rule else (VerdictKind.PASS, ""))
    if rule:
        assert found.path == "[0].Body.Protocols[0].Metadata"
        assert "ConsumerProtocolSubscription" in found.detail
    other = verdict("well-formed", row(frame("JoinGroup", version, {**body, "ProtocolType": "connect"})))
    assert other.kind is VerdictKind.PASS


@pytest.mark.parametrize(("data", "rule"), ASSIGNMENTS.values(), ids=ASSIGNMENTS)
@pytest.mark.parametrize("version", [0, 5])
def test_an_assignment_matches_its_version(data, rule, version):
    assigned = ({"MemberId": "m", "Assignment": bytes.fromhex(data)},)
    body = {"GroupId": "g", "GenerationId": 1, "MemberId": "m", "Assignments": assigned}
    found = verdict("well-formed", row(frame("SyncGroup", version, body)))
    assert (found.kind, found.requirement) == ((VerdictKind.FAIL, rule) if rule else (VerdictKind.PASS, ""))


def test_a_request_version_that_was_not_offered_is_found():
    data = frame("Metadata", 1, METADATA)
    found = verdict("offered", row(data, offered=(4, 4)))
    assert (found.kind, found.path) == (VerdictKind.FAIL, "[0].Header.RequestApiVersion")
    assert found.detail == "the client sent Metadata 1, but the broker supports versions 4 to 4"
    assert (
        verdict("offered", row(data, offered=None)).detail
        == "the client sent Metadata 1, which the broker does not support"
    )


def test_an_unknown_request_is_judged_only_by_the_offered_versions():
    data = struct.pack(">ihhih", 10, 999, 0, 7, -1)
    assert (api_of(data), frame_wire(data)) == ("", None)
    assert verdict("well-formed", row(data)).kind is VerdictKind.SKIP
    assert (
        verdict("offered", row(data, offered=None)).detail
        == "the client sent API 999 0, which the broker does not support"
    )
    unknown_version = frame("Fetch", 4, {})[:6] + b"\0\x63" + frame("Fetch", 4, {})[8:]
    assert verdict("well-formed", row(unknown_version)).kind is VerdictKind.SKIP
    assert (
        verdict("offered", row(unknown_version, offered=(4, 4))).detail
        == "the client sent Fetch 99, but the broker supports versions 4 to 4"
    )


def test_api_versions_may_have_any_version():
    assert verdict("offered", row(frame("ApiVersions", 3, {}), offered=(0, 0))).kind is VerdictKind.SKIP


def test_a_correlation_id_in_use_is_found():
    data = frame("Metadata", 1, METADATA, correlation=7)
    assert verdict("unique-correlation-ids", row(data, in_flight=(5, 7))).path == "[0].Header.CorrelationId"
    assert verdict("unique-correlation-ids", row(data, in_flight=(5, 6))).kind is VerdictKind.PASS


def test_a_fetch_uses_the_configured_isolation_level():
    data = frame("Fetch", 4, {"IsolationLevel": 1})
    assert verdict("isolation-level", row(data), isolation="read_committed").kind is VerdictKind.PASS
    found = verdict("isolation-level", row(data))
    assert found.detail == "isolation level 1 instead of read_uncommitted"


def test_only_requests_of_the_selected_name_are_judged():
    bad = resized(frame("Metadata", 1, METADATA) + b"\0")
    good = frame("Fetch", 4, {})
    assert verdict("well-formed", row(bad), row(good), of="Fetch").kind is VerdictKind.PASS
    assert verdict("well-formed", row(good), row(bad)).path.startswith("[1]")
    missing = verdict("well-formed", row(good), of="Heartbeat")
    assert (missing.kind, missing.detail) == (VerdictKind.SKIP, "unobserved: no Heartbeat request was sent")


@pytest.mark.parametrize(
    "value",
    [
        *(None, [{"hex": "00"}], [{}], "x"),
        *([{"hex": None, "inFlight": []}], [{"hex": "00", "inFlight": None}]),
        [{"hex": "00", "inFlight": [], "offered": [1]}],
    ],
)
def test_an_invalid_list_of_requests_is_a_protocol_fault(value):
    case = Case(
        "x/y",
        "send",
        codec.wire("LOG"),
        "x.y",
        "must",
        {"op": "send"},
        ExpectClientRequests("size-field", "read_committed"),
    )
    assert judge(case, outcome({"ok": True, "value": value})).kind is VerdictKind.PROTOCOL


def test_the_reference_sends_every_shipped_request():
    answer = reference.answer(
        {"op": "send", "scenario": "consume", "isolation": "read_committed", "check": "size-field"}
    )
    names = {api_of(row["hex"]) for row in SENT.parse(answer["value"])}
    kinds = {message.name for message in shipped_types().messages.values() if message.kind == "request"}
    assert {f"{name}Request" for name in names} == kinds


# --- producers ----------------------------------------------------------------------------------------


def produced(*batches):
    sets = [codec.encode("RECORD_BATCH", batch) for batch in batches]
    topics = [({"Name": "t", "PartitionData": ({"Records": data},)},) for data in sets]
    return [row(frame("Produce", 3, {"Acks": -1, "TopicData": rows})) for rows in topics]


def sequenced(batch, start):
    return {**batch, "baseSequence": start}


def test_a_rejected_batch_is_retried_unchanged():
    first, second, third = batches_for("produce")
    assert verdict("retried-unchanged", *produced(first, first, second, third)).kind is VerdictKind.PASS
    moved = {**first, "partitionLeaderEpoch": 9}
    assert verdict("retried-unchanged", *produced(first, moved, second)).kind is VerdictKind.PASS
    assert verdict("retried-unchanged", *produced(first)).kind is VerdictKind.SKIP


@pytest.mark.parametrize(
    "change",
    [
        {"baseSequence": 2},
        {"producerEpoch": 4},
        {"producerId": 1},
        {"records": ({**batches_for("produce")[1]["records"][0], "timestamp": 5},)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_a_changed_retry_of_a_batch_is_found(change):
    first, *_ = batches_for("produce")
    found = verdict("retried-unchanged", *produced(first, {**first, **change}))
    assert (found.kind, found.path) == (VerdictKind.FAIL, "[1].Body.TopicData[0].PartitionData[0].Records")


@pytest.mark.parametrize(
    ("starts", "kind"),
    [
        ((0, 2, 3), VerdictKind.PASS),
        ((0, 0, 2, 3), VerdictKind.PASS),
        ((0, 1, 2), VerdictKind.FAIL),
        ((1, 3, 4), VerdictKind.FAIL),
    ],
    ids=["one-after-another", "one-again", "by-batch", "from-1"],
)
def test_sequences_begin_at_0_and_increase_by_the_record_count(starts, kind):
    batches = batches_for("produce") if len(starts) == 3 else (batches_for("produce")[0], *batches_for("produce"))
    pairs = zip(batches, starts, strict=True)
    assert verdict("sequence-numbers", *produced(*(sequenced(*pair) for pair in pairs))).kind is kind


def test_batches_have_the_assigned_producer_id_and_epoch():
    first = batches_for("produce")[0]
    found = verdict("sequence-numbers", *produced({**first, "producerEpoch": 0}))
    assert found.detail == "producer id 4711, epoch 0, sequence 0 instead of producer id 4711, epoch 3, sequence 0"


def fetch(offset, session=0, epoch=-1, version=12):
    topics = ({"Topic": "t", "Partitions": ({"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1},)},)
    body = {"MaxWaitMs": 1, "MinBytes": 1, "Topics": topics if offset is not None else ()}
    if version >= 7:
        body |= {"SessionId": session, "SessionEpoch": epoch, "ForgottenTopicsData": ()}
    return row(frame("Fetch", version, body))


@pytest.mark.parametrize(
    ("fetches", "kind"),
    [
        ([fetch(0, 0, 0), fetch(None, 9, 1), fetch(1, 9, 2)], VerdictKind.PASS),
        ([fetch(0, 0, 0), fetch(1, 9, 1), fetch(0, 0, 0), fetch(1, 10, 1)], VerdictKind.PASS),
        ([fetch(0, 0, 0), fetch(1, 9, 1), fetch(None, 9, -1)], VerdictKind.PASS),
        ([fetch(None, 9, 41), fetch(1, 9, 42)], VerdictKind.PASS),
        ([fetch(0, 0, 0), fetch(None, 9, 1), fetch(1, 9, 1)], VerdictKind.FAIL),
        ([fetch(0, 0, 0), fetch(None, 9, 1), fetch(1, 9, 3)], VerdictKind.FAIL),
        ([fetch(0, 0, 0), fetch(None, 9, 1), fetch(None, 9, 2)], VerdictKind.FAIL),
        ([fetch(0, 0, 0), fetch(0, 0, 0)], VerdictKind.FAIL),
        ([fetch(0, 0, 0), fetch(0, 0, 0), fetch(1, 0, 0)], VerdictKind.FAIL),
        ([fetch(0, 0, 0), fetch(None, 9, 1), fetch(0, 9, 0), fetch(1, 10, 1)], VerdictKind.PASS),
        ([fetch(0, 0, 0), fetch(1)], VerdictKind.SKIP),
        ([fetch(0), fetch(1)], VerdictKind.SKIP),
        ([fetch(0, version=4), fetch(1, version=4)], VerdictKind.SKIP),
        ([], VerdictKind.SKIP),
    ],
    ids=[
        *("went on", "opened twice", "closed", "its beginning is not kept"),
        *("a number twice", "a number left out", "nothing new is heard", "opened and stayed", "opened each time"),
        *("closed to open another", "opened once", "none", "before sessions", "nothing"),
    ],
)
def test_a_client_continues_its_fetch_session(fetches, kind):
    found = verdict("in-session", *reversed(fetches))  # the newest request is first
    assert found.kind is kind
    assert (found.path.partition(".")[2] == "Body.SessionEpoch") == (kind is VerdictKind.FAIL)


def again(batch, **change):
    return {**batch, **change}


FIRST, *REST = batches_for("pipelined")
OTHER = [again(batch, producerId=4712, baseSequence=at) for at, batch in enumerate(REST)]


@pytest.mark.parametrize(
    ("batches", "kind", "problem"),
    [
        ([FIRST, FIRST, *REST], VerdictKind.PASS, ""),
        ([FIRST, *REST, FIRST, *REST], VerdictKind.PASS, ""),
        ([FIRST, *REST, FIRST, REST[0], REST[0], *REST[1:]], VerdictKind.PASS, ""),
        ([FIRST, *REST, *OTHER, FIRST], VerdictKind.PASS, ""),
        ([FIRST, FIRST, again(REST[0], baseSequence=0)], VerdictKind.FAIL, "sequence 0 is used for two batches"),
        ([FIRST, FIRST, *REST[:2], REST[3]], VerdictKind.FAIL, "sequence 3 is never written, but later batches are"),
        ([FIRST, *REST], VerdictKind.FAIL, "sequence 0 is never written"),
        ([FIRST, FIRST], VerdictKind.SKIP, ""),
        ([FIRST], VerdictKind.SKIP, ""),
        ([], VerdictKind.SKIP, ""),
    ],
    ids=[
        *("waits", "all once more", "twice what was taken", "as another producer"),
        *("one sequence twice", "a gap", "what was refused is gone", "gives up", "only refused", "nothing"),
    ],
)
def test_no_pipelined_batch_is_lost_after_an_error(batches, kind, problem):
    found = verdict("no-loss", *produced(*batches))
    assert found.kind is kind
    assert problem in found.detail
    assert found.level == ("should" if "never written" in problem else "")


def test_each_pipelined_record_fills_one_batch():
    sizes = [len(codec.encode("RECORD_BATCH", batch)) for batch in (FIRST, *REST)]
    assert len(sizes) == TOGETHER
    assert max(sizes) < 1024 < 2 * min(sizes) - 61


def test_a_batch_with_a_retriable_error_is_retried():
    first, second, _ = batches_for("produce")
    assert verdict("retried", *produced(first, first, second)).kind is VerdictKind.PASS
    found = verdict("retried", *produced(first))
    assert (found.kind, found.detail) == (
        VerdictKind.FAIL,
        "the batch that was rejected with KAFKA_STORAGE_ERROR is not sent again",
    )
    assert verdict("retried").kind is VerdictKind.SKIP


def test_all_records_of_the_application_are_written():
    batches = batches_for("produce")
    assert verdict("writes", *produced(*batches)).kind is VerdictKind.PASS
    assert verdict("writes", *produced(batches[0], *batches[1:], batches[0])).kind is VerdictKind.PASS
    found = verdict("writes", *produced(batches[0], batches[0], batches[2], batches[2]))
    assert (found.kind, found.detail) == (VerdictKind.FAIL, "5 of 6 records are written")
    assert verdict("writes", row(frame("Metadata", 1, METADATA))).detail == "0 of 6 records are written"
    assert verdict("writes").kind is VerdictKind.SKIP


def pushed(metrics, codec_id=0):
    push = {"ClientInstanceId": bytes(16), "SubscriptionId": 7, "Terminating": False}
    return row(frame("PushTelemetry", 0, {**push, "CompressionType": codec_id, "Metrics": metrics}))


@pytest.mark.parametrize(
    ("pushes", "kind", "problem"),
    [
        ([(REQUESTED_METRIC.encode(), 0)], VerdictKind.PASS, ""),
        ([(b"", 0), (b"a" + REQUESTED_METRIC.encode() + b"b", 0)], VerdictKind.PASS, ""),
        ([(gzip.compress(REQUESTED_METRIC.encode()), 1)], VerdictKind.PASS, ""),
        (
            [(b"", 0), (REQUESTED_METRIC[:-1].encode(), 0)],
            VerdictKind.FAIL,
            f"none of 2 PushTelemetry requests contains the requested metric {REQUESTED_METRIC}",
        ),
        ([(REQUESTED_METRIC.encode(), 1)], VerdictKind.FAIL, "the metrics cannot be decompressed with codec 1: "),
        ([(gzip.compress(REQUESTED_METRIC.encode()), 0)], VerdictKind.FAIL, "none of 1 PushTelemetry requests"),
        ([(REQUESTED_METRIC.encode(), 9)], VerdictKind.FAIL, "the metrics cannot be decompressed with codec 9: "),
        ([(REQUESTED_METRIC.encode(), -1)], VerdictKind.FAIL, "the metrics cannot be decompressed with codec -1: "),
        ([], VerdictKind.SKIP, "unobserved: the client sent no PushTelemetry"),
    ],
)
def test_the_requested_metric_is_pushed_in_the_stated_codec(pushes, kind, problem):
    found = verdict("metrics-pushed", row(frame("Metadata", 1, METADATA)), *(pushed(*push) for push in pushes))
    assert found.kind is kind
    assert found.detail.startswith(problem)


def test_an_invalid_push_contains_no_metric():
    data = bytearray(pushed(b"")["hex"])
    assert data[-2:] == b"\1\0"
    data[-2] = 0
    assert (
        verdict("metrics-pushed", row(bytes(data))).detail
        == f"none of 1 PushTelemetry requests contains the requested metric {REQUESTED_METRIC}"
    )
    assert verdict("well-formed", row(bytes(data))).requirement == "compact-bytes.null-rejected"


TRANSACTION = ("InitProducerId", "AddPartitionsToTxn", "Produce", "EndTxn")


@pytest.mark.parametrize("missing", ["", *TRANSACTION])
def test_a_transaction_is_retried_after_retriable_errors(missing):
    rows = [row(frame("Metadata", 1, METADATA)), *(row(named(name)) for name in TRANSACTION if name != missing)]
    found = verdict("ended", *rows)
    assert found.kind is (VerdictKind.FAIL if missing else VerdictKind.PASS)
    assert found.detail == (
        f"the client sent no {missing}, although the broker returned only retriable errors" if missing else ""
    )
    assert verdict("ended").kind is VerdictKind.SKIP


@pytest.mark.parametrize(
    ("ends", "kind"), [([True], VerdictKind.PASS), ([False, True], VerdictKind.PASS), ([False], VerdictKind.FAIL)]
)
def test_a_committed_transaction_is_not_aborted(ends, kind):
    of = {"TransactionalId": "t", "ProducerId": 1, "ProducerEpoch": 0}
    rows = [row(named(name)) for name in TRANSACTION[:-1]]
    found = verdict("ended", *rows, *(row(frame("EndTxn", 1, {**of, "Committed": commits})) for commits in ends))
    assert (found.kind, found.path) == (kind, "[3].Body.Committed" if kind is VerdictKind.FAIL else "")


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ({}, ""),
        ({"Produce": 11, "AddPartitionsToTxn": 3, "EndTxn": 4}, ""),
        ({"InitProducerId": 9}, ""),
        ({"Produce": 12}, "Produce 12 needs transaction.version 2; without it the highest version is 11"),
        ({"AddPartitionsToTxn": 4}, "AddPartitionsToTxn 4 needs transaction.version 2"),
        ({"EndTxn": 5}, "EndTxn 5 needs transaction.version 2; without it the highest version is 4"),
    ],
)
def test_requests_follow_the_transaction_version_of_the_broker(versions, problem):
    found = verdict("transaction-version", *(row(named(name, versions.get(name, 3))) for name in TRANSACTION))
    assert found.kind is (VerdictKind.FAIL if problem else VerdictKind.PASS)
    assert problem in found.detail
    assert verdict("transaction-version", row(named("InitProducerId"))).kind is VerdictKind.SKIP


def in_transactions(*turns):
    """Return rows: the requests for the batch of each turn, by name, version and value."""
    batches = batches_for("transactions")
    rows = []
    for turn in turns:
        for name, version, detail in turn:
            wire = frame_wire(named(name, version))
            body = {
                "Produce": lambda at: of_batch(batches[at[0]] | at[1]),
                "EndTxn": lambda end: {"Committed": end == "commit"},
            }
            key = shipped_types().messages[f"{name}Request"].api_key
            header = {"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": 7, "ClientId": "c"}
            value = {"Header": header, "Body": body.get(name, lambda _: {})(detail)}
            rows.append(row(wire.encode(value)))
    return rows


def of_batch(batch):
    data = codec.encode("RECORD_BATCH", batch)
    return {"TopicData": ({"PartitionData": ({"Records": data},)},)}


def turn(number, end, *, added=True, version=3, sent=11, **changes):
    """Return the requests for one batch and the end of its transaction."""
    first = [("AddPartitionsToTxn", 3, None)] if added else []
    return (*first, ("Produce", sent, (number, changes)), ("EndTxn", version, end))


NEWER = {"added": False, "version": 5, "sent": 12}
ANEW = NEWER | {"producerEpoch": 4, "baseSequence": 0}


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ([turn(0, "commit"), turn(1, "abort"), turn(2, "commit")], ""),
        ([turn(0, "commit", **NEWER), turn(1, "abort", **ANEW)], "end with commit, abort instead"),
        ([turn(0, "commit", **NEWER), turn(1, "abort", **ANEW), turn(2, "commit", **ANEW | {"producerEpoch": 5})], ""),
        (
            [turn(0, "commit"), turn(1, "abort", added=False), turn(2, "commit")],
            "Produce 11 is sent before its partition was added",
        ),
        (
            [turn(0, "commit"), turn(1, "abort", baseSequence=0), turn(2, "commit")],
            "sequence 0 is used for two batches",
        ),
        (
            [turn(0, "commit"), turn(1, "abort", producerEpoch=4), turn(2, "commit")],
            "sequence 2 instead of sequence 0",
        ),
        (
            [turn(0, "commit", **NEWER), turn(1, "abort", **NEWER), turn(2, "commit")],
            "although the EndTxn response returned a new epoch",
        ),
        (
            [turn(0, "commit"), turn(1, "commit"), turn(2, "commit")],
            "end with commit, commit, commit instead of commit, abort, commit",
        ),
        ([turn(0, "commit")], "the transactions end with commit instead"),
    ],
)
def test_each_transaction_is_complete(turns, problem):
    found = verdict("transaction-complete", *in_transactions(*turns))
    assert found.kind is (VerdictKind.FAIL if problem else VerdictKind.PASS), found
    assert problem in found.detail
    assert verdict("transaction-complete", row(named("InitProducerId"))).kind is VerdictKind.SKIP


@pytest.mark.parametrize(
    ("last_batch", "kind"),
    [
        ({}, VerdictKind.FAIL),
        ({"baseSequence": 2}, VerdictKind.PASS),
        ({"baseSequence": 0}, VerdictKind.FAIL),
        ({"baseSequence": 0, "producerEpoch": 4}, VerdictKind.PASS),
        ({"baseSequence": 1, "producerEpoch": 4}, VerdictKind.FAIL),
    ],
)
def test_a_fatally_rejected_batch_leaves_no_sequence_gap(last_batch, kind):
    rows = in_transactions(turn(0, "commit"), turn(1, "abort"), turn(2, "commit", **last_batch))
    assert verdict("sequence-after-fatal-error", *rows).kind is kind
    assert verdict("sequence-after-fatal-error", *rows[:-3]).kind is VerdictKind.SKIP


def test_an_empty_transaction_sends_no_end_txn():
    assert verdict("no-empty-end-txn", row(named("InitProducerId"))).kind is VerdictKind.PASS
    found = verdict("no-empty-end-txn", row(named("InitProducerId")), row(named("EndTxn")))
    assert (found.kind, found.path) == (VerdictKind.FAIL, "[1].Header.RequestApiKey")
    assert verdict("no-empty-end-txn").kind is VerdictKind.SKIP


def named(name, version=3):
    return struct.pack(">ihhi", 8, shipped_types().messages[f"{name}Request"].api_key, version, 7)


@pytest.mark.parametrize(
    ("offsets", "kind", "problem"),
    [
        ((0, 0, 0, 1), VerdictKind.PASS, ""),
        ((0, 0, 1), VerdictKind.FAIL, "2 fetches of the first offset returned no record, but the next fetch skips"),
        ((0, 1, 0, 1), VerdictKind.FAIL, "2 fetches of the first offset"),
        ((0, 0, 0, 0), VerdictKind.FAIL, "the client fetches no offset after the first one"),
        ((), VerdictKind.SKIP, ""),
    ],
    ids=["waits", "passes over", "passes over twice", "stays", "nothing"],
)
def test_a_client_skips_no_record_after_empty_fetches(offsets, kind, problem):
    found = verdict("no-skip-after-empty-fetch", *(fetch(offset, version=4) for offset in reversed(offsets)))
    assert found.kind is kind
    assert problem in found.detail


@pytest.mark.parametrize(
    ("offsets", "kind", "problem"),
    [
        ((0, 1, 1, 2, 3), VerdictKind.PASS, ""),
        ((0, 0, 1, 1, 1, 2), VerdictKind.PASS, ""),
        ((0, 1, 0, 1, 2), VerdictKind.PASS, ""),
        ((0, 1, 1, 3), VerdictKind.FAIL, "the fetch after the leader change begins at 3 instead of 1"),
        ((0, 1, 2, 3), VerdictKind.FAIL, "the fetch after the leader change begins at 2 instead of 1"),
        ((0, 1, 0, 1), VerdictKind.FAIL, "the client fetches no offset after offset 1"),
        ((), VerdictKind.SKIP, "no request was sent"),
    ],
    ids=["goes on", "asks again", "begins anew", "at the end", "passes over", "stays", "nothing"],
)
def test_a_client_keeps_its_offset_after_a_leader_change(offsets, kind, problem):
    found = verdict("same-offset-after-move", *(fetch(offset, version=4) for offset in reversed(offsets)))
    assert found.kind is kind
    assert problem in found.detail


@pytest.mark.parametrize(
    ("offsets", "kind", "problem"),
    [
        ((0, 1, 1, 10, 11), VerdictKind.PASS, ""),
        ((0, 1, 0, 12, 13), VerdictKind.PASS, ""),
        (
            (0, 1, 11, 12),
            VerdictKind.FAIL,
            "the log now begins at offset 10, but the first fetch after that begins at 11",
        ),
        ((0, 1, 13), VerdictKind.FAIL, "the first fetch after that begins at 13"),
        (
            (0, 1, 1, 9),
            VerdictKind.FAIL,
            "the client fetches no offset after offset 1, although the log now begins at 10",
        ),
        ((), VerdictKind.SKIP, "no request was sent"),
    ],
    ids=["where it begins", "where it ends", "passes over", "beyond its end", "before it", "nothing"],
)
def test_a_client_continues_at_the_start_of_a_trimmed_log(offsets, kind, problem):
    found = verdict("continue-at-log-start", *(fetch(offset, version=4) for offset in reversed(offsets)))
    assert found.kind is kind
    assert problem in found.detail


def test_the_last_topic_decides_about_the_offset_after_a_leader_change():
    def of_topic(name, *offsets):
        rows = [fetch(offset, version=4) for offset in offsets]
        return [{**sent, "hex": sent["hex"].replace(b"\0\1t\0", b"\0\1" + name + b"\0")} for sent in rows]

    kept, lost = (0, 1, 1, 2), (0, 1, 3)
    for first, last, kind in ((lost, kept, VerdictKind.PASS), (kept, lost, VerdictKind.FAIL)):
        assert (
            verdict("same-offset-after-move", *reversed([*of_topic(b"a", *first), *of_topic(b"b", *last)])).kind is kind
        )


def commit(offset, epoch=-1, kept=None):
    part = {"PartitionIndex": 0, "CommittedOffset": offset}
    part |= {"CommittedLeaderEpoch": epoch} if kept is None else {}
    body = {"GroupId": "g", "Topics": ({"Name": "t", "Partitions": (part,)},)}
    return row(
        frame("OffsetCommit", 7 if kept is None else 3, body | ({} if kept is None else {"RetentionTimeMs": kept}))
    )


@pytest.mark.parametrize(
    ("commits", "problem"),
    [
        ([commit(1)], None),
        ([commit(0), commit(1), commit(2, 0)], None),
        ([commit(1, kept=-1)], None),
        ([commit(0)], "offset 0 is committed, but the next offset to read is 1"),
        ([commit(1), commit(0)], "offset 0 is committed, but the next offset to read is 1"),
        ([commit(-1), commit(1)], "offset -1 is committed"),
        ([commit(3)], "offset 3 is committed"),
        ([commit(1, 0)], "leader epoch 0 is committed"),
        ([commit(2, 5)], "leader epoch 5 is committed"),
        ([commit(1, kept=0)], "RetentionTimeMs is 0"),
        ([], "unobserved: no offset was committed"),
    ],
)
def test_the_committed_offset_follows_the_last_delivered_record(commits, problem):
    found = verdict("commits", *commits)
    assert found.kind is (VerdictKind.PASS if problem is None else VerdictKind.FAIL if commits else VerdictKind.SKIP)
    assert (problem or "") in found.detail


@pytest.mark.parametrize(
    ("times", "kind"), [(0, VerdictKind.SKIP), (1, VerdictKind.FAIL), (2, VerdictKind.FAIL), (3, VerdictKind.PASS)]
)
def test_a_commit_is_retried_until_it_succeeds(times, kind):
    found = verdict("commits-again", row(named("Heartbeat")), *[commit(1)] * times)
    assert found.kind is kind
    assert kind is not VerdictKind.FAIL or found.path.startswith(f"[{times}]")


def synced(generation, *partitions, topic=b"t", members=("m", "another-member")):
    rows = [
        {
            "MemberId": member,
            "Assignment": b"\0\0\0\0\0\1\0\1"
            + topic
            + struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
            + b"\xff" * 4,
        }
        for member, numbers in zip(members, partitions, strict=False)
    ]
    return row(
        frame("SyncGroup", 3, {"GroupId": "t", "GenerationId": generation, "MemberId": "m", "Assignments": rows})
    )


JOINED = row(frame("JoinGroup", 2, {"GroupId": "g", "ProtocolType": "consumer", "Protocols": ()}))


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        ([JOINED, synced(1, (0,), ())], None),
        ([JOINED, synced(1, (), ()), synced(2, (), (0,))], None),
        ([JOINED, synced(1, (0,), ()), synced(2, (0,), (0,))], "assigned 2 times among 2 members"),
        ([JOINED, synced(1, (), ()), synced(3, (0,))], "assigned 0 times among 2 members"),
        ([JOINED, synced(3, (0,))], "the client is leader of two members, but assigns no partition"),
        ([JOINED, synced(1, (1,), ())], "assigned 0 times among 2 members"),
        ([JOINED, synced(1, (0,), (), topic=b"u")], "assigned 0 times among 2 members"),
        ([JOINED, synced(1, (0, 0), ())], "assigned 2 times among 2 members"),
        ([JOINED, synced(1, (0, 1), ())], "2 partitions are assigned, but the topic has one"),
        ([JOINED, synced(1, (), (0,), members=("m", "c"))], "assigned to 'c', which is not a member id"),
        ([], "unobserved: the client joined no group"),
    ],
)
def test_a_leader_assigns_the_only_partition_to_one_of_two_members(requests, problem):
    found = verdict("assignment", *requests)
    assert found.kind is (VerdictKind.PASS if problem is None else VerdictKind.FAIL if requests else VerdictKind.SKIP)
    assert (problem or "") in found.detail


def shared_out(mine, others, generation=1):
    """Return a SyncGroup of the leader `m` of group `t`, with the topics for itself and for another member."""
    rows = [
        {"MemberId": member, "Assignment": b"\0\0" + codec.encode(ASSIGNMENT, {"AssignedPartitions": topics})}
        for member, topics in (("m", mine), ("another-member", others))
        if topics is not None
    ]
    body = {"GroupId": "t", "GenerationId": generation, "MemberId": "m", "Assignments": rows}
    return row(frame("SyncGroup", 3, body))


ASSIGNMENT = shipped_types().wire(type_name("ConsumerProtocolAssignment", 0))
ITS, OTHER = ({"Topic": name, "Partitions": (0,)} for name in ("t", "t-other"))


@pytest.mark.parametrize(
    ("requests", "problem"),
    [
        ([shared_out([ITS], [OTHER])], None),
        ([shared_out([ITS], [ITS]), shared_out([ITS], [OTHER], 2), shared_out([ITS], None, 3)], None),
        ([shared_out([ITS], [{**ITS, "Partitions": ()}, OTHER])], None),
        (
            [shared_out([ITS], [OTHER]), shared_out([ITS], [], 2)],
            "the other member is assigned nothing instead of [0] of",
        ),
        ([shared_out([ITS], None)], "is assigned nothing"),
        ([shared_out([], [ITS, OTHER])], "the leader is assigned nothing instead of [0] of the leader's topic"),
        ([shared_out([ITS, OTHER], [])], "is assigned [0] of the leader's topic, [0] of the other member's topic"),
        ([shared_out([ITS], [OTHER, ITS])], "is assigned [0] of the other member's topic, [0] of the leader's topic"),
        ([JOINED], "the client is leader of two members, but assigns no partition"),
        ([], "unobserved: the client joined no group"),
    ],
)
def test_a_leader_assigns_each_member_its_subscribed_topic(requests, problem):
    found = verdict("assignment-by-subscription", *requests)
    assert found.kind is (VerdictKind.PASS if problem is None else VerdictKind.FAIL if requests else VerdictKind.SKIP)
    assert (problem or "") in found.detail


@pytest.mark.parametrize(("times", "kind"), [(0, VerdictKind.SKIP), (1, VerdictKind.FAIL), (2, VerdictKind.PASS)])
def test_end_txn_is_retried_after_a_retriable_error(times, kind):
    assert verdict("ended-again", row(named("Produce")), *[row(named("EndTxn"))] * times).kind is kind


@pytest.mark.parametrize(("times", "kind"), [(0, VerdictKind.SKIP), (1, VerdictKind.FAIL), (3, VerdictKind.FAIL)])
def test_an_unreported_fatal_error_fails_at_the_last_request(times, kind):
    found = verdict("error-reported", *[row(named("Produce"))] * (times - 1), *[row(named("EndTxn"))] * bool(times))
    assert found.kind is kind
    assert not times or found.path.startswith(f"[{times - 1}]")
    assert not times or "the broker returned a permanent error for EndTxn 3" in found.detail


def test_an_error_to_the_application_passes_only_after_a_fatal_error():
    for check, kind in (("error-reported", VerdictKind.PASS), ("retried", VerdictKind.FAIL)):
        case = Case("x/y", "send", codec.wire("LOG"), "x.y", "must", {"op": "send"}, ExpectClientRequests(check, ""))
        assert judge(case, outcome({"ok": False, "error": "other", "message": "refused"})).kind is kind


def racked(offset, rack):
    topics = ({"Topic": "t", "Partitions": ({"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1},)},)
    return row(frame("Fetch", 11, {"MaxWaitMs": 1, "MinBytes": 1, "Topics": topics, "RackId": rack}))


@pytest.mark.parametrize(
    ("fetches", "kind"),
    [
        ([(0, "r"), (1, "r")], VerdictKind.PASS),
        ([(0, "r"), (0, "r")], VerdictKind.FAIL),
        ([(0, ""), (1, "")], VerdictKind.SKIP),
        ([], VerdictKind.SKIP),
    ],
)
def test_a_consumer_with_a_rack_continues_at_the_preferred_replica(fetches, kind):
    assert verdict("follows", *(racked(*sent) for sent in fetches)).kind is kind
