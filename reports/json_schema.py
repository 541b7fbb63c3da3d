"""The types of the JSON report. What is written, and the JSON Schema that it holds to, are both made from them."""

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
"""Values in notation (docs/adapters.md#how-values-are-written), by name; Digest in the place of what is long."""


class _JsonObject(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class Digest(_JsonObject):
    """What stands for bytes that are too many to be shown."""

    length: Count
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Suite(_JsonObject):
    """What made the report."""

    name: Literal["kafka-conformance"]
    version: str
    seed: Annotated[int, Meta(ge=0, description="Of the generated cases.")]


class Target(_JsonObject):
    """A target, and how far it came."""

    target: str
    describe: Annotated[Shown | None, Meta(description="Its answer to describe; null where it did not start.")]
    status: Status
    problem: Annotated[str, Meta(description="Why it was not judged to the end; empty where it was.")]
    skipped: Annotated[dict[str, Count], Meta(description="How many cases were skipped, by the reason.")]


class Cause(_JsonObject):
    """Failures of one target that are one."""

    target: str
    cause: str
    section: Literal["failures", "disputed", "known"]
    level: Annotated[Level, Meta(description="The highest of its cases.")]
    requirements: list[str]
    vectors: Annotated[Count, Meta(description="How many of its cases are vectors.")]
    generated: Annotated[Count, Meta(description="How many of its cases are generated.")]
    example: Annotated[str | None, Meta(description="The id of the case that is shown.")]
    cases: list[str]


class Result(_JsonObject, kw_only=True):
    """What a target made of a case; of generated cases, covering sets, live clients and brokers only what it claims."""

    target: str
    id: str
    kind: Literal["vector", "generated"]
    op: Op
    type: str
    requirement: str
    level: Level
    basis: Basis | None
    verdict: VerdictKind
    detail: Annotated[str | UnsetType, Meta(description="Left out of a pass of which there is nothing to say.")] = UNSET
    upstream: Annotated[
        Literal["differs"] | None, Meta(description="Apache Kafka itself does not meet the requirement.")
    ]
    known: Annotated[
        bool | UnsetType, Meta(description="A failure that was expected; left out where nothing failed.")
    ] = UNSET
    flaky: bool
    codes: Annotated[str | UnsetType, Meta(description="The error codes by which a broker refused.")] = UNSET
    reproduce: Annotated[str | UnsetType, Meta(description="The command that shows it again.")] = UNSET
    via: Annotated[str | UnsetType | None, Meta(description="The call that was judged, and whose door it is.")] = UNSET
    hex: str | Digest | UnsetType | None = UNSET
    expected: Shown | UnsetType = UNSET
    actual: Shown | UnsetType = UNSET
    cause: Annotated[str | UnsetType, Meta(description="Only where it failed.")] = UNSET
    also: Annotated[list[str] | UnsetType, Meta(description="Further requirements that it breaks.")] = UNSET


class Shrunk(Result, kw_only=True):
    """The smallest case that fails in the same way as several generated ones."""

    of: Annotated[str, Meta(description="The id of the case that it came from.")]
    count: Annotated[Count, Meta(description="How many generated cases it stands for.")]


class BehaviorGroup(_JsonObject):
    """Targets that made the same of a case, and what that is."""

    targets: list[str]
    behavior: Annotated[Behavior, Meta(description="What they did.")]
    conforms: Annotated[bool, Meta(description="Whether they broke no requirement by that.")]
    text: Annotated[str, Meta(description="What it came to in the example, in a line.")]


class TargetDifference(_JsonObject):
    """Cases in which the same targets differ in the same way."""

    requirements: Annotated[list[str], Meta(description="Those of the cases, the one with the most of them first.")]
    level: Annotated[Level, Meta(description="The highest at which a target fails; at an open place, its own.")]
    open: Annotated[bool, Meta(description="Each target is right: the documents leave the place open.")]
    upstream: Annotated[
        Literal["differs"] | None, Meta(description="Apache Kafka itself does not meet the requirement.")
    ]
    causes: Annotated[list[str], Meta(description="What those fail by that fail.")]
    groups: Annotated[list[BehaviorGroup], Meta(description="Who did what in the example.")]
    vectors: Annotated[Count, Meta(description="How many of its cases are vectors.")]
    generated: Annotated[Count, Meta(description="How many of its cases are generated.")]
    example: Annotated[str, Meta(description="The id of the smallest case.")]
    reproduce: Annotated[str, Meta(description="The command that puts it to the targets again.")]
    cases: list[str]
    shrunk: Annotated[str | UnsetType, Meta(description="The command for a smaller case, made from one of them.")] = (
        UNSET
    )


class JsonReport(_JsonObject):
    """A report of the conformance suite for the Apache Kafka wire format."""

    suite: Suite
    summary: Annotated[
        dict[str, dict[str, Count]],
        Meta(description="By target: how many results of each verdict, and of those how many are disputed."),
    ]
    targets: list[Target]
    causes: list[Cause]
    results: list[Result]
    shrunk: list[Shrunk]
    disagreements: Annotated[list[TargetDifference], Meta(description="Where several targets differ.")]


def schema_text() -> str:
    """The JSON Schema of the report."""
    schema = {"$schema": DIALECT, "title": "kafka-conformance report", **msgspec.json.schema(JsonReport)}
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"
