"""Shrinking: the smallest bytes or value that still show a failure.

Bytes shrink along the spans that the reference records: elements and fields are removed, shortened or zeroed, and
lengths and checksums are corrected. A candidate is kept if `shows` returns True for it: it fails in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, TypeVar

from msgspec import Struct

from conformance import codec
from conformance.codec import Span
from conformance.strategies.seeded._repair import ByteEdit, MutationSubject, apply, lay_out

T = TypeVar("T")

QUESTIONS = 200
"""The most requests to a target for one failure."""
_LARGE = 4096
"""Bytes that cost as much as one more request: a large request takes longer to make and to answer."""
_BOLD = 5 / 6
"""A step to a smaller part of the length than this restarts the search, because bolder steps may work again."""


class ShrinkBudget:
    """The remaining requests. No clock counts, so that a failure shrinks to the same result everywhere."""

    def __init__(self, questions: int = QUESTIONS, within: ShrinkBudget | None = None) -> None:
        self._left, self._within = questions, within

    @property
    def is_spent(self) -> bool:
        """True if no request is left."""
        return self._left <= 0 or (self._within is not None and self._within.is_spent)

    def spend(self, price: int = 1) -> bool:
        """Take one request, which costs as much as `price` small ones. Return False if no request is left."""
        if self.is_spent:
            return False
        self.charge(price)
        return True

    def charge(self, price: int) -> None:
        """Subtract further costs of a request."""
        self._left -= price
        if self._within is not None:
            self._within.charge(price)


def shrink_bytes(
    type_: codec.WireType | str, data: bytes, shows: Callable[[bytes], bool], budget: ShrinkBudget | None = None
) -> bytes:
    """Return the smallest bytes found for which `shows` is still True."""
    return _shrink(data, lambda best: _smaller_bytes(type_, best), shows, budget or ShrinkBudget(), _weight_of_bytes)


def shrink_value(shown: Any, shows: Callable[[Any], bool], budget: ShrinkBudget | None = None) -> Any:
    """Return the smallest value (in notation) found for which `shows` is still True."""
    return _shrink(shown, _smaller_values, shows, budget or ShrinkBudget(), _weight_of_value)


def _weight_of_bytes(data: bytes) -> tuple[int, int]:
    """Compare by length; of equal lengths, more zeros are smaller."""
    return len(data), sum(map(bool, data))


def _weight_of_value(value: object) -> tuple[int, int]:
    """Compare by the length of the text (false counts like 0); of equal lengths, smaller numbers are smaller."""
    return len(repr(value).replace("False", "0")), _magnitude(value)


def _magnitude(value: object) -> int:
    if isinstance(value, dict):
        return sum(map(_magnitude, value.values()))
    if isinstance(value, list):
        return sum(map(_magnitude, value))
    if isinstance(value, str):
        return abs(int(value)) if value.lstrip("-").isdigit() and len(value) < 21 else 0
    return abs(value) if isinstance(value, int) else 0


def _shrink(
    best: T,
    candidates: Callable[[T], Iterator[T]],
    shows: Callable[[T], bool],
    budget: ShrinkBudget,
    weight: Callable[[T], tuple[int, int]],
) -> T:
    """Take the first smaller candidate that shows the failure, and continue from its place in the order, in a circle.

    Earlier candidates have just failed, so they are tried last, unless much has been removed since. Candidates that are
    smaller but not shorter are tried when no shorter one shows the failure.
    """
    tried: set[str] = set()
    place, is_shortening = 0, True
    while True:
        most = weight(best)
        for at, candidate in _from(place, best, candidates):
            size = weight(candidate)
            if size >= most or (is_shortening and size[0] == most[0]) or repr(candidate) in tried:
                continue
            tried.add(repr(candidate))
            if not budget.spend(1 + size[0] // _LARGE):
                return best
            if shows(candidate):
                best, is_shortening = candidate, size[0] < most[0]
                place = 0 if size[0] < most[0] * _BOLD else at
                break
        else:
            if not is_shortening:
                return best
            is_shortening = False


def _from(place: int, best: T, candidates: Callable[[T], Iterator[T]]) -> Iterator[tuple[int, T]]:
    """Yield the candidates with their places, from one place on to the last, and then the earlier ones."""
    yield from islice(enumerate(candidates(best)), place, None)
    yield from islice(enumerate(candidates(best)), place)


# --- bytes --------------------------------------------------------------------------------------------


def _smaller_bytes(type_: codec.WireType | str, data: bytes) -> Iterator[bytes]:
    """Yield smaller neighbours, the boldest first."""
    subject = lay_out(type_, data)
    pieces: list[Span | _CountedElements] = [*_lists(subject), *subject.pieces()]
    pieces.sort(key=lambda piece: piece.start - piece.stop)
    for layer in range(len(subject.layers)):
        yield from _chunks_dropped(subject, layer)
    for piece in pieces:
        if isinstance(piece, _CountedElements):
            yield from _elements_dropped(subject, piece)
        else:
            yield from _safely(subject, ByteEdit(piece.layer, piece.start, piece.stop, b""))
            yield from _emptied(subject, piece)
    for piece in pieces:
        if isinstance(piece, Span) and piece.stop - piece.start <= 16:
            yield from _safely(subject, ByteEdit(piece.layer, piece.start, piece.stop, bytes(piece.stop - piece.start)))


class _CountedElements(Struct, frozen=True):
    """The elements of a list, and the number before them that counts them."""

    count: Span
    bounds: list[tuple[int, int]]
    """The start and stop of each element, in order."""

    @property
    def start(self) -> int:
        """The start of the first element."""
        return self.bounds[0][0]

    @property
    def stop(self) -> int:
        """The stop of the last element."""
        return self.bounds[-1][1]


_INDEX = re.compile(r"\[\d+\]")


def _lists(subject: MutationSubject) -> list[_CountedElements]:
    """Return the lists that have a count before them."""
    bounds: dict[tuple[int, str], dict[str, tuple[int, int]]] = {}
    for span in subject.spans:
        for index in _INDEX.finditer(span.path):
            elements = bounds.setdefault((span.layer, span.path[: index.start()]), {})
            start, stop = elements.get(index[0], (span.start, span.stop))
            elements[index[0]] = min(start, span.start), max(stop, span.stop)
    numbers = {(span.layer, span.path): span for span in subject.numbers()}
    counts = [
        numbers.get((layer, f"{path}#count")) or numbers.get((layer, re.sub(r"records\Z", "recordCount", path)))
        for layer, path in bounds
    ]
    return [
        _CountedElements(count, [*each.values()]) for count, each in zip(counts, bounds.values(), strict=True) if count
    ]


def _elements_dropped(subject: MutationSubject, elements: _CountedElements) -> Iterator[bytes]:
    """Yield the list without all elements, one half, the other half, each single element, or all unread elements.

    The count is corrected.
    """
    count, bounds = elements.count, elements.bounds
    layer, number = subject.layers[count.layer], len(bounds)
    old_count: int = codec.decode(count.kind, subject.raw(count)).value
    for first, last in [(0, number), (number // 2, number), (0, number // 2), *((at, at + 1) for at in range(number))]:
        if first < last:
            kept = layer[count.stop : bounds[first][0]] + layer[bounds[last - 1][1] : elements.stop]
            fewer = codec.encode(count.kind, old_count - (last - first))
            yield from _safely(subject, ByteEdit(count.layer, count.start, elements.stop, fewer + kept))
    unread = count.value - number if isinstance(count.value, int) else 0
    if unread > 0:
        # The reference stopped at the last one: remove later ones, and keep parts of the bytes that it did not read.
        fewer, rest = codec.encode(count.kind, old_count - unread), len(layer) - elements.stop
        for more in (0, *(1 << bits for bits in range(rest.bit_length()))):
            kept = layer[count.stop : elements.stop + more]
            yield from _safely(subject, ByteEdit(count.layer, count.start, len(layer), fewer + kept))


def _chunks_dropped(subject: MutationSubject, layer: int) -> Iterator[bytes]:
    """Yield the input without the last half, quarter and so on of a layer; if it is short, without each single byte."""
    size = len(subject.layers[layer])
    step = size // 2
    while step >= 1:
        yield from _safely(subject, ByteEdit(layer, size - step, size, b""))
        if layer == 0:
            yield subject.layers[0][: size - step]
        step //= 2
    if layer == 0 and size <= 64:
        for at in range(size):
            yield subject.layers[0][:at] + subject.layers[0][at + 1 :]


def _emptied(subject: MutationSubject, span: Span) -> Iterator[bytes]:
    """Yield a field with a length prefix whose content is empty, or one byte, or a half; the length is corrected."""
    prefix = next((other for other in subject.spans if other.path == f"{span.path}#length"), None)
    if prefix is None or prefix.layer != span.layer or not isinstance(span.value, (bytes, str)):
        return
    plus = 1 if prefix.kind == "UNSIGNED_VARINT" else 0
    for keep in (0, 1, 1 + (span.stop - prefix.stop) // 2):
        if keep < span.stop - prefix.stop:
            body = subject.layers[span.layer][prefix.stop : prefix.stop + keep]
            length = codec.encode(prefix.kind, keep + plus)
            yield from _safely(subject, ByteEdit(span.layer, prefix.start, span.stop, length + body))


def _safely(subject: MutationSubject, damage: ByteEdit) -> Iterator[bytes]:
    """Yield the input with damage, unless a structure around it is too broken for a repair."""
    try:
        yield apply(subject, damage)
    except (ValueError, IndexError, StopIteration, codec.Unencodable):
        return


# --- values -------------------------------------------------------------------------------------------


def _smaller_values(value: Any) -> Iterator[Any]:
    """Yield smaller neighbours of a value in notation: without elements, with empty parts, with smaller numbers."""
    if isinstance(value, list):
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
        for at, entry in enumerate(value):
            for smaller in _smaller_values(entry):
                yield [*value[:at], smaller, *value[at + 1 :]]
    elif isinstance(value, dict):
        for name, entry in value.items():
            for smaller in _smaller_values(entry):
                yield {**value, name: smaller}
    elif isinstance(value, str):
        yield from _smaller_text(value)
    elif isinstance(value, int):
        yield from _smaller_numbers(value)


def _smaller_numbers(value: int) -> Iterator[int]:
    """Yield numbers nearer to zero, by large steps and by small ones; false for true."""
    if isinstance(value, bool):
        yield from (False,) if value else ()
        return
    yield from (0,) if value else ()
    step = abs(value) // 2
    while step:
        yield value - step if value > 0 else value + step
        step //= 2


def _smaller_text(value: str) -> Iterator[str]:
    number = value.lstrip("-").isdigit() and len(value) < 21
    if number:
        for smaller in _smaller_values(int(value)):
            yield str(smaller)
    # An even number of characters is kept, because the text may be hex digits.
    half = len(value) // 2
    for smaller in ("", value[: half - half % 2], value[:-2], value[:-1]):
        if len(smaller) < len(value) and not number:
            yield smaller
