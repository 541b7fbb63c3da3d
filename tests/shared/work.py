"""The amount of work of a function, counted instead of timed, so that it is equal on each machine."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from conformance.codec.compression_formats import BoundedStream
from conformance.codec.cursor import Cursor


class _Counted(bytes):
    """Bytes with a count of copied bytes."""

    copied = 0

    def __getitem__(self, at):
        part = super().__getitem__(at)
        if isinstance(at, slice):
            _Counted.copied += len(part)
        return part


class _Parts(list):
    """A list with a count of iterated elements."""

    passed = 0

    def __iter__(self) -> Iterator[object]:
        _Parts.passed += len(self)
        return super().__iter__()


@contextmanager
def _counting_copies(monkeypatch) -> Iterator[None]:
    begin, open_stream = Cursor.__init__, BoundedStream.__init__

    def cursor(self, data, *given, **named):
        begin(self, data if isinstance(data, _Counted) else _Counted(data), *given, **named)

    def stream(self, *given):
        open_stream(self, *given)
        self.plain = _Parts(self.plain)

    with monkeypatch.context() as patch:
        patch.setattr(Cursor, "__init__", cursor)
        patch.setattr(BoundedStream, "__init__", stream)
        yield


def work_of(function: Callable[[], object], monkeypatch) -> int:
    """Return the number of executed lines, called functions (also of libraries), copied bytes and iterated parts."""
    count = 0

    def line(*_):
        nonlocal count
        count += 1
        return line

    def call(_frame, event, _argument):
        nonlocal count
        count += event == "c_call"

    _Counted.copied = _Parts.passed = 0
    tracer, profiler = sys.gettrace(), sys.getprofile()
    with _counting_copies(monkeypatch):
        sys.settrace(line)
        sys.setprofile(call)
        try:
            function()
        finally:
            sys.setprofile(profiler)
            sys.settrace(tracer)
    return count + _Counted.copied + _Parts.passed
