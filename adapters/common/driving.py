"""Shared code of the Python drivers: read topics from standard input, write the application's records and errors."""

import gzip
import json
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

END = b"conformance.end"
"""The key of the record that ends a topic."""

Line = dict[str, Any]
"""A JSON object; from the suite `topic`, `partition`, `bootstrap`, and `offset` and `isolation`, or `produce`."""
_out = threading.Lock()

DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)
"""The documented exceptions of the standard library for damaged data; some clients pass them to the application."""

IsRefusal = Callable[[Exception], bool]
"""Returns True for an exception that the library documents or an application should catch; others are crashes."""


def drive(
    version: str,
    consume: Callable[[Line], Iterable[Any]],
    shown: Callable[[Any], Line],
    *,
    at_once: int,
    is_refusal: IsRefusal,
    produce: Callable[[Line], object] | None = None,
) -> None:
    """Consume the topics of the suite or write to them, at most `at_once` in parallel, until the input ends."""
    write_line({"version": version})

    def serve(line: Line) -> None:
        with report_end(line["topic"], is_refusal):
            if produce is not None and "produce" in line:
                produce(line)
                return
            for record in consume(line):
                if report(line["topic"], shown(record)):
                    break

    with ThreadPoolExecutor(at_once) as pool:
        for line in topics():
            pool.submit(serve, line)


@contextmanager
def report_end(topic: str, is_refusal: IsRefusal) -> Iterator[None]:
    """Report the end of a topic, or the exception before it."""
    try:
        yield
        write_line({"topic": topic, "end": True})
    except Exception as error:  # noqa: BLE001 - any exception for the application
        write_line({"topic": topic, **error_report(error, is_refusal)})


def report(topic: str, record: Line) -> bool:
    """Report a record of the consumer, and return True for the last one of its topic."""
    write_line({"topic": topic, "record": record})
    return bool(record["key"] == END.hex())


def shown_as(
    offset: int, timestamp: int, timestamp_type: str | None, key: Any, value: Any, headers: Iterable[tuple[str, Any]]
) -> Line:
    """Return a record in the notation of `read`; a timestamp type of None is omitted."""
    return {
        "offset": str(offset),
        "timestamp": str(timestamp),
        **({} if timestamp_type is None else {"timestampType": timestamp_type}),
        "key": hexed(key),
        "value": hexed(value),
        "headers": [{"key": name, "value": hexed(octets)} for name, octets in headers],
    }


class CannotExpress(Exception):
    """A record that the client's interface cannot express; the message names the part."""


def batches(line: Line, cannot: Callable[[Line], str] = lambda _: "") -> list[list[Line]]:
    """Return the records to write, batch by batch, with key, value, timestamp and headers for a client.

    With `together` they are one list, of which the client makes batches of at most `batchBytes`. `cannot` returns the
    part of a record that the client's interface cannot express, or "". Raises CannotExpress.
    """
    rows = [
        [
            {
                "key": octets(record["key"]),
                "value": octets(record["value"]),
                "timestamp": int(record["timestamp"]),
                "headers": [(header["key"], octets(header["value"])) for header in record["headers"]],
            }
            for record in batch
        ]
        for batch in line["produce"]["batches"]
    ]
    for part in filter(None, (cannot(record) for batch in rows for record in batch)):
        raise CannotExpress(part)
    return [[record for batch in rows for record in batch]] if line["produce"]["together"] else rows


def in_turn(line: Line, rows: list[list[Line]]) -> Iterator[tuple[list[Line], bool, str, bool]]:
    """Yield each batch, True if it begins a transaction, the end of that, and True if its errors are ignored.

    The end is `commit`, `abort`, or "" for a transaction that continues.
    """
    options = line["produce"]
    begins = options["transactional"]
    for batch, end, is_given_up in zip(rows, options["ends"], options["givenUp"], strict=False):
        yield batch, begins, end, is_given_up
        begins = bool(end)


def octets(digits: Any) -> Any:
    """Return hex digits as bytes; None stays None."""
    return None if digits is None else bytes.fromhex(digits)


def error_report(error: Exception, is_refusal: IsRefusal) -> Line:
    """Return the report of an exception."""
    if isinstance(error, CannotExpress):
        return {"unsupported": str(error)}
    text = f"{type(error).__name__}: {error}"
    if not is_refusal(error):
        return {"crash": text}
    corrupt = "Corrupt" in type(error).__name__
    return {"error": "corrupt" if corrupt else "other", "message": text}


def topics() -> Iterator[Line]:
    """Yield the lines of the suite."""
    yield from map(json.loads, sys.stdin)


def write_line(line: Line) -> None:
    """Write a line."""
    with _out:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def hexed(data: Any) -> Any:
    """Return bytes as hex digits; None stays None."""
    return None if data is None else bytes(data).hex()
