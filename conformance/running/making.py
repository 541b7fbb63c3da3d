"""Generated cases are made while the vectors are judged: a target has something to do from the first moment on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future

from conformance.cases.model import Case
from conformance.cases.packed_cases import PackedCase, PackedCases
from conformance.errors import CannotStart
from conformance.running.at_once import Stop


class FurtherCases:
    """Cases that one thread makes or gathers, and that others wait for."""

    def __init__(self, make: Callable[[], Iterable[Case | PackedCase]]) -> None:
        self._make = make
        self._made: Future[Sequence[Case]] = Future()

    def __call__(self) -> Sequence[Case]:
        """The cases, which are waited for. Raises what making them raised, and CannotStart where it was stopped."""
        return self._made.result()

    @property
    def count(self) -> int | None:
        """Return the number of these cases, or None while they are made."""
        is_made = self._made.done() and self._made.exception() is None
        return len(self._made.result()) if is_made else None

    def make(self, stop: Stop) -> None:
        """Make them, until the word to stop comes. Raises what that raises."""
        try:
            self._made.set_result(PackedCases(_until(stop, self._make())))
        except BaseException as error:
            self._made.set_exception(error)
            raise


def _until(stop: Stop, cases: Iterable[Case | PackedCase]) -> Iterator[Case | PackedCase]:
    """The cases. Raises CannotStart where the word to stop comes before they are made."""
    for case in cases:
        if stop.is_told:
            raise CannotStart("stopped")
        yield case
