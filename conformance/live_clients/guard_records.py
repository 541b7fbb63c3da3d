"""Guard records: one record before a case and one after it, in the same response.

They detect a client that reads beyond the bytes of the case, or that drops other records of the response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from conformance.cases.log_requests import fetch_expectation
from conformance.cases.model import Expectation, ExpectConsumerView, Request, Value
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.log import extents
from conformance.codec.record_batch import BATCH_LAYOUT, OVERHEAD, stored_magic, stored_size
from conformance.mock_broker.topic import BEFORE_KEY, END_KEY, LAST_OFFSET, build_single_record_entry, last_offset
from conformance.semantics.consumer_view import RECORD_NOTATION, consumer_view

_ENTRIES = {**LAYOUTS, 2: BATCH_LAYOUT}
"""The layout of an entry by magic."""


class GuardedCase(Struct, frozen=True):
    """A case with its guard records."""

    parts: Request
    """The parsed `read` request with the guard records."""
    after: Value
    """The record after the case, as an application sees it."""
    before: Value = None
    """The record before the case; None for none."""

    def guard_violation(self, given: Sequence[Mapping[str, Value]]) -> str:
        """Return the change of a guard record in the output of a client; empty for no change.

        Raises NotationError for a record in a wrong notation.
        """
        for place, guard in (("before", self.before), ("behind", self.after)):
            if guard is None:
                continue
            named = f"the record {place} the bytes of the case, at offset {guard['offset']}, was"
            rows = [row for row in map(RECORD_NOTATION.parse, given) if _is_there(row, guard)]
            if len(rows) != 1:
                return f"{named} handed out {len(rows)} times" if rows else f"{named} not handed out"
            if path := next(RECORD_NOTATION.mismatches(guard, rows[0]), ""):
                return f"{named} handed out with another {path}"
        return ""


def _is_there(row: Value, expected: Value) -> bool:
    """Return whether a record has the key of the expected one, and its offset if it shows one."""
    return bool(row.get("key") == expected["key"] and row.get("offset", expected["offset"]) == expected["offset"])


def with_guard_records(parts: Request, expected: Expectation) -> GuardedCase | None:
    """Return a `read` request with guard records; None if its expectation is unspecified.

    It is also None if the size fields do not match the entries, because then the start of the next record is unknown.
    The first guard record is missing if no offset is free before the case. It is also missing for damaged bytes,
    because a retried fetch would not begin at the same offset.
    """
    if not isinstance(expected, ExpectConsumerView) or expected.open or not _has_valid_entry_sizes(parts["hex"]):
        return None
    start = parts["fetchOffset"]
    behind = max(last_offset(parts["hex"], at) + 1 for at, _ in extents(parts["hex"]))
    behind = max(behind, expected.view.next_offset + (expected.view.damage is not None))
    if behind > LAST_OFFSET:
        return None
    sides = [(start, behind)] if not start or expected.view.damage else [(start - 1, behind), (start, behind)]
    return next(filter(None, (_if_view_unchanged(parts, expected, *side) for side in sides)), None)


def _has_valid_entry_sizes(log: bytes) -> bool:
    """Return whether each entry has the length in its size field, and all fields of its magic."""
    return bool(log) and all(
        stored_magic(log, at) in _ENTRIES
        and _ENTRIES[stored_magic(log, at)].smallest() <= OVERHEAD + stored_size(log, at) == stop - at
        for at, stop in extents(log)
    )


def _if_view_unchanged(parts: Request, expected: ExpectConsumerView, begin: int, behind: int) -> GuardedCase | None:
    """Return the request from an offset if the reference reads the same records of the case in it."""
    log, start = parts["hex"], parts["fetchOffset"]
    last = max(at for at, _ in extents(log))
    before = [build_single_record_entry(BEFORE_KEY, begin, stored_magic(log))] if begin < start else []
    after = build_single_record_entry(END_KEY, behind, stored_magic(log, last))
    high = max(parts["highWatermark"], behind + 1)
    whole = {**parts, "hex": b"".join((*before, log, after)), "fetchOffset": begin, "highWatermark": high}
    records = (*_seen(before), *expected.view.records, *_seen([] if expected.view.damage else [after]))
    seen = fetch_expectation(whole).expect
    if not isinstance(seen, ExpectConsumerView) or seen.open or seen.view.partial or seen.view.records != records:
        return None
    return GuardedCase(whole, _seen([after])[0], next(iter(_seen(before)), None))


def _seen(entries: Sequence[bytes]) -> tuple[Value, ...]:
    """Return the records of entries, as an application sees them."""
    return consumer_view(b"".join(entries), 0).records
