"""The types of the JSON report. The report and its JSON Schema are both made from these types."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from conformance.cases.model import Op, VerdictKind
from conformance.judging.target_comparison import Behavior

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Level: TypeAlias = Literal["must", "should", "may", "informative"]
Basis: TypeAlias = Literal["stated", "implied", "settled"]
Status: TypeAlias = Literal["judged", "answered nothing", "not judged", "stopped early", "not started", "interrupted"]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Shown: TypeAlias = dict[str, Any]
"""Values by name, in the notation of docs/adapters.md#how-values-are-written; long values are replaced by Digest."""


class _JsonObject(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class Digest(_JsonObject):
    """The length and checksum that replace a long value."""

    length: Count
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Suite(_JsonObject):
    """The suite that wrote the report."""

    name: Literal["kafka-conformance"]
    version: str
    seed: Annotated[int, Meta(ge=0, description="The seed of the generated cases.")]


class Target(_JsonObject):
    """A target, and how far it was judged."""

    target: str
    describe: Annotated[Shown | None, Meta(description="Its answer to describe; null if it did not start.")]
    status: Status
    problem: Annotated[str, Meta(description="Why it was not judged completely; empty if it was.")]
    skipped: Annotated[dict[str, Count], Meta(description="Numbers of skipped cases, by reason.")]


class Cause(_JsonObject):
    """The failures of one target with the same cause."""

    target: str
    cause: str
    section: Literal["failures", "disputed", "known"]
    level: Annotated[Level, Meta(description="The highest level of its cases.")]
    requirements: list[str]
    vectors: Annotated[Count, Meta(description="The number of vectors among its cases.")]
    generated: Annotated[Count, Meta(description="The number of generated cases.")]
    example: Annotated[str | None, Meta(description="The id of the case that reports show.")]
    cases: list[str]


class Result(_JsonObject, kw_only=True):
    """The result of a target for a case. Unclaimed generated, covering and live cases have no row."""

    target: str
    id: str
    kind: Literal["vector", "generated"]
    op: Op
    type: str
    requirement: str
    level: Level
    basis: Basis | None
    verdict: VerdictKind
    detail: Annotated[str | UnsetType, Meta(description="Left out of a pass without a detail.")] = UNSET
    upstream: Annotated[
        Literal["differs"] | None, Meta(description="Apache Kafka itself does not meet the requirement.")
    ]
    known: Annotated[
        bool | UnsetType, Meta(description="True for a known failure; left out if the case did not fail.")
    ] = UNSET
    flaky: bool
    codes: Annotated[str | UnsetType, Meta(description="The error codes with which a broker rejected.")] = UNSET
    reproduce: Annotated[str | UnsetType, Meta(description="The command that repeats the case.")] = UNSET
    via: Annotated[str | UnsetType | None, Meta(description="The judged library call, with its entry point.")] = UNSET
    hex: str | Digest | UnsetType | None = UNSET
    expected: Shown | UnsetType = UNSET
    actual: Shown | UnsetType = UNSET
    cause: Annotated[str | UnsetType, Meta(description="The cause of a failure.")] = UNSET
    also: Annotated[list[str] | UnsetType, Meta(description="Further broken requirements.")] = UNSET


class Shrunk(Result, kw_only=True):
    """The smallest case that fails in the same way as several generated cases."""

    of: Annotated[str, Meta(description="The id of the case that it was shrunk from.")]
    count: Annotated[Count, Meta(description="The number of generated cases that it represents.")]


class BehaviorGroup(_JsonObject):
    """Targets with the same behavior in a case."""

    targets: list[str]
    behavior: Annotated[Behavior, Meta(description="The behavior.")]
    conforms: Annotated[bool, Meta(description="True if the behavior breaks no requirement.")]
    text: Annotated[str, Meta(description="The outcome of the example, in one line.")]


class TargetDifference(_JsonObject):
    """Cases in which the same targets differ in the same way."""

    requirements: Annotated[
        list[str], Meta(description="The requirements of the cases; the one with the most cases first.")
    ]
    level: Annotated[
        Level, Meta(description="The highest level of a failure; without a failure, the level of the requirement.")
    ]
    open: Annotated[bool, Meta(description="True if every target is right: the documents specify no behavior.")]
    upstream: Annotated[
        Literal["differs"] | None, Meta(description="Apache Kafka itself does not meet the requirement.")
    ]
    causes: Annotated[list[str], Meta(description="The causes of the failures.")]
    groups: Annotated[list[BehaviorGroup], Meta(description="The targets by their behavior in the example.")]
    vectors: Annotated[Count, Meta(description="The number of vectors among its cases.")]
    generated: Annotated[Count, Meta(description="The number of generated cases.")]
    example: Annotated[str, Meta(description="The id of the smallest case.")]
    reproduce: Annotated[str, Meta(description="The command that repeats the example on the targets.")]
    cases: list[str]
    shrunk: Annotated[str | UnsetType, Meta(description="The command of a case shrunk from one of the cases.")] = UNSET


class JsonReport(_JsonObject):
    """A report of the conformance suite for the Apache Kafka wire format."""

    suite: Suite
    summary: Annotated[
        dict[str, dict[str, Count]],
        Meta(description="By target: the number of results of each verdict, and of disputed results."),
    ]
    targets: list[Target]
    causes: list[Cause]
    results: list[Result]
    shrunk: list[Shrunk]
    disagreements: Annotated[list[TargetDifference], Meta(description="The cases in which several targets differ.")]


def schema_text() -> str:
    """Return the JSON Schema of the report."""
    schema = {"$schema": DIALECT, "title": "kafka-conformance report", **msgspec.json.schema(JsonReport)}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
