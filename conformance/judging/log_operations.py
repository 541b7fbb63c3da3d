"""The judges of operations without a type, one after the other (docs/concepts.md#how-a-case-is-judged)."""

from __future__ import annotations

from msgspec.structs import replace

from conformance import codec
from conformance.cases.append import ANSWERED, BATCHES, OTHERS
from conformance.cases.model import (
    ERRORS,
    PASSED,
    REFUSED,
    Answer,
    ExpectAppend,
    ExpectClientRequests,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectResponses,
    ExpectScenario,
    ExpectSequenceResults,
    Value,
    Verdict,
    VerdictKind,
    WholeLog,
)
from conformance.codec.compare import unshown_paths
from conformance.codec.json_notation import UNSHOWN, ListOf, NotationError
from conformance.codec.log import CHECKSUM_RULES
from conformance.codec.message_set import MESSAGE_RULES
from conformance.codec.record_batch import TIMESTAMP_TYPES
from conformance.judging._answers import batches_in, bytes_of, failed
from conformance.judging._broker_scenario import judge_scenario
from conformance.judging.client_requests import judge_sent
from conformance.judging.differences import DUPLICATE_HEADERS, cause_of_difference, is_of_a_map
from conformance.judging.raw_requests import judge_exchanged
from conformance.semantics.consumer_view import RECORD_NOTATION, VIEW_NOTATION, ConsumerView
from conformance.semantics.format_conversion import CONVERTED, converted_records, records_of
from conformance.semantics.producer_state import ANSWERS

_APPENDED_TIME = "timestamp.log-append-overwritten"
_LARGEST = "broker.writes-max-timestamp"
_EPOCH = "batch.partition-leader-epoch-by-broker"
_APPEND_TIME_RULE = "broker.tells-append-time"
_DOWN = "convert.down-for-old-consumers"
_OFFSETS = "offset.broker-assigns-base"


def judge_appended(expect: ExpectAppend, given: object, served: bytes) -> Verdict:
    """Compare the bytes that a broker serves with the batch that the producer sent. Raises NotationError."""
    answered = ANSWERED.parse(given)
    if not {"logEnd", "baseOffset"} <= set(answered):
        raise NotationError("value: logEnd and baseOffset are expected")
    end, base_offset = answered["logEnd"], answered["baseOffset"]
    if base_offset != end:
        return failed(f"the broker returned offset {base_offset}, but its log ended at {end}", "baseOffset", _OFFSETS)
    taken = _other_partition_fault(answered.get("otherPartitions")) if expect.has_other_partitions else None
    if taken is not None:
        return taken
    verdict = _as_sent(expect, end, served, "served")
    if verdict.kind is not VerdictKind.FAIL and answered.get("stored") is not None:
        verdict = _stored_fault(expect, answered, served) or verdict
    if verdict.kind is VerdictKind.FAIL:
        return verdict
    # If the broker chooses the timestamps, because of the topic or of the batch, it also chooses maxTimestamp.
    wrong_timestamp = None if "timestamp" in expect.free else _max_timestamp_fault(served)
    return wrong_timestamp or (_append_time_fault(answered, served) if expect.has_append_time else None) or verdict


def _other_partition_fault(others: Value) -> Verdict | None:
    """Return a failure if another partition of the request accepted data that a broker must reject."""
    if others is None or len(others) != OTHERS or any({*one} != {"baseOffset", "hex"} for one in others):
        raise NotationError(f"value: otherPartitions: baseOffset and hex of {OTHERS} partitions are expected")
    for at, one in enumerate(others):
        if one["baseOffset"] >= 0 or one["hex"]:
            how = "is served" if one["hex"] else f"gets offset {one['baseOffset']}"
            return failed(f"invalid data {how} in another partition of the request", f"otherPartitions[{at}]")
    return None


def _stored_fault(expect: ExpectAppend, answered: Value, served: bytes) -> Verdict | None:
    """Return a failure if the stored records differ from the served ones, although those are correct."""
    verdict = _as_sent(expect, answered["logEnd"], answered["stored"], "stored")
    if verdict.kind is not VerdictKind.FAIL:
        kept, shown = (records_of(codec.decode("LOG", data).value["batches"]) for data in (answered["stored"], served))
        path = next(CONVERTED.mismatches(shown, kept), None)
        if path is None:
            return None
        verdict = failed(f"{path} differs between the stored and the served records", path)
    return replace(verdict, detail=f"{verdict.detail} (segment {answered.get('segment')})", path="")


def _as_sent(expect: ExpectAppend, end: int, data: bytes, how: str) -> Verdict:
    """Compare the served or stored bytes after the old end of the log with the batch that the producer sent."""
    batches = batches_in(data, how)
    if isinstance(batches, Verdict):
        return batches
    high = max((batch["magic"] for batch in batches), default=expect.max_magic)
    if high > expect.max_magic:
        hint = f"a batch of magic {high} is {how}, but this version of Fetch returns at most magic {expect.max_magic}"
        return Verdict(VerdictKind.FAIL, hint, path="[0].magic", requirement=_DOWN, level="should")
    # A broker may serve messages unmodified, or as a batch. So messages are converted before the comparison.
    shown = converted_records(batches, BATCHES) if "magic" in expect.free else records_of(batches)
    records = tuple({**record, "offset": record["offset"] - end} for record in shown)
    expected = tuple({name: record[name] for name in record if name not in expect.free} for record in expect.records)
    path = next(CONVERTED.mismatches(expected, records), None)
    if path is not None:
        rule = _OFFSETS if path.endswith(".offset") else ""
        return failed(f"{path} differs in the {how} records", path, rule)
    differs = next(filter(None, map(_header_fault, batches)), None)
    return differs or (Verdict(VerdictKind.EITHER, "accepted") if expect.open else PASSED)


def _max_timestamp_fault(served: bytes) -> Verdict | None:
    """Return a failure if maxTimestamp of a served batch with CreateTime is not its largest timestamp."""
    for batch in codec.decode("LOG", served).value["batches"]:
        if batch["magic"] < BATCHES or batch["timestampType"] or not batch["records"]:
            continue
        largest = max(record["timestamp"] for record in batch["records"])
        # A negative timestamp means none. For a batch without timestamps, the broker may choose maxTimestamp.
        if largest >= 0 and batch["maxTimestamp"] != largest:
            hint = f"maxTimestamp {batch['maxTimestamp']} is served, but the largest record timestamp is {largest}"
            return Verdict(VerdictKind.FAIL, hint, requirement=_LARGEST, level="should")
    return None


def _append_time_fault(answered: Value, served: bytes) -> Verdict | None:
    """Return a failure if LogAppendTimeMs is not the timestamp that consumers get, or not -1 with CreateTime."""
    append_time = answered.get("appendTime")
    batches = codec.decode("LOG", served).value["batches"]
    expected = next((batch["maxTimestamp"] if batch["timestampType"] else -1 for batch in batches), append_time)
    if append_time in (None, expected):
        return None
    hint = f"the Produce response has LogAppendTimeMs {append_time} instead of {expected}"
    return Verdict(VerdictKind.FAIL, hint, path="appendTime", requirement=_APPEND_TIME_RULE, level="should")


def _header_fault(batch: Value) -> Verdict | None:
    """Return a failure if a field of the batch header that the broker sets is wrong."""
    if batch.get("partitionLeaderEpoch", 0) < 0:
        hint = f"partitionLeaderEpoch is {batch['partitionLeaderEpoch']}, but the broker must set it"
        return failed(hint, "[0].partitionLeaderEpoch", _EPOCH)
    if batch.get("timestampType") and batch["maxTimestamp"] < 0:
        return failed("the append time is negative", "[0].timestamp", _APPENDED_TIME)
    return None


_SEEN_RULES = {
    "offset": "offset.record-formula",
    "timestamp": "timestamp.record-formula",
    "timestampType": "attributes.timestamp-type-bit",
    "key": "record.key-length",
    "value": "record.value-length",
    "headers": "record.headers-follow-count",
}
"""The requirement that specifies a field of a record, as an application gets it."""

_OF_MESSAGES = MESSAGE_RULES | {"timestampType": "legacy.v1-attributes", "headers": "legacy.v1-features"}
"""The same for a message of magic 0 or 1."""

_NEXT = "offset.next-formula"
_APPENDED_TIME, _APPENDED_TIME_OF_MESSAGES = "timestamp.log-append-overwritten", "legacy.log-append-overwrites"
_APPEND_TIME = TIMESTAMP_TYPES.index("LogAppendTime")


def judge_log(expect: WholeLog, answer: Answer) -> Verdict:
    """Judge the answer to an operation without a type. Raises NotationError."""
    match expect:
        case ExpectConsumerView():
            return judge_read(expect, answer.get("value"))
        case ExpectConvertedRecords(records):
            return judge_converted(records, bytes_of(answer))
        case ExpectSequenceResults(answers):
            return judge_sequence(answers, answer.get("value"))
        case ExpectClientRequests():
            return judge_sent(expect, answer.get("value"))
        case ExpectAppend():
            return judge_appended(expect, answer.get("value"), bytes_of(answer))
        case ExpectResponses():
            return judge_exchanged(expect, answer)
        case ExpectScenario():
            return judge_scenario(expect, answer.get("value"))


# --- read ---------------------------------------------------------------------------------------------


def judge_read(expected: ExpectConsumerView, given: object) -> Verdict:
    """Compare the delivered records of a fetch with the expected ones. Raises NotationError."""
    answered = VIEW_NOTATION.parse(given)
    error = answered.get("error")
    if error is not None and error not in ERRORS:
        raise NotationError(f"error: expected one of {', '.join(ERRORS)}, found {error!r:.60}")
    verdict = _judged(expected, answered, error)
    violation = answered.get("guardViolation")
    return failed(violation, "guardViolation") if violation and verdict.kind is not VerdictKind.FAIL else verdict


def _judged(expected: ExpectConsumerView, answered: Value, error: str | None) -> Verdict:
    verdict = _read(expected.view, answered, error)
    if expected.open and verdict.kind is VerdictKind.PASS:
        return Verdict(VerdictKind.EITHER, "delivered")
    if expected.open and error is not None:
        return _partial_delivery(expected.view, answered) or Verdict(VerdictKind.EITHER, f"stopped with {error}")
    damage = expected.view.damage
    if verdict.kind is not VerdictKind.FAIL or damage is None or damage.requirement not in CHECKSUM_RULES:
        return verdict
    if _read(expected.unchecked, answered, error).kind is VerdictKind.FAIL:
        return verdict
    hint = f"delivered although a checksum is wrong: {damage}"
    return Verdict(VerdictKind.FAIL, hint, requirement=damage.requirement, level="should")


def _partial_delivery(view: ConsumerView, answered: Value) -> Verdict | None:
    """Return a failure for wrong records before a rejected unspecified place; records may be missing."""
    shown = answered.get("records", UNSHOWN)
    expected = [] if shown is UNSHOWN else list(view.records[: len(shown)])
    return _records_differ(view, expected, shown, whole=False)


def _read(view: ConsumerView, answered: Value, error: str | None) -> Verdict:
    stop = answered.get("nextOffset")
    expected = [record for record in view.records if stop is None or error is not None or record["offset"] < stop]
    shown = answered.get("records", UNSHOWN)
    differs = _records_differ(view, expected, shown, whole=error is None)
    differs = differs or _end_fault(view, stop, error) or _records_after_damage(view, shown)
    if differs is not None:
        return differs
    if shown is UNSHOWN or not ListOf(RECORD_NOTATION).observed(shown):
        return Verdict(VerdictKind.SKIP, "unobserved: the target shows no records", unobserved=("records",))
    hidden = unshown_paths(ListOf(RECORD_NOTATION), expected, shown, "records")
    hidden += [] if stop is not None else ["nextOffset"]
    return Verdict(VerdictKind.PASS, unobserved=tuple(hidden)) if hidden else PASSED


def _records_after_damage(view: ConsumerView, shown: Value) -> Verdict | None:
    """Return a failure if a damaged record, or one after the damage, is delivered before the error.

    The consumer may deliver the records before the damage (decisions#how-we-judge-with-this-page, rule 10).
    """
    if view.damage is None or view.before_damage is None or shown is UNSHOWN:
        return None
    most = len(view.records) + view.before_damage
    if len(shown) <= most:
        return None
    hint = f"{len(shown)} records are delivered, but at most {most} precede the damage"
    return failed(f"{hint}: {view.damage.hint}", f"records[{most}]", view.damage.requirement)


def _records_differ(view: ConsumerView, expected: list[Value], shown: Value, *, whole: bool) -> Verdict | None:
    """Return a failure for the first missing, surplus or wrong record; `whole` is false after an error.

    After an error, surplus records are not judged here.
    """
    if shown is UNSHOWN:
        return None
    offsets = [record.get("offset") for record in shown]
    forbidden = next((at for at, offset in enumerate(offsets) if offset in view.hidden), None)
    if forbidden is not None and offsets[forbidden] not in [record["offset"] for record in view.records]:
        offset = offsets[forbidden]
        return failed(
            f"the record at offset {offset} is delivered, but an application must not see it",
            f"records[{forbidden}]",
            view.hidden[offset],
        )
    early = next((at for at, offset in enumerate(offsets) if offset is not None and offset < view.fetch_offset), None)
    if early is not None:
        hint = f"offset {offsets[early]} is delivered, but the fetch began at {view.fetch_offset}"
        return failed(hint, f"records[{early}]", "offset.fetch-absolute")
    compared = shown if whole else shown[: len(expected)]
    paths, both = (
        ListOf(RECORD_NOTATION).mismatches(tuple(expected), compared, "records"),
        ({"records": expected}, {"records": compared}),
    )
    path = first = next(paths, None)
    if first is not None and is_of_a_map(*both, first):
        path = next((one for one in paths if not is_of_a_map(*both, one)), None)
        if path is None:
            return failed(f"{first} differs: only one header per key is delivered", first, DUPLICATE_HEADERS)
    if path is None:
        return None
    at, _, field = path.removeprefix("records[").partition("].")
    if not field:
        return failed(f"{len(shown)} records are delivered instead of {len(expected)}", path)
    missing = expected[int(at)]["offset"]
    if field == "offset" and missing not in offsets and offsets[int(at)] in [record["offset"] for record in expected]:
        return failed(f"the record at offset {missing} is not delivered", f"records[{at}]")
    place = cause_of_difference(view.remarks, path)
    rule = place.requirement if place else _rule_of(field.partition("[")[0], expected[int(at)], view)
    return failed(f"{path} differs", path, rule)


def _rule_of(field: str, record: Value, view: ConsumerView) -> str:
    """Return the requirement that specifies a field of a record."""
    is_legacy = record["offset"] in view.legacy
    if field == "timestamp" and record["timestampType"] == _APPEND_TIME:
        return _APPENDED_TIME_OF_MESSAGES if is_legacy else _APPENDED_TIME
    return (_OF_MESSAGES if is_legacy else _SEEN_RULES)[field]


def _end_fault(view: ConsumerView, stop: int | None, error: str | None) -> Verdict | None:
    """Return a failure if damage is not reported, or if the next offset is wrong."""
    if error is not None:
        return None if view.damage else failed(f"stopped with {error}, but the log is not damaged", "error")
    if view.damage is not None and (stop is None or not view.fetch_offset < stop <= view.next_offset):
        return failed(f"the damage is not reported: {view.damage}", "error", view.damage.requirement)
    return None if stop is None else _next_offset_fault(view, stop)


def _next_offset_fault(view: ConsumerView, stop: int) -> Verdict | None:
    if stop > view.next_offset:
        return failed(f"nextOffset {stop} is beyond the last complete entry", "nextOffset", _NEXT)
    if stop <= view.fetch_offset < view.next_offset:
        return failed(
            f"nextOffset {stop} does not advance: the next fetch would return the same records", "nextOffset", _NEXT
        )
    if stop != view.fetch_offset and stop not in view.ends:
        hint = f"nextOffset {stop} is not the end of an entry"
        return Verdict(VerdictKind.FAIL, hint, path="nextOffset", requirement=_NEXT, level="should")
    return None


# --- convert ------------------------------------------------------------------------------------------


def judge_converted(records: tuple[Value, ...], found: bytes) -> Verdict:
    """Compare the records of converted bytes, as the reference decodes them, with the expected records."""
    batches = batches_in(found, "written")
    if isinstance(batches, Verdict):
        return batches
    path = next(CONVERTED.mismatches(records, records_of(batches)), None)
    return PASSED if path is None else failed(f"{path} differs in the written records", path)


# --- sequence -----------------------------------------------------------------------------------------


def judge_sequence(answers: tuple[frozenset[str], ...], given: object) -> Verdict:
    """Compare the result of each batch with the accepted ones. Raises NotationError."""
    known = (*ANSWERS, REFUSED)
    if not isinstance(given, list) or len(given) != len(answers) or not all(entry in known for entry in given):
        raise NotationError(f"value: expected {len(answers)} of {', '.join(ANSWERS)}, found {given!r:.80}")
    for index, (right, result) in enumerate(zip(answers, given, strict=True)):
        if result not in right and not (result == REFUSED and _names_no_error(right)):
            return failed(
                f"batch {index} has the result {result} instead of {' or '.join(sorted(right))}", f"[{index}]"
            )
    unspecified = [entry for right, entry in zip(answers, given, strict=True) if len(right) > 1 or entry not in right]
    return Verdict(VerdictKind.EITHER, "results: " + ", ".join(unspecified)) if unspecified else PASSED


def _names_no_error(right: frozenset[str]) -> bool:
    """Return whether a batch may be rejected with any error: documents name the error of a gap, not of an old epoch."""
    return "fenced" in right or {"accept", "out-of-order"} <= right
