"""Shared code of the bundled Python adapters: the notation of docs/adapters.md#how-values-are-written."""

import struct
from collections.abc import Callable, Iterable
from typing import Any

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")


def named(names: tuple[str, ...], number: int) -> str | int:
    """Return the name of a number, or the number if it has no name."""
    return names[number] if 0 <= number < len(names) else number


def from_hex(value: str | None) -> bytes | None:
    """Return hex digits as bytes; null stays null."""
    return None if value is None else bytes.fromhex(value)


def float_from_bits(value: str) -> float:
    """Return the number of the hex digits of a FLOAT64."""
    return float(struct.unpack(">d", bytes.fromhex(value))[0])


def float_bits(value: float) -> str:
    """Return the hex digits of the bits of a FLOAT64."""
    return struct.pack(">d", value).hex()


def each(convert: Callable[[str, Any], Any], type: str, value: Any) -> Any:
    """Convert a value of a type, or the elements of an array, with `convert(type, value)`; null stays null."""
    if value is None:
        return None
    if "ARRAY<" in type:
        return [each(convert, type.partition("<")[2][:-1], item) for item in value]
    return convert(type, value)


def vias(doors: dict[str, dict[str, str]]) -> dict[str, str]:
    """Return the entry points of the operations and types under the keys of the answer to describe."""
    return {f"{operation} {name}": door for operation, of_types in doors.items() for name, door in of_types.items()}


def unused_by_a_client(messages: Iterable[str]) -> dict[str, str]:
    """Return the `via` entries for messages in directions that a client does not use.

    A client decodes no requests and encodes no responses.
    """
    return {
        f"decode MESSAGE<{name}>"
        if "Request" in name
        else f"encode MESSAGE<{name}>": "unused: this direction, which only brokers need"
        for name in messages
        if name.endswith(("Request", "RequestHeader", "Response", "ResponseHeader"))
    }
