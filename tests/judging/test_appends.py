"""Verdicts on batches that a broker stores and serves."""

import pytest

from conformance import codec
from conformance.cases.append import append_question
from conformance.cases.model import Case, ExpectAnyOf, ExpectAppend, ExpectRejection, NotTestable, VerdictKind
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.message_set import encode_set
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.judging.judge import judge
from conformance.semantics.format_conversion import convert
from conformance.targets import reference
from conformance.targets.protocol import outcome


def batch(count=3, *, codec_name="none", **fields):
    shared = {"attributes": 0, "key": b"k", "value": b"v" * 50, "headers": ()}
    header = {
        **{"baseOffset": 0, "partitionLeaderEpoch": -1, "compression": CODEC_NAMES.index(codec_name)},
        **{"timestampType": 0, "isTransactional": False, "isControlBatch": False},
        **{"producerId": -1, "producerEpoch": -1, "baseSequence": -1},
        "records": tuple({**shared, "offset": at, "timestamp": 1000 + at} for at in range(count)),
    }
    return codec.encode("RECORD_BATCH", {**header, **fields})


def messages(magic, codec_name="none", **fields):
    """Return a message set of two messages at the offsets 0 and 1."""
    timed = {"timestamp": 1000, "timestampType": 0} if magic else {}
    rows = tuple({"offset": at, "magic": magic, "key": b"k", "value": b"v", **timed, **fields} for at in range(2))
    return encode_set(rows, magic, CODEC_NAMES.index(codec_name))


def question_for(data, **settings):
    return append_question({"hex": data, **settings})


def verdict(data, answer=None, *, changed=None, **settings):
    question = question_for(data, **settings)
    case = Case("x/y", "append", codec.wire("LOG"), "x.y", "must", {"op": "append", **question.parts}, question.expect)
    honest = reference.answer(case.request)
    found = answer if answer is not None else honest if changed is None else {**honest, **changed(honest)}
    return judge(case, outcome(found))


def served(answer, change):
    """Return the parts of the answer with a changed served batch."""
    value = codec.decode("RECORD_BATCH", bytes.fromhex(answer["hex"])).value
    return {"hex": codec.encode("RECORD_BATCH", {**value, **change(value)}).hex()}


@pytest.mark.parametrize("name", CODEC_NAMES)
@pytest.mark.parametrize("settings", [{}, {"compressionType": "zstd"}, {"timestampType": "LogAppendTime"}])
def test_a_batch_served_by_the_reference_passes(name, settings):
    assert verdict(batch(codec_name=name), **settings).kind is VerdictKind.PASS


@pytest.mark.parametrize(
    ("change", "path", "requirement"),
    [
        (lambda batch: {"records": batch["records"][:-1]}, "[2]", ""),
        (lambda batch: {"baseOffset": 5, "records": shifted(batch, 4)}, "[0].offset", "offset.broker-assigns-base"),
        (lambda batch: {"records": [{**one, "value": b"w"} for one in batch["records"]]}, "[0].value", ""),
        (lambda _: {"producerId": 9, "producerEpoch": 0, "baseSequence": 0}, "[0].producerId", ""),
        (
            lambda _: {"partitionLeaderEpoch": -1},
            "[0].partitionLeaderEpoch",
            "batch.partition-leader-epoch-by-broker",
        ),
    ],
)
def test_a_changed_field_of_the_served_batch_fails_at_its_path(change, path, requirement):
    found = verdict(batch(), changed=lambda answer: served(answer, change))
    assert (found.kind, found.path, found.requirement) == (VerdictKind.FAIL, path, requirement)


def shifted(batch, by):
    return [{**record, "offset": record["offset"] + by} for record in batch["records"]]


def test_the_codec_is_judged_only_if_the_topic_names_one():
    def otherwise(answer):
        return served(answer, lambda _: {"compression": 1})

    assert verdict(batch(), changed=otherwise).kind is VerdictKind.PASS
    assert verdict(batch(), changed=otherwise, compressionType="producer").path == "[0].compression"


def test_the_base_offset_of_the_response_must_be_the_log_end():
    found = verdict(batch(), changed=lambda _: {"value": {"logEnd": "1", "baseOffset": "0"}})
    assert (found.kind, found.requirement) == (VerdictKind.FAIL, "offset.broker-assigns-base")


def test_a_served_batch_with_a_stale_checksum_is_unreadable():
    stale = verdict(batch(), changed=lambda answer: {"hex": answer["hex"][:42] + "0008" + answer["hex"][46:]})
    assert (stale.kind, stale.path, stale.requirement) == (VerdictKind.FAIL, "hex", "crc.mismatch-corrupt")


def test_an_append_time_topic_serves_log_append_time_and_a_timestamp():
    def kept(answer):
        return served(answer, lambda _: {"timestampType": 0})

    def untimed(answer):
        return served(answer, lambda one: {"records": [{**row, "timestamp": -1} for row in one["records"]]})

    assert verdict(batch(), changed=kept, timestampType="LogAppendTime").path == "[0].timestampType"
    found = verdict(batch(), changed=untimed, timestampType="LogAppendTime")
    assert (found.path, found.requirement) == ("[0].timestamp", "timestamp.log-append-overwritten")


@pytest.mark.parametrize(
    ("settings", "append_time", "problem"),
    [
        ({"timestampType": "CreateTime"}, "5", "LogAppendTimeMs 5 instead of -1"),
        ({"timestampType": "LogAppendTime"}, "-1", "LogAppendTimeMs -1 instead of 0"),
        ({}, "5", ""),
        ({"timestampType": "LogAppendTime", "fetchVersion": 3}, "5", ""),
        ({"timestampType": "LogAppendTime", "produceVersion": 2}, "5", ""),
    ],
    ids=["none", "that of the append", "of a topic with any times", "of messages", "in an old version"],
)
def test_the_append_time_of_the_response_is_the_timestamp_of_the_records(settings, append_time, problem):
    found = verdict(batch(), changed=lambda one: {"value": {**one["value"], "appendTime": append_time}}, **settings)
    without_time = {"logEnd": "1", "baseOffset": "1"}
    assert verdict(batch(), changed=lambda _: {"value": without_time}, **settings).kind is not VerdictKind.FAIL
    if not problem:
        assert found.kind is not VerdictKind.FAIL
        return
    assert problem in found.detail
    assert (found.path, found.requirement, found.level) == ("appendTime", "broker.tells-append-time", "should")


def test_an_expected_error_response_is_attributed_to_a_requirement_for_brokers(catalog):
    charged = {case.id: (case.requirement, case.level) for case in catalog.cases.values() if case.op == "append"}
    assert charged["crc/one:append"] == ("crc.broker-validates", "must")
    assert charged["compression/gzip-no-bytes:append"] == ("broker.validates-records", "should")
    assert charged["batch/three-records:append"][0] not in ("crc.broker-validates", "broker.validates-records")


@pytest.mark.parametrize("at", [17, 30, 70])
def test_accepting_damaged_bytes_fails(at):
    data = bytearray(batch())
    data[at] ^= 1
    assert isinstance(question_for(bytes(data)).expect, ExpectRejection)
    assert verdict(bytes(data)).kind is VerdictKind.PASS
    taken = {"ok": True, "hex": bytes(data).hex(), "value": {"logEnd": "1", "baseOffset": "1"}}
    assert verdict(bytes(data), taken).kind is VerdictKind.FAIL


@pytest.mark.parametrize(
    "fields",
    [
        {"baseOffset": 7},
        {"isTransactional": True, "producerId": 1, "producerEpoch": 0, "baseSequence": 0},
        {"producerId": 1, "producerEpoch": 0, "baseSequence": 8},
        {"timestampType": 1},
    ],
)
def test_a_batch_that_may_be_rejected_is_served_unchanged_if_accepted(fields):
    if fields.get("baseOffset"):
        fields = {**fields, "records": shifted(codec.decode("RECORD_BATCH", batch()).value, 7)}
    data = batch(**fields)
    assert verdict(data).kind is VerdictKind.EITHER
    assert verdict(data, {"ok": False, "error": "other"}).kind is VerdictKind.EITHER
    lost = verdict(data, changed=lambda answer: served(answer, lambda one: {"records": one["records"][:-1]}))
    assert lost.kind is VerdictKind.FAIL


def test_bytes_after_the_batch_and_offset_gaps_are_unspecified():
    assert question_for(batch() + b"\0").expect == ExpectAnyOf()
    gap = bytearray(batch())
    gap[23:27] = (5).to_bytes(4, "big")
    assert question_for(with_checksums(bytes(gap))).expect == ExpectAnyOf()
    assert isinstance(question_for(batch()).expect, ExpectAppend)


def test_appending_a_batch_without_records_is_unspecified():
    empty = bytearray(batch(1))[:61]
    empty[57:61] = bytes(4)
    assert question_for(with_checksums(bytes(empty))).expect == ExpectAnyOf()


# --- old formats --------------------------------------------------------------------------------------


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("name", CODEC_NAMES[:4])
@pytest.mark.parametrize("version", [1, 3, 4])
def test_messages_converted_by_the_reference_pass(magic, name, version):
    assert verdict(messages(magic, name), produceVersion=2, fetchVersion=version).kind is VerdictKind.PASS


@pytest.mark.parametrize("magic", [0, 1])
def test_a_broker_may_keep_the_format_of_messages(magic):
    kept = messages(magic)
    placed = (1).to_bytes(8, "big") + kept[8 : len(kept) // 2] + (2).to_bytes(8, "big") + kept[len(kept) // 2 + 8 :]
    for version in (3, 4):
        found = verdict(kept, changed=lambda _: {"hex": placed.hex()}, produceVersion=2, fetchVersion=version)
        assert found.kind is VerdictKind.PASS


def test_a_magic_unknown_to_the_fetch_version_is_attributed_to_the_conversion():
    data = batch()
    for sent, version in ((messages(1), 3), (messages(0), 1), (data, 3), (data, 0)):
        stored = reference.answer({"op": "append", "hex": sent.hex()})["hex"]
        found = verdict(sent, changed=lambda _, stored=stored: {"hex": stored}, fetchVersion=version)
        assert (found.kind, found.path, found.level) == (VerdictKind.FAIL, "[0].magic", "should")
        assert found.requirement == "convert.down-for-old-consumers"


def test_a_record_lost_in_down_conversion_fails():
    stored = codec.decode(
        "RECORD_BATCH", bytes.fromhex(reference.answer({"op": "append", "hex": batch().hex()})["hex"])
    )
    lost = codec.encode("RECORD_BATCH", {**stored.value, "records": stored.value["records"][:-1]})
    found = verdict(batch(), changed=lambda _: {"hex": convert(lost, 1).hex()}, fetchVersion=3)
    assert (found.kind, found.path) == (VerdictKind.FAIL, "[2]")


def test_a_broker_rejects_zstd_fetches_of_old_versions():
    data = batch(codec_name="zstd")
    assert verdict(data, fetchVersion=3).kind is VerdictKind.PASS
    taken = {"ok": True, "hex": "", "value": {"logEnd": "1", "baseOffset": "1"}}
    assert verdict(data, taken, fetchVersion=3).kind is VerdictKind.FAIL


def test_a_format_that_does_not_fit_the_produce_version_may_be_rejected():
    for data, version in ((messages(1), 3), (batch(), 2)):
        assert verdict(data, {"ok": False, "error": "other"}, produceVersion=version).kind is VerdictKind.EITHER
        assert verdict(data, produceVersion=version).kind is VerdictKind.EITHER


def test_message_sets_that_no_producer_sends_are_unspecified():
    for data in (messages(1) + messages(0), messages(1, "gzip") * 2, messages(1) + messages(1, "gzip")):
        assert question_for(data, produceVersion=2).expect == ExpectAnyOf()


# --- requests -----------------------------------------------------------------------------------------


def test_several_batches_are_rejected_or_stored_consecutively():
    data = batch() + batch(2)
    assert verdict(data, {"ok": False, "error": "malformed"}).kind is VerdictKind.EITHER
    first, second = (reference.answer({"op": "append", "hex": one.hex()})["hex"] for one in (batch(), batch(2)))
    moved = (4).to_bytes(8, "big").hex() + second[16:]
    taken = {"ok": True, "hex": first + moved, "value": {"logEnd": "1", "baseOffset": "1"}}
    assert verdict(data, taken).kind is VerdictKind.EITHER
    found = verdict(data, {**taken, "hex": first + second})
    assert (found.kind, found.path, found.requirement) == (VerdictKind.FAIL, "[3].offset", "offset.broker-assigns-base")


def test_the_limit_of_a_topic_counts_the_bytes_of_the_batch():
    data = batch(codec_name="gzip")
    assert verdict(data, maxMessageBytes=len(data)).kind is VerdictKind.PASS
    assert verdict(data, maxMessageBytes=len(data) - 1).kind is VerdictKind.PASS
    assert isinstance(question_for(data, maxMessageBytes=len(data) - 1).expect, ExpectRejection)
    taken = reference.answer({"op": "append", "hex": data.hex()})
    assert verdict(data, taken, maxMessageBytes=len(data) - 1).kind is VerdictKind.FAIL


def test_invalid_data_next_to_the_case_is_rejected_separately():
    wrong = bytearray(batch())
    wrong[20] ^= 1
    refused = {"baseOffset": "-1", "hex": ""}

    def with_others(*rows):
        return verdict(
            batch(),
            changed=lambda one: {"value": {**one["value"], "otherPartitions": list(rows)}},
            otherPartitions=bytes(wrong),
        )

    assert verdict(batch(), otherPartitions=bytes(wrong)).kind is VerdictKind.PASS
    assert with_others(refused, refused).kind is VerdictKind.PASS
    for taken in ({"baseOffset": "1", "hex": ""}, {"baseOffset": "-1", "hex": wrong.hex()}):
        for rows, path in (((taken, refused), "otherPartitions[0]"), ((refused, taken), "otherPartitions[1]")):
            found = with_others(*rows)
            assert (found.kind, found.path) == (VerdictKind.FAIL, path)
    for rows in ((), (refused,), (refused, {"hex": ""})):
        assert with_others(*rows).kind is VerdictKind.PROTOCOL


def test_valid_data_next_to_the_case_is_not_testable():
    with pytest.raises(NotTestable):
        question_for(batch(), otherPartitions=batch())


def late(data):
    """Return the batch with a maxTimestamp later than all its records."""
    at = BATCH_LAYOUT.offset("maxTimestamp")
    return with_checksums(data[:at] + (9999).to_bytes(8, "big") + data[at + 8 :])


def test_keeping_a_max_timestamp_above_every_record_fails_at_should():
    def kept(answer):
        return {"hex": late(bytes.fromhex(answer["hex"])).hex()}

    found = verdict(late(batch()), changed=kept)
    assert (found.kind, found.requirement, found.level) == (VerdictKind.FAIL, "broker.writes-max-timestamp", "should")
    assert found.detail == "maxTimestamp 9999 is served, but the largest record timestamp is 1002"
    assert verdict(late(batch())).kind is VerdictKind.PASS  # the reference recomputes it
    response = {"value": {"logEnd": "1", "baseOffset": "1", "appendTime": "9999"}}
    own = verdict(batch(), changed=lambda answer: {**kept(answer), **response}, timestampType="LogAppendTime")
    assert own.kind is VerdictKind.PASS


def test_max_timestamp_may_differ_if_the_producer_sent_log_append_time():
    def created(answer):
        """Serve CreateTime with the old maxTimestamp, as Apache Kafka does: it was the timestamp of each record."""
        offset, epoch = bytes.fromhex(answer["hex"])[:8], bytes(4)
        return {"hex": (offset + late(batch())[8:12] + epoch + late(batch())[16:]).hex()}

    at = BATCH_LAYOUT.offset("attributes")
    stamped = late(batch()[:at] + b"\0\x08" + batch()[at + 2 :])
    assert verdict(stamped, changed=created).kind is VerdictKind.EITHER


def test_a_wrong_max_timestamp_hides_no_worse_failure():
    def kept(answer):
        return {"hex": late(bytes.fromhex(served(answer, lambda _: {"partitionLeaderEpoch": -1})["hex"])).hex()}

    assert verdict(late(batch()), changed=kept).requirement == "batch.partition-leader-epoch-by-broker"
