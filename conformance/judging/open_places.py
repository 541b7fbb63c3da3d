"""Which open place of some bytes explains that a field has another value than is due."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from conformance import codec
from conformance.cases.model import Case
from conformance.codec.record_batch import ATTRIBUTES
from conformance.judging.differences import STEP

_OFFSETS = ("baseOffset", "lastOffsetDelta", "offset", "offsetDelta")

_REACH = {
    "batch.base-offset": _OFFSETS,
    "record.offset-delta": _OFFSETS,
    "batch.last-offset-delta": _OFFSETS,
    "control.key-layout": ("records", "key", "value", "headers"),
    "control.single-record": ("records",),
    "non-idempotent.producer-id": ("producerId", "producerEpoch", "baseSequence"),
    "record.attributes-zero": ("attributes",),
    "attributes.reserved-bits": ("attributes", *(bits.name for bits in ATTRIBUTES)),
}
"""Open places that leave open what these fields are, and nothing else; any other may change all that comes after it."""


class OpenPlaces(Struct, frozen=True):
    """The open places of some bytes, in their order, and where the fields lie."""

    places: tuple[codec.Violation, ...]
    spans: Sequence[codec.Span]

    def explaining(self, path: str) -> codec.Violation | None:
        """The open place that explains another value at a path; a field in front of a place was read before it."""
        ends = {span.layer: span.stop for span in self.spans if span.path == path}
        read_by_then = [place for place in self.places if place.at < ends.get(place.layer, place.at + 1)]
        return explaining(read_by_then, path)


def open_places(case: Case) -> OpenPlaces:
    """The open places of the bytes of a case, each with the path of its field."""
    read = codec.decode(case.wire, case.data or b"", trail=True)
    return OpenPlaces(read.remarks, read.spans)


def explaining(places: Sequence[codec.Violation], path: str) -> codec.Violation | None:
    """The open place that explains another value at a path: one in that field, else the first that may reach it."""
    field = _last_name(path)
    reaching = [
        place
        for place in places
        if field in _REACH.get(place.requirement, (field,)) and not _is_in_front(path, place.path)
    ]
    return next((place for place in reaching if place.path == path), next(iter(reaching), None))


def _is_in_front(path: str, place: str) -> bool:
    """Whether a path leads to an element in front of that in which an open place lies: its bytes were read before."""
    for (name, index), (other, its_index) in zip(STEP.findall(path), STEP.findall(place), strict=False):
        if (name, index) != (other, its_index):
            return bool(index and its_index) and int(index) < int(its_index)
    return False


def _last_name(path: str) -> str:
    return next((name for name, _ in reversed(STEP.findall(path)) if name), "")
