"""What the drivers in Python share: topics come in on standard input, what an application is handed goes out."""

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

Told = dict[str, Any]
"""A line of the suite: `topic`, `partition`, `bootstrap`, and `offset` and `isolation`, or `produce`."""
_out = threading.Lock()

DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error)
"""What the standard library documents for damaged data; a client that lets it pass leaves it to the application."""

IsRefusal = Callable[[Exception], bool]
"""Tells what the library documents, or an application can be expected to catch, from a crash."""


def drive(
    version: str,
    consume: Callable[[Told], Iterable[Any]],
    shown: Callable[[Any], Told],
    *,
    at_once: int,
    is_refusal: IsRefusal,
    produce: Callable[[Told], object] | None = None,
) -> None:
    """Consume the topics that the suite names, or write to them, so many at once, until it ends the input."""
    say({"version": version})

    def one(told: Told) -> None:
        with ending(told["topic"], is_refusal):
            if produce is not None and "produce" in told:
                produce(told)
                return
            for record in consume(told):
                if hand(told["topic"], shown(record)):
                    break

    with ThreadPoolExecutor(at_once) as pool:
        for told in topics():
            pool.submit(one, told)


@contextmanager
def ending(topic: str, is_refusal: IsRefusal) -> Iterator[None]:
    """Say that a topic has come to its end, or what was raised before that."""
    try:
        yield
        say({"topic": topic, "end": True})
    except Exception as error:  # noqa: BLE001 - whatever an application would get
        say({"topic": topic, **raised(error, is_refusal)})


def hand(topic: str, record: Told) -> bool:
    """Say a record that the consumer handed out, and return whether it is the last one of its topic."""
    say({"topic": topic, "record": record})
    return bool(record["key"] == END.hex())


def shown_as(
    offset: int, timestamp: int, timestamp_type: str | None, key: Any, value: Any, headers: Iterable[tuple[str, Any]]
) -> Told:
    """Return a record in the notation of `read`; the type of the timestamp is left out where it is None."""
    return {
        "offset": str(offset),
        "timestamp": str(timestamp),
        **({} if timestamp_type is None else {"timestampType": timestamp_type}),
        "key": hexed(key),
        "value": hexed(value),
        "headers": [{"key": name, "value": hexed(octets)} for name, octets in headers],
    }


class CannotBeTold(Exception):
    """A record that the client's interface has no way to name; the message says what."""


def batches(told: Told, cannot: Callable[[Told], str] = lambda _: "") -> list[list[Told]]:
    """The records to write, batch after batch, their keys, values and timestamps as a client takes them.

    Those that none waits for the one before are one list: the client makes batches of at most `batchBytes` of them.
    `cannot` says what of a record the client's interface has no way to name. Raises CannotBeTold.
    """
    made = [
        [
            {
                "key": octets(record["key"]),
                "value": octets(record["value"]),
                "timestamp": int(record["timestamp"]),
                "headers": [(header["key"], octets(header["value"])) for header in record["headers"]],
            }
            for record in batch
        ]
        for batch in told["produce"]["batches"]
    ]
    for what in filter(None, (cannot(record) for batch in made for record in batch)):
        raise CannotBeTold(what)
    return [[record for batch in made for record in batch]] if told["produce"]["together"] else made


def in_turn(told: Told, made: list[list[Told]]) -> Iterator[tuple[list[Told], bool, str, bool]]:
    """Batches, whether a transaction begins with each, how it ends behind it, and whether what fails of it is given up.

    It ends by `commit`, `abort`, or not yet.
    """
    asked = told["produce"]
    begins = asked["transactional"]
    for batch, end, is_given_up in zip(made, asked["ends"], asked["givenUp"], strict=False):
        yield batch, begins, end, is_given_up
        begins = bool(end)


def octets(digits: Any) -> Any:
    """Hex digits as bytes; None as it is."""
    return None if digits is None else bytes.fromhex(digits)


def raised(error: Exception, is_refusal: IsRefusal) -> Told:
    """Return what is said of an exception."""
    if isinstance(error, CannotBeTold):
        return {"unsupported": str(error)}
    text = f"{type(error).__name__}: {error}"
    if not is_refusal(error):
        return {"crash": text}
    corrupt = "Corrupt" in type(error).__name__
    return {"error": "corrupt" if corrupt else "other", "message": text}


def topics() -> Iterator[Told]:
    """The lines of the suite."""
    for line in sys.stdin:
        yield json.loads(line)


def say(told: Told) -> None:
    """Write a line."""
    with _out:
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


def hexed(data: Any) -> Any:
    """Bytes as hex digits; None as it is."""
    return None if data is None else bytes(data).hex()
