"""The checks of every batch in a part of a segment. Needs pyarrow, numpy.

Clean batches are read as columns, because that is fast; all other batches are judged by the reference codec. Bytes
that are no batch are one finding. The state of the part is kept for the checks between parts.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping

import pyarrow as pa

from conformance import codec
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.log import first_offset, last_offset
from conformance.codec.record_batch import MAGIC_AT, stored_magic, stored_offset, stored_size
from conformance.pipeline.audit.batch_columns import BatchColumns, BatchHeader, header_at
from conformance.pipeline.audit.indexes import OFFSET_INDEX_RULE, OffsetIndexPositions, index_findings, pointers
from conformance.pipeline.audit.part_state import (
    MUST,
    NOTE,
    UNREAD,
    AuditFinding,
    PartState,
    ProducerBatch,
    RuleViolation,
)
from conformance.pipeline.audit.partition_rules import PartRules
from conformance.pipeline.audit.segment_reader import (
    LEAST_SIZE,
    LENGTH_RULE,
    FileWindow,
    Region,
    has_sound_header,
    is_blank,
    regions,
)
from conformance.pipeline.audit.segments import SegmentPart
from conformance.semantics.producer_state import next_sequence

_MUST_IN_LOGS = {"batch.last-offset-delta"}
"""Unspecified for a reader, but a must in a log: a record after its batch's last offset repeats an offset."""


class PartAudit:
    """One pass over a part of a segment.

    `levels` has the level of each requirement. After all findings are consumed, `rules.finish()` returns the state of
    the part for the checks between parts.
    """

    def __init__(self, part: SegmentPart, levels: Mapping[str, str]) -> None:
        segment = part.segment
        self._part, self._segment, self._levels = part, segment, levels
        self.rules = PartRules(PartState(segment.path, segment.base_offset or 0, part.start, part.stop))
        self._pointers = OffsetIndexPositions("", {})
        """The index entries for this part that no batch has confirmed yet."""
        self._pointed: list[int] = []
        """The positions of all index entries for this part, sorted."""

    def findings(self) -> Iterator[AuditFinding]:
        """Yield the findings in order. An unreadable file is a finding too."""
        if self._segment.problem:
            yield self._unread(self._segment.problem)
            return
        try:
            self._open_index()
            if self._part.start == 0:
                yield from index_findings(self._segment)
            window = FileWindow(self._segment.path, self._segment.size)
            try:
                yield from self._regions(window)
            finally:
                window.close()
        except (OSError, pa.ArrowException) as error:
            yield self._unread(" ".join(str(error).split()))

    def _unread(self, problem: str) -> AuditFinding:
        self.rules.damaged()
        return AuditFinding(self._segment.path, self._part.start, None, "", UNREAD, problem)

    def _open_index(self) -> None:
        index = pointers(self._segment)
        if index is not None:
            inside = range(self._part.start, self._part.stop)
            self._pointers = OffsetIndexPositions(
                index.path, {at: entry for at, entry in index.places.items() if at in inside}
            )
            self._pointed = sorted(self._pointers.places)

    def _regions(self, window: FileWindow) -> Iterator[AuditFinding]:
        for region in regions(window, self._part.start, self._part.stop):
            self._count_batch(region)
            if region.batch is not None:
                yield from self._clean_batch(region.at, region.batch)
                yield from self._confirm_pointer(region.at, region.batch.header.baseOffset)
            elif region.entry is not None:
                yield from self._unusual_entry(region, region.entry)
            else:
                yield from self._damage(window, region.at, region.end)
        for at, (entry, offset) in self._pointers.places.items():
            hint = f"the index has offset {offset} at byte {at}, but no batch begins there"
            yield self._wrong_pointer(entry, hint)

    def _count_batch(self, region: Region) -> None:
        """Count an entry with a sound header."""
        shape, size = self.rules.part.shape, region.end - region.at
        if region.batch is not None:
            header = region.batch.header
            shape.add_batch(size, header.recordCount, header.maxTimestamp, kind_of(header))
        elif region.entry is not None and has_sound_header(region.entry) and region.entry.value is not None:
            value = region.entry.value
            if "messages" in value:
                stamps = [message.get("timestamp", -1) for message in value["messages"]]
                kind = f"{CODEC_NAMES[value['compression']]}, magic {stored_magic(region.data)}"
                shape.add_batch(size, len(stamps), max(stamps, default=-1), kind)
            else:
                header = header_at(region.data, 0)
                shape.add_batch(size, header.recordCount, header.maxTimestamp, kind_of(header))

    # --- bytes that are not an entry ------------------------------------------------------------------

    def _damage(self, window: FileWindow, begin: int, end: int) -> Iterator[AuditFinding]:
        """Yield the finding for bytes without an entry, from `begin` to the next entry at `end`."""
        self._forget_pointers(begin, end)
        at_end = end >= window.size
        if at_end and is_blank(window, begin):
            hint = f"the last {end - begin} bytes are zeros: allocated space without data"
            yield self._note(begin, LENGTH_RULE, hint)
            return
        head = window.take(begin, MAGIC_AT + 1)
        size = stored_size(head)
        if at_end and (len(head) <= MAGIC_AT or (head[MAGIC_AT] in LEAST_SIZE and size > 0)):
            yield self._cut_off(begin, end)
            return
        self.rules.damaged()
        rule, hint = _not_an_entry(head[MAGIC_AT], size)
        yield self._finding(begin, None, rule, f"{hint}; {_skipped(begin, end)}")

    def _cut_off(self, begin: int, end: int) -> AuditFinding:
        """Return the finding for a cut batch at the end: a note in the last segment, which a broker may be writing."""
        hint = f"the last {end - begin} bytes are a cut batch"
        if self._segment.is_last:
            return self._note(begin, LENGTH_RULE, hint)
        self.rules.damaged()
        return self._finding(
            begin, None, LENGTH_RULE, f"{hint}, expected a complete batch: this is not the last segment"
        )

    def _forget_pointers(self, begin: int, end: int) -> None:
        """Drop the index entries of damaged bytes, because they may be correct."""
        for at in self._pointed[bisect_left(self._pointed, begin) : bisect_left(self._pointed, end)]:
            self._pointers.places.pop(at, None)

    # --- entries --------------------------------------------------------------------------------------

    def _clean_batch(self, at: int, batch: BatchColumns) -> Iterator[AuditFinding]:
        header, state = batch.header, self.rules.part
        if not state.keyless and not header.is_control and bool((batch.column("keyLength") < 0).any()):
            state.keyless = True
        if len(batch.rows) and not header.is_log_append_time and batch.max_timestamp != header.maxTimestamp:
            yield self._max_timestamp(at, header, batch.max_timestamp)
        yield from self._batch_in_place(at, header)

    def _unusual_entry(self, region: Region, entry: codec.LogEntry) -> Iterator[AuditFinding]:
        """Yield the violations and remarks of the reference codec on an entry."""
        at, offset = region.at, stored_offset(region.data)
        if entry.violations:
            yield self._violation(region, entry, offset)
        else:
            yield from self._remarks(region, entry, offset)
        if not has_sound_header(entry):
            self.rules.damaged()
            self._forget_pointers(at, region.end if region.has_wrong_size else at + 1)
            return
        if entry.value is not None:
            yield from self._decoded(at, entry.value)
        elif stored_magic(region.data) == 2:
            yield from self._batch_in_place(at, header_at(region.data, 0))
        yield from self._confirm_pointer(at, offset)

    def _violation(self, region: Region, entry: codec.LogEntry, offset: int) -> AuditFinding:
        """Return the first violation as finding; its detail names the other requirements."""
        first, *more = entry.violations
        hint = f"{_position_text(first, region)}{first.hint}"
        if more:
            hint += f" (also {', '.join(sorted({one.requirement for one in more}))})"
        if region.has_wrong_size:
            hint += f"; no batch begins at its end by size, {_skipped(region.at, region.end)}"
        return self._finding(region.at, offset, first.requirement, hint)

    def _remarks(self, region: Region, entry: codec.LogEntry, offset: int) -> Iterator[AuditFinding]:
        """Yield the first remark on each requirement."""
        for remark in {one.requirement: one for one in reversed(entry.remarks)}.values():
            level = MUST if remark.requirement in _MUST_IN_LOGS else NOTE
            hint = f"{_position_text(remark, region)}{remark.hint}"
            yield AuditFinding(self._segment.path, region.at, offset, remark.requirement, level, hint)

    def _decoded(self, at: int, value: Values) -> Iterator[AuditFinding]:
        """Check an entry that the reference has decoded."""
        if "messages" in value:
            yield from self._in_place(at, first_offset(value), last_offset(value), len(value["messages"]), None)
            return
        # If lastOffsetDelta is too small, the last record ends the batch. Otherwise the next batch fails too.
        deltas = [value["lastOffsetDelta"], *(record["offsetDelta"] for record in value["records"])]
        header = BatchHeader(*(value[name] for name in BatchHeader._fields))._replace(lastOffsetDelta=max(deltas))
        stamps = [record["timestamp"] for record in value["records"]]
        if stamps and not header.is_log_append_time and max(stamps) != header.maxTimestamp:
            yield self._max_timestamp(at, header, max(stamps))
        if not header.is_control and any(record["key"] is None for record in value["records"]):
            self.rules.part.keyless = True
        yield from self._batch_in_place(at, header)

    # --- against the entries before -------------------------------------------------------------------

    def _batch_in_place(self, at: int, header: BatchHeader) -> Iterator[AuditFinding]:
        yield from self._in_place(at, header.baseOffset, header.last_offset, header.recordCount, header)

    def _in_place(
        self, at: int, first: int, last: int, records: int, header: BatchHeader | None
    ) -> Iterator[AuditFinding]:
        """Check offsets and producer against earlier entries. `header` is that of a batch; None for a message."""
        self.rules.part.batches += 1
        self.rules.part.records += max(records, 0)
        base = self._segment.base_offset
        if base is not None and first < base:
            hint = f"first offset {first}, expected {base} or more, the offset in the name of the segment"
            yield self._finding(at, first, "log.segment-name", hint)
        breach = self.rules.take_offsets(at, first, last)
        if header is not None and header.producerId >= 0:
            breach = self._of_producer(at, header, breach)
        if breach is not None:
            yield self._finding(at, first, *breach)

    def _of_producer(self, at: int, header: BatchHeader, misplaced: RuleViolation | None) -> RuleViolation | None:
        batch = self._producer_batch(at, header)
        if misplaced is None:
            return self.rules.take(batch)
        self.rules.take_misplaced(batch)
        return misplaced

    def _producer_batch(self, at: int, header: BatchHeader) -> ProducerBatch:
        state, is_marker = self.rules.part, header.is_control
        return ProducerBatch(
            producer=header.producerId,
            epoch=header.producerEpoch,
            first=header.baseSequence,
            last=-1 if is_marker else next_sequence(header.baseSequence, header.lastOffsetDelta),
            transactional=header.is_transactional,
            marker=is_marker,
            position=at,
            base_offset=header.baseOffset,
            missing=state.missing,
            damage=state.damage,
            time=header.maxTimestamp,
        )

    def _confirm_pointer(self, at: int, base_offset: int) -> Iterator[AuditFinding]:
        """Compare the index entry for this position with the batch that begins here."""
        entry, offset = self._pointers.places.pop(at, (0, base_offset))
        if offset < base_offset:
            hint = f"the index has offset {offset} at byte {at}, but the batch there begins with {base_offset}"
            yield self._wrong_pointer(entry, hint)

    # --- findings -------------------------------------------------------------------------------------

    def _finding(self, at: int, offset: int | None, rule: str, hint: str) -> AuditFinding:
        return AuditFinding(self._segment.path, at, offset, rule, self._levels.get(rule, MUST), hint)

    def _note(self, at: int, rule: str, hint: str) -> AuditFinding:
        return AuditFinding(self._segment.path, at, None, rule, NOTE, hint)

    def _wrong_pointer(self, entry: int, hint: str) -> AuditFinding:
        return AuditFinding(self._pointers.path, entry, None, OFFSET_INDEX_RULE, MUST, hint)

    def _max_timestamp(self, at: int, header: BatchHeader, largest: int) -> AuditFinding:
        hint = f"maxTimestamp {header.maxTimestamp}, expected {largest}, the largest timestamp of its records"
        return self._finding(at, header.baseOffset, "batch.max-timestamp", hint)


def kind_of(header: BatchHeader) -> str:
    """Return the codec of a batch, with `transactional` and `control` if set."""
    codec = header.compression
    name = CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else f"codec {codec}"
    flags = {"transactional": header.is_transactional, "control": header.is_control}
    return ", ".join([name, *(flag for flag, is_set in flags.items() if is_set)])


def _not_an_entry(magic: int, size: int) -> tuple[str, str]:
    """Return the requirement that bytes without an entry break, and the detail."""
    if magic not in LEAST_SIZE:
        return "format.magic-versions", f"magic {magic}, expected {', '.join(map(str, sorted(LEAST_SIZE)))}"
    least = LEAST_SIZE[magic]
    if size < least:
        return LENGTH_RULE, f"size {size}, expected {least} or more"
    return LENGTH_RULE, f"size {size}, expected a batch that ends within the file"


def _skipped(begin: int, end: int) -> str:
    return f"{end - begin} bytes skipped, to byte {end}"


def _position_text(violation: codec.Violation, region: Region) -> str:
    """Return the byte and the field of a violation within the entry."""
    layer = f" of decompressed stream {violation.layer}" if violation.layer else ""
    path = f" ({violation.path})" if violation.path else ""
    entry = "batch" if stored_magic(region.data) == 2 else "message"
    return f"byte {violation.at}{layer}{path} of the {entry}: "
