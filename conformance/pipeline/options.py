"""What the commands of the pipeline are asked for. Nothing here needs Spark."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from msgspec import Struct, field

from conformance.codec.message_spec import MessageSpec
from conformance.errors import MachineError
from conformance.runner.policy import FailurePolicy
from conformance.targets.limits import ResourceLimits

SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set in the environment of a program that spark-submit started; then Java, master and settings come from there."""


def require(extra: str, *packages: str, why: str = "") -> None:
    """Find out whether the packages of an extra are installed; `why` is said where not. Raises MachineError."""
    try:
        for name in packages:
            import_module(name)
    except ImportError as error:
        install = f"run pip install '.[{extra}]' in a checkout of kafka-conformance"
        raise MachineError(f"{error.name} is not installed: {install}{why}") from None


class SparkOptions(Struct, frozen=True):
    """Where Spark runs, and with which settings."""

    master: str | None = None
    """None: what spark-submit says, else `local[*]`."""
    settings: Mapping[str, str] | None = None
    """Spark's own settings, by their names."""

    @property
    def is_asked_for(self) -> bool:
        """Whether the user, or spark-submit, says anything of Spark."""
        return self.master is not None or bool(self.settings) or SUBMITTED in os.environ


class CampaignOptions(Struct, frozen=True):
    """What `conformance campaign` is asked for."""

    targets: tuple[str, ...]
    cases: int
    """Generated cases, over all types."""
    out: Path
    allowance: ResourceLimits = field(default_factory=ResourceLimits)
    policy: FailurePolicy = field(default_factory=FailurePolicy)
    seed: int = 0
    spark: SparkOptions = SparkOptions()
    select: tuple[str, ...] = ()
    """Patterns `type:…`; none: all types."""
    corpus: tuple[Path, ...] = ()
    """Folders of vectors that are judged first."""
    python: str | None = None
    messages: tuple[MessageSpec, ...] = ()
    files: Mapping[str, Path] | None = None
    """The report files, by the name of the format."""
    quiet: bool = False


class ScanOptions(Struct, frozen=True):
    """What `conformance scan` is asked for."""

    paths: tuple[str, ...]
    out: str
    """A local folder, or a URI."""
    split_size: int
    """Bytes: larger segments are cut into parts of this size."""
    spark: SparkOptions = SparkOptions()
    never_compacted: tuple[str, ...] = ()
    """Globs of topics that were never compacted."""
    fail_on: str = "must"
    summary_file: Path | None = None
    """Where the summary is written as JSON."""
    page_file: Path | None = None
    """Where the page is written."""
    quiet: bool = False
