"""The notation of wire values in JSON and YAML (docs/adapters.md#how-values-are-written), one row per kind.

`parse` turns notation into a wire value or raises `NotationError`; `render` is its inverse. `same` is True if two
wire values count as the same observation.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from conformance.errors import UserError


class _NotShown:
    """The class of UNSHOWN, which is still one object after pickling."""

    def __reduce__(self) -> str:
        return "UNSHOWN"


UNSHOWN = _NotShown()
"""A value that a target did not show."""


class NotationError(UserError, ValueError):
    """A value that is not in the notation of its type; the message has the place and the expected form."""


class Notation(Struct, frozen=True):
    """One kind of value: its form, both directions, and its equality."""

    describes: str
    parse: Callable[[Any], Any]
    render: Callable[[Any], Any]
    same: Callable[[Any, Any], bool] = operator.eq

    def mismatches(self, expected: Any, actual: Any, path: str = "") -> Iterator[str]:
        """Yield the paths at which `actual` differs from `expected`."""
        if not self.same(expected, actual):
            yield path or "value"

    def observed(self, actual: Any) -> bool:
        """Return True if the target showed any part of the value."""
        return actual is not UNSHOWN


def _refuse(expected: str, given: Any) -> NotationError:
    shown = repr(given)
    return NotationError(f"expected {expected}, found {shown if len(shown) < 60 else shown[:57] + '...'}")


def _number(given: Any) -> int:
    if isinstance(given, bool) or not isinstance(given, int):
        raise _refuse("a number", given)
    return given


_DECIMAL = re.compile(r"-?[0-9]{1,30}\Z")


def _decimal(given: Any) -> int:
    if isinstance(given, str) and _DECIMAL.match(given):
        return int(given)
    if isinstance(given, bool) or not isinstance(given, int):
        raise _refuse("a decimal string", given)
    return given


def _bits(given: Any) -> int:
    if not isinstance(given, str) or not re.fullmatch(r"[0-9a-fA-F]{16}", given):
        raise _refuse("16 hex digits", given)
    return int(given, 16)


def is_nan(bits: int) -> bool:
    """Return True for a NaN: all exponent bits set and a fraction other than zero (primitive-types#float64)."""
    return bits & 0x7FF0_0000_0000_0000 == 0x7FF0_0000_0000_0000 and bits & 0x000F_FFFF_FFFF_FFFF != 0


def _same_float(one: int, other: int) -> bool:
    return one == other or (is_nan(one) and is_nan(other))


_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.IGNORECASE)


def _uuid(given: Any) -> bytes:
    if given is None:
        return bytes(16)
    if not isinstance(given, str) or not _UUID.match(given):
        raise _refuse("a dashed UUID", given)
    return bytes.fromhex(given.replace("-", ""))


def _render_uuid(value: bytes) -> str:
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _boolean(given: Any) -> bool:
    if not isinstance(given, bool):
        raise _refuse("true or false", given)
    return given


def _text(given: Any) -> str | None:
    if given is not None and not isinstance(given, str):
        raise _refuse("a string or null", given)
    return given


def _plain_text(value: str | None) -> str | None:
    """Replace lone surrogates, which hold bytes that are not UTF-8, by U+FFFD."""
    if value is None or value.isascii():
        return value
    return LONE.sub("\ufffd", value)


LONE = re.compile("[\ud800-\udfff]")
"""The characters that hold bytes which are not UTF-8."""
_REPLACED = re.compile("[\ufffd\ud800-\udfff]+")


def _same_text(one: str | None, other: str | None) -> bool:
    if one == other:
        return True
    if one is None or other is None:
        return False
    # Readers write different numbers of U+FFFD for one run of bad bytes (Kafka's Java and Python do).
    return _REPLACED.sub("\ufffd", one) == _REPLACED.sub("\ufffd", other)


def _octets(given: Any) -> bytes | None:
    if given is None:
        return None
    if isinstance(given, str):
        try:
            data = bytes.fromhex(given)
            # bytes.fromhex accepts blanks between digits.
            if 2 * len(data) == len(given):
                return data
        except ValueError:
            pass
    raise _refuse("hex digits or null", given)


def _same(value: Any) -> Any:
    return value


NUMBER = Notation("a number", _number, _same)
DECIMAL = Notation("a decimal string", _decimal, str)
FLOAT_BITS = Notation("the 16 hex digits of its bits", _bits, lambda bits: f"{bits:016x}", _same_float)
DASHED = Notation("a dashed UUID", _uuid, _render_uuid)
TRUTH = Notation("true or false", _boolean, _same)
TEXT = Notation("a string or null", _text, _plain_text, _same_text)
HEX = Notation("hex digits or null", _octets, lambda value: None if value is None else value.hex())


class NamedNumber(Struct, frozen=True):
    """A number that is written by its name if it has one (codecs, timestamp types, control types)."""

    names: Sequence[str]
    further: tuple[str, ...] = ()
    """Names without a number, equal to any number without a name."""
    describes: str = "a name or a number"

    def parse(self, given: Any) -> Any:
        """Return the number of a name; a further name is returned unchanged."""
        if isinstance(given, str):
            if given in self.names:
                return self.names.index(given)
            if given in self.further:
                return given
            raise _refuse("one of " + ", ".join((*self.names, *self.further)) + ", or a number", given)
        return _number(given)

    def render(self, value: Any) -> Any:
        """Return the name, or the number if it has no name."""
        return dict(enumerate(self.names)).get(value, value)

    def same(self, one: Any, other: Any) -> bool:
        """Return True for equal numbers, or for a further name and a number without a name."""
        if one == other:
            return True
        unnamed = [value for value in (one, other) if isinstance(value, int) and not 0 <= value < len(self.names)]
        return bool(unnamed) and any(value in self.further for value in (one, other))

    def mismatches(self, expected: Any, actual: Any, path: str = "") -> Iterator[str]:
        """Yield the path if the two differ."""
        if not self.same(expected, actual):
            yield path or "value"

    def observed(self, actual: Any) -> bool:
        """Return True if the target showed it."""
        return actual is not UNSHOWN


def each(make: Callable[[Any], Any], entries: Iterable[Any]) -> Iterator[Any]:
    """Yield `make(entry)` for each entry; consecutive references to one object are converted once."""
    last = made = UNSHOWN
    for entry in entries:
        if entry is not last:
            made, last = make(entry), entry
        yield made


class ListOf(Struct, frozen=True):
    """A list of values, or null."""

    element: Any
    nullable: bool = True
    describes: str = "a list or null"

    def parse(self, given: Any) -> Any:
        """Return a tuple of parsed elements."""
        if given is None and self.nullable:
            return None
        if not isinstance(given, list):
            raise _refuse("a list", given)
        out: list[Any] = []
        try:
            out += each(self.element.parse, given)
        except NotationError as error:
            raise NotationError(f"[{len(out)}] {error}") from None
        return tuple(out)

    def render(self, value: Any) -> Any:
        """Return a list of rendered elements."""
        return None if value is None else list(each(self.element.render, value))

    def same(self, one: Any, other: Any) -> bool:
        """Compare element by element."""
        return next(self.mismatches(one, other), None) is None

    def mismatches(self, expected: Any, actual: Any, path: str = "") -> Iterator[str]:
        """Yield the paths of different elements, and of the first element that only one of the two has."""
        if expected is None or actual is None:
            if expected is not actual:
                yield path or "value"
            return
        if expected == actual:
            return
        for index, (one, other) in enumerate(zip(expected, actual, strict=False)):
            yield from self.element.mismatches(one, other, f"{path}[{index}]")
        if len(expected) != len(actual):
            yield f"{path}[{min(len(expected), len(actual))}]"

    def observed(self, actual: Any) -> bool:
        """Return True for an empty list, which shows its length, or if any element shows something."""
        return actual is not UNSHOWN and (not actual or any(self.element.observed(entry) for entry in actual))


class ObjectOf(Struct, frozen=True, dict=True):
    """An object of named fields; a missing field counts as not observed."""

    fields: dict[str, Any]
    nullable: bool = False
    describes: str = "an object"

    @cached_property
    def with_parts(self) -> tuple[str, ...]:
        """The names of the fields whose values can lack a part."""
        return tuple(name for name, notation in self.fields.items() if isinstance(notation, ObjectOf | ListOf))

    def parse(self, given: Any) -> Any:
        """Return a dict of the present fields; other names are skipped (see `unknown_fields`)."""
        if given is None and self.nullable:
            return None
        if not isinstance(given, dict):
            raise _refuse("an object", given)
        out = {}
        for name, entry in given.items():
            notation = self.fields.get(name)
            if notation is None:
                continue
            try:
                out[name] = notation.parse(entry)
            except NotationError as error:
                raise NotationError(f"{name}: {error}") from None
        return out

    def render(self, value: Any) -> Any:
        """Return an object of the notation's fields, in its order."""
        if value is None:
            return None
        return {name: notation.render(value[name]) for name, notation in self.fields.items() if name in value}

    def same(self, one: Any, other: Any) -> bool:
        """Compare the fields that both have."""
        return next(self.mismatches(one, other), None) is None

    def mismatches(self, expected: Any, actual: Any, path: str = "") -> Iterator[str]:
        """Yield the paths of the fields that both have and that differ."""
        if expected is None or actual is None:
            if expected is not actual:
                yield path or "value"
            return
        for name, notation in self.fields.items():
            if name in expected and name in actual and expected[name] != actual[name]:
                yield from notation.mismatches(expected[name], actual[name], f"{path}.{name}" if path else name)

    def observed(self, actual: Any) -> bool:
        """Return True if any field is shown."""
        if actual is None:
            return True
        return actual is not UNSHOWN and any(
            notation.observed(actual[name]) for name, notation in self.fields.items() if name in actual
        )
