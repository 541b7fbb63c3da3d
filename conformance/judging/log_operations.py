"""Judges answers about whole logs, an operation after the other (docs/concepts.md#how-a-case-is-judged)."""

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
from conformance.judging.answers import batches_in, bytes_of, failed
from conformance.judging.broker_scenario import judge_scenario
from conformance.judging.client_requests import judge_sent
from conformance.judging.differences import DUPLICATE_HEADERS, cause_of_difference, is_of_a_map
from conformance.judging.raw_requests import judge_exchanged
from conformance.semantics.consumer_view import RECORD_NOTATION, VIEW_NOTATION, ConsumerView
from conformance.semantics.format_conversion import CONVERTED, converted_records, records_of
from conformance.semantics.producer_state import ANSWERS

_APPENDED_TIME = "timestamp.log-append-overwritten"
_LARGEST = "broker.writes-max-timestamp"
_EPOCH = "batch.partition-leader-epoch-by-broker"
_TELLS_TIME = "broker.tells-append-time"
_DOWN = "convert.down-for-old-consumers"
_OFFSETS = "offset.broker-assigns-base"


def judge_appended(expect: ExpectAppend, given: object, served: bytes) -> Verdict:
    """Hold the bytes that a broker serves of a batch against the batch that it was sent. Raises NotationError."""
    answered = ANSWERED.parse(given)
    if not {"logEnd", "baseOffset"} <= set(answered):
        raise NotationError("value: logEnd and baseOffset are expected")
    end, told = answered["logEnd"], answered["baseOffset"]
    if told != end:
        return failed(f"the broker told offset {told}, and its log ended at {end}", "baseOffset", _OFFSETS)
    taken = _taken_elsewhere(answered.get("otherPartitions")) if expect.has_other_partitions else None
    if taken is not None:
        return taken
    verdict = _as_sent(expect, end, served, "served")
    if verdict.kind is not VerdictKind.FAIL and answered.get("stored") is not None:
        verdict = _stored(expect, answered, served) or verdict
    if verdict.kind is VerdictKind.FAIL:
        return verdict
    # Where the times are the broker's choice, by the topic or by what the producer wrote, so is the largest.
    untimely = None if "timestamp" in expect.free else _untimely(served)
    return untimely or (_told_time(answered, served) if expect.tells_time else None) or verdict


def _taken_elsewhere(others: Value) -> Verdict | None:
    """Return a failure if another partition of the request accepted data that a broker must reject."""
    if others is None or len(others) != OTHERS or any({*one} != {"baseOffset", "hex"} for one in others):
        raise NotationError(f"value: otherPartitions: baseOffset and hex of {OTHERS} partitions are expected")
    for at, one in enumerate(others):
        if one["baseOffset"] >= 0 or one["hex"]:
            how = "is served" if one["hex"] else f"gets offset {one['baseOffset']}"
            return failed(
                f"data that is to be refused {how} in another partition of the request", f"otherPartitions[{at}]"
            )
    return None


def _stored(expect: ExpectAppend, answered: Value, served: bytes) -> Verdict | None:
    """Return a failure if the stored records differ from the served ones, although those are correct."""
    verdict = _as_sent(expect, answered["logEnd"], answered["stored"], "stored")
    if verdict.kind is not VerdictKind.FAIL:
        kept, shown = (records_of(codec.decode("LOG", data).value["batches"]) for data in (answered["stored"], served))
        path = next(CONVERTED.mismatches(shown, kept), None)
        if path is None:
            return None
        verdict = failed(f"{path} is stored otherwise than it is served", path)
    return replace(verdict, detail=f"{verdict.detail} (segment {answered.get('segment')})", path="")


def _as_sent(expect: ExpectAppend, end: int, data: bytes, how: str) -> Verdict:
    """Hold what a broker made of a batch, from where its log ended, against the batch that it was sent."""
    batches = batches_in(data, how)
    if isinstance(batches, Verdict):
        return batches
    high = max((batch["magic"] for batch in batches), default=expect.most)
    if high > expect.most:
        hint = f"a batch of magic {high} is {how}, and the fetch carries magic {expect.most}"
        return Verdict(VerdictKind.FAIL, hint, path="[0].magic", requirement=_DOWN, level="should")
    # A broker that keeps messages as they came serves them so: held against the batch that others make of them.
    shown = converted_records(batches, BATCHES) if "magic" in expect.free else records_of(batches)
    records = tuple({**record, "offset": record["offset"] - end} for record in shown)
    due = tuple({name: record[name] for name in record if name not in expect.free} for record in expect.records)
    path = next(CONVERTED.mismatches(due, records), None)
    if path is not None:
        rule = _OFFSETS if path.endswith(".offset") else ""
        return failed(f"{path} differs in what was {how}", path, rule)
    differs = next(filter(None, map(_of_broker, batches)), None)
    return differs or (Verdict(VerdictKind.EITHER, "taken") if expect.open else PASSED)


def _untimely(served: bytes) -> Verdict | None:
    """What is wrong with the largest timestamp that a broker serves of a batch whose records keep their own times."""
    for batch in codec.decode("LOG", served).value["batches"]:
        if batch["magic"] < BATCHES or batch["timestampType"] or not batch["records"]:
            continue
        largest = max(record["timestamp"] for record in batch["records"])
        # Times below 0 are none: what a broker writes where there is no other is its own.
        if largest >= 0 and batch["maxTimestamp"] != largest:
            hint = f"maxTimestamp {batch['maxTimestamp']} is served, and the largest of the records is {largest}"
            return Verdict(VerdictKind.FAIL, hint, requirement=_LARGEST, level="should")
    return None


def _told_time(answered: Value, served: bytes) -> Verdict | None:
    """What is wrong with the time that a broker told: that which its consumers see, where it is that of the append."""
    told = answered.get("appendTime")
    batches = codec.decode("LOG", served).value["batches"]
    due = next((batch["maxTimestamp"] if batch["timestampType"] else -1 for batch in batches), told)
    if told in (None, due):
        return None
    hint = f"the broker told the producer {told} as the time of the append, due is {due}"
    return Verdict(VerdictKind.FAIL, hint, path="appendTime", requirement=_TELLS_TIME, level="should")


def _of_broker(batch: Value) -> Verdict | None:
    """What is wrong with what a broker writes into the header of a batch."""
    if batch.get("partitionLeaderEpoch", 0) < 0:
        hint = f"partitionLeaderEpoch {batch['partitionLeaderEpoch']}: the broker sets it"
        return failed(hint, "[0].partitionLeaderEpoch", _EPOCH)
    if batch.get("timestampType") and batch["maxTimestamp"] < 0:
        return failed("the time of the append is below 0", "[0].timestamp", _APPENDED_TIME)
    return None


_SEEN_RULES = {
    "offset": "offset.record-formula",
    "timestamp": "timestamp.record-formula",
    "timestampType": "attributes.timestamp-type-bit",
    "key": "record.key-length",
    "value": "record.value-length",
    "headers": "record.headers-follow-count",
}
"""The requirement that says what a part of a record is to an application."""

_OF_MESSAGES = MESSAGE_RULES | {"timestampType": "legacy.v1-attributes", "headers": "legacy.v1-features"}
"""The same for a message of magic 0 or 1."""

_NEXT = "offset.next-formula"
_APPENDED_TIME, _APPENDED_TIME_OF_MESSAGES = "timestamp.log-append-overwritten", "legacy.log-append-overwrites"
_APPEND_TIME = TIMESTAMP_TYPES.index("LogAppendTime")


def judge_log(expect: WholeLog, answer: Answer) -> Verdict:
    """Judge the answer to an operation that names no type. Raises NotationError."""
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
            from conformance.judging.log_operations import judge_appended

            return judge_appended(expect, answer.get("value"), bytes_of(answer))
        case ExpectResponses():
            return judge_exchanged(expect, answer)
        case ExpectScenario():
            return judge_scenario(expect, answer.get("value"))


# --- read ---------------------------------------------------------------------------------------------


def judge_read(expected: ExpectConsumerView, given: object) -> Verdict:
    """Hold what a fetch delivered against what there is to be seen. Raises NotationError."""
    answered = VIEW_NOTATION.parse(given)
    error = answered.get("error")
    if error is not None and error not in ERRORS:
        raise NotationError(f"error: expected one of {', '.join(ERRORS)}, found {error!r:.60}")
    verdict = _judged(expected, answered, error)
    changed = answered.get("guardViolation")
    return failed(changed, "guardViolation") if changed and verdict.kind is not VerdictKind.FAIL else verdict


def _judged(expected: ExpectConsumerView, answered: Value, error: str | None) -> Verdict:
    verdict = _read(expected.view, answered, error)
    if expected.open and verdict.kind is VerdictKind.PASS:
        return Verdict(VerdictKind.EITHER, "delivered")
    if expected.open and error is not None:
        return _stopped_early(expected.view, answered) or Verdict(VerdictKind.EITHER, f"stopped with {error}")
    damage = expected.view.damage
    if verdict.kind is not VerdictKind.FAIL or damage is None or damage.requirement not in CHECKSUM_RULES:
        return verdict
    if _read(expected.unchecked, answered, error).kind is VerdictKind.FAIL:
        return verdict
    hint = f"delivered although a checksum is wrong: {damage}"
    return Verdict(VerdictKind.FAIL, hint, requirement=damage.requirement, level="should")


def _stopped_early(view: ConsumerView, answered: Value) -> Verdict | None:
    """What is wrong with the records delivered before an open place was refused; there may be fewer than are due."""
    shown = answered.get("records", UNSHOWN)
    due = [] if shown is UNSHOWN else list(view.records[: len(shown)])
    return _records_differ(view, due, shown, whole=False)


def _read(view: ConsumerView, answered: Value, error: str | None) -> Verdict:
    stop = answered.get("nextOffset")
    due = [record for record in view.records if stop is None or error is not None or record["offset"] < stop]
    shown = answered.get("records", UNSHOWN)
    differs = _records_differ(view, due, shown, whole=error is None)
    differs = differs or _ending(view, stop, error) or _out_of_damage(view, shown)
    if differs is not None:
        return differs
    if shown is UNSHOWN or not ListOf(RECORD_NOTATION).observed(shown):
        return Verdict(VerdictKind.SKIP, "unobserved: the target shows no records", unobserved=("records",))
    hidden = unshown_paths(ListOf(RECORD_NOTATION), due, shown, "records")
    hidden += [] if stop is not None else ["nextOffset"]
    return Verdict(VerdictKind.PASS, unobserved=tuple(hidden)) if hidden else PASSED


def _out_of_damage(view: ConsumerView, shown: Value) -> Verdict | None:
    """A record that is handed out although it is damaged, or behind damage, before an error is reported.

    The records in front of it may be handed out (decisions#how-we-judge-with-this-page, rule 10).
    """
    if view.damage is None or view.before_damage is None or shown is UNSHOWN:
        return None
    most = len(view.records) + view.before_damage
    if len(shown) <= most:
        return None
    hint = f"{len(shown)} records are delivered, of which {most} at most stand in front of the damage"
    return failed(f"{hint}: {view.damage.hint}", f"records[{most}]", view.damage.requirement)


def _records_differ(view: ConsumerView, due: list[Value], shown: Value, *, whole: bool) -> Verdict | None:
    """The first record that is missing, too many or wrong; after an error, more than what is due is not looked at."""
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
    held = shown if whole else shown[: len(due)]
    paths, both = ListOf(RECORD_NOTATION).mismatches(tuple(due), held, "records"), ({"records": due}, {"records": held})
    path = first = next(paths, None)
    if first is not None and is_of_a_map(*both, first):
        path = next((one for one in paths if not is_of_a_map(*both, one)), None)
        if path is None:
            return failed(f"{first} differs: one header is delivered of each key", first, DUPLICATE_HEADERS)
    if path is None:
        return None
    at, _, field = path.removeprefix("records[").partition("].")
    if not field:
        return failed(f"{len(shown)} records are delivered instead of {len(due)}", path)
    missing = due[int(at)]["offset"]
    if field == "offset" and missing not in offsets and offsets[int(at)] in [record["offset"] for record in due]:
        return failed(f"the record at offset {missing} is not delivered", f"records[{at}]")
    place = cause_of_difference(view.remarks, path)
    rule = place.requirement if place else _rule_of(field.partition("[")[0], due[int(at)], view)
    return failed(f"{path} differs", path, rule)


def _rule_of(field: str, record: Value, view: ConsumerView) -> str:
    """The requirement that says what a field of a record is."""
    is_legacy = record["offset"] in view.legacy
    if field == "timestamp" and record["timestampType"] == _APPEND_TIME:
        return _APPENDED_TIME_OF_MESSAGES if is_legacy else _APPENDED_TIME
    return (_OF_MESSAGES if is_legacy else _SEEN_RULES)[field]


def _ending(view: ConsumerView, stop: int | None, error: str | None) -> Verdict | None:
    """Whether damage is reported and the next offset is right."""
    if error is not None:
        return None if view.damage else failed(f"stopped with {error}, but the log is not damaged", "error")
    if view.damage is not None and (stop is None or not view.fetch_offset < stop <= view.next_offset):
        return failed(f"the damage is not reported: {view.damage}", "error", view.damage.requirement)
    return None if stop is None else _next(view, stop)


def _next(view: ConsumerView, stop: int) -> Verdict | None:
    if stop > view.next_offset:
        return failed(f"nextOffset {stop} is beyond the last whole entry", "nextOffset", _NEXT)
    if stop <= view.fetch_offset < view.next_offset:
        return failed(
            f"nextOffset {stop} does not move on: the next fetch would return the same records", "nextOffset", _NEXT
        )
    if stop != view.fetch_offset and stop not in view.ends:
        hint = f"nextOffset {stop} is not the end of an entry"
        return Verdict(VerdictKind.FAIL, hint, path="nextOffset", requirement=_NEXT, level="should")
    return None


# --- convert ------------------------------------------------------------------------------------------


def judge_converted(records: tuple[Value, ...], found: bytes) -> Verdict:
    """Hold what a converter wrote, as the reference reads it, against what should be in it."""
    batches = batches_in(found, "written")
    if isinstance(batches, Verdict):
        return batches
    path = next(CONVERTED.mismatches(records, records_of(batches)), None)
    return PASSED if path is None else failed(f"{path} differs in what was written", path)


# --- sequence -----------------------------------------------------------------------------------------


def judge_sequence(answers: tuple[frozenset[str], ...], given: object) -> Verdict:
    """Hold an answer for each batch against those that are right. Raises NotationError."""
    known = (*ANSWERS, REFUSED)
    if not isinstance(given, list) or len(given) != len(answers) or not all(entry in known for entry in given):
        raise NotationError(f"value: expected {len(answers)} of {', '.join(ANSWERS)}, found {given!r:.80}")
    for index, (right, fate) in enumerate(zip(answers, given, strict=True)):
        if fate not in right and not (fate == REFUSED and _names_no_error(right)):
            return failed(f"batch {index} is answered {fate} instead of {' or '.join(sorted(right))}", f"[{index}]")
    met = [entry for right, entry in zip(answers, given, strict=True) if len(right) > 1 or entry not in right]
    return Verdict(VerdictKind.EITHER, "answered " + ", ".join(met)) if met else PASSED


def _names_no_error(right: frozenset[str]) -> bool:
    """Whether a batch may be refused, and no document names the error: that of a gap is named, of an old epoch not."""
    return "fenced" in right or {"accept", "out-of-order"} <= right
