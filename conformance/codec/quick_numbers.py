"""Lines of quick readers that read numbers."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache

from conformance.codec.source import Source
from conformance.codec.wire import Grouped, Number


@cache
def _short(*, signed: bool) -> tuple[int, ...]:
    """The numbers of one group and of two, by what is in the groups."""
    return tuple(raw >> 1 ^ -(raw & 1) if signed else raw for raw in range(1 << 14))


@cache
def _two_groups(*, signed: bool) -> tuple[int | None, ...]:
    """By 128 times the second byte and the first: the number of two groups; None where there is one group, or three."""
    return (*(None,) * 256, *_short(signed=signed)[128:], *(None,) * (1 << 14))


def numbers(out: Source, shapes: Sequence[Number]) -> list[str]:
    """Lines that read numbers of fixed width one after another, at once; the names that stand for them."""
    names = [out.name() for _ in shapes]
    size = sum(shape.size for shape in shapes)
    if size == 1:
        out(f"{names[0]} = data[pos]")
        if shapes[0].signed:
            out(f"if {names[0]} > 127: {names[0]} -= 256")
    else:
        unpack = struct.Struct(">" + "".join(shape.code for shape in shapes)).unpack_from
        out(f"{', '.join(names)}, = {out.known(unpack, 'unpack')}(data, pos)")
    out(f"pos += {size}")
    return names


def grouped(out: Source, shape: Grouped) -> str:
    """Lines that read a number in groups: one or two of them at once, more as the interpreter does."""
    number, first = out.name(), out.name()
    out(f"{number} = {first} = data[pos]")
    with out.block(f"if {first} < 128"):
        out("pos += 1", *([f"{number} = {out.known(_short(signed=True), 'short')}[{first}]"] if shape.signed else []))
    with out.block("else"):
        out(f"{number} = {out.known(_two_groups(signed=shape.signed), 'two')}[(data[pos + 1] << 7) + {first}]")
        with out.block(f"if {number} is None"):
            read = out.known(shape.groups.read, "read")
            out(f"cursor.pos = pos; cursor.end = end; {number} = {read}(cursor); pos = cursor.pos")
            if shape.signed:
                out(f"{number} = {number} >> 1 ^ -({number} & 1)")
        with out.block("else"):
            out("pos += 2")
    return number
