"""Fields that are derived from others: lengths, checksums, constants, counts."""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

from conformance.codec.checksums import Checksum
from conformance.codec.cursor import Cursor

Values = dict[str, Any]


class DerivedValue(Protocol):
    """The rule of a derived field: checked on reading, computed on writing."""

    def check(self, cursor: Cursor, start: int, stated: Any) -> None:
        """Compare the value that was read (from `start` to the position) with the other bytes."""

    def compute(self, values: Values, tail: bytes) -> Any:
        """Return the value to write, from the structure's values and the bytes after the field."""


class ExpectedRange(Struct, frozen=True):
    """A check that remarks on a number outside of a range."""

    rule: str
    low: int
    high: int | None
    """None for no upper bound."""
    hint: str
    """The text of the remark, with `{}` for the number."""

    def __call__(self, cursor: Cursor, number: int, start: int) -> None:
        """Remark on a number outside of the range."""
        if number < self.low or (self.high is not None and number > self.high):
            cursor.remark(self.rule, self.hint.format(number), at=start)


class ByteLength(Struct, frozen=True):
    """The number of bytes that follow in the structure; on reading, it sets the end of these bytes."""

    rule: str
    least: int = 0
    least_rule: str = ""
    """The requirement that a length below the least breaks, if it is a separate one."""

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Fail if fewer bytes are left, or if the length is below the least."""
        if stated < self.least:
            cursor.fail(self.least_rule or self.rule, f"length is {stated}, expected at least {self.least}", at=start)
        if stated > cursor.left:
            cursor.fail(self.rule, f"length is {stated}, but {cursor.left} bytes are left", at=start)
        cursor.end = cursor.pos + stated

    def compute(self, values: Values, tail: bytes) -> int:
        """Return the length of the bytes that follow."""
        del values
        return len(tail)


class ChecksumOf(Struct, frozen=True):
    """A checksum over the bytes that follow in the structure."""

    checksum: Checksum
    rule: str

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Record a mismatch; reading continues."""
        computed = self.checksum.compute(cursor.data[cursor.pos : cursor.end])
        if computed != stated:
            cursor.violation(self.rule, f"{self.checksum.name} is {stated:08x}, expected {computed:08x}", at=start)

    def compute(self, values: Values, tail: bytes) -> int:
        """Return the checksum of the bytes that follow."""
        del values
        return self.checksum.compute(tail)


class Constant(Struct, frozen=True):
    """A field with a single valid value."""

    value: int
    rule: str

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Record any other value. Reading continues as if it were right, to find further violations."""
        if stated != self.value:
            cursor.violation(self.rule, f"found {stated}, expected {self.value}", at=start)

    def compute(self, values: Values, tail: bytes) -> int:
        """Return the value."""
        del values, tail
        return self.value


class CountOf(Struct, frozen=True):
    """The number of elements of a later field, which checks the count."""

    field: str

    def check(self, cursor: Cursor, start: int, stated: int) -> None:
        """Check nothing: the counted field checks the count."""

    def compute(self, values: Values, tail: bytes) -> int:
        """Return the number of elements."""
        del tail
        return len(values[self.field])
