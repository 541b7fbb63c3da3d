"""Compiled writers: functions that are generated from the table of a type, for values that have an encoding.

A compiled writer returns the bytes of the interpreter. Where the interpreter would reject, it raises NeedsInterpreter
or another of DOUBTS. The interpreter then receives the same value and explains.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

from conformance.codec._length_prefixed import ContentCodec, CountedShape, LengthPrefix, SizedShape
from conformance.codec.compiled.source_builder import FunctionBuilder, NeedsInterpreter
from conformance.codec.cursor import Unencodable
from conformance.codec.derived_fields import ByteLength
from conformance.codec.layout import Field, Layout
from conformance.codec.message_layout import KeyedArrayShape, NullableStructShape, StructShape, TaggedSection
from conformance.codec.message_spec import UNKNOWN, default_of, is_default
from conformance.codec.primitives import INT8, TAGGED_FIELDS
from conformance.codec.wire_type import NumberShape, RawShape, VarintShape, WireType

DOUBTS = (NeedsInterpreter, Unencodable, KeyError, TypeError, AttributeError, UnicodeEncodeError, struct.error)
"""The errors that end a compiled writer: it does not check types first where a wrong type raises one of these."""

OCTETS = tuple(bytes((octet,)) for octet in range(256))

Writer = Callable[[Any], bytes]


@cache
def writer_of(wire: WireType) -> Writer:
    """Return a function that writes a value."""
    out = FunctionBuilder()
    with out.block("def write(value)"):
        out(f"return {_written(out, wire, 'value')}")
    return out.function("write")


@cache
def several_of(wire: WireType) -> Callable[[Iterable[Any]], bytes]:
    """Return a function that writes consecutive values."""
    out = FunctionBuilder()
    with out.block("def write(values)"):
        out("parts = []; add = parts.append")
        with out.block("for value in values"):
            out(f"add({_written(out, wire, 'value')})")
        out("return b''.join(parts)")
    return out.function("write")


def _written(out: FunctionBuilder, wire: WireType, value: str) -> str:
    """Add lines that write the value of an expression; return an expression for its bytes."""
    if out.is_deep:
        return f"{out.known(writer_of(wire))}({value})"
    match wire.shape:
        case NumberShape() as number:
            return _numbers(out, [number], [value])
        case RawShape(write=write):
            return f"{out.known(write)}({value})"
        case VarintShape() as grouped:
            return _grouped(out, grouped, wire.edges, value)
        case SizedShape(prefix, content):
            return _sized(out, prefix, content, value)
        case CountedShape(prefix, element):
            return _counted(out, prefix, element, value)
        case Layout() as layout:
            return _structure(out, layout, value)
    return _part_of_message(out, wire, value) or f"{out.known(wire.encode)}({value})"


def _named(out: FunctionBuilder, value: str) -> str:
    """Add a name for an expression."""
    name = out.name()
    out(f"{name} = {value}")
    return name


# --- numbers ------------------------------------------------------------------------------------------


def _numbers(
    out: FunctionBuilder, numbers: Sequence[NumberShape], values: Sequence[str], *, are_ints: bool = False
) -> str:
    """Return an expression for consecutive numbers of fixed width; `struct` rejects numbers out of range."""
    names = list(values) if are_ints else [_named(out, value) for value in values]
    if not are_ints:
        out.doubt(" or ".join(f"type({name}) is not int" for name in names))
    pack = struct.Struct(">" + "".join(number.code for number in numbers)).pack
    return f"{out.known(pack, 'pack')}({', '.join(names)})"


def _grouped(
    out: FunctionBuilder, grouped: VarintShape, edges: tuple[Any, ...], value: str, *, is_int: bool = False
) -> str:
    """Return an expression for a number in groups; the interpreter writes more than one group."""
    number, raw = _named(out, value), out.name()
    out.doubt(("" if is_int else f"type({number}) is not int or ") + f"not {min(edges)} <= {number} <= {max(edges)}")
    out(f"{raw} = {number} << 1 ^ -({number} < 0)" if grouped.signed else f"{raw} = {number}")
    return f"({out.known(OCTETS)}[{raw}] if {raw} < 128 else {out.known(grouped.groups.write, 'groups')}({raw}))"


# --- lengths and counts -------------------------------------------------------------------------------


def _prefix(out: FunctionBuilder, prefix: LengthPrefix, number: str) -> str:
    return _int(out, prefix.wire, f"{number} + {prefix.plus}" if prefix.plus else number)


def _int(out: FunctionBuilder, wire: WireType, number: str) -> str:
    """Return an expression for a computed number, whose type needs no check."""
    if isinstance(wire.shape, VarintShape):
        return _grouped(out, wire.shape, wire.edges, number, is_int=True)
    return _numbers(out, [wire.shape], [number], are_ints=True)


def _null(out: FunctionBuilder, prefix: LengthPrefix, written: str) -> None:
    if prefix.nullable:
        out(f"{written} = {prefix.write(None)!r}")
    else:
        out("raise Doubt")


def _sized(out: FunctionBuilder, prefix: LengthPrefix, content: ContentCodec, value: str) -> str:
    value, written = _named(out, value), out.name()
    with out.block(f"if {value} is None"):
        _null(out, prefix, written)
    with out.block("else"):
        out.doubt(f"type({value}) is not {content.kind.__name__}")
        out(f"{written} = {content.writing.format(value)}")
        out(f"{written} = {_prefix(out, prefix, f'len({written})')} + {written}")
    return written


def _counted(out: FunctionBuilder, prefix: LengthPrefix, element: WireType, value: str) -> str:
    value, written = _named(out, value), out.name()
    with out.block(f"if {value} is None"):
        _null(out, prefix, written)
    with out.block("else"):
        out.doubt(f"not isinstance({value}, (list, tuple))")
        if isinstance(element.shape, NumberShape):
            out.doubt(f"not set(map(type, {value})) <= {out.known({int})}")
            out(f"{written} = {out.known(struct.pack, 'pack')}(f'>{{len({value})}}{element.shape.code}', *{value})")
        else:
            _elements(out, element, value, written)
        out(f"{written} = {_prefix(out, prefix, f'len({value})')} + {written}")
    return written


def _elements(out: FunctionBuilder, element: WireType, value: str, written: str) -> None:
    """Add lines that write the elements; consecutive references to one object are converted once."""
    parts, one, last, made = (out.name() for _ in range(4))
    out(f"{parts} = []; {last} = {made} = Doubt")
    with out.block(f"for {one} in {value}"):
        with out.block(f"if {one} is not {last}"):
            out(f"{made} = {_written(out, element, one)}", f"{last} = {one}")
        out(f"{parts}.append({made})")
    out(f"{written} = b''.join({parts})")


# --- structures ---------------------------------------------------------------------------------------


def _structure(out: FunctionBuilder, layout: Layout, value: str) -> str:
    """Add lines that write fields from the last to the first; a derived field needs the bytes after it."""
    values, tail = _named(out, value), "b''"
    fields = list(layout.fields)
    while fields:
        free = [fields.pop() for _ in range(_run(fields))][::-1]
        parts = _free_fields(out, free, values, lambda field: _given(out, field, values))
        if tail != "b''":
            parts.append(tail)
        if parts:
            tail = _named(out, parts[0] if len(parts) == 1 else f"b''.join(({', '.join(parts)}))")
        if fields:
            tail = _named(out, f"{_derived(out, fields.pop(), values, tail)} + {tail}")
    return tail


def _run(fields: Sequence[Field]) -> int:
    """Return how many fields at the end are not derived."""
    return next((count for count, field in enumerate(reversed(fields)) if field.derive is not None), len(fields))


def _derived(out: FunctionBuilder, field: Field, values: str, tail: str) -> str:
    derive = field.derive
    assert derive is not None
    assert isinstance(field.wire, WireType)
    is_length = isinstance(derive, ByteLength)
    return _int(out, field.wire, f"len({tail})" if is_length else f"{out.known(derive.compute)}({values}, {tail})")


def _free_fields(
    out: FunctionBuilder, fields: Sequence[Field], values: str, given_in: Callable[[Field], str]
) -> list[str]:
    """Return the bytes of fields that are not derived, in parts; `given_in` returns the value of a field."""
    parts: list[str] = []
    numbers: list[NumberShape] = []
    given: list[str] = []

    def flush() -> None:
        if numbers:
            parts.append(_numbers(out, numbers, given))
            numbers.clear()
            given.clear()

    for field in fields:
        if not isinstance(field.wire, WireType):
            flush()
            parts.append(f"{out.known(field.wire.write)}({values})")
            continue
        value = given_in(field)
        if isinstance(field.wire.shape, NumberShape):
            numbers.append(field.wire.shape)
            given.append(value)
        else:
            flush()
            parts.append(_written(out, field.wire, value))
    flush()
    return parts


def _given(out: FunctionBuilder, field: Field, values: str) -> str:
    """Return the value of a field: the sum of its parts, of which some may be missing, or its own value."""
    whole = f"{values}[{field.name!r}]"
    if field.bits:
        number, keys = out.name(), out.known(frozenset(part.name for part in field.bits))
        with out.block(f"if {keys}.isdisjoint({values})"):
            out(f"{number} = {whole}")
        with out.block("else"):
            parts = (f"{out.known(part.write)}({values}.get({part.name!r}, 0))" for part in field.bits)
            out(f"{number} = {' + '.join(parts)}")
        whole = number
    if field.refuse is not None:
        whole = _named(out, whole)
        out(f"{out.known(field.refuse)}({whole})")
    return whole


# --- messages -----------------------------------------------------------------------------------------


def _part_of_message(out: FunctionBuilder, wire: WireType, value: str) -> str:
    match wire.shape:
        case StructShape() as structure:
            return _of_message(out, structure, value)
        case KeyedArrayShape(elements):
            return _written(out, elements, value)
        case NullableStructShape(structure):
            return _marked(out, structure, value)
    return ""


def _of_message(out: FunctionBuilder, structure: StructShape, value: str) -> str:
    """Add lines that write the members of the version; no other member that cannot be dropped may be set."""
    message, version = structure.message, structure.version
    given, unknown, names = _named(out, value), out.name(), {}
    for member in structure.members:
        if version in member.versions:
            default = out.known(default_of(message, member), "default")
            names[member.name] = _named(out, f"{given}.get({member.name!r}, {default})")
        elif not member.ignorable:
            default = f"{out.known(is_default)}({out.known(message)}, {out.known(member)}, {given}[{member.name!r}])"
            out.doubt(f"{member.name!r} in {given} and not {default}")
    out(f"{unknown} = {given}.get({UNKNOWN!r}) or ()")
    parts = _free_fields(out, structure.layout.fields, given, lambda field: names[field.name])
    if structure.section is not None:
        parts.append(_section(out, structure.section, structure, names, unknown))
    else:
        out.doubt(unknown)
    return _named(out, f"b''.join(({', '.join(parts)},))") if parts else "b''"


def _section(
    out: FunctionBuilder, section: TaggedSection, structure: StructShape, names: dict[str, str], unknown: str
) -> str:
    """Add lines that write the known tagged fields that are not at their default, and the unknown ones."""
    written, entries = out.name(), out.name()
    out(f"{entries} = []")
    for tag, (member, wire) in section.known.items():
        value = names[member.name]
        if structure.version not in member.nullable:
            out.doubt(f"{value} is None")
        default = f"{out.known(is_default)}({out.known(section.message)}, {out.known(member)}, {value})"
        if not member.is_struct or member.null_default:
            default = f"{value} == {out.known(default_of(section.message, member), 'default')}"
        with out.block(f"if not {default}"):
            out(f"{entries}.append({{'tag': {tag}, 'data': {_written(out, wire, value)}}})")
    with out.block(f"if {entries} or {unknown}"):
        out(f"{out.known(TAGGED_FIELDS.encode)}({unknown})  # raises for unordered or duplicate tags")
        out(f"{written} = {out.known(section.joined)}({entries}, {unknown})")
    with out.block("else"):
        out(f"{written} = {TAGGED_FIELDS.encode(())!r}")
    return written


def _marked(out: FunctionBuilder, structure: WireType, value: str) -> str:
    """Add lines that write a structure after the byte that marks null."""
    value, written = _named(out, value), out.name()
    with out.block(f"if {value} is None"):
        out(f"{written} = {INT8.encode(-1)!r}")
    with out.block("else"):
        out(f"{written} = {INT8.encode(1)!r} + {_written(out, structure, value)}")
    return written
