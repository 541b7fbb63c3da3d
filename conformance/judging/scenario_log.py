"""What a log holds by what a broker told of the steps of a scenario."""

from __future__ import annotations

from dataclasses import dataclass, field

from conformance.cases.model import Value
from conformance.semantics.scenarios import Producer


@dataclass(slots=True)
class Stored:
    """A batch that the broker took."""

    offset: int
    batch: Value
    """As it was sent."""
    producer: Producer | None
    decided: str = "committed"
    """Or `open`, or `aborted`."""

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.offset + len(self.batch["records"])

    def labels(self) -> list[tuple[int, bytes]]:
        """The offset and value of each record."""
        return [(self.offset + at, record["value"]) for at, record in enumerate(self.batch["records"])]


@dataclass(slots=True)
class Log:
    """What a log holds by what the broker told."""

    stored: list[Stored] = field(default_factory=list)
    producers: dict[str, Producer] = field(default_factory=dict)
    identities: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and newest epoch, by transactional id."""
    given: set[int] = field(default_factory=set)
    end: int = 0
    is_compacted: bool = False
    is_unsure: bool = False
    """Whether bytes were taken of which nobody said what they are."""

    @property
    def stable(self) -> int | None:
        """The first offset of what is undecided; None where all is decided."""
        return min((one.offset for one in self.stored if one.decided == "open"), default=None)

    def decide(self, producer: Producer, how: str) -> None:
        """End the transaction of a producer."""
        for one in self.stored:
            if one.producer is not None and one.producer.identity == producer.identity and one.decided == "open":
                one.decided = how
        producer.in_transaction = False
