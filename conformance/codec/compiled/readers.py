"""Compiled readers: functions that are generated from the table of a type, for bytes without findings.

A compiled reader returns the values of the interpreter, without trail and findings. Where the interpreter would reject
or remark, it raises NeedsInterpreter or another of DOUBTS. The interpreter then reads the same bytes and explains.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import groupby
from typing import Any

from conformance.codec import json_notation as n
from conformance.codec._length_prefixed import MANY, CountedShape, LengthPrefix, SizedShape, repeats
from conformance.codec.compiled.source_builder import FunctionBuilder, NeedsInterpreter
from conformance.codec.cursor import Cursor, Malformed
from conformance.codec.derived_fields import ByteLength, CountOf, ExpectedRange
from conformance.codec.layout import Field, Layout
from conformance.codec.message_layout import KeyedArrayShape, NullableStructShape, StructShape, TaggedSection
from conformance.codec.message_spec import UNKNOWN, FieldSpec, default_of
from conformance.codec.primitives import UNSIGNED_VARINT
from conformance.codec.wire_type import NumberShape, RawShape, VarintShape, WireType


@cache
def _short(*, signed: bool) -> tuple[int, ...]:
    """Return the numbers of one and of two groups, indexed by the bits of the groups."""
    return tuple(raw >> 1 ^ -(raw & 1) if signed else raw for raw in range(1 << 14))


@cache
def _two_groups(*, signed: bool) -> tuple[int | None, ...]:
    """Return the two-group numbers by 128 * second byte + first byte; None for one group, or three."""
    return (*(None,) * 256, *_short(signed=signed)[128:], *(None,) * (1 << 14))


def numbers(out: FunctionBuilder, shapes: Sequence[NumberShape]) -> list[str]:
    """Add lines that read consecutive numbers of fixed width with one call; return their names."""
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


def grouped(out: FunctionBuilder, shape: VarintShape) -> str:
    """Add lines that read a number in groups; the interpreter reads more than two groups. Return its name."""
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


DOUBTS = (NeedsInterpreter, Malformed, IndexError, struct.error, UnicodeDecodeError)
"""The errors that end a compiled reader: it does not check first that single bytes and numbers are present."""


Reader = Callable[[Cursor], Any]


@cache
def reader_of(wire: WireType) -> Reader:
    """Return a function that reads one value at a cursor and moves the cursor after it."""
    out = FunctionBuilder()
    with out.block("def read(cursor)"):
        out("data = cursor.data; pos = cursor.pos; end = cursor.end")
        value = _value(out, wire)
        out.doubt("pos > end")
        out("cursor.pos = pos; cursor.end = end", f"return {value}")
    return out.function("read")


@cache
def several_of(wire: WireType) -> Callable[[Cursor, int], list[Any]]:
    """Return a function that reads several values at a cursor, each a separate object."""
    out = FunctionBuilder()
    with out.block("def read(cursor, count)"):
        out("data = cursor.data; pos = cursor.pos; end = cursor.end", "values = []; add = values.append")
        with out.block("for _ in range(count)"):
            out(f"add({_value(out, wire)})")
        out.doubt("pos > end")
        out("cursor.pos = pos; cursor.end = end", "return values")
    return out.function("read")


def _value(out: FunctionBuilder, wire: WireType) -> str:
    """Add lines that read a value at `pos`; return its name or expression."""
    if out.is_deep:
        return _call_with_cursor(out, f"{out.known(reader_of(wire))}(cursor)")
    match wire.shape:
        case NumberShape() as number:
            return numbers(out, [number])[0]
        case RawShape(size, read, _):
            raw = out.name()
            out(f"{raw} = {out.known(read)}(data[pos:pos + {size}])", f"pos += {size}")
            return raw
        case VarintShape() as shape:
            return grouped(out, shape)
        case SizedShape(prefix, content):
            return _sized(out, prefix, content.expression)
        case CountedShape(prefix, element):
            return _counted(out, prefix, element)
        case Layout() as layout:
            return _structure(out, layout)
    return _part_of_message(out, wire) or _call_with_cursor(out, f"{out.known(wire.decode)}(cursor)")


def _call_with_cursor(out: FunctionBuilder, call: str) -> str:
    """Add a call with the cursor, for a type that has only a function; return the name of its result."""
    value = out.name()
    out("cursor.pos = pos; cursor.end = end", f"{value} = {call}", "pos = cursor.pos; end = cursor.end")
    return value


# --- lengths and counts -------------------------------------------------------------------------------


def _prefix(out: FunctionBuilder, prefix: LengthPrefix) -> str:
    """Add lines that read a length or count that is negative or undisputed; return its name."""
    number = _value(out, prefix.wire)
    if prefix.plus:
        out(f"{number} -= {prefix.plus}")
    most = (1 << 15 if prefix.long_rule else 1 << 31) - 1
    if prefix.wire.edges[-1] - prefix.plus > most:
        out.doubt(f"{number} > {most}")
    return number


def _absent(out: FunctionBuilder, prefix: LengthPrefix, number: str, value: str) -> None:
    """Add lines that set null for the number of null."""
    if prefix.nullable and not prefix.null_rule:
        out.doubt(f"{number} != -1")
        out(f"{value} = None")
    else:
        out("raise Doubt")


def _sized(out: FunctionBuilder, prefix: LengthPrefix, expression: str) -> str:
    number, value = _prefix(out, prefix), out.name()
    with out.block(f"if {number} >= 0"):
        out(f"{number} += pos")
        out.doubt(f"{number} > end")
        out(f"{value} = {expression.format(f'data[pos:{number}]')}", f"pos = {number}")
    with out.block("else"):
        _absent(out, prefix, number, value)
    return value


def _counted(out: FunctionBuilder, prefix: LengthPrefix, element: WireType) -> str:
    number, value = _prefix(out, prefix), out.name()
    with out.block(f"if {number} > 0"):
        out.doubt(f"{number} * {element.smallest} > end - pos")
        out(f"if cursor.layer: cursor.count({number})")
        if isinstance(element.shape, NumberShape):
            code = element.shape.code
            out(f"{value} = {out.known(struct.unpack_from, 'unpack')}(f'>{{{number}}}{code}', data, pos)")
            out(f"pos += {number} * {element.smallest}")
            # Equal numbers become one object, so `json_notation.each` converts each of them once.
            out(f"if {number} > {MANY}: {value} = tuple(map({{}}.setdefault, {value}, {value}))")
        else:
            _elements(out, element, number, value)
    with out.block(f"elif {number} == 0"):
        out(f"{value} = ()")
    with out.block("else"):
        _absent(out, prefix, number, value)
    return value


def _elements(out: FunctionBuilder, element: WireType, number: str, value: str) -> None:
    """Add lines that read elements; if there are many, consecutive equal bytes are read once."""
    gathered, start, before, alike = (out.name() for _ in range(4))
    out(f"{gathered} = []")
    with out.block(f"while len({gathered}) < {number}"):
        out(f"{start} = pos; {before} = cursor.findings.elements")
        out(f"{gathered}.append({_value(out, element)})")
        with out.block(
            f"if {number} > {MANY} and data[{start}:pos] == data[pos:pos + pos - {start}] "
            f"and {before} == cursor.findings.elements"
        ):
            out("cursor.pos = pos; cursor.end = end")
            out(f"{alike} = {out.known(repeats)}(cursor, pos - {start}, {number} - len({gathered}))")
            out(f"pos += (pos - {start}) * {alike}; {gathered} += {gathered}[-1:] * {alike}")
    out(f"{value} = tuple({gathered})")


# --- structures ---------------------------------------------------------------------------------------


def _structure(out: FunctionBuilder, layout: Layout) -> str:
    """Add lines that read the fields into a dict; consecutive numbers of fixed width are read with one call."""
    start, outer, values = (out.name() for _ in range(3))
    if layout.rules:
        out(f"{start} = pos")
    if layout.bound:
        out(f"{outer} = end")
    names: dict[str, str] = {}
    is_made = False
    for fixed, run in groupby(layout.fields, key=lambda field: isinstance(_shape(field), NumberShape)):
        fields = list(run)
        if fixed:
            _fixed_fields(out, fields, names)
            continue
        for field in fields:
            if not isinstance(field.wire, WireType):
                out(f"{values}.update({_dict(names)})" if is_made else f"{values} = {_dict(names)}")
                is_made, names = True, {}
            _field(out, field, names, values)
    if layout.bound:
        out.doubt("pos != end")
        out(f"end = {outer}")
    out(f"{values}.update({_dict(names)})" if is_made else f"{values} = {_dict(names)}")
    for rule in layout.rules:
        out("cursor.pos = pos; cursor.end = end", f"{out.known(rule)}(cursor, {values}, {start})")
    return values


def _shape(field: Field) -> Any:
    return field.wire.shape if isinstance(field.wire, WireType) else None


def _dict(names: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name!r}: {value}" for name, value in names.items()) + "}"


def _fixed_fields(out: FunctionBuilder, fields: Sequence[Field], names: dict[str, str]) -> None:
    values = numbers(out, [_shape(field) for field in fields])
    after = sum(_shape(field).size for field in fields)
    for field, value in zip(fields, values, strict=True):
        after -= _shape(field).size
        begin = f"pos - {after + _shape(field).size}"
        _hold(out, field, value, begin, f"pos - {after}" if after else "pos", names)


def _field(out: FunctionBuilder, field: Field, names: dict[str, str], values: str) -> None:
    begin = out.name()
    if field.check is not None or field.derive is not None:
        out(f"{begin} = pos")
    if isinstance(field.wire, WireType):
        value = _value(out, field.wire)
    else:
        value = _call_with_cursor(out, f"{out.known(field.wire.read)}(cursor, {values})")
    _hold(out, field, value, begin, "pos", names)


def _hold(out: FunctionBuilder, field: Field, value: str, begin: str, at: str, names: dict[str, str]) -> None:
    """Add the checks of a field, which covers `begin` to `at`, and the names of it and its parts."""
    names[field.name] = value
    match field.derive:
        case None | CountOf():
            pass
        case ByteLength(least=least):
            # Without a least length no check is needed: a negative one fails `pos != end` after the structure.
            if least:
                out.doubt(f"{value} < {least}")
            out.doubt(f"{at} + {value} > end")
            out(f"end = {at} + {value}")
        case derivation:
            out(f"cursor.pos = {at}; cursor.end = end", f"{out.known(derivation.check)}(cursor, {begin}, {value})")
    for part in field.bits:
        names[part.name] = out.name()
        bits = f"{value} >> {part.shift} & {(1 << part.width) - 1}"
        out(f"{names[part.name]} = " + (f"bool({bits})" if part.notation is n.TRUTH else bits))
    match field.check:
        case None:
            pass
        case ExpectedRange(low=low, high=high):
            both = value if low == high == 0 else f"not {low} <= {value} <= {high}"
            out.doubt(f"{value} < {low}" if high is None else both)
        case check:
            out(f"cursor.pos = {at}; cursor.end = end", f"{out.known(check)}(cursor, {value}, {begin})")


# --- messages -----------------------------------------------------------------------------------------


def _part_of_message(out: FunctionBuilder, wire: WireType) -> str:
    match wire.shape:
        case StructShape() as structure:
            return _of_message(out, structure)
        case KeyedArrayShape(elements, keys):
            return _keyed(out, elements, keys)
        case NullableStructShape(structure):
            return _marked(out, structure)
    return ""


def _of_message(out: FunctionBuilder, structure: StructShape) -> str:
    section = structure.section
    if section is None and not structure.layout.fields:
        out("cursor.count_in(1)")
    values = _structure(out, structure.layout)
    if section is not None:
        names: dict[str, str] = {}
        unknown = _section(out, section, names)
        if names:
            out(f"{values}.update({_dict(names)})")
        out(f"if {unknown}: {values}[{UNKNOWN!r}] = {unknown}")
    return values


def _keyed(out: FunctionBuilder, elements: WireType, keys: Sequence[str]) -> str:
    """Add lines that read elements with keys, of which no two may be equal."""
    value = _value(out, elements)
    known = "".join(f"one[{key!r}], " for key in keys)
    out.doubt(f"{value} and len({{({known}) for one in {value}}}) < len({value})")
    return value


def _marked(out: FunctionBuilder, structure: WireType) -> str:
    """Add lines that read a structure after the byte that marks null."""
    mark, value = out.name(), out.name()
    out(f"{mark} = data[pos]; pos += 1")
    with out.block(f"if {mark} == 1"):
        out(f"{value} = {_value(out, structure)}")
    with out.block("else"):
        out.doubt(f"{mark} != 255")
        out(f"{value} = None")
    return value


def _section(out: FunctionBuilder, section: TaggedSection, names: dict[str, str]) -> str:
    """Add lines that read tagged fields, absent ones at their default; return the name of the unknown ones."""
    unknown, count = out.name(), grouped(out, UNSIGNED_VARINT.shape)
    for member, _ in section.known.values():
        names[member.name] = out.name()
        out(f"{names[member.name]} = {_default(out, section, member)}")
    out(f"{unknown} = ()")
    with out.block(f"if {count}"):
        out.doubt(f"{count} >> 31")
        before, last = out.name(), out.name()
        out(f"{before} = []; {last} = -1")
        with out.block(f"for _ in range({count})"):
            tag = grouped(out, UNSIGNED_VARINT.shape)
            out.doubt(f"{tag} <= {last} or {tag} >> 31")
            stop = grouped(out, UNSIGNED_VARINT.shape)
            out(f"{last} = {tag}; {stop} += pos")
            out.doubt(f"{stop} > end")
            for number, (member, wire) in section.known.items():
                with out.block(f"if {tag} == {number}"):
                    out(f"{names[member.name]} = {_value(out, wire)}")
                    out.doubt(f"pos != {stop}")
                    out("continue")
            if section.others:
                out.doubt(f"{tag} in {out.known(section.others)}")
            out(f"{before}.append({{'tag': {tag}, 'data': data[pos:{stop}]}}); pos = {stop}")
        out(f"{unknown} = tuple({before})")
    return unknown


def _default(out: FunctionBuilder, section: TaggedSection, member: FieldSpec) -> str:
    """Return the default of a field; a structure is a new object each time, because a caller may change it."""
    default = default_of(section.message, member)
    if isinstance(default, dict):
        return f"{out.known(partial(default_of, section.message, member))}()"
    return out.known(default)
