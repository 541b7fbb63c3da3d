"""Requirements: the rows of the register."""

from __future__ import annotations

from msgspec import Struct


class Requirement(Struct, frozen=True, rename="kebab"):
    """A row of the register: one testable statement of the documents, its level and its basis."""

    id: str
    level: str
    basis: str
    """One of BASES."""
    statement: str = ""
    source: tuple[str, ...] = ()
    settled: str = ""
    why: str = ""
    upstream: str = ""
    upstream_op: str = ""
    upstream_crash: bool = False
    """Apache Kafka runs out of memory in this situation, so a crash is disputed too."""
    testable: bool = True
    tests: tuple[str, ...] = ()
    """The kinds of test that can show a failure, such as `lint`."""
    writer: str = ""
    """If the row applies only to readers: the requirement of an encode failure."""

    def disputed(self, op: str) -> frozenset[str]:
        """Return the disputed verdicts: Apache Kafka itself does not meet the requirement in this operation."""
        if self.upstream != "differs" or self.upstream_op not in ("", op):
            return frozenset()
        return frozenset(("fail", "crash") if self.upstream_crash else ("fail",))
