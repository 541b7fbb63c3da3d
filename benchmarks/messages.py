"""Messages: the time to read definitions, a round trip of each message and version, the speed of small messages.

    python benchmarks/messages.py PATH               # a folder, file, jar or zip of definitions
    python benchmarks/messages.py PATH --values 200  # N generated values of each message in each version

The output is the seconds to read all definitions and to build a layout of each version; the number of generated values
that survive a round trip; and the small messages per second that the reference, kafka-python and kio decode and encode
again in one run (without libraries that are not installed).
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

from conformance import codec
from conformance.codec.message_layout import wire_of
from conformance.definitions.loader import read_definitions
from conformance.strategies.seeded.cases import message_types
from conformance.strategies.seeded.generator import choices_of, value

SMALL = (
    ("HeartbeatRequest", 4, {"GroupId": "group", "GenerationId": 7, "MemberId": "member-1", "GroupInstanceId": None}),
    ("ApiVersionsRequest", 3, {"ClientSoftwareName": "suite", "ClientSoftwareVersion": "1.0"}),
    ("FindCoordinatorRequest", 4, {"KeyType": 0, "CoordinatorKeys": ("group",)}),
    ("OffsetFetchRequest", 5, {"GroupId": "group", "Topics": ({"Name": "topic", "PartitionIndexes": (0, 1, 2)},)}),
    ("ListOffsetsRequest", 5, {"ReplicaId": -1, "Topics": ({"Name": "topic", "Partitions": ({"Timestamp": -1},)},)}),
)
_ROUND = 2000
_BEST_OF = 5


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What message definitions cost, and small messages.")
    parser.add_argument("path", type=Path, help="definitions: a folder, file, jar or zip")
    parser.add_argument("--values", type=int, default=50, metavar="N", help="values of each message and version [50]")
    options = parser.parse_args()
    begin = time.perf_counter()
    found = read_definitions(options.path)
    read = time.perf_counter() - begin
    types = codec.TypeRegistry(found.messages)
    names = message_types(found.messages.values())
    begin = time.perf_counter()
    for message in found.messages.values():
        for version in message.valid:
            wire_of(message, version)
    made = time.perf_counter() - begin
    print(f"{len(found.messages)} definitions read in {read:.2f} s, {len(found.findings)} findings")
    print(f"{len(names)} messages × versions made into layouts in {made:.2f} s")
    different = _round_trips([types.wire(name) for name in names], options.values)
    _speeds(types)
    return 1 if different else 0


def _round_trips(wires: list[codec.WireType], count: int) -> int:
    """Encode and decode generated values of each type; return the number of changed ones."""
    different = 0
    for wire in wires:
        for index in range(count):
            given = value(wire, choices_of(wire.name, 0, index))
            data = codec.encode(wire, given)
            read = codec.decode(wire, data)
            if not read.ok or read.consumed != len(data) or not wire.notation.same(given, read.value):
                different += 1
                print(f"{wire.name} value {index}: {data.hex()} does not come back", file=sys.stderr)
    print(f"{len(wires) * count} values encoded and decoded, {count} of each: {different} did not come back")
    return different


# --- speed --------------------------------------------------------------------------------------------


def _speeds(types: codec.TypeRegistry) -> None:
    """Print the small messages per second, decoded and encoded again, of each library that has them."""
    print(f"\n{'message':<26}" + "".join(f"{name:>24}" for name in ("reference", *_LIBRARIES)))
    for message, version, given in SMALL:
        if message not in types.messages or version not in types.messages[message].valid:
            continue
        wire = wire_of(types.messages[message], version)
        data = codec.encode(wire, given)
        several = [_reference(wire), *(make(message, version) for make in _LIBRARIES.values())]
        speeds = [_speed(again, data) for again in several]
        cells = [f"{speed:,.0f}/s ({speed / speeds[0]:.2f})" if speed else "—" for speed in speeds]
        print(f"{message + ' ' + str(version):<26}" + "".join(f"{cell:>24}" for cell in cells))


def _speed(again: Again | None, data: bytes) -> float:
    """Return the messages per second of the best round, or 0 if the library lacks the message."""
    if again is None:
        return 0.0
    if again(data) != data:
        raise SystemExit(f"decoded and encoded again, these bytes come back as others: {data.hex()}")
    best = 0.0
    for _ in range(_BEST_OF):
        begin = time.perf_counter()
        for _ in range(_ROUND):
            again(data)
        best = max(best, _ROUND / (time.perf_counter() - begin))
    return best


Again = Callable[[bytes], bytes]
"""Return a function that decodes a message and encodes it again."""


def _reference(wire: codec.WireType) -> Again:
    return lambda data: codec.encode(wire, codec.decode(wire, data).value)


def _kafka_python(message: str, version: int) -> Again | None:
    """Return a function that decodes, then encodes a new object, because decoded objects cannot be encoded."""
    try:
        from kafka.protocol import admin, consumer, metadata, producer
    except ImportError:
        return None
    modules = (admin, consumer, metadata, producer)
    kind = next((vars(module)[message] for module in modules if message in vars(module)), None)
    if kind is None:
        return None
    written: dict[bytes, object] = {}

    def again(data: bytes) -> bytes:
        read = kind.decode(data, version=version)
        if data not in written:
            written[data] = kind(version=version, **{name: getattr(read, name) for name in kind.fields})
        return bytes(written[data].encode(version=version))

    return again


def _kio(message: str, version: int) -> Again | None:
    try:
        from pkgutil import resolve_name

        from kio.schema.index import schema_name_map
        from kio.serial import entity_reader, entity_writer
    except ImportError:
        return None
    places = [place for versions in schema_name_map.values() for place in versions.get(version, {}).values()]
    place = next((place for place in places if place.partition(":")[2] == message), None)
    if place is None:
        return None
    entity = resolve_name(place)
    read, write = entity_reader(entity), entity_writer(entity)

    def again(data: bytes) -> bytes:
        out = io.BytesIO()
        write(out, read(data, 0)[0])
        return out.getvalue()

    return again


_LIBRARIES: dict[str, Callable[[str, int], Again | None]] = {"kafka-python": _kafka_python, "kio": _kio}

if __name__ == "__main__":
    sys.exit(main())
