"""Judges what a broker tells of the steps of a scenario (docs/brokers.md).

The steps are gone through with what the broker told of them: what it took, and at which offset, is known then, and
what a fetch has to bring follows from it.
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
    Told,
    batch_of,
    parsed_told,
    step_text,
)
from conformance.semantics.consumer_view import READ_COMMITTED, AbortedTransaction, consumer_view

Label = tuple[int, bytes | None]
"""The offset and value of a record."""


class AcceptedBatch(Struct):
    """A batch that the broker took."""

    offset: int
    batch: Value
    """As it was sent."""
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
    """What a log holds by what the broker told."""

    keeps_tombstones: bool
    """Whether the topic keeps records with a null value for a while, when they are the last of their keys."""
    stored: list[AcceptedBatch] = field(default_factory=list)
    producers: dict[str, ProducerIdentity] = field(default_factory=dict)
    identities: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and newest epoch, by transactional id."""
    given: set[int] = field(default_factory=set)
    end: int = 0
    first: int | None = None
    """Where the log begins; None before anything went from it."""
    is_expiring: bool = False
    """Whether more may go from it at any time."""
    places: dict[str, int] = field(default_factory=dict)
    """The offset of each record, by label."""
    told: dict[int, int] = field(default_factory=dict)
    """The offset of each batch, by step."""
    is_compacted: bool = False
    cleaned_since: int = 0
    """When the log cleaner was waited for, in milliseconds since 1970."""
    began: int = 0
    """The time from which those of records are counted, in milliseconds since 1970."""
    is_stamped: bool = False
    """Whether records have the broker's times, not those of their producer."""
    is_unsure: bool = False
    """The broker accepted bytes that the scenario does not describe."""

    @property
    def stable(self) -> int | None:
        """The first offset of what is undecided; None where all is decided."""
        return min((one.offset for one in self.stored if one.decided == "open"), default=None)

    def offset_of(self, place: str) -> int | None:
        """The offset of a record, or of the place at which the scenario began; None where it is not known."""
        return min(self.places.values(), default=None) if place == START else self.places.get(place)

    def decide(self, producer: ProducerIdentity, how: str) -> None:
        """End the transaction of a producer."""
        for one in self.stored:
            if one.producer is not None and one.producer.identity == producer.identity and one.decided == "open":
                one.decided = how
        producer.in_transaction = False


def failed(detail: str, requirement: str = "") -> Verdict:
    """A step of which a broker tells what it must not; without a requirement it is the case's."""
    return Verdict(VerdictKind.FAIL, detail, requirement=requirement)


def text(record: Label) -> str:
    """A record in words."""
    offset, value = record
    return f"record {'null' if value is None else repr(value.decode('utf-8', 'replace'))} at offset {offset}"


BEGINS = "broker.tells-log-start"
FINDS = "broker.finds-by-time"


def check_log_start(log: ImpliedLog, step: DeleteRecords, told: DeleteRecordsResult) -> Verdict:
    """The log begins at the place before which all is deleted."""
    if told.refused:
        return failed(f"it is refused: {told.refused}", BEGINS)
    start, due = int(told.low_watermark), log.end if step.before == END else log.places.get(step.before, -1)
    # Behind the last record there may be a marker.
    if start < due or (start > due and step.before != END):
        return failed(f"the log begins at offset {start}, and what is before offset {due} was to be deleted", BEGINS)
    log.first = start
    return PASSED


def check_list_offsets(log: ImpliedLog, step: ListOffsets, told: ListOffsetsResult) -> Verdict:
    """The log begins where it was made to begin, and ends behind what was taken."""
    if told.refused:
        return failed(f"it is refused: {told.refused}", BEGINS if step.time is None else FINDS)
    if step.time is not None:
        return _found_by_time(log, log.began + step.time, told)
    offset, first = int(told.offset), log.first or 0
    if step.offset == "latest":
        is_right, due = offset >= log.end, f"the log ended at {log.end}"
    else:
        is_right, due = offset >= first if log.first is None else _begins(log, offset), f"the log begins at {first}"
    return PASSED if is_right else failed(f"the broker tells offset {offset}, and {due}", BEGINS)


def _found_by_time(log: ImpliedLog, time: int, told: ListOffsetsResult) -> Verdict:
    """It is the first record in the log that has this time or a later one, whichever follow."""
    if log.is_stamped or any(one.batch["isTransactional"] for one in log.stored):  # a marker has a time of its own
        return Verdict(VerdictKind.EITHER, f"offset {told.offset}")
    due = next(
        (
            (offset, record["timestamp"])
            for one in log.stored
            for offset, record in enumerate(one.batch["records"], start=one.offset)
            if offset >= (log.first or 0) and record["timestamp"] >= time
        ),
        (-1, -1),
    )
    if (int(told.offset), int(told.time)) == due:
        return PASSED
    after, due_after = (f"{each - log.began} ms" if each >= 0 else str(each) for each in (int(told.time), due[1]))
    return failed(f"the broker tells offset {told.offset} at {after}, and it is offset {due[0]} at {due_after}", FINDS)


def _begins(log: ImpliedLog, offset: int) -> bool:
    """Whether a log, of which something went, can begin at an offset."""
    first = log.first or 0
    return first <= offset <= max(first, log.end) if log.is_expiring else offset == first


PLACES = "compaction.offsets-preserved"
SEQUENCES = "compaction.sequences-preserved"
TIMES = "compaction.base-timestamp-changes"
HORIZON = "delete-horizon.set-by-compaction"
WAITS = "delete-horizon.kept-until"


def check_kept_records(log: ImpliedLog, found: list[Label], due: list[Label]) -> Verdict | None:
    """Records stay at their offsets, and the last of each key stays, if it was not aborted.

    Where the topic keeps no tombstones, one may be gone.
    """
    moved = next((one for one in found if one not in due), None)
    if moved is not None:
        return failed(f"after compaction, {text(moved)}", PLACES)
    last: dict[bytes, Label] = {}
    for one in log.stored:
        if one.decided == "committed":
            for label, record in zip(one.labels(), one.batch["records"], strict=True):
                last[record["key"]] = label
    for key, label in last.items():
        if label not in due or label in found:
            continue
        if label[1] is not None:
            return failed(f"after compaction, the last record of a key is gone: {text(label)}", PLACES)
        if log.keeps_tombstones:
            return failed(f"after compaction, the tombstone of key {key!r} is gone", WAITS)
    return None


def check_batches(log: ImpliedLog, batches: list[Value]) -> Verdict | None:
    """A batch keeps its first and last offset and sequence, and its delete horizon is to come."""
    sent = {one.offset: one for one in log.stored}
    for batch in batches:
        is_early = batch["hasDeleteHorizonMs"] and batch["baseTimestamp"] <= log.cleaned_since
        if is_early and log.keeps_tombstones:
            hint = f"after compaction, delete horizon {batch['baseTimestamp']}, which has passed already"
            return failed(hint, HORIZON)
        if batch["isControlBatch"] or any(record["value"] == FILLER_VALUE for record in batch["records"]):
            continue
        one = sent.get(batch["baseOffset"])
        if one is None or last_offset(batch) != one.end - 1:
            span = f"{batch['baseOffset']} to {last_offset(batch)}"
            return failed(f"after compaction, a batch of offsets {span}, which nobody wrote", PLACES)
        fields = ("producerId", "producerEpoch", "baseSequence")
        differs = next((name for name in fields if batch[name] != one.batch[name]), None)
        if differs:
            hint = f"after compaction, {differs} {batch[differs]} instead of {one.batch[differs]}"
            return failed(hint, SEQUENCES)
    return None


IDENTITY = "producer-id.assigned-by-broker"
FENCES = "producer-epoch.fences"
REPEATS = "sequence.duplicate-deduplicated"
RISES = "broker.monotonic-offsets"
MARKS = "broker.marks-transactions"
DECIDES = "broker.holds-back-undecided"
SILENT = "broker.leaves-acks-0-unanswered"
SERVES = "broker.serves-from-offset"
LOWERS = "convert.down-for-old-consumers"
_END = struct.Struct(">hi")
"""What the value of a marker begins with: version, and epoch of the coordinator.

(decisions#producer-state-and-control-batches)
"""
_TO_MAGIC_1 = 2
"""The first version of Fetch that carries messages of magic 1; those before it carry magic 0."""
_WHOLE = 3
"""The first version of Fetch that brings the first batch whole, however few bytes were asked for."""


def judge_scenario(expect: ExpectScenario, given: object) -> Verdict:
    """Hold what a broker told of each step against what is due by then. Raises NotationError."""
    log = ImpliedLog(keeps_tombstones=not any(isinstance(step, Compact) and step.tombstones for step in expect.steps))
    is_open = False
    for at, (step, told) in enumerate(zip(expect.steps, parsed_told(expect.steps, given), strict=True)):
        verdict = _judged(log, at, step, told)
        if verdict.kind is VerdictKind.FAIL:
            return Verdict(
                VerdictKind.FAIL, f"step {at} ({step_text(step)}): {verdict.detail}", f"[{at}]", verdict.requirement
            )
        is_open |= verdict.kind is VerdictKind.EITHER
    return Verdict(VerdictKind.EITHER, "played") if is_open else PASSED


def _judged(log: ImpliedLog, at: int, step: Step, told: Told) -> Verdict:
    match step, told:
        case InitProducerId(), InitProducerIdResult():
            return _begun(log, step, told)
        case Produce(), ProduceResult():
            return _written(log, at, step, told)
        case EndTransaction(), StepDone():
            return _ended(log, step, told)
        case ProduceRawBytes(), ProduceResult():
            log.is_unsure |= not told.refused
            return Verdict(VerdictKind.EITHER, told.refused or "taken")
        case Fetch(), FetchResult():
            return _fetched(log, step, told)
        case RetryProduce(), ProduceResult():
            return _retry(log, step, told)
    return _of_log(log, step, told)


def _of_log(log: ImpliedLog, step: Step, told: Told) -> Verdict:
    """What is done to the log, and what is asked of it."""
    match step, told:
        case DeleteRecords(), DeleteRecordsResult():
            return check_log_start(log, step, told)
        case ListOffsets(), ListOffsetsResult():
            return check_list_offsets(log, step, told)
        case Compact(), CompactionResult():
            log.is_compacted, log.cleaned_since = True, int(told.since)
        case ExpireByRetention(), StepDone():
            log.first, log.is_expiring = log.end, True
    return failed(f"it is refused: {told.refused}") if told.refused else PASSED


# --- producers ----------------------------------------------------------------------------------------


def _begun(log: ImpliedLog, step: InitProducerId, told: InitProducerIdResult) -> Verdict:
    """An identity that no other producer has; for the same transactional id, the same with a newer epoch."""
    if told.refused:
        return failed(f"it is refused: {told.refused}", IDENTITY)
    identity, named = int(told.producer_id), step.transactional_id
    log.producers[step.producer] = ProducerIdentity(identity, told.producer_epoch, named, step.sequence)
    if identity < 0 or told.producer_epoch < 0:
        return failed(f"the broker gives producer id {identity} and epoch {told.producer_epoch}", IDENTITY)
    known = log.identities.get(named) if named is not None else None
    if named is not None:
        log.identities[named] = identity, told.producer_epoch
    is_of_another = identity in log.given and (known is None or known[0] != identity)
    log.given.add(identity)
    if is_of_another:
        return failed(f"producer id {identity} is given to two producers", IDENTITY)
    if known is None:
        return PASSED
    if known[0] == identity and told.producer_epoch <= known[1]:
        return failed(f"epoch {told.producer_epoch} after epoch {known[1]} of the same transactional.id", FENCES)
    log.decide(ProducerIdentity(*known, named), "aborted")
    return PASSED


def _is_fenced(log: ImpliedLog, producer: ProducerIdentity) -> bool:
    newest = log.identities.get(producer.transactional_id or "", (producer.identity, producer.epoch))
    return newest != (producer.identity, producer.epoch)


def _fenced(refused: str) -> Verdict:
    return PASSED if refused else failed("it is taken, and a newer instance of the producer has begun", FENCES)


def _written(log: ImpliedLog, at: int, step: Produce, told: ProduceResult) -> Verdict:
    producer = log.producers[step.producer] if step.producer else None
    if producer is not None and _is_fenced(log, producer):
        return _fenced(told.refused)
    if told.refused and producer is not None and producer.sequence and not producer.has_written:
        return Verdict(VerdictKind.EITHER, told.refused)  # whether a first sequence other than 0 is taken is open
    if told.refused:
        return failed(f"it is refused: {told.refused}")
    if told.answered:
        return failed("it is answered, and the producer wants no answer", SILENT)
    offset = int(told.offset)
    if offset < log.end:
        return failed(f"the broker tells offset {offset}, and the log ended at {log.end}", RISES)
    is_transactional = producer is not None and producer.transactional_id is not None
    stored = AcceptedBatch(
        offset, batch_of(step, at, producer, int(told.time)), producer, "open" if is_transactional else "committed"
    )
    log.stored.append(stored)
    log.began = int(told.time) if step.times else log.began
    log.end, log.told[at] = stored.end, offset
    log.places.update((label, offset + index) for index, label in enumerate(step.labels(at)))
    if producer is not None:
        producer.wrote(step.records)
        producer.in_transaction = is_transactional
    return PASSED


def _retry(log: ImpliedLog, step: RetryProduce, told: ProduceResult) -> Verdict:
    """A batch that was taken has its place already."""
    offset = log.told.get(step.step)
    if offset is None:
        return Verdict(VerdictKind.EITHER, told.refused or "taken")
    if told.refused:
        return failed(f"it is refused: {told.refused}", REPEATS)
    is_known = int(told.offset) == offset
    return PASSED if is_known else failed(f"the broker tells offset {told.offset}, not {offset}", REPEATS)


def _ended(log: ImpliedLog, step: EndTransaction, told: StepDone) -> Verdict:
    producer = log.producers[step.producer]
    if _is_fenced(log, producer):
        return _fenced(told.refused)
    if not producer.in_transaction:
        return Verdict(
            VerdictKind.EITHER, told.refused or "taken"
        )  # it wrote nothing: no document says what comes of it
    if told.refused:
        return failed(f"it is refused: {told.refused}", MARKS)
    log.decide(producer, "committed" if step.commit else "aborted")
    return PASSED


# --- fetches ------------------------------------------------------------------------------------------


def _fetched(log: ImpliedLog, step: Fetch, told: FetchResult) -> Verdict:
    if log.is_unsure:
        return Verdict(VerdictKind.EITHER, "the log holds bytes of which nothing is said")
    if step.at == BEYOND_END:
        return PASSED if told.refused else failed("it is answered, and the offset lies beyond the end", SERVES)
    place = log.offset_of(step.at)
    if log.first is not None and place is not None and place < log.first:
        hint = f"it is answered, and offset {place} lies before the log, which begins at {log.first}"
        return PASSED if told.refused else failed(hint, BEGINS)
    if log.is_expiring:
        return Verdict(VerdictKind.EITHER, told.refused or "served")  # what was written since may have gone as well
    if told.refused:
        return failed(f"it is refused: {told.refused}", SERVES)
    data = bytes.fromhex(told.hex)
    read = codec.decode("LOG", data)
    if not read.ok:
        broken = read.violations[0]
        return failed(f"what is served cannot be read: {broken}", broken.requirement)
    batches = read.value["batches"]
    verdict = _bounded(log, step, told, batches) or _shown(log, step, told, data)
    verdict = verdict or (check_batches(log, batches) if log.is_compacted else None)
    is_all = step.isolation != READ_COMMITTED and step.version is None
    if verdict is None and is_all and not log.is_compacted:
        verdict = _check_markers(log, batches, int(told.fetch_offset))
    return verdict or PASSED


def _bounded(log: ImpliedLog, step: Fetch, told: FetchResult, batches: list[Value]) -> Verdict | None:
    """Where what is served begins and ends."""
    start, stable = int(told.fetch_offset), log.stable
    if step.version is None and batches and last_offset(batches[0]) < start:
        return failed(f"the first batch ends before offset {start}", SERVES)
    if log.first is not None and told.log_start != "-1" and int(told.log_start) != log.first:
        return failed(f"the fetch tells that the log begins at {told.log_start}, not {log.first}", BEGINS)
    if int(told.high_watermark) < log.end:
        return failed(f"high watermark {told.high_watermark}, and the log ended at {log.end}", SERVES)
    if step.isolation != READ_COMMITTED or log.is_compacted:
        return None
    due = int(told.high_watermark) if stable is None else stable
    if int(told.last_stable_offset) != due:
        return failed(f"last stable offset {told.last_stable_offset} instead of {due}", DECIDES)
    if stable is not None and batches and batches[-1]["baseOffset"] >= stable:
        return failed(f"offset {batches[-1]['baseOffset']} is served, and offset {stable} is undecided", DECIDES)
    return None


def _shown(log: ImpliedLog, step: Fetch, told: FetchResult, data: bytes) -> Verdict | None:
    """What a consumer is shown of it: the records that are due, or so many of them as there was room for."""
    start = int(told.fetch_offset)
    listed = [AbortedTransaction(int(one.producer_id), int(one.first_offset)) for one in told.aborted]
    seen = consumer_view(data, start, isolation=step.isolation, aborted=listed)
    if seen.damage is not None:
        return failed(f"what is served is damaged: {seen.damage}", seen.damage.requirement)
    if step.version is not None:
        newest = max((entry.value["magic"] for entry in codec.entries(data) if entry.value), default=0)
        if newest > (step.version >= _TO_MAGIC_1):
            return failed(f"version {step.version} of Fetch carries messages of magic {newest}", LOWERS)
    found = [(one["offset"], one["value"]) for one in seen.records if one["value"] != FILLER_VALUE]
    due = _due(log, step, start)
    altered = next(filter(None, (_changed_record(log, record) for record in seen.records)), None)
    if altered or log.is_compacted:
        return altered or check_kept_records(log, found, due)
    is_limited = step.max_bytes < MAX_BYTES
    may_be_none = step.version is not None and step.version < _WHOLE
    if found == (due[: len(found)] if is_limited and (data or may_be_none) else due):
        return None
    if due and not data:
        return failed(f"nothing is served, and {text(due[0])} stands there", SERVES)
    rule = LOWERS if step.version is not None else MARKS if step.isolation == READ_COMMITTED else SERVES
    return failed(f"a consumer {_apart(found, due)}", rule)


def _apart(found: list[Label], due: list[Label]) -> str:
    """How what a consumer is shown is not what is due."""
    for one in found:
        if one not in due:
            return f"is shown {text(one)}"
        if found.count(one) > 1:
            return f"is shown {text(one)} {found.count(one)} times"
    lost = next((one for one in due if one not in found), None)
    return f"is not shown {text(lost)}" if lost else "is shown the records in another order"


def _changed_record(log: ImpliedLog, shown: Value) -> Verdict | None:
    """Whether a record has another key or time than it was written with; a broker that stamps it has its own time."""
    sent = next((one for one in log.stored if one.offset <= shown["offset"] < one.end), None)
    written = sent.batch["records"][shown["offset"] - sent.offset] if sent else None
    if written is None or written["value"] != shown["value"]:
        return None  # that another record stands there is told otherwise
    log.is_stamped |= shown["timestampType"] != 0
    if shown["timestampType"] == 0 and shown["timestamp"] != written["timestamp"]:
        hint = (
            f"{text((shown['offset'], shown['value']))} has timestamp {shown['timestamp']}, not {written['timestamp']}"
        )
        return failed(hint, TIMES if log.is_compacted else "")
    is_same = written["key"] == shown["key"]
    return None if is_same else failed(f"{text((shown['offset'], shown['value']))} has another key")


def _due(log: ImpliedLog, step: Fetch, start: int) -> list[Label]:
    """The offset and value of each record that a consumer is to be shown."""
    is_committed, stable = step.isolation == READ_COMMITTED, log.stable
    shown = [one for one in log.stored if not is_committed or one.decided == "committed"]
    return [
        label
        for one in shown
        for label in one.labels()
        if label[0] >= start and not (is_committed and stable is not None and label[0] >= stable)
    ]


def _check_markers(log: ImpliedLog, batches: list[Value], start: int) -> Verdict | None:
    """Each transaction that has ended has one marker of its type, behind its last record."""
    ends: dict[tuple[int, int], AcceptedBatch] = {}
    for one in log.stored:
        if one.producer is not None and one.decided in ("committed", "aborted") and one.batch["isTransactional"]:
            ends[one.producer.identity, one.producer.epoch] = one
    for (identity, _), last in ends.items():
        markers = [batch for batch in batches if _is_marker_of(batch, identity) and batch["baseOffset"] >= last.end]
        if last.offset < start:
            continue
        due = b"\x00\x00\x00\x01" if last.decided == "committed" else b"\x00\x00\x00\x00"
        hint = _wrong(markers[0], due) if markers else "no marker"
        if hint:
            return failed(f"{hint} behind the {last.decided} transaction of producer id {identity}", MARKS)
    return None


def _is_marker_of(batch: Value, identity: int) -> bool:
    return bool(batch["isControlBatch"] and batch["isTransactional"] and batch["producerId"] == identity)


def _wrong(batch: Value, due: bytes) -> str:
    """What is wrong with a marker that is to have a key; empty where nothing is."""
    record = batch["records"][0] if batch["records"] else {"key": None, "value": None}
    key, value = record["key"] or b"", record["value"]
    if key != due:
        return f"a marker with key {key.hex()}"
    if value is None or len(value) < _END.size or _END.unpack_from(value)[0] < 0:
        # A broker reads it when it loads a log, or copies one.
        return f"a marker with value {'null' if value is None else value.hex() or 'empty'}"
    return ""
