"""The topics of a run on a broker: the run creates one for each case, with a prefix."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import cycle
from uuid import uuid4

from msgspec import Struct, field

from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.live_brokers.connection import BrokerConnection, VersionNotSupported
from conformance.process.waiting import poll

RETRIABLE = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    )
)
"""Errors that a later attempt may not get, because the broker is not ready yet."""
_CHOOSES = 4
"""The first version of Metadata with AllowAutoTopicCreation; before it, the broker decides."""
_AHEAD = 32
"""The number of topics without settings in one CreateTopics request."""
_LEADER_TIMEOUT_S = 20.0
"""Seconds until a new topic has a leader."""
_FOREVER = str((1 << 63) - 1)
_ALWAYS = {
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": _FOREVER,
    "message.timestamp.before.max.ms": _FOREVER,
}
"""Settings of each topic if the broker has them: a case may have any timestamp, and its records must stay."""

Settings = Mapping[str, str]


class TopicNotAvailable(Exception):
    """A topic that the broker did not create; the message has the reason."""


class BrokerTopic(Struct, frozen=True):
    """A topic, with the address of the leader of its first partitions."""

    name: str
    id: bytes
    host: str
    port: int
    partitions: int = 1
    """The number of first partitions with that leader."""


class TopicFactory(Struct):
    """Creates topics on a broker, several at once."""

    connection: BrokerConnection
    prefix: str
    """The prefix of all topics of the run, and of no other topics."""
    made: list[str] = field(default_factory=list)
    """The names in all CreateTopics requests, in order."""
    _ready: dict[tuple[int, tuple[tuple[str, str], ...]], list[BrokerTopic]] = field(
        default_factory=lambda: defaultdict(list)
    )
    _own: str = field(default_factory=lambda: uuid4().hex[:8])
    """A part of the names that differs between the processes of a run."""
    _common: Settings = field(default_factory=lambda: dict(_ALWAYS))

    def take(self, settings: Settings, partitions: int = 1) -> BrokerTopic:
        """Return an empty topic with so many partitions.

        Raises TopicNotAvailable, or as BrokerConnection.ask.
        """
        key = partitions, tuple(sorted(settings.items()))
        if not self._ready[key]:
            self._ready[key] = self._make(1 if settings or partitions > 1 else _AHEAD, settings, partitions)
        topic = self._ready[key].pop()
        if topic.partitions < partitions:
            raise TopicNotAvailable(
                f"{partitions} partitions with one leader are needed, a new topic has {topic.partitions}"
            )
        return topic

    def _make(self, count: int, settings: Settings, partitions: int) -> list[BrokerTopic]:
        names = [f"{self.prefix}{self._own}-{len(self.made) + at}" for at in range(count)]
        self.made += names
        try:
            version = self.connection.version("CreateTopics", high=7)
        except VersionNotSupported:
            if settings:
                raise
            return _found(self.connection, names, create=True)
        errors = self._created(version, names, {**self._common, **settings}, partitions)
        if ErrorCode.INVALID_CONFIG in errors:
            self._common = {}
            errors = self._created(version, names, settings, partitions)
        if failed := next(filter(None, errors), 0):
            raise TopicNotAvailable(
                f"the topic was not made: error {failed}" + (f", with {dict(settings)}" if settings else "")
            )
        return _found(self.connection, names)

    def _created(self, version: int, names: Sequence[str], settings: Settings, partitions: int) -> list[int]:
        """Return the error code of each topic; 0 for none."""
        configs = tuple({"Name": name, "Value": value} for name, value in settings.items())
        size = {"NumPartitions": partitions, "ReplicationFactor": 1}
        rows = tuple({"Name": name, **size, "Configs": configs} for name in names)
        response = self.connection.ask("CreateTopics", version, {"Topics": rows, "timeoutMs": 30_000})
        return [row["ErrorCode"] for row in response["Topics"]]


class PreparedTopics:
    """Existing topics, used in turn; only the first partition of each is used."""

    def __init__(self, connection: BrokerConnection, names: Sequence[str]) -> None:
        """Find them. Raises TopicNotAvailable, or as BrokerConnection.ask."""
        self.connection = connection
        self._topics = cycle(_found(connection, names, timeout_s=0))

    def take(self, settings: Settings, partitions: int = 1) -> BrokerTopic:
        """Return the next topic, which may contain records.

        Raises TopicNotAvailable if the case needs settings or more partitions.
        """
        if settings:
            raise TopicNotAvailable(f"the settings of a given topic stay unchanged, this case needs {dict(settings)}")
        if partitions > 1:
            raise TopicNotAvailable(f"only the first partition of a given topic is used, this case needs {partitions}")
        return next(self._topics)


def _found(
    connection: BrokerConnection, names: Sequence[str], *, create: bool = False, timeout_s: float | None = None
) -> list[BrokerTopic]:
    """Return topics as soon as each has a leader. Raises TopicNotAvailable."""
    version = connection.version("Metadata", low=1, high=12)
    body: Values = {"Topics": tuple({"Name": name} for name in names)}
    if version >= _CHOOSES:
        body["AllowAutoTopicCreation"] = create

    def leaders() -> tuple[dict[str, BrokerTopic], dict[str, int]]:
        response = connection.ask("Metadata", version, body)
        brokers = {row["NodeId"]: row for row in response["Brokers"]}
        # Some brokers return topics that were not requested.
        topics = [row for row in response["Topics"] if row["Name"] in names]
        rows = [(row, part) for row in topics for part in row["Partitions"] if part["PartitionIndex"] == 0]
        led = {row["Name"]: _led(row, brokers[part["LeaderId"]]) for row, part in rows if part["LeaderId"] in brokers}
        errors = {row["Name"]: row["ErrorCode"] for row in topics if row["ErrorCode"]}
        errors |= {row["Name"]: part["ErrorCode"] for row, part in rows if part["ErrorCode"]}
        return led, errors

    def is_final(found: tuple[dict[str, BrokerTopic], dict[str, int]]) -> bool:
        led, errors = found
        return not RETRIABLE.issuperset(errors.values()) if errors else led.keys() >= {*names}

    led, errors = poll(leaders, is_final, _LEADER_TIMEOUT_S if timeout_s is None else timeout_s)
    if lacking := [name for name in names if name in errors or name not in led]:
        raise TopicNotAvailable(f"no leader of the topic {lacking[0]}: error {errors.get(lacking[0], 0)}")
    return [*led.values()]


def _led(row: Values, leader: Values) -> BrokerTopic:
    """Return a topic with its leader, and with the number of first partitions that have the same leader."""
    leaders = {part["PartitionIndex"]: part["LeaderId"] for part in row["Partitions"]}
    partitions = next(count for count in range(1, len(leaders) + 1) if leaders.get(count) != leaders[0])
    return BrokerTopic(row["Name"], row.get("TopicId", b""), leader["Host"], leader["Port"], partitions)
