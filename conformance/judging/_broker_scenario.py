"""The judge of broker scenarios: it checks the results of the steps in order (docs/brokers.md).

The results of earlier steps show which batches the broker accepted, and at which offsets. The expected result of a
fetch follows from these.
"""

from __future__ import annotations

import struct

from msgspec import Struct, field

from conformance import codec
from conformance.cases.model import PASSED, ExpectScenario, Value, Verdict, VerdictKind
from conformance.codec.log import last_offset
from conformance.semantics.broker_steps import (
    BEYOND_END,
    END,
    FILLER_VALUE,
    MAX_BYTES,
    START,
    Compact,
    CompactionResult,
    DeleteRecords,
    DeleteRecordsResult,
    EndTransaction,
    ExpireByRetention,
    Fetch,
    FetchResult,
    InitProducerId,
    InitProducerIdResult,
    ListOffsets,
    ListOffsetsResult,
    Produce,
    ProduceRawBytes,
    ProduceResult,
    ProducerIdentity,
    RetryProduce,
    Step,
    StepDone,
    StepResult,
    batch_of,
    parsed_results,
    step_text,
)
from conformance.semantics.consumer_view import READ_COMMITTED, AbortedTransaction, consumer_view

Label = tuple[int, bytes | None]
"""The offset and value of a record."""


class AcceptedBatch(Struct):
    """A batch that the broker accepted."""

    offset: int
    batch: Value
    """The batch as it was sent."""
    producer: ProducerIdentity | None
    decided: str
    """`committed`, `open` or `aborted`."""

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.offset + len(self.batch["records"])

    def labels(self) -> list[Label]:
        """The offset and value of each record."""
        return [(self.offset + at, record["value"]) for at, record in enumerate(self.batch["records"])]


class ImpliedLog(Struct):
    """The contents of a log that follow from the results of a broker."""

    keeps_tombstones: bool
    """The topic keeps records with a null value for a while if they are the last of their keys."""
    stored: list[AcceptedBatch] = field(default_factory=list)
    producers: dict[str, ProducerIdentity] = field(default_factory=dict)
    identities: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and newest epoch, by transactional id."""
    given: set[int] = field(default_factory=set)
    end: int = 0
    first: int | None = None
    """The log start offset; None before a record was deleted."""
    is_expiring: bool = False
    """The broker may delete more records at any time."""
    places: dict[str, int] = field(default_factory=dict)
    """The offset of each record, by label."""
    batch_offsets: dict[int, int] = field(default_factory=dict)
    """The offset of each batch, by step."""
    is_compacted: bool = False
    cleaner_wait_start: int = 0
    """The time at which the wait for the log cleaner began, in milliseconds since 1970."""
    began: int = 0
    """The time 0 of record timestamps in the scenario, in milliseconds since 1970."""
    has_broker_times: bool = False
    """Records have timestamps of the broker, not of their producer."""
    has_unknown_bytes: bool = False
    """The broker accepted bytes that the scenario does not describe."""

    @property
    def stable(self) -> int | None:
        """The first offset of an open transaction; None if all transactions have ended."""
        return min((one.offset for one in self.stored if one.decided == "open"), default=None)

    def offset_of(self, place: str) -> int | None:
        """Return the offset of a record, or of the start of the scenario; None if it is unknown."""
        return min(self.places.values(), default=None) if place == START else self.places.get(place)

    def decide(self, producer: ProducerIdentity, how: str) -> None:
        """End the transaction of a producer."""
        for one in self.stored:
            if one.producer is not None and one.producer.identity == producer.identity and one.decided == "open":
                one.decided = how
        producer.in_transaction = False


def failed(detail: str, requirement: str = "") -> Verdict:
    """Return the failure of a step; without a requirement it breaks the requirement of the case."""
    return Verdict(VerdictKind.FAIL, detail, requirement=requirement)


def text(record: Label) -> str:
    """Return a text with the value and the offset of a record."""
    offset, value = record
    return f"record {'null' if value is None else repr(value.decode('utf-8', 'replace'))} at offset {offset}"


LOG_START_RULE = "broker.tells-log-start"
TIME_SEARCH_RULE = "broker.finds-by-time"


def check_log_start(log: ImpliedLog, step: DeleteRecords, result: DeleteRecordsResult) -> Verdict:
    """Check that the log begins at the offset before which all records were deleted."""
    if result.refused:
        return failed(f"rejected: {result.refused}", LOG_START_RULE)
    start, expected = int(result.low_watermark), log.end if step.before == END else log.places.get(step.before, -1)
    # A marker may follow after the last record, so the log may begin later than its last known offset.
    if start < expected or (start > expected and step.before != END):
        return failed(
            f"the log begins at offset {start}, but the records before {expected} were to be deleted", LOG_START_RULE
        )
    log.first = start
    return PASSED


def check_list_offsets(log: ImpliedLog, step: ListOffsets, result: ListOffsetsResult) -> Verdict:
    """Check the first and last offset: the log begins after the deleted records and ends after the accepted ones."""
    if result.refused:
        return failed(f"rejected: {result.refused}", LOG_START_RULE if step.time is None else TIME_SEARCH_RULE)
    if step.time is not None:
        return _found_by_time(log, log.began + step.time, result)
    offset, first = int(result.offset), log.first or 0
    if step.offset == "latest":
        is_right, expected = offset >= log.end, f"the log ended at {log.end}"
    else:
        is_right, expected = (
            offset >= first if log.first is None else _is_possible_start(log, offset),
            f"the log begins at {first}",
        )
    return PASSED if is_right else failed(f"the broker returns offset {offset}, but {expected}", LOG_START_RULE)


def _found_by_time(log: ImpliedLog, time: int, result: ListOffsetsResult) -> Verdict:
    """Check that the offset is that of the first record with this timestamp or a later one."""
    # A marker has its own timestamp, which may be later than that of the records.
    if log.has_broker_times or any(one.batch["isTransactional"] for one in log.stored):
        return Verdict(VerdictKind.EITHER, f"offset {result.offset}")
    expected = next(
        (
            (offset, record["timestamp"])
            for one in log.stored
            for offset, record in enumerate(one.batch["records"], start=one.offset)
            if offset >= (log.first or 0) and record["timestamp"] >= time
        ),
        (-1, -1),
    )
    if (int(result.offset), int(result.time)) == expected:
        return PASSED
    after, expected_after = (
        f"{each - log.began} ms" if each >= 0 else str(each) for each in (int(result.time), expected[1])
    )
    return failed(
        f"the broker returns offset {result.offset} at {after} instead of offset {expected[0]} at {expected_after}",
        TIME_SEARCH_RULE,
    )


def _is_possible_start(log: ImpliedLog, offset: int) -> bool:
    """Return whether a log with deleted records can begin at an offset."""
    first = log.first or 0
    return first <= offset <= max(first, log.end) if log.is_expiring else offset == first


KEPT_OFFSETS_RULE = "compaction.offsets-preserved"
KEPT_SEQUENCES_RULE = "compaction.sequences-preserved"
KEPT_TIMES_RULE = "compaction.base-timestamp-changes"
DELETE_HORIZON_RULE = "delete-horizon.set-by-compaction"
KEPT_TOMBSTONE_RULE = "delete-horizon.kept-until"


def check_kept_records(log: ImpliedLog, found: list[Label], expected: list[Label]) -> Verdict | None:
    """Check that records keep their offsets, and that the last committed record of each key remains.

    A tombstone may be missing if the topic keeps none.
    """
    moved = next((one for one in found if one not in expected), None)
    if moved is not None:
        return failed(f"after compaction, unexpected {text(moved)}", KEPT_OFFSETS_RULE)
    last: dict[bytes, Label] = {}
    for one in log.stored:
        if one.decided == "committed":
            for label, record in zip(one.labels(), one.batch["records"], strict=True):
                last[record["key"]] = label
    for key, label in last.items():
        if label not in expected or label in found:
            continue
        if label[1] is not None:
            return failed(f"after compaction, the last record of a key is missing: {text(label)}", KEPT_OFFSETS_RULE)
        if log.keeps_tombstones:
            return failed(f"after compaction, the tombstone of key {key!r} is gone", KEPT_TOMBSTONE_RULE)
    return None


def check_batches(log: ImpliedLog, batches: list[Value]) -> Verdict | None:
    """Check that a batch keeps its first and last offset and its sequence, and that its delete horizon is later."""
    sent = {one.offset: one for one in log.stored}
    for batch in batches:
        is_early = batch["hasDeleteHorizonMs"] and batch["baseTimestamp"] <= log.cleaner_wait_start
        if is_early and log.keeps_tombstones:
            hint = f"after compaction, the delete horizon {batch['baseTimestamp']} has already passed"
            return failed(hint, DELETE_HORIZON_RULE)
        if batch["isControlBatch"] or any(record["value"] == FILLER_VALUE for record in batch["records"]):
            continue
        one = sent.get(batch["baseOffset"])
        if one is None or last_offset(batch) != one.end - 1:
            span = f"{batch['baseOffset']} to {last_offset(batch)}"
            return failed(f"after compaction, a batch of offsets {span} that no producer wrote", KEPT_OFFSETS_RULE)
        fields = ("producerId", "producerEpoch", "baseSequence")
        differs = next((name for name in fields if batch[name] != one.batch[name]), None)
        if differs:
            hint = f"after compaction, {differs} {batch[differs]} instead of {one.batch[differs]}"
            return failed(hint, KEPT_SEQUENCES_RULE)
    return None


PRODUCER_ID_RULE = "producer-id.assigned-by-broker"
FENCING_RULE = "producer-epoch.fences"
DUPLICATE_RULE = "sequence.duplicate-deduplicated"
INCREASING_OFFSETS_RULE = "broker.monotonic-offsets"
MARKER_RULE = "broker.marks-transactions"
UNDECIDED_RULE = "broker.holds-back-undecided"
ACKS_0_RULE = "broker.leaves-acks-0-unanswered"
FETCH_RULE = "broker.serves-from-offset"
DOWN_CONVERSION_RULE = "convert.down-for-old-consumers"
_MARKER_VALUE = struct.Struct(">hi")
"""The start of a marker's value: version and coordinator epoch (decisions#producer-state-and-control-batches)."""
_FIRST_WITH_MAGIC_1 = 2
"""The first version of Fetch with messages of magic 1; earlier versions return magic 0."""
_FIRST_WITH_WHOLE_BATCH = 3
"""The first version of Fetch that returns the whole first batch even if it exceeds the requested bytes."""


def judge_scenario(expect: ExpectScenario, given: object) -> Verdict:
    """Compare the result of each step with the expectation at that step. Raises NotationError."""
    log = ImpliedLog(keeps_tombstones=not any(isinstance(step, Compact) and step.tombstones for step in expect.steps))
    is_open = False
    for at, (step, result) in enumerate(zip(expect.steps, parsed_results(expect.steps, given), strict=True)):
        verdict = _judged(log, at, step, result)
        if verdict.kind is VerdictKind.FAIL:
            return Verdict(
                VerdictKind.FAIL, f"step {at} ({step_text(step)}): {verdict.detail}", f"[{at}]", verdict.requirement
            )
        is_open |= verdict.kind is VerdictKind.EITHER
    return Verdict(VerdictKind.EITHER, "completed") if is_open else PASSED


def _judged(log: ImpliedLog, at: int, step: Step, result: StepResult) -> Verdict:
    match step, result:
        case InitProducerId(), InitProducerIdResult():
            return _producer_started(log, step, result)
        case Produce(), ProduceResult():
            return _produced(log, at, step, result)
        case EndTransaction(), StepDone():
            return _transaction_ended(log, step, result)
        case ProduceRawBytes(), ProduceResult():
            log.has_unknown_bytes |= not result.refused
            return Verdict(VerdictKind.EITHER, result.refused or "accepted")
        case Fetch(), FetchResult():
            return _fetched(log, step, result)
        case RetryProduce(), ProduceResult():
            return _retry(log, step, result)
    return _of_log(log, step, result)


def _of_log(log: ImpliedLog, step: Step, result: StepResult) -> Verdict:
    """Judge the steps that change the log, and those that return its offsets."""
    match step, result:
        case DeleteRecords(), DeleteRecordsResult():
            return check_log_start(log, step, result)
        case ListOffsets(), ListOffsetsResult():
            return check_list_offsets(log, step, result)
        case Compact(), CompactionResult():
            log.is_compacted, log.cleaner_wait_start = True, int(result.since)
        case ExpireByRetention(), StepDone():
            log.first, log.is_expiring = log.end, True
    return failed(f"rejected: {result.refused}") if result.refused else PASSED


# --- producers ----------------------------------------------------------------------------------------


def _producer_started(log: ImpliedLog, step: InitProducerId, result: InitProducerIdResult) -> Verdict:
    """Check that a producer id is unique; the same transactional id gets the same producer id with a newer epoch."""
    if result.refused:
        return failed(f"rejected: {result.refused}", PRODUCER_ID_RULE)
    identity, named = int(result.producer_id), step.transactional_id
    log.producers[step.producer] = ProducerIdentity(identity, result.producer_epoch, named, step.sequence)
    if identity < 0 or result.producer_epoch < 0:
        return failed(f"the broker assigns producer id {identity} and epoch {result.producer_epoch}", PRODUCER_ID_RULE)
    known = log.identities.get(named) if named is not None else None
    if named is not None:
        log.identities[named] = identity, result.producer_epoch
    is_of_another = identity in log.given and (known is None or known[0] != identity)
    log.given.add(identity)
    if is_of_another:
        return failed(f"producer id {identity} is assigned to two producers", PRODUCER_ID_RULE)
    if known is None:
        return PASSED
    if known[0] == identity and result.producer_epoch <= known[1]:
        return failed(
            f"epoch {result.producer_epoch} does not exceed epoch {known[1]} of the same transactional.id", FENCING_RULE
        )
    log.decide(ProducerIdentity(*known, named), "aborted")
    return PASSED


def _is_fenced(log: ImpliedLog, producer: ProducerIdentity) -> bool:
    newest = log.identities.get(producer.transactional_id or "", (producer.identity, producer.epoch))
    return newest != (producer.identity, producer.epoch)


def _fenced(refused: str) -> Verdict:
    return PASSED if refused else failed("accepted, although a newer instance of the producer has begun", FENCING_RULE)


def _produced(log: ImpliedLog, at: int, step: Produce, result: ProduceResult) -> Verdict:
    producer = log.producers[step.producer] if step.producer else None
    if producer is not None and _is_fenced(log, producer):
        return _fenced(result.refused)
    if result.refused and producer is not None and producer.sequence and not producer.has_written:
        return Verdict(VerdictKind.EITHER, result.refused)  # a first sequence other than 0 is unspecified
    if result.refused:
        return failed(f"rejected: {result.refused}")
    if result.answered:
        return failed("the broker responds, although the producer has acks 0", ACKS_0_RULE)
    offset = int(result.offset)
    if offset < log.end:
        return failed(f"the broker returns offset {offset}, but the log ended at {log.end}", INCREASING_OFFSETS_RULE)
    is_transactional = producer is not None and producer.transactional_id is not None
    stored = AcceptedBatch(
        offset, batch_of(step, at, producer, int(result.time)), producer, "open" if is_transactional else "committed"
    )
    log.stored.append(stored)
    log.began = int(result.time) if step.times else log.began
    log.end, log.batch_offsets[at] = stored.end, offset
    log.places.update((label, offset + index) for index, label in enumerate(step.labels(at)))
    if producer is not None:
        producer.wrote(step.records)
        producer.in_transaction = is_transactional
    return PASSED


def _retry(log: ImpliedLog, step: RetryProduce, result: ProduceResult) -> Verdict:
    """Check that the retry of an accepted batch returns the offset of that batch."""
    offset = log.batch_offsets.get(step.step)
    if offset is None:
        return Verdict(VerdictKind.EITHER, result.refused or "accepted")
    if result.refused:
        return failed(f"rejected: {result.refused}", DUPLICATE_RULE)
    is_known = int(result.offset) == offset
    return (
        PASSED if is_known else failed(f"the broker returns offset {result.offset} instead of {offset}", DUPLICATE_RULE)
    )


def _transaction_ended(log: ImpliedLog, step: EndTransaction, result: StepDone) -> Verdict:
    producer = log.producers[step.producer]
    if _is_fenced(log, producer):
        return _fenced(result.refused)
    if not producer.in_transaction:
        return Verdict(
            VerdictKind.EITHER, result.refused or "accepted"
        )  # the result of an empty transaction is unspecified
    if result.refused:
        return failed(f"rejected: {result.refused}", MARKER_RULE)
    log.decide(producer, "committed" if step.commit else "aborted")
    return PASSED


# --- fetches ------------------------------------------------------------------------------------------


def _fetched(log: ImpliedLog, step: Fetch, result: FetchResult) -> Verdict:
    if log.has_unknown_bytes:
        return Verdict(VerdictKind.EITHER, "the log contains bytes that the scenario does not describe")
    if step.at == BEYOND_END:
        return (
            PASSED
            if result.refused
            else failed("the broker returns no error, although the offset is beyond the end", FETCH_RULE)
        )
    place = log.offset_of(step.at)
    if log.first is not None and place is not None and place < log.first:
        hint = f"the broker returns no error, although offset {place} is before the log start {log.first}"
        return PASSED if result.refused else failed(hint, LOG_START_RULE)
    if log.is_expiring:
        return Verdict(VerdictKind.EITHER, result.refused or "served")  # the broker may have deleted newer records too
    if result.refused:
        return failed(f"rejected: {result.refused}", FETCH_RULE)
    data = bytes.fromhex(result.hex)
    read = codec.decode("LOG", data)
    if not read.ok:
        broken = read.violations[0]
        return failed(f"the served bytes cannot be decoded: {broken}", broken.requirement)
    batches = read.value["batches"]
    verdict = _bounded(log, step, result, batches) or _delivered(log, step, result, data)
    verdict = verdict or (check_batches(log, batches) if log.is_compacted else None)
    is_all = step.isolation != READ_COMMITTED and step.version is None
    if verdict is None and is_all and not log.is_compacted:
        verdict = _check_markers(log, batches, int(result.fetch_offset))
    return verdict or PASSED


def _bounded(log: ImpliedLog, step: Fetch, result: FetchResult, batches: list[Value]) -> Verdict | None:
    """Return a failure for wrong offsets: of the served batches, or in the fields of the Fetch response."""
    start, stable = int(result.fetch_offset), log.stable
    if step.version is None and batches and last_offset(batches[0]) < start:
        return failed(f"the first served batch ends before offset {start}", FETCH_RULE)
    if log.first is not None and result.log_start != "-1" and int(result.log_start) != log.first:
        return failed(
            f"the Fetch response has LogStartOffset {result.log_start} instead of {log.first}", LOG_START_RULE
        )
    if int(result.high_watermark) < log.end:
        return failed(f"high watermark {result.high_watermark}, but the log ended at {log.end}", FETCH_RULE)
    if step.isolation != READ_COMMITTED or log.is_compacted:
        return None
    expected = int(result.high_watermark) if stable is None else stable
    if int(result.last_stable_offset) != expected:
        return failed(f"last stable offset {result.last_stable_offset} instead of {expected}", UNDECIDED_RULE)
    if stable is not None and batches and batches[-1]["baseOffset"] >= stable:
        return failed(f"offset {batches[-1]['baseOffset']} is served, but offset {stable} is undecided", UNDECIDED_RULE)
    return None


def _delivered(log: ImpliedLog, step: Fetch, result: FetchResult, data: bytes) -> Verdict | None:
    """Return a failure if a consumer does not get the expected records, or the first of them if bytes are limited."""
    start = int(result.fetch_offset)
    listed = [AbortedTransaction(int(one.producer_id), int(one.first_offset)) for one in result.aborted]
    seen = consumer_view(data, start, isolation=step.isolation, aborted=listed)
    if seen.damage is not None:
        return failed(f"the served bytes are damaged: {seen.damage}", seen.damage.requirement)
    if step.version is not None:
        newest = max((entry.value["magic"] for entry in codec.entries(data) if entry.value), default=0)
        if newest > (step.version >= _FIRST_WITH_MAGIC_1):
            return failed(f"Fetch {step.version} returns messages of magic {newest}", DOWN_CONVERSION_RULE)
    found = [(one["offset"], one["value"]) for one in seen.records if one["value"] != FILLER_VALUE]
    expected = _expected_records(log, step, start)
    altered = next(filter(None, (_changed_record(log, record) for record in seen.records)), None)
    if altered or log.is_compacted:
        return altered or check_kept_records(log, found, expected)
    is_limited = step.max_bytes < MAX_BYTES
    may_be_none = step.version is not None and step.version < _FIRST_WITH_WHOLE_BATCH
    if found == (expected[: len(found)] if is_limited and (data or may_be_none) else expected):
        return None
    if expected and not data:
        return failed(f"no record is served, but the log has {text(expected[0])}", FETCH_RULE)
    rule = (
        DOWN_CONVERSION_RULE
        if step.version is not None
        else MARKER_RULE
        if step.isolation == READ_COMMITTED
        else FETCH_RULE
    )
    return failed(f"a consumer {_difference_text(found, expected)}", rule)


def _difference_text(found: list[Label], expected: list[Label]) -> str:
    """Return how the records of a consumer differ from the expected ones."""
    for one in found:
        if one not in expected:
            return f"gets {text(one)}"
        if found.count(one) > 1:
            return f"gets {text(one)} {found.count(one)} times"
    lost = next((one for one in expected if one not in found), None)
    return f"does not get {text(lost)}" if lost else "gets the records in another order"


def _changed_record(log: ImpliedLog, shown: Value) -> Verdict | None:
    """Return a failure if a record has another key or timestamp than its producer wrote.

    With LogAppendTime the broker sets the timestamp.
    """
    sent = next((one for one in log.stored if one.offset <= shown["offset"] < one.end), None)
    written = sent.batch["records"][shown["offset"] - sent.offset] if sent else None
    if written is None or written["value"] != shown["value"]:
        return None  # _delivered reports a wrong record at this offset
    log.has_broker_times |= shown["timestampType"] != 0
    if shown["timestampType"] == 0 and shown["timestamp"] != written["timestamp"]:
        label = text((shown["offset"], shown["value"]))
        hint = f"{label} has timestamp {shown['timestamp']} instead of {written['timestamp']}"
        return failed(hint, KEPT_TIMES_RULE if log.is_compacted else "")
    is_same = written["key"] == shown["key"]
    return None if is_same else failed(f"{text((shown['offset'], shown['value']))} has another key")


def _expected_records(log: ImpliedLog, step: Fetch, start: int) -> list[Label]:
    """Return the offset and value of each record that a consumer must get."""
    is_committed, stable = step.isolation == READ_COMMITTED, log.stable
    shown = [one for one in log.stored if not is_committed or one.decided == "committed"]
    return [
        label
        for one in shown
        for label in one.labels()
        if label[0] >= start and not (is_committed and stable is not None and label[0] >= stable)
    ]


def _check_markers(log: ImpliedLog, batches: list[Value], start: int) -> Verdict | None:
    """Return a failure if an ended transaction has no correct marker after its last record."""
    ends: dict[tuple[int, int], AcceptedBatch] = {}
    for one in log.stored:
        if one.producer is not None and one.decided in ("committed", "aborted") and one.batch["isTransactional"]:
            ends[one.producer.identity, one.producer.epoch] = one
    for (identity, _), last in ends.items():
        markers = [batch for batch in batches if _is_marker_of(batch, identity) and batch["baseOffset"] >= last.end]
        if last.offset < start:
            continue
        expected = b"\x00\x00\x00\x01" if last.decided == "committed" else b"\x00\x00\x00\x00"
        hint = _marker_fault(markers[0], expected) if markers else "no marker"
        if hint:
            return failed(f"{hint} after the {last.decided} transaction of producer id {identity}", MARKER_RULE)
    return None


def _is_marker_of(batch: Value, identity: int) -> bool:
    return bool(batch["isControlBatch"] and batch["isTransactional"] and batch["producerId"] == identity)


def _marker_fault(batch: Value, expected: bytes) -> str:
    """Return the fault of a marker with an expected key; empty if it has none."""
    record = batch["records"][0] if batch["records"] else {"key": None, "value": None}
    key, value = record["key"] or b"", record["value"]
    if key != expected:
        return f"a marker with key {key.hex()}"
    if value is None or len(value) < _MARKER_VALUE.size or _MARKER_VALUE.unpack_from(value)[0] < 0:
        # Brokers read this value when they load or replicate a log, so it must be complete.
        return f"a marker with value {'null' if value is None else value.hex() or 'empty'}"
    return ""
