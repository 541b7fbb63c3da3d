"""Large answers: they are held as bytes, and made objects of one at a time, whichever target they come from.

As objects an answer takes ten times its bytes, and all targets of a run come to the same large cases at the same time.
Most that are large say the same again and again, so what is held is compressed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

import lz4.block

from conformance.cases.model import Accepted, Answer, Outcome

LARGE = 2**15
"""Bytes of an answer from which on it is large."""
_AS_OBJECTS = 10
"""Bytes of memory that a byte of an answer takes as objects, about."""

_ALONE = Lock()


class CompressedAnswer(Accepted):
    """A large answer as bytes. Its objects are made each time they are asked for."""

    __slots__ = ("_packed",)
    _packed: bytes

    def __init__(self, accepted: Accepted) -> None:
        packed = lz4.block.compress(pickle.dumps(accepted.answer, pickle.HIGHEST_PROTOCOL))
        object.__setattr__(self, "_packed", packed)
        object.__setattr__(self, "size", accepted.size)

    @property
    def answer(self) -> Answer:
        """The answer's fields."""
        answer: Answer = pickle.loads(lz4.block.decompress(self._packed))  # noqa: S301 - packed by us
        return answer

    @property
    def memory(self) -> int:
        """The bytes of memory that it takes."""
        return len(self._packed)


@contextmanager
def decompressed(outcome: Outcome) -> Iterator[Outcome]:
    """Yield an outcome as objects, to be judged; no other large answer is decompressed at the same time."""
    if not isinstance(outcome, CompressedAnswer):
        yield outcome
        return
    with _ALONE:
        yield Accepted(outcome.answer, outcome.size)


def pending_bytes(outcomes: Iterable[object]) -> int:
    """The bytes of memory that answers take until they are judged, about; others take next to none."""
    return sum(
        one.memory if isinstance(one, CompressedAnswer) else one.size * _AS_OBJECTS
        for one in outcomes
        if isinstance(one, Accepted)
    )


def compress_large(size: int, read: Callable[[], Outcome]) -> Outcome:
    """The outcome that `read` makes of an answer of so many bytes, as it is held until it is judged."""
    if size <= LARGE:
        return read()
    with _ALONE:
        outcome = read()
        return CompressedAnswer(outcome) if isinstance(outcome, Accepted) else outcome
