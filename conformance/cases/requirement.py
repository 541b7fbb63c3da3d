"""A row of the register of requirements."""

from __future__ import annotations

from msgspec import Struct


class Requirement(Struct, frozen=True, rename="kebab"):
    """A row of the register: one testable statement of the documents, and how it is judged."""

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
    """Apache Kafka runs out of memory here, so a crash is disputed too."""
    testable: bool = True
    tests: tuple[str, ...] = ()
    """The kinds of test that can show it, `lint` among them."""
    writer: str = ""
    """Of a row that binds readers only: the row that an encode failure is charged to instead."""

    def disputed(self, op: str) -> frozenset[str]:
        """The verdicts that say nothing here, because Apache Kafka itself does not meet it in this operation."""
        if self.upstream != "differs" or self.upstream_op not in ("", op):
            return frozenset()
        return frozenset(("fail", "crash") if self.upstream_crash else ("fail",))
