"""Large answers: stored as compressed bytes, and decompressed one at a time in the whole process.

As objects, an answer takes ten times its bytes, and all targets of a run reach the same large cases at the same time.
Most large answers repeat the same values, so they compress well.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock

import lz4.block

from conformance.cases.model import Accepted, Answer, Outcome

LARGE = 2**15
"""The size in bytes above which an answer is large."""
_OBJECT_BYTES_PER_BYTE = 10
"""The approximate memory of an answer as objects, in bytes per byte of its JSON."""

_DECOMPRESSION_LOCK = Lock()


class CompressedAnswer(Accepted):
    """A large answer as bytes. Each access makes its objects again."""

    __slots__ = ("_compressed",)
    _compressed: bytes

    def __init__(self, accepted: Accepted) -> None:
        compressed = lz4.block.compress(pickle.dumps(accepted.answer, pickle.HIGHEST_PROTOCOL))
        object.__setattr__(self, "_compressed", compressed)
        object.__setattr__(self, "size", accepted.size)

    @property
    def answer(self) -> Answer:
        """The answer's fields."""
        answer: Answer = pickle.loads(lz4.block.decompress(self._compressed))  # noqa: S301 - pickled in __init__
        return answer

    @property
    def memory(self) -> int:
        """The memory of the compressed bytes."""
        return len(self._compressed)


@contextmanager
def decompressed(outcome: Outcome) -> Iterator[Outcome]:
    """Yield an outcome as objects for the judge; no other large answer is decompressed at the same time."""
    if not isinstance(outcome, CompressedAnswer):
        yield outcome
        return
    with _DECOMPRESSION_LOCK:
        yield Accepted(outcome.answer, outcome.size)


def pending_bytes(outcomes: Iterable[object]) -> int:
    """Return the approximate memory of outcomes until they are judged, in bytes; only accepted ones count."""
    return sum(
        one.memory if isinstance(one, CompressedAnswer) else one.size * _OBJECT_BYTES_PER_BYTE
        for one in outcomes
        if isinstance(one, Accepted)
    )


def compress_large(size: int, read: Callable[[], Outcome]) -> Outcome:
    """Return the outcome that `read` makes of an answer of `size` bytes; compressed if it is large."""
    if size <= LARGE:
        return read()
    with _DECOMPRESSION_LOCK:
        outcome = read()
        return CompressedAnswer(outcome) if isinstance(outcome, Accepted) else outcome
