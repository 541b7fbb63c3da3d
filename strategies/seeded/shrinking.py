"""Shrinking: the smallest bytes or value that still show a failure.

Bytes shrink along the spans that the reference records: elements and fields are dropped, shortened or zeroed, lengths
and checksums are made right again. A candidate is kept if `shows` says that it fails in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from conformance import codec
from conformance.codec import Span
from conformance.strategies.seeded.repair import Damage, Subject, apply, lay_out

T = TypeVar("T")

QUESTIONS = 200
"""Questions put to a target for one failure."""
_LARGE = 4096
"""Bytes for each of which a question costs as much as another: it takes longer to make and to ask."""


class Budget:
    """How many questions may still be asked; no clock counts, so a failure shrinks to the same everywhere."""

    def __init__(self, questions: int = QUESTIONS, within: Budget | None = None) -> None:
        self._left, self._within = questions, within

    @property
    def is_spent(self) -> bool:
        """Whether no question is left."""
        return self._left <= 0 or (self._within is not None and self._within.is_spent)

    def spend(self, price: int = 1) -> bool:
        """Take one question, which costs as much as `price` small ones; False when none is left."""
        if self.is_spent:
            return False
        self.charge(price)
        return True

    def charge(self, price: int) -> None:
        """Take what a question cost besides."""
        self._left -= price
        if self._within is not None:
            self._within.charge(price)


def shrink_bytes(
    type_: codec.Wire | str, data: bytes, shows: Callable[[bytes], bool], budget: Budget | None = None
) -> bytes:
    """The smallest bytes found for which `shows` still holds."""
    return _shrink(data, lambda best: _smaller_bytes(type_, best), shows, budget or Budget(), _weight_of_bytes)


def shrink_value(shown: Any, shows: Callable[[Any], bool], budget: Budget | None = None) -> Any:
    """The smallest value (in notation) found for which `shows` still holds."""
    return _shrink(shown, _smaller_values, shows, budget or Budget(), _weight_of_value)


def _weight_of_bytes(data: bytes) -> tuple[int, int]:
    """Shorter is smaller; of two that are equally long, the one with more zeros."""
    return len(data), sum(map(bool, data))


def _weight_of_value(value: object) -> tuple[int, int]:
    """Shorter to write is smaller, false counts like 0; of two that are equally long, the one with smaller numbers."""
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
    budget: Budget,
    weight: Callable[[T], tuple[int, int]],
) -> T:
    """Take the first smaller candidate that shows the failure, and begin again from it."""
    tried: set[str] = set()
    improved = True
    while improved:
        improved = False
        for candidate in candidates(best):
            key = repr(candidate)
            if key in tried or weight(candidate) >= weight(best):
                continue
            tried.add(key)
            if not budget.spend(1 + weight(candidate)[0] // _LARGE):
                return best
            if shows(candidate):
                best, improved = candidate, True
                break
    return best


# --- bytes --------------------------------------------------------------------------------------------


def _smaller_bytes(type_: codec.Wire | str, data: bytes) -> Iterator[bytes]:
    """Smaller neighbours, the boldest first."""
    subject = lay_out(type_, data)
    pieces = sorted(subject.pieces(), key=lambda span: span.start - span.stop)
    for layer in range(len(subject.layers)):
        yield from _chunks_dropped(subject, layer)
    for span in pieces:
        yield from _safely(subject, Damage(span.layer, span.start, span.stop, b""))
        yield from _emptied(subject, span)
    for span in pieces:
        if span.stop - span.start <= 16:
            yield from _safely(subject, Damage(span.layer, span.start, span.stop, bytes(span.stop - span.start)))


def _chunks_dropped(subject: Subject, layer: int) -> Iterator[bytes]:
    """The last half, quarter and so on of a layer is left out; of a short input also each single byte."""
    size = len(subject.layers[layer])
    step = size // 2
    while step >= 1:
        yield from _safely(subject, Damage(layer, size - step, size, b""))
        if layer == 0:
            yield subject.layers[0][: size - step]
        step //= 2
    if layer == 0 and size <= 64:
        for at in range(size):
            yield subject.layers[0][:at] + subject.layers[0][at + 1 :]


def _emptied(subject: Subject, span: Span) -> Iterator[bytes]:
    """The content of a field with a length before it is left out, or cut to one byte or a half; the length says so."""
    prefix = next((other for other in subject.spans if other.path == f"{span.path}#length"), None)
    if prefix is None or prefix.layer != span.layer or not isinstance(span.value, (bytes, str)):
        return
    plus = 1 if prefix.kind == "UNSIGNED_VARINT" else 0
    for keep in (0, 1, 1 + (span.stop - prefix.stop) // 2):
        if keep < span.stop - prefix.stop:
            body = subject.layers[span.layer][prefix.stop : prefix.stop + keep]
            length = codec.encode(prefix.kind, keep + plus)
            yield from _safely(subject, Damage(span.layer, prefix.start, span.stop, length + body))


def _safely(subject: Subject, damage: Damage) -> Iterator[bytes]:
    """The input with damage done; nothing where a structure around it is too broken to be repaired."""
    try:
        yield apply(subject, damage)
    except (ValueError, IndexError, StopIteration, codec.Unencodable):
        return


# --- values -------------------------------------------------------------------------------------------


def _smaller_values(value: Any) -> Iterator[Any]:
    """Smaller neighbours of a value in notation: elements left out, parts emptied, numbers nearer to zero."""
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
    """Numbers nearer to zero, by large steps and by small ones; false for true."""
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
    half = len(value) // 2
    for smaller in ("", value[: half - half % 2], value[:-2], value[:-1]):
        if len(smaller) < len(value) and not number:
            yield smaller
