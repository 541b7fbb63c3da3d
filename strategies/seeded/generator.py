"""The seeded generator: a value of any type, and its bytes, from a seed and an index alone.

What it draws follows the table of types: numbers at and between their edges, lengths at the steps of their prefixes,
nulls where a type has them, structures from their fields. Compressed payloads are stored, not compressed, so that the
bytes do not depend on anybody's compressor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from conformance import codec
from conformance.codec import notation as n
from conformance.codec.batch_building import build
from conformance.codec.compression import CODECS
from conformance.codec.log import last_offset
from conformance.codec.record import RECORD
from conformance.codec.record_batch import PACKED_LAYOUT
from conformance.codec.structure import write
from conformance.semantics.compaction import compacted
from conformance.strategies.seeded import legacy
from conformance.strategies.seeded.choices import Dice
from conformance.strategies.seeded.messages import draw_message, skewed_message, unencodable_message, with_unknown_tags

VERSION = 2
"""Of the generator: it goes up whenever an id comes to mean other bytes."""

_LENGTHS = (0, 1, 2, 3, 7, 20, 63, 64, 127, 128, 300)
_COUNTS = (0, 1, 1, 2, 2, 3, 5)


def dice_of(name: str, seed: int, index: int) -> Dice:
    """The choices behind the case `gen/VERSION/name/seed/index`."""
    return Dice(f"gen/{VERSION}/{name}/{seed}/{index}")


def value(type_: codec.Wire | str, dice: Dice) -> Any:
    """A wire value of any type that has an encoding. Raises codec.UnknownType."""
    wire = codec.wire(type_)
    special = _SPECIAL.get(wire.name)
    if special is not None:
        return special(dice)
    if isinstance(wire, codec.MessageWire):
        drawn = draw_message(wire.message, wire.version, dice, value)
        return with_unknown_tags(drawn, wire.message, wire.version, dice) if dice.chance(10) else drawn
    form, _, rest = wire.name.partition("<")
    if rest:
        return _array(form, rest[:-1], dice)
    return _BY_NOTATION.get(wire.notation.describes, _edge)(wire, dice)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A value with its bytes. For a RECORD_BATCH or MESSAGE_SET the value may be one that no encode request can say."""

    value: Any
    data: bytes


def drawn(type_: codec.Wire | str, dice: Dice) -> Drawn:
    """A value of a type, and the bytes it has on the wire."""
    wire = codec.wire(type_)
    found, name = value(wire, dice), wire.name
    if name == "RECORD_BATCH":
        return Drawn(found, batch_bytes(found))
    if name == "LOG":
        return Drawn(found, b"".join(map(entry_bytes, found["batches"])) + found["tail"])
    if name == "MESSAGE_SET":
        messages = tuple(message for entry in found["entries"] for message in entry["messages"])
        return Drawn(messages, legacy.set_bytes(found))
    return Drawn(found, codec.encode(wire, found))


def entry_bytes(entry: dict[str, Any]) -> bytes:
    """An entry of a log on the wire, of any magic."""
    return legacy.entry_bytes(entry) if "messages" in entry else batch_bytes(entry)


def batch_bytes(batch: dict[str, Any]) -> bytes:
    """A batch on the wire, its payload stored in a framing of its codec: the plain one, or that of its `form`."""
    forms = CODECS[batch["compression"]].forms
    payload = forms[batch.get("form", 0) % len(forms)](b"".join(map(RECORD.encode, batch["records"])))
    return write(PACKED_LAYOUT, {**batch, "payload": payload})


def unencodable(type_: codec.Wire | str, dice: Dice) -> Any:
    """A value in the notation of a type that has no encoding, close to its range; Ellipsis where we know of none.

    Raises codec.UnknownType.
    """
    wire = codec.wire(type_)
    if isinstance(wire, codec.MessageWire):
        return unencodable_message(wire.message, wire.version, dice)
    form, _, element = wire.name.partition("<")
    if element:
        wrong = unencodable(element[:-1], dice)
        whole = list(_array(form, element[:-1], dice) or ())
        whole.insert(dice.below(len(whole) + 1), wrong)
        return ... if wrong is ... else tuple(whole)
    if wire.name == "TAGGED_FIELDS":
        return _disordered(dice)
    numbers = [edge for edge in wire.edges if type(edge) is int]
    if numbers and wire.notation in (n.NUMBER, n.DECIMAL):
        return max(numbers) + dice.pick((1, 1, 2, 1 << 31)) if dice.chance(50) else min(numbers) - dice.pick((1, 1, 2))
    return None if wire.notation in (n.TEXT, n.HEX) and None not in wire.edges else ...


def skewed(type_: codec.Wire | str, dice: Dice) -> Any:
    """A value of another version of a message than the type's, in wire values; Ellipsis for any other type."""
    wire = codec.wire(type_)
    return skewed_message(wire.message, wire.version, dice, value) if isinstance(wire, codec.MessageWire) else ...


def _disordered(dice: Dice) -> tuple[dict[str, Any], ...]:
    """Tagged fields of which one does not come after the one before it, or has no tag that there can be."""
    tags = sorted({dice.below(1 << dice.between(4, 31)) for _ in range(4)})
    at = dice.below(len(tags))
    tags[at : at + 1] = dice.pick(((tags[at], tags[at]), (tags[at] + 1, tags[at]), (tags[at], -1)))
    return tuple({"tag": tag, "data": dice.octets(dice.pick(_LENGTHS))} for tag in tags)


# --- by notation --------------------------------------------------------------------------------------


def _number(wire: codec.Wire, dice: Dice) -> int:
    edges = [edge for edge in wire.edges if type(edge) is int]
    if dice.chance(40):
        return dice.pick(edges)
    low, high = min(edges), max(edges)
    magnitude = dice.below(1 << dice.between(1, high.bit_length()))
    return max(low, -magnitude) if low < 0 and dice.chance(50) else min(high, magnitude)


def _edge(wire: codec.Wire, dice: Dice) -> Any:
    """One of the edges of a row: all that is known of the values of a notation which no function here draws."""
    return dice.pick(wire.edges)


def _bits(wire: codec.Wire, dice: Dice) -> int:
    return dice.pick(wire.edges) if dice.chance(40) else int.from_bytes(dice.octets(8), "big")


def _text(wire: codec.Wire, dice: Dice) -> str | None:
    return None if None in wire.edges and dice.chance(20) else text(dice)


def text(dice: Dice) -> str:
    """Text of one, two, three or four bytes a character, NUL and combining marks among them."""
    letters = dice.pick(("a", "abcxyz09 ", "\x00\x7f", "é߿", "€\u0301x", "😀a"))
    return "".join(dice.picks(letters, dice.pick(_LENGTHS)))


def _octets(wire: codec.Wire, dice: Dice) -> bytes | None:
    return None if None in wire.edges and dice.chance(20) else dice.octets(dice.pick(_LENGTHS))


_BY_NOTATION: dict[str, Callable[[codec.Wire, Dice], Any]] = {
    n.NUMBER.describes: _number,
    n.DECIMAL.describes: _number,
    n.FLOAT_BITS.describes: _bits,
    n.DASHED.describes: lambda wire, dice: dice.pick(wire.edges) if dice.chance(20) else dice.octets(16),
    n.TEXT.describes: _text,
    n.HEX.describes: _octets,
}


def _array(form: str, element: str, dice: Dice) -> Any:
    if "NULLABLE" in form and dice.chance(15):
        return None
    return tuple(value(element, dice) for _ in range(dice.pick((*_COUNTS, 20, 130))))


# --- structures ---------------------------------------------------------------------------------------


def _tagged(dice: Dice) -> tuple[dict[str, Any], ...]:
    tags: set[int] = set()
    for _ in range(dice.pick(_COUNTS)):
        tags.add(dice.pick((0, 1, 2, 127, 128, 16383, 16384)) if dice.chance(60) else dice.below((1 << 31) - 1))
    return tuple({"tag": tag, "data": dice.octets(dice.pick(_LENGTHS))} for tag in sorted(tags))


def _nullable(dice: Dice) -> bytes | None:
    return None if dice.chance(20) else dice.octets(dice.pick(_LENGTHS))


def _headers(dice: Dice) -> tuple[dict[str, Any], ...]:
    found = [
        {"key": text(dice).replace("\0", "k"), "value": _nullable(dice)} for _ in range(dice.pick((0, 0, 1, 2, 3)))
    ]
    return tuple(found + found[:1] if dice.chance(20) else found)


def _record(dice: Dice) -> dict[str, Any]:
    delta = _number(codec.wire("VARLONG"), dice)
    offset = abs(_number(codec.wire("VARINT"), dice) + 1) - 1 if dice.chance(50) else dice.below(100)
    return {
        "attributes": 0,
        "timestampDelta": delta,
        "offsetDelta": max(0, offset),
        "key": _nullable(dice),
        "value": _nullable(dice),
        "headers": _headers(dice),
    }


_EPOCH_MS = 1_700_000_000_000


def _timestamps(count: int, dice: Dice) -> list[int]:
    """Timestamps in milliseconds: none at all, rising, in any order, or far apart."""
    style = dice.below(4)
    if style == 0:
        return [-1] * count
    if style == 1:
        return [_EPOCH_MS + dice.below(1000) + 1000 * index for index in range(count)]
    return [dice.below(1 << (44 if style == 2 else 31)) for _ in range(count)]


def _producer(dice: Dice) -> dict[str, Any]:
    if dice.chance(50):
        return {"producerId": -1, "producerEpoch": -1, "baseSequence": -1, "isTransactional": False}
    return {
        "producerId": dice.pick((0, 1, 1 << 31, (1 << 53) + 1, (1 << 63) - 1)),
        "producerEpoch": dice.pick((0, 1, 32767)),
        "baseSequence": dice.pick((0, 1, 1000, (1 << 31) - 1)),
        "isTransactional": dice.chance(50),
    }


def _batch(dice: Dice, *, base: int | None = None) -> dict[str, Any]:
    """A batch as a producer makes it, or one of those that compaction leaves: with gaps, or empty."""
    count = dice.pick((1, 1, 1, 2, 2, 3, 3, 5, 20, 130))
    control = dice.chance(10)
    count = 1 if control else count
    base = dice.pick((0, 0, 1, 100, 1 << 31, (1 << 53) + 1, (1 << 63) - 1000)) if base is None else base
    stamps = _timestamps(count, dice)
    contents = [{"key": _nullable(dice), "value": _nullable(dice), "headers": _headers(dice)} for _ in range(count)]
    if control:
        marker = codec.encode("CONTROL_RECORD", {"version": 0, "type": dice.below(2)})
        contents = [{"key": marker, "value": dice.octets(6), "headers": ()}]
    batch = build(
        {
            "baseOffset": base,
            "partitionLeaderEpoch": dice.pick((-1, 0, 5, (1 << 31) - 1)),
            "compression": 0 if control else dice.below(len(CODECS)),
            "timestampType": int(dice.chance(20)),
            **_producer(dice),
            "isControlBatch": control,
            "records": tuple(
                {**content, "offset": base + index, "timestamp": stamps[index]}
                for index, content in enumerate(contents)
            ),
        }
    )
    batch["form"] = dice.below(60)
    return batch if control else _compacted(batch, dice)


def _compacted(batch: dict[str, Any], dice: Dice) -> dict[str, Any]:
    """Now and then the log cleaner has been there: records are gone, or a delete horizon stands in baseTimestamp."""
    if dice.chance(75):
        return batch
    kept = {record["offset"] for record in batch["records"] if dice.chance(dice.pick((0, 60, 60, 90)))}
    return compacted(batch, kept, delete_horizon=_EPOCH_MS + dice.below(1 << 32) if dice.chance(30) else None)


def _log(dice: Dice, *, mixed: bool = True) -> dict[str, Any]:
    """Entries with rising offsets, those of a magic mostly together, and perhaps the beginning of a further one."""
    entries: list[dict[str, Any]] = []
    base = dice.pick((0, 7, 1 << 40))
    magic = dice.pick((0, 1, 2, 2, 2)) if mixed else 2
    for _ in range(dice.pick((0, 1, 1, 2, 2, 3))):
        entries.append(_batch(dice, base=base) if magic == 2 else legacy.entry(dice, base, magic=magic))
        base = last_offset(entries[-1]) + 1 + dice.pick((0, 0, 0, 4))
        magic = dice.below(3) if mixed and dice.chance(30) else magic
    tail = b""
    if dice.chance(40):
        further = _batch(dice, base=base) if magic == 2 else legacy.entry(dice, base, magic=magic)
        tail = legacy.cut(entry_bytes(further), dice)
    return {"batches": entries, "tail": tail}


def _records(dice: Dice) -> bytes | None:
    """The content of a records field: whole batches, now and then none, or null."""
    if dice.chance(15):
        return None
    return b"".join(map(batch_bytes, _log(dice, mixed=False)["batches"]))


_SPECIAL: dict[str, Callable[[Dice], Any]] = {
    "TAGGED_FIELDS": _tagged,
    "RECORD": _record,
    "RECORD_BATCH": _batch,
    "LOG": _log,
    "MESSAGE_SET": legacy.message_set,
    "RECORDS": _records,
    "COMPACT_RECORDS": _records,
    "CONTROL_RECORD": lambda dice: {"version": 0, "type": dice.below(2)},
}
