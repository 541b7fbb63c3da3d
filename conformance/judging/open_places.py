"""Which open place of some bytes explains that a field has another value than is due."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import codec
from conformance.cases.model import Case
from conformance.judging.differences import STEP

_OFFSETS = ("baseOffset", "lastOffsetDelta", "offset", "offsetDelta")

_REACH = {
    "batch.base-offset": _OFFSETS,
    "record.offset-delta": _OFFSETS,
    "batch.last-offset-delta": _OFFSETS,
    "control.key-layout": ("records", "key", "value", "headers"),
    "control.single-record": ("records",),
    "non-idempotent.producer-id": ("producerId", "producerEpoch", "baseSequence"),
}
"""Open places that leave open what these fields are, and nothing else; any other may change all that comes after it."""


def open_places(case: Case) -> tuple[codec.Violation, ...]:
    """The open places of the bytes of a case, each with the path of its field."""
    return codec.decode(case.wire, case.data or b"", trail=True).remarks


def explaining(places: Sequence[codec.Violation], path: str) -> codec.Violation | None:
    """The open place that explains another value at a path: one in that field, else the first that may reach it."""
    field = _last_name(path)
    reaching = [place for place in places if field in _REACH.get(place.requirement, (field,))]
    return next((place for place in reaching if place.path == path), next(iter(reaching), None))


def _last_name(path: str) -> str:
    return next((name for name, _ in reversed(STEP.findall(path)) if name), "")
