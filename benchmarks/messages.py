"""Messages: how long definitions take, whether every message in every version comes back, and how fast small ones go.

    python benchmarks/messages.py PATH               # a folder, file, jar or zip of definitions
    python benchmarks/messages.py PATH --values 200  # so many generated values of each message in each version

Prints seconds for reading all definitions and for making a layout of every version; how many generated values were
encoded, decoded and found the same; and, for small messages, how many a second the reference, kafka-python and kio each
decode and encode again, side by side in one run (a library that is not installed is left out).
"""

from __future__ import annotations

import argparse
import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

from conformance import codec
from conformance.codec.messages import wire_of
from conformance.definitions.files import read_definitions
from conformance.strategies.seeded.cases import message_types
from conformance.strategies.seeded.generator import dice_of, value

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
    types = codec.Types(found.messages)
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


def _round_trips(wires: list[codec.Wire], count: int) -> int:
    """Encode and decode generated values of every type; how many did not come back."""
    different = 0
    for wire in wires:
        for index in range(count):
            given = value(wire, dice_of(wire.name, 0, index))
            data = codec.encode(wire, given)
            read = codec.decode(wire, data)
            if not read.ok or read.consumed != len(data) or not wire.notation.same(given, read.value):
                different += 1
                print(f"{wire.name} value {index}: {data.hex()} does not come back", file=sys.stderr)
    print(f"{len(wires) * count} values encoded and decoded, {count} of each: {different} did not come back")
    return different


# --- speed --------------------------------------------------------------------------------------------


def _speeds(types: codec.Types) -> None:
    """Small messages a second, decoded and encoded again, by each library that has them."""
    print(f"\n{'message':<26}" + "".join(f"{name:>24}" for name in _LIBRARIES))
    for message, version, given in SMALL:
        if message not in types.messages or version not in types.messages[message].valid:
            continue
        wire = wire_of(types.messages[message], version)
        data = codec.encode(wire, given)
        cells = []
        base = 0.0
        for make in _LIBRARIES.values():
            speed = _speed(make(message, version), data)
            base = base or speed
            cells.append("—" if not speed else f"{speed:,.0f}/s ({speed / base:.2f})")
        print(f"{message + ' ' + str(version):<26}" + "".join(f"{cell:>24}" for cell in cells))


def _speed(again: Callable[[bytes], bytes] | None, data: bytes) -> float:
    """Messages a second, the best of a few rounds; 0 where the library does not have the message."""
    if again is None:
        return 0.0
    if again(data) != data:
        raise SystemExit(f"what is decoded is not encoded again to the same bytes: {data.hex()}")
    best = 0.0
    for _ in range(_BEST_OF):
        begin = time.perf_counter()
        for _ in range(_ROUND):
            again(data)
        best = max(best, _ROUND / (time.perf_counter() - begin))
    return best


def _reference(message: str, version: int) -> Callable[[bytes], bytes] | None:
    name = f"MESSAGE<{message},{version}>"
    return lambda data: codec.encode(name, codec.decode(name, data).value)


def _kafka_python(message: str, version: int) -> Callable[[bytes], bytes] | None:
    """Decodes, and encodes an object with the same fields: the library does not encode what it has decoded."""
    try:
        from kafka.protocol import admin, consumer, metadata, producer
    except ImportError:
        return None
    found = next((vars(m)[message] for m in (admin, consumer, metadata, producer) if message in vars(m)), None)
    if found is None:
        return None
    written: dict[bytes, object] = {}

    def again(data: bytes) -> bytes:
        read = found.decode(data, version=version)
        if data not in written:
            written[data] = found(version=version, **{name: getattr(read, name) for name in found.fields})
        return bytes(written[data].encode(version=version))

    return again


def _kio(message: str, version: int) -> Callable[[bytes], bytes] | None:
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


_LIBRARIES: dict[str, Callable[[str, int], Callable[[bytes], bytes] | None]] = {
    "reference": _reference,
    "kafka-python": _kafka_python,
    "kio": _kio,
}

if __name__ == "__main__":
    sys.exit(main())
