"""How a field of a layout follows from the others: lengths, checksums, constants, counts."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from conformance.codec.checksums import Checksum
from conformance.codec.cursor import Cursor

Values = dict[str, Any]


class DerivedValue(Protocol):
    """How a field follows from the others: checked on reading, computed on writing."""

    def check(self, cursor: Cursor, start: int, stated: Any) -> None:
        """Hold what was read (from `start` to the position) against the rest."""

    def compute(self, values: Values, tail: bytes) -> Any:
        """What to write, from the structure's values and the bytes that follow the field."""


class ExpectedRange(Struct, frozen=True):
    """The check of a number that stands at an open place outside of a range."""

    rule: str
    low: int
    high: int | None
    """None for no bound above."""
    hint: str
    """What is said of the number, which stands for `{}`."""

    def __call__(self, cursor: Cursor, number: int, start: int) -> None:
        """Remarks on a number outside of the range."""
        if number < self.low or (self.high is not None and number > self.high):
            cursor.remark(self.rule, self.hint.format(number), at=start)


class ByteLength(Struct, frozen=True):
    """The number of bytes that follow in the structure; on reading it bounds them."""

    rule: str
    least: int = 0
    least_rule: str = ""
    """Broken by a length below the least, where that is a requirement of its own."""

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Fails when fewer bytes are left, or the structure cannot be so short."""
        if stated < self.least:
            cursor.fail(self.least_rule or self.rule, f"length {stated}, at least {self.least} bytes follow", at=start)
        if stated > cursor.left:
            cursor.fail(self.rule, f"length {stated}, but {cursor.left} bytes are left", at=start)
        cursor.end = cursor.pos + stated

    def compute(self, values: Values, tail: bytes) -> int:
        """The length of what follows."""
        del values
        return len(tail)


class ChecksumOf(Struct, frozen=True):
    """A checksum over the bytes that follow in the structure."""

    checksum: Checksum
    rule: str

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Notes a mismatch and lets reading go on."""
        computed = self.checksum.compute(cursor.data[cursor.pos : cursor.end])
        if computed != stated:
            cursor.violation(self.rule, f"{self.checksum.name} is {computed:08x}, the bytes say {stated:08x}", at=start)

    def compute(self, values: Values, tail: bytes) -> int:
        """The checksum of what follows."""
        del values
        return self.checksum.compute(tail)


class Constant(Struct, frozen=True):
    """A field with one value only."""

    value: int
    rule: str

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Notes any other value; reading goes on, as if it were right, to see what else there is."""
        if stated != self.value:
            cursor.violation(self.rule, f"{stated} where only {self.value} may stand", at=start)

    def compute(self, values: Values, tail: bytes) -> int:
        """The value."""
        del values, tail
        return self.value


class CountOf(Struct, frozen=True):
    """The number of elements of a later field; that field holds it against what it finds."""

    field: str

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Checks nothing: the counted field checks the count."""

    def compute(self, values: Values, tail: bytes) -> int:
        """The number of elements."""
        del tail
        return len(values[self.field])
