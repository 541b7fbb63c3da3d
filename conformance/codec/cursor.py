"""A position in bytes, with bounds, findings and, on request, a trail of spans.

A violation is a value: the requirement, the position, and a hint. A *definite* violation is wrong for every reader. At
an *unspecified* one (`open`) the codec records a remark and continues as Apache Kafka does.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NoReturn

from msgspec import Struct, field

from conformance.errors import UserError

LIMIT_RULE = "memory.message-size-limit"
"""Our own limits. Apache Kafka has none, so an input beyond them is unspecified."""


class Definedness(Enum):
    """How far the documents specify the correct behaviour at a place."""

    DEFINITE = auto()
    """Specified: the bytes are wrong for every reader."""
    OPEN = auto()
    """A reader may reject the bytes, or continue as Apache Kafka does."""
    ANY_VALUE = auto()
    """Unspecified, and the other interpretations cannot be listed: any outcome except a crash is right."""
    ELSEWHERE = auto()
    """Unspecified, and another interpretation continues elsewhere, so later findings do not apply to it."""


class Violation(Struct, frozen=True):
    """A requirement that the bytes break or, if unspecified, may break."""

    requirement: str
    at: int
    """Position in bytes within its layer."""
    hint: str
    layer: int = 0
    """0 is the input, n is the n-th decompressed stream."""
    path: str = ""
    openness: Definedness = Definedness.DEFINITE

    @property
    def open(self) -> bool:
        """True if the documents do not specify the correct behaviour here."""
        return self.openness is not Definedness.DEFINITE

    def __str__(self) -> str:
        where = f"byte {self.at}" + (f" of decompressed stream {self.layer}" if self.layer else "")
        return f"{self.requirement} at {where}" + (f" ({self.path})" if self.path else "") + f": {self.hint}"


class Malformed(Exception):
    """Raised inside the codec at a violation after which reading cannot continue."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


class Unencodable(UserError):
    """A value without an encoding: the requirement that it would break, and a hint."""

    def __init__(self, requirement: str, hint: str) -> None:
        super().__init__(f"{requirement}: {hint}")
        self.requirement = requirement
        self.hint = hint


class Span(Struct, frozen=True):
    """The place of a field (bytes start to stop of a layer), and the value read there."""

    layer: int
    path: str
    start: int
    stop: int
    value: object = None
    kind: str = ""
    """The type of a number (INT32, VARINT…), for mutators that write another number."""


class Limits(Struct, frozen=True):
    """Limits of one decode for output bytes and elements that the input size does not bound."""

    total: int = 16 * 2**20
    """Output bytes of all payloads together."""
    ratio: int = 200_000
    """Output bytes of a payload per input byte, applied after the first mebibyte of output."""
    elements: int = 2**15
    """Headers in decompressed bytes, and structures without bytes; a record or a message counts as RECORD_COST.

    An input of more than twice as many bytes may have one element for two bytes.
    """

    def elements_of(self, size: int) -> int:
        """Return the number of elements that an input of `size` bytes may have."""
        return max(self.elements, size // 2)


RECORD_COST = 4
"""The number of elements that a record counts as."""

OFFLINE_LIMITS = Limits(total=256 * 2**20, elements=2**22)
"""Limits for work without a time limit: dumps for a person, and data that a broker has stored."""


class Findings(Struct):
    """The findings of one decode: definite violations, unspecified ones (remarks), spans, decompressed streams."""

    violations: list[Violation] = field(default_factory=list)
    remarks: list[Violation] = field(default_factory=list)
    rests_on: list[str] = field(default_factory=list)
    """Requirements that a reader must meet to accept the value; some readers do not meet them."""
    spans: list[Span] | None = None
    layers: list[bytes] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    size: int = 0
    """Size of the input in bytes."""
    plain: int = 0
    """Output bytes of payloads so far."""
    elements: int = 0
    """Elements counted so far that the input size does not bound."""

    def mark(self) -> tuple[int, int, int, int, int, int]:
        """Return the current size of each list and counter, first of violations and remarks."""
        noted = len(self.violations), len(self.remarks)
        return *noted, len(self.rests_on), len(self.layers), self.plain, self.elements

    def rollback(self, mark: tuple[int, int, int, int, int, int]) -> None:
        """Remove the findings that were added after a mark."""
        violations, remarks, rests_on, layers, self.plain, self.elements = mark
        del self.violations[violations:], self.remarks[remarks:], self.rests_on[rests_on:], self.layers[layers:]

    @property
    def noted(self) -> int:
        """The number of findings and counted elements so far."""
        return len(self.violations) + len(self.remarks) + len(self.rests_on) + len(self.layers) + self.elements


class Cursor:
    """A reader of `data[pos:end]`, which adds its findings to `findings`."""

    __slots__ = ("data", "end", "explaining", "findings", "hurried", "layer", "path", "pos", "tracing")

    def __init__(self, data: bytes, findings: Findings, *, layer: int = 0, path: str = "") -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)
        self.findings = findings
        self.layer = layer
        self.path = path
        self.tracing = findings.spans is not None
        """True if the caller requested spans."""
        self.explaining = self.tracing
        """True if the interpreter must read, because a compiled reader met something to explain."""
        self.hurried = False
        """True while a compiled reader works, which explains nothing."""

    def within(self, plain: bytes) -> Cursor:
        """Return a cursor over the decompressed bytes of a payload, which are the next layer."""
        layers = self.findings.layers
        layers.append(plain)
        inner = Cursor(plain, self.findings, layer=len(layers), path=self.path)
        inner.hurried = self.hurried
        return inner

    @property
    def left(self) -> int:
        """Bytes between the position and the end."""
        return self.end - self.pos

    def take(self, count: int, requirement: str, what: str, *, at: int | None = None, open: bool = False) -> bytes:
        """Return the next `count` bytes. If fewer are left, fail with `requirement` before any allocation.

        The violation is at the position, or at `at`; `open` makes it an unspecified one.
        """
        start, stop = self.pos, self.pos + count
        if stop > self.end:
            self.fail(requirement, f"{what} needs {count} bytes, {self.left} are left", at=at, open=open)
        self.pos = stop
        return self.data[start:stop]

    def fail(self, requirement: str, hint: str, *, at: int | None = None, open: bool = False) -> NoReturn:
        """Stop at a definite violation or, with `open`, where Apache Kafka rejects unspecified bytes.

        Other readers may continue at an unspecified violation, so any outcome is right.
        """
        openness = Definedness.ANY_VALUE if open else Definedness.DEFINITE
        raise Malformed(self._violation(requirement, hint, at, openness))

    def count(self, number: int) -> None:
        """Count elements of a decompressed stream against the limit; elements of the input take bytes."""
        if self.layer:
            self.count_in(number)

    def count_in(self, number: int) -> None:
        """Count elements against the limit, in any layer."""
        findings = self.findings
        findings.elements += number
        most = findings.limits.elements_of(findings.size)
        if findings.elements > most:
            self.fail(LIMIT_RULE, f"more than {most} elements in an input of {findings.size} bytes", open=True)

    def violation(self, requirement: str, hint: str, *, at: int | None = None) -> None:
        """Record a definite violation after which reading continues (a wrong checksum)."""
        self.findings.violations.append(self._violation(requirement, hint, at, Definedness.DEFINITE))

    def remark(
        self, requirement: str, hint: str, *, at: int | None = None, openness: Definedness = Definedness.OPEN
    ) -> None:
        """Record an unspecified violation; reading continues as in Apache Kafka."""
        self.findings.remarks.append(self._violation(requirement, hint, at, openness))

    def span(self, name: str, start: int, value: object = None, kind: str = "") -> None:
        """Record that `name`, below the current path, covers `start` to the position; `kind` names its type."""
        spans = self.findings.spans
        if spans is not None:
            path = self.path
            if name:
                joint = "" if name[0] == "#" or not path else "."
                path = f"{path}{joint}{name}"
            spans.append(Span(self.layer, path, start, self.pos, value, kind))

    def _violation(self, requirement: str, hint: str, at: int | None, openness: Definedness) -> Violation:
        return Violation(requirement, self.pos if at is None else at, hint, self.layer, self.path, openness)
