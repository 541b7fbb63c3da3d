"""A position in bytes, with bounds, findings and (when asked for) a trail of spans.

A violation is a value: which requirement, where, and a hint. A *definite* one is wrong for every reader; an *open* one
stands at a place that the documents leave undecided: the codec goes on with Apache Kafka's reading and remembers it.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NoReturn

from msgspec import Struct, field

from conformance.errors import UserError

LIMIT_RULE = "memory.message-size-limit"
"""Our own limits: Apache Kafka has none, so what lies beyond is open."""


class Definedness(Enum):
    """How far the documents settle what is right at a place."""

    DEFINITE = auto()
    """Settled: the bytes are wrong for every reader."""
    OPEN = auto()
    """A reader may refuse the bytes, or read on as Apache Kafka does."""
    ANY_VALUE = auto()
    """Open, and the other readings cannot be listed: any outcome but a crash is right."""
    ELSEWHERE = auto()
    """Open, and another reading continues at another byte, so that what follows means nothing to it."""


class Violation(Struct, frozen=True):
    """A requirement that the bytes break (or, at an open place, may be held to break)."""

    requirement: str
    at: int
    """Position in bytes within its layer."""
    hint: str
    layer: int = 0
    """0 is the input, n the n-th decompressed stream."""
    path: str = ""
    openness: Definedness = Definedness.DEFINITE

    @property
    def open(self) -> bool:
        """Whether the documents leave undecided what is right here."""
        return self.openness is not Definedness.DEFINITE

    def __str__(self) -> str:
        where = f"byte {self.at}" + (f" of decompressed stream {self.layer}" if self.layer else "")
        return f"{self.requirement} at {where}" + (f" ({self.path})" if self.path else "") + f": {self.hint}"


class Malformed(Exception):
    """Raised inside the codec at a definite violation that leaves nothing to read on from."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


class Unencodable(UserError):
    """A value that has no encoding: the requirement it would break, and why."""

    def __init__(self, requirement: str, hint: str) -> None:
        super().__init__(f"{requirement}: {hint}")
        self.requirement = requirement
        self.hint = hint


class Span(Struct, frozen=True):
    """Where a field lies: bytes start to stop of a layer. `value` is what was read there."""

    layer: int
    path: str
    start: int
    stop: int
    value: object = None
    kind: str = ""
    """The type of a number there (INT32, VARINT…), for those who want to write another."""


class Limits(Struct, frozen=True):
    """What one decode may cost: bytes and elements that its input does not bound by itself."""

    total: int = 16 * 2**20
    """Bytes that come out of all payloads together."""
    ratio: int = 200_000
    """Bytes out of a payload per byte in, once more than a mebibyte has come out."""
    elements: int = 2**15
    """Headers in decompressed bytes, and structures that take no bytes; a record or a message counts as RECORD_COST.

    An input of more than twice as many bytes may have one for two bytes.
    """

    def elements_of(self, size: int) -> int:
        """How many elements an input of so many bytes may have."""
        return max(self.elements, size // 2)


RECORD_COST = 4
"""How many elements a record costs to read."""

OFFLINE_LIMITS = Limits(total=256 * 2**20, elements=2**22)
"""For bytes that nobody waits for the answer of: what is dumped for a person, what a broker has stored."""


class Findings(Struct):
    """What one decode gathers: definite violations that let it go on, open ones, spans, decompressed streams."""

    violations: list[Violation] = field(default_factory=list)
    remarks: list[Violation] = field(default_factory=list)
    rests_on: list[str] = field(default_factory=list)
    """Requirements by which a value stands that other readers would not take."""
    spans: list[Span] | None = None
    layers: list[bytes] = field(default_factory=list)
    limits: Limits = field(default_factory=Limits)
    size: int = 0
    """Bytes of the input."""
    plain: int = 0
    """Bytes that came out of payloads so far."""
    elements: int = 0
    """Elements counted so far that the input does not bound by itself."""

    def mark(self) -> tuple[int, int, int, int, int, int]:
        """How far each of these has come, first of all violations and remarks."""
        told = len(self.violations), len(self.remarks)
        return *told, len(self.rests_on), len(self.layers), self.plain, self.elements

    def rollback(self, mark: tuple[int, int, int, int, int, int]) -> None:
        """Forget what was gathered since a mark was taken."""
        violations, remarks, rests_on, layers, self.plain, self.elements = mark
        del self.violations[violations:], self.remarks[remarks:], self.rests_on[rests_on:], self.layers[layers:]

    @property
    def noted(self) -> int:
        """How much was gathered so far."""
        return len(self.violations) + len(self.remarks) + len(self.rests_on) + len(self.layers) + self.elements


class Cursor:
    """Reads forward through `data[pos:end]`; everything found goes to `findings`."""

    __slots__ = ("data", "end", "explaining", "findings", "hurried", "layer", "path", "pos", "tracing")

    def __init__(self, data: bytes, findings: Findings, *, layer: int = 0, path: str = "") -> None:
        self.data = data
        self.pos = 0
        self.end = len(data)
        self.findings = findings
        self.layer = layer
        self.path = path
        self.tracing = findings.spans is not None
        """Whether the caller wants spans."""
        self.explaining = self.tracing
        """Whether the interpreter is to read, as a quick reader has met what is to be explained."""
        self.hurried = False
        """Whether a quick reader is at work, which explains nothing."""

    def within(self, plain: bytes) -> Cursor:
        """A cursor over the bytes that came out of a payload, which are the next layer."""
        layers = self.findings.layers
        layers.append(plain)
        inner = Cursor(plain, self.findings, layer=len(layers), path=self.path)
        inner.hurried = self.hurried
        return inner

    @property
    def left(self) -> int:
        """Bytes between the position and the bound."""
        return self.end - self.pos

    def take(self, count: int, requirement: str, what: str, *, at: int | None = None, open: bool = False) -> bytes:
        """The next `count` bytes; fails with `requirement` when fewer are left, before anything is allocated.

        The violation stands here, or at `at`, and is open where `open` says so.
        """
        start, stop = self.pos, self.pos + count
        if stop > self.end:
            self.fail(requirement, f"{what} needs {count} bytes, {self.left} are left", at=at, open=open)
        self.pos = stop
        return self.data[start:stop]

    def fail(self, requirement: str, hint: str, *, at: int | None = None, open: bool = False) -> NoReturn:
        """Stop at a definite violation, or at an open place where Apache Kafka refuses.

        Other readers may go on at an open place, so any outcome is right.
        """
        openness = Definedness.ANY_VALUE if open else Definedness.DEFINITE
        raise Malformed(self._violation(requirement, hint, at, openness))

    def count(self, number: int) -> None:
        """Hold so many more elements against the limit, if they are of a decompressed stream: others take bytes."""
        if self.layer:
            self.count_in(number)

    def count_in(self, number: int) -> None:
        """Hold so many more elements against the limit, wherever they are."""
        findings = self.findings
        findings.elements += number
        most = findings.limits.elements_of(findings.size)
        if findings.elements > most:
            self.fail(LIMIT_RULE, f"more than {most} elements in an input of {findings.size} bytes", open=True)

    def violation(self, requirement: str, hint: str, *, at: int | None = None) -> None:
        """Note a definite violation that does not hinder reading on (a wrong checksum)."""
        self.findings.violations.append(self._violation(requirement, hint, at, Definedness.DEFINITE))

    def remark(
        self, requirement: str, hint: str, *, at: int | None = None, openness: Definedness = Definedness.OPEN
    ) -> None:
        """Note an open place; reading goes on as Apache Kafka's does."""
        self.findings.remarks.append(self._violation(requirement, hint, at, openness))

    def span(self, name: str, start: int, value: object = None, kind: str = "") -> None:
        """Record that `name`, below the current path, lies from `start` to the position; `kind` is its type's name."""
        spans = self.findings.spans
        if spans is not None:
            path = self.path
            if name:
                joint = "" if name[0] == "#" or not path else "."
                path = f"{path}{joint}{name}"
            spans.append(Span(self.layer, path, start, self.pos, value, kind))

    def _violation(self, requirement: str, hint: str, at: int | None, openness: Definedness) -> Violation:
        return Violation(requirement, self.pos if at is None else at, hint, self.layer, self.path, openness)
