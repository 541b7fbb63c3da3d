"""What a log holds by what a broker told of the steps of a scenario."""

from __future__ import annotations

from msgspec import Struct, field

from conformance.cases.model import Value, Verdict, VerdictKind
from conformance.semantics.broker_steps import START, ProducerIdentity

Label = tuple[int, bytes | None]
"""The offset and value of a record."""


class AcceptedBatch(Struct):
    """A batch that the broker took."""

    offset: int
    batch: Value
    """As it was sent."""
    producer: ProducerIdentity | None
    decided: str
    """`committed`, `open` or `aborted`."""

    @property
    def end(self) -> int:
        """The offset after its last record."""
        return self.offset + len(self.batch["records"])

    def labels(self) -> list[Label]:
        """The offset and value of each record."""
        return [(self.offset + at, record["value"]) for at, record in enumerate(self.batch["records"])]


class ImpliedLog(Struct):
    """What a log holds by what the broker told."""

    keeps_tombstones: bool
    """Whether the topic keeps records with a null value for a while, when they are the last of their keys."""
    stored: list[AcceptedBatch] = field(default_factory=list)
    producers: dict[str, ProducerIdentity] = field(default_factory=dict)
    identities: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Producer id and newest epoch, by transactional id."""
    given: set[int] = field(default_factory=set)
    end: int = 0
    first: int | None = None
    """Where the log begins; None before anything went from it."""
    is_expiring: bool = False
    """Whether more may go from it at any time."""
    places: dict[str, int] = field(default_factory=dict)
    """The offset of each record, by label."""
    told: dict[int, int] = field(default_factory=dict)
    """The offset of each batch, by step."""
    is_compacted: bool = False
    cleaned_since: int = 0
    """When the log cleaner was waited for, in milliseconds since 1970."""
    began: int = 0
    """The time from which those of records are counted, in milliseconds since 1970."""
    is_stamped: bool = False
    """Whether records have the broker's times, not those of their producer."""
    is_unsure: bool = False
    """Whether bytes were taken of which nobody said what they are."""

    @property
    def stable(self) -> int | None:
        """The first offset of what is undecided; None where all is decided."""
        return min((one.offset for one in self.stored if one.decided == "open"), default=None)

    def offset_of(self, place: str) -> int | None:
        """The offset of a record, or of the place at which the scenario began; None where it is not known."""
        return min(self.places.values(), default=None) if place == START else self.places.get(place)

    def decide(self, producer: ProducerIdentity, how: str) -> None:
        """End the transaction of a producer."""
        for one in self.stored:
            if one.producer is not None and one.producer.identity == producer.identity and one.decided == "open":
                one.decided = how
        producer.in_transaction = False


def failed(detail: str, requirement: str = "") -> Verdict:
    """A step of which a broker tells what it must not; without a requirement it is the case's."""
    return Verdict(VerdictKind.FAIL, detail, requirement=requirement)


def text(record: Label) -> str:
    """A record in words."""
    offset, value = record
    return f"record {'null' if value is None else repr(value.decode('utf-8', 'replace'))} at offset {offset}"
