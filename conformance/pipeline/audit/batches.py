"""Every batch of a part of a segment decoded and checked: findings, and what other parts have to know of it.

Clean batches are read as columns; what is unusual goes to the reference codec, whose verdict counts. Where bytes make
no batch, that is one finding, and reading goes on at the next place where an entry's checksum is right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa

from conformance import codec
from conformance.codec.log import first_offset, last_offset
from conformance.codec.record_batch import MAGIC_AT, stored_offset, stored_size
from conformance.pipeline.audit.columns import Batch, Header, header_at
from conformance.pipeline.audit.findings import MUST, NOTE, UNREAD, Event, Finding, Piece
from conformance.pipeline.audit.indexes import index_findings, pointers
from conformance.pipeline.audit.ledger import Ledger
from conformance.pipeline.audit.segments import Split, Window, is_blank
from conformance.pipeline.audit.walk import LENGTH_RULE, Step, is_sound, walk
from conformance.semantics.sequences import next_sequence

_MAGIC = "format.magic-versions"
_HELD_IN_LOGS = {"batch.last-offset-delta"}
"""Open to a reader, but not in a log: a record beyond its batch's last offset has the offset of another record."""


def scan(split: Split, levels: Mapping[str, str]) -> tuple[Iterator[Finding], Ledger]:
    """Findings in a part of a segment, and the ledger, which is complete when they are all taken.

    `levels` are those of the requirements. A file that cannot be read is a finding.
    """
    audit = _Audit(split, levels)
    return audit.findings(), audit.ledger


class _Audit:
    """One pass over a split."""

    def __init__(self, split: Split, levels: Mapping[str, str]) -> None:
        segment = split.segment
        self.split = split
        self.segment = segment
        self.levels = levels
        self.ledger = Ledger(Piece(segment.path, segment.base_offset or 0, split.start, split.stop))
        self.index_path = ""
        self.pointers: dict[int, tuple[int, int]] = {}

    def findings(self) -> Iterator[Finding]:
        try:
            self._open_index()
            if self.split.start == 0:
                yield from index_findings(self.segment)
            window = Window(self.segment.path, self.segment.size)
            try:
                yield from self._entries(window)
            finally:
                window.close()
        except (OSError, pa.ArrowException) as error:
            self.ledger.damaged()
            hint = " ".join(str(error).split())
            yield Finding(self.segment.path, self.split.start, None, "", UNREAD, hint)

    def _open_index(self) -> None:
        found = pointers(self.segment)
        if found is not None:
            path, places = found
            inside = {at: entry for at, entry in places.items() if self.split.start <= at < self.split.stop}
            self.index_path, self.pointers = path, inside

    def _entries(self, window: Window) -> Iterator[Finding]:
        for step in walk(window, self.split.start, self.split.stop):
            if step.batch is not None:
                yield from self._clean(step.at, step.batch)
                yield from self._pointed(step.at, step.batch.header.baseOffset)
            elif step.entry is not None:
                yield from self._unusual(step, step.entry)
            else:
                yield from self._region(window, step.at, step.end)
        for entry, offset in self.pointers.values():
            hint = f"offset {offset} is said to be where no batch begins"
            yield Finding(self.index_path, entry, None, "log.offset-index", MUST, hint)

    # --- what makes no entry --------------------------------------------------------------------------

    def _region(self, window: Window, begin: int, end: int) -> Iterator[Finding]:
        """Bytes from `begin` that are no entry; the next one begins at `end`."""
        self._forget(begin, end)
        at_end = end >= window.size
        if at_end and is_blank(window, begin):
            yield self._note(begin, LENGTH_RULE, f"{end - begin} bytes set aside and not written to")
            return
        head = window.take(begin, MAGIC_AT + 1)
        size = stored_size(head)
        if at_end and (len(head) <= MAGIC_AT or (head[MAGIC_AT] <= 2 and size > 0)):
            hint = f"the last {end - begin} bytes are a batch that is cut off"
            if self.segment.is_last:
                yield self._note(begin, LENGTH_RULE, hint)
                return
            self.ledger.damaged()
            yield self._finding(begin, None, LENGTH_RULE, f"{hint}, and further segments follow")
            return
        self.ledger.damaged()
        rule, hint = (LENGTH_RULE, f"size {size}") if head[MAGIC_AT] <= 2 else (_MAGIC, f"magic {head[MAGIC_AT]}")
        yield self._finding(begin, None, rule, f"{hint}; {_skipped(begin, end)}")

    def _forget(self, begin: int, end: int) -> None:
        """What the index says of a damaged place is not held against it."""
        for at in [at for at in self.pointers if begin <= at < end]:
            del self.pointers[at]

    # --- entries --------------------------------------------------------------------------------------

    def _clean(self, at: int, batch: Batch) -> Iterator[Finding]:
        header = batch.header
        piece = self.ledger.piece
        if not piece.keyless and not header.is_control and bool((batch.column("keyLength") < 0).any()):
            piece.keyless = True
        if len(batch.rows) and not header.is_log_append_time and batch.max_timestamp != header.maxTimestamp:
            yield self._max_timestamp(at, header, batch.max_timestamp)
        yield from self._placed(at, header.baseOffset, header.last_offset, header.recordCount, header)

    def _unusual(self, step: Step, entry: codec.Entry) -> Iterator[Finding]:
        """What the reference says of an entry."""
        at, offset = step.at, stored_offset(step.data)
        if entry.violations:
            yield self._violated(step, entry, offset)
        else:
            yield from self._remarked(at, entry, offset)
        if not is_sound(entry):
            self.ledger.damaged()
            self._forget(at, step.end if step.leads_nowhere else at + 1)
            return
        if entry.value is not None:
            yield from self._of_value(at, entry.value)
        elif step.data[MAGIC_AT] == 2:
            header = header_at(step.data, 0)
            yield from self._placed(at, header.baseOffset, header.last_offset, header.recordCount, header)
        yield from self._pointed(at, offset)

    def _violated(self, step: Step, entry: codec.Entry, offset: int) -> Finding:
        """The first violation, which is the one to report; the others are named beside it."""
        first, *more = entry.violations
        hint = f"{_where(first)}{first.hint}"
        if more:
            hint += f" (also {', '.join(sorted({one.requirement for one in more}))})"
        if step.leads_nowhere:
            hint += f"; nothing begins where its size says that it ends, {_skipped(step.at, step.end)}"
        return self._finding(step.at, offset, first.requirement, hint)

    def _remarked(self, at: int, entry: codec.Entry, offset: int) -> Iterator[Finding]:
        """The first remark of each requirement."""
        for remark in {one.requirement: one for one in reversed(entry.remarks)}.values():
            level = MUST if remark.requirement in _HELD_IN_LOGS else NOTE
            yield Finding(self.segment.path, at, offset, remark.requirement, level, f"{_where(remark)}{remark.hint}")

    def _of_value(self, at: int, value: Any) -> Iterator[Finding]:
        """The checks of an entry that the reference has read."""
        if "messages" in value:
            yield from self._placed(at, first_offset(value), last_offset(value), len(value["messages"]), None)
            return
        # Where lastOffsetDelta is said to be too small, its neighbours are held against the records that there are.
        deltas = [value["lastOffsetDelta"], *(record["offsetDelta"] for record in value["records"])]
        header = Header(*(value[name] for name in Header._fields))._replace(lastOffsetDelta=max(deltas))
        stamps = [record["timestamp"] for record in value["records"]]
        if stamps and not header.is_log_append_time and max(stamps) != header.maxTimestamp:
            yield self._max_timestamp(at, header, max(stamps))
        if not header.is_control and any(record["key"] is None for record in value["records"]):
            self.ledger.piece.keyless = True
        yield from self._placed(at, header.baseOffset, header.last_offset, header.recordCount, header)

    def _placed(self, at: int, first: int, last: int, records: int, header: Header | None) -> Iterator[Finding]:
        """Offsets and producers, against what came before."""
        piece = self.ledger.piece
        piece.batches += 1
        piece.records += max(records, 0)
        base = self.segment.base_offset
        if base is not None and first < base:
            yield self._finding(at, first, "log.segment-name", f"offset {first} in the segment from {base} on")
        told = self.ledger.place(at, first, last)
        if header is not None and header.producerId >= 0:
            event = self._event(at, header)
            if told is None:
                told = self.ledger.take(event)
            else:
                self.ledger.misplaced(event)
        if told is not None:
            yield self._finding(at, first, *told)

    def _event(self, at: int, header: Header) -> Event:
        piece, marker = self.ledger.piece, header.is_control
        last = -1 if marker else next_sequence(header.baseSequence, header.lastOffsetDelta)
        return Event(
            header.producerId,
            header.producerEpoch,
            header.baseSequence,
            last,
            header.is_transactional,
            marker,
            at,
            header.baseOffset,
            piece.missing,
            piece.damage,
            header.maxTimestamp,
        )

    def _pointed(self, at: int, base_offset: int) -> Iterator[Finding]:
        """What the index says of the entry that begins here."""
        entry, offset = self.pointers.pop(at, (0, base_offset))
        if offset < base_offset:
            hint = f"offset {offset} is said to be at byte {at}, where a batch from {base_offset} on begins"
            yield Finding(self.index_path, entry, None, "log.offset-index", MUST, hint)

    # --- findings -------------------------------------------------------------------------------------

    def _finding(self, at: int, offset: int | None, rule: str, hint: str) -> Finding:
        return Finding(self.segment.path, at, offset, rule, self.levels.get(rule, MUST), hint)

    def _note(self, at: int, rule: str, hint: str) -> Finding:
        return Finding(self.segment.path, at, None, rule, NOTE, hint)

    def _max_timestamp(self, at: int, header: Header, largest: int) -> Finding:
        hint = f"maxTimestamp {header.maxTimestamp}, the largest of its records is {largest}"
        return self._finding(at, header.baseOffset, "batch.max-timestamp", hint)


def _skipped(begin: int, end: int) -> str:
    return f"{end - begin} bytes skipped, to byte {end}"


def _where(violation: codec.Violation) -> str:
    """The byte within the entry, as the reference says it."""
    layer = f" of decompressed stream {violation.layer}" if violation.layer else ""
    path = f" ({violation.path})" if violation.path else ""
    return f"byte {violation.at}{layer}{path}: "


def findings_and_piece(split: Split, levels: Mapping[str, str]) -> tuple[list[Finding], Piece]:
    """All of `scan` at once."""
    found, ledger = scan(split, levels)
    return list(found), ledger.done()
