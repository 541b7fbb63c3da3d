"""What the commands of the pipeline are asked for. Nothing here needs Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from conformance.codec.message_definition import Message
from conformance.running.policy import FailurePolicy
from conformance.targets.session import Allowance


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where Spark runs, and with which settings."""

    master: str | None = None
    """None: what spark-submit says, else `local[*]`."""
    settings: Mapping[str, str] | None = None
    """Spark's own settings, by their names."""


@dataclass(frozen=True, slots=True)
class CampaignOptions:
    """What `conformance campaign` is asked for."""

    targets: tuple[str, ...]
    cases: int
    """Generated cases, over all types."""
    out: Path
    allowance: Allowance = field(default_factory=Allowance)
    policy: FailurePolicy = field(default_factory=FailurePolicy)
    seed: int = 0
    spark: SparkOptions = SparkOptions()
    select: tuple[str, ...] = ()
    """Patterns `type:…`; none: all types."""
    corpus: tuple[Path, ...] = ()
    """Folders of vectors that are judged first."""
    python: str | None = None
    messages: tuple[Message, ...] = ()
    files: Mapping[str, Path] | None = None
    """The report files, by the name of the format."""
    quiet: bool = False


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """What `conformance scan` is asked for."""

    paths: tuple[str, ...]
    out: str
    """A local folder, or a URI."""
    split_size: int
    """Bytes: larger segments are cut into parts of this size."""
    spark: SparkOptions = SparkOptions()
    uncompacted: tuple[str, ...] = ()
    """Globs of topics that were never compacted."""
    fail_on: str = "must"
    summary_file: Path | None = None
    """Where the summary is written as JSON."""
    quiet: bool = False
