"""Large answers: they are held as bytes, and made objects of one at a time, whichever target they come from.

As objects an answer takes ten times its bytes, and all targets of a run come to the same large cases at the same time.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from conformance.cases.due import AsDue
from conformance.cases.model import Accepted, Answer, Outcome

LARGE = 2**18
"""Bytes of an answer from which on it is large."""

_ALONE = Lock()


class HeldAnswer(Accepted):
    """A large answer as bytes. Its objects are made each time they are asked for."""

    __slots__ = ("_packed",)

    def __init__(self, accepted: Accepted) -> None:
        object.__setattr__(self, "_packed", pickle.dumps(accepted.answer, pickle.HIGHEST_PROTOCOL))
        object.__setattr__(self, "size", accepted.size)

    @property
    def answer(self) -> Answer:
        """The answer's fields."""
        answer: Answer = pickle.loads(self._packed)  # type: ignore[attr-defined] # noqa: S301 - packed by us
        return answer

    @contextmanager
    def whole(self) -> Iterator[Accepted]:
        """It as objects, to be judged; no other large answer is looked at meanwhile."""
        with _ALONE:
            yield Accepted(self.answer, self.size)


def held(size: int, read: Callable[[], Outcome]) -> Outcome:
    """The outcome that `read` makes of an answer of so many bytes, as it is held until it is judged."""
    if size <= LARGE:
        return read()
    with _ALONE:
        outcome = read()
        if isinstance(outcome, AsDue) or not isinstance(outcome, Accepted):
            return outcome
        return HeldAnswer(outcome)
