"""Defects met in the field in varints."""

from __future__ import annotations

from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.targets.defects.bending import Function, decoding, encoding
from conformance.targets.defects.model import SeededDefect
from conformance.targets.lies import Lie
from conformance.targets.violations.families import shows, writes_as

_THREADS = "https://github.com"


# --- varints ------------------------------------------------------------------------------------------


def groups(number: int) -> bytes:
    """An unsigned number as a varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _logical_shift(bits: int) -> Lie:
    """Zig-zag with a shift that brings in zeros."""
    mask = (1 << bits) - 1
    return encoding(
        "VARINT" if bits == 32 else "VARLONG",
        lambda value: groups(((int(value) << 1) ^ ((int(value) & mask) >> (bits - 1))) & mask),
    )


def unsigned_of(data: bytes, *, flag: int = 0x80, first_only: bool = False) -> tuple[int, int] | None:
    """The groups of a varint as a number and their count; None where they do not end."""
    number = 0
    for at, byte in enumerate(data[:10]):
        number |= (data[0] if first_only else byte) % flag << 7 * at
        if byte < flag:
            return number, at + 1
    return None


def _signed_by(render: type, *, flag: int = 0x80, first_only: bool = False) -> Function:
    def read(data: bytes) -> tuple[Value, int] | None:
        out = unsigned_of(data, flag=flag, first_only=first_only)
        return (render(out[0] >> 1 ^ -(out[0] & 1)), out[1]) if out else None

    return read


def _what_is_there(request: Request, answer: Answer) -> Answer:
    """Hand out the groups that are there of a varint that is cut off."""
    if request["op"] != "decode" or request["type"] not in ("VARINT", "VARLONG", "UNSIGNED_VARINT"):
        return answer
    data = bytes.fromhex(request["hex"])
    if not data or len(data) > 4 or min(data) < 0x80:
        return answer
    number = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data))
    value = number if request["type"] == "UNSIGNED_VARINT" else number >> 1 ^ -(number & 1)
    return {"ok": True, "value": str(value) if request["type"] == "VARLONG" else value, "consumed": len(data)}


def _low_half(value: str) -> str:
    """A 64-bit number cut to 32 bits."""
    number = int(value) & 0xFFFFFFFF
    return str(number - (1 << 32) if number >> 31 else number)


_one = partial(SeededDefect, area="primitives")

VARINTS = (
    _one(
        "field/varint-logical-shift",
        says="a writer zig-zags an INT32 with a logical shift, and writes ffffffff0f for -1",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        bend=_logical_shift(32),
        first=("varint.zigzag-formula",),
    ),
    _one(
        "field/varlong-logical-shift",
        says="a writer zig-zags an INT64 with a logical shift by 63, and writes ten bytes",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        bend=_logical_shift(64),
        first=("varlong.zigzag-formula",),
    ),
    _one(
        "field/varlong-first-group-again",
        says="a reader uses the first group of a VARLONG for every later one",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        bend=decoding("VARLONG", _signed_by(str, first_only=True)),
    ),
    _one(
        "field/varint-flag-in-bit-6",
        says="a reader takes the highest data bit of a group as the flag that more follow",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        bend=decoding("VARINT", _signed_by(int, flag=0x40)),
    ),
    _one(
        "field/varint-cut",
        says="a reader hands out the groups that are there of a varint that is cut off",
        source=f"{_THREADS}/tulios/kafkajs/issues/1793",
        bend=_what_is_there,
        first=("varint.truncated-rejected",),
    ),
    _one(
        "field/varlong-32-bits",
        says="a reader keeps 32 bits of a VARLONG, which a delta of thirty days does not fit into",
        source=f"{_THREADS}/twmb/franz-go/issues/324",
        bend=shows("VARLONG", _low_half),
    ),
    _one(
        "field/varlong-written-in-32-bits",
        says="a writer keeps 32 bits of a VARLONG",
        source=f"{_THREADS}/kafka-protocol-rs/kafka-protocol-rs/issues/158",
        bend=writes_as("VARLONG", _low_half),
    ),
)
"""Defects of varints."""
