"""The options of the pipeline's commands. This module does not need Spark."""

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
"""An environment variable that spark-submit sets. Then spark-submit provides Java, master and settings."""


def require(extra: str, *packages: str, why: str = "") -> None:
    """Raise MachineError if a package of an extra is not installed; `why` extends the message."""
    try:
        for name in packages:
            import_module(name)
    except ImportError as error:
        install = f"run pip install '.[{extra}]' in a checkout of kafka-conformance"
        raise MachineError(f"{error.name} is not installed: {install}{why}") from None


class SparkOptions(Struct, frozen=True):
    """The master of Spark and its settings."""

    master: str | None = None
    """None: the master of spark-submit, else `local[*]`."""
    settings: Mapping[str, str] | None = None
    """Settings of Spark by name."""

    @property
    def is_requested(self) -> bool:
        """Return whether the user or spark-submit requests Spark."""
        return self.master is not None or bool(self.settings) or SUBMITTED in os.environ


class CampaignOptions(Struct, frozen=True):
    """The options of `conformance campaign`."""

    targets: tuple[str, ...]
    cases: int
    """Number of generated cases, of all types together."""
    out: Path
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    policy: FailurePolicy = field(default_factory=FailurePolicy)
    seed: int = 0
    spark: SparkOptions = SparkOptions()
    select: tuple[str, ...] = ()
    """Patterns `type:…`; empty: all types."""
    corpus: tuple[Path, ...] = ()
    """Folders of vectors that are judged first."""
    python: str | None = None
    messages: tuple[MessageSpec, ...] = ()
    files: Mapping[str, Path] | None = None
    """The report files by format."""
    quiet: bool = False


class ScanOptions(Struct, frozen=True):
    """The options of `conformance scan`."""

    paths: tuple[str, ...]
    out: str
    """A local folder, or a URI."""
    split_size: int
    """Bytes: larger segments are split into parts of this size."""
    spark: SparkOptions = SparkOptions()
    never_compacted: tuple[str, ...] = ()
    """Globs of topics that were never compacted."""
    fail_on: str = "must"
    summary_file: Path | None = None
    """The JSON file for the summary."""
    page_file: Path | None = None
    """The file for the HTML page."""
    quiet: bool = False
