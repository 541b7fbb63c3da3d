"""The topics of a run on a broker: made under a prefix, one for each case."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from conformance.targets.brokers.connection import Connection, NotOffered
from conformance.targets.live.frames import Values

NOT_YET = frozenset((3, 5, 6, 14))
"""Errors that say only "not yet": no such topic or partition, no leader, not the leader, coordinator loading."""
_INVALID_CONFIG = 40
_CHOOSES = 4
"""The first version of Metadata that says whether topics are to be made; those before make them where brokers do."""
PREFIX = "conformance-"
"""What the name of every topic begins with."""
_AHEAD = 32
"""Topics without settings that are made in one request."""
_PATIENCE = 20.0
"""Seconds until a new topic has a leader."""
_PAUSE = 0.05
_FOREVER = str((1 << 63) - 1)
_ALWAYS = {
    "retention.ms": "-1",
    "message.timestamp.after.max.ms": _FOREVER,
    "message.timestamp.before.max.ms": _FOREVER,
}
"""Settings of each topic, where the broker knows them: a case may have any timestamp, and nothing is deleted for it."""

Settings = Mapping[str, str]


class NoTopic(Exception):
    """A topic that the broker did not make; the message says why."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic with one partition."""

    name: str
    id: bytes
    host: str
    port: int


@dataclass(slots=True)
class Topics:
    """Makes topics on a broker, several ahead."""

    connection: Connection
    prefix: str
    """What their names begin with: with that, and nothing else, the topics of one run."""
    made: list[str] = field(default_factory=list)
    """Every topic that was asked for, in order."""
    _ready: dict[tuple[tuple[str, str], ...], list[Topic]] = field(default_factory=lambda: defaultdict(list))
    _own: str = field(default_factory=lambda: uuid4().hex[:8])
    """Tells them from those of another process of the run."""
    _common: Settings = field(default_factory=lambda: dict(_ALWAYS))

    def take(self, settings: Settings) -> Topic:
        """A topic that nothing was written to. Raises NoTopic, or what Connection.ask raises."""
        key = tuple(sorted(settings.items()))
        if not self._ready[key]:
            self._ready[key] = self._make(1 if settings else _AHEAD, settings)
        return self._ready[key].pop()

    def _make(self, count: int, settings: Settings) -> list[Topic]:
        names = [f"{self.prefix}{self._own}-{len(self.made) + at}" for at in range(count)]
        self.made += names
        try:
            version = self.connection.version("CreateTopics", high=7)
        except NotOffered:
            if settings:
                raise
            return self._found(names, create=True)
        errors = self._created(version, names, {**self._common, **settings})
        if _INVALID_CONFIG in errors:
            self._common = {}
            errors = self._created(version, names, settings)
        if failed := next(filter(None, errors), 0):
            raise NoTopic(f"the topic was not made: error {failed}" + (f", with {dict(settings)}" if settings else ""))
        return self._found(names)

    def _created(self, version: int, names: Sequence[str], settings: Settings) -> list[int]:
        """The error for each topic, 0 for none."""
        configs = tuple({"Name": name, "Value": value} for name, value in settings.items())
        rows = tuple({"Name": name, "NumPartitions": 1, "ReplicationFactor": 1, "Configs": configs} for name in names)
        response = self.connection.ask("CreateTopics", version, {"Topics": rows, "timeoutMs": 30_000})
        return [row["ErrorCode"] for row in response["Topics"]]

    def _found(self, names: Sequence[str], *, create: bool = False) -> list[Topic]:
        """Where the leaders of topics are, as soon as each has one. Raises NoTopic."""
        version, deadline = self.connection.version("Metadata", low=1, high=12), time.monotonic() + _PATIENCE
        body: Values = {"Topics": tuple({"Name": name} for name in names)}
        if version >= _CHOOSES:
            body["AllowAutoTopicCreation"] = create
        while True:
            response = self.connection.ask("Metadata", version, body)
            brokers = {row["NodeId"]: row for row in response["Brokers"]}
            rows = [(row, part) for row in response["Topics"] for part in row["Partitions"][:1]]
            errors = [row["ErrorCode"] or part["ErrorCode"] for row, part in rows]
            led = all(part["LeaderId"] in brokers for _, part in rows)
            if len(rows) == len(names) and led and not any(errors):
                return [
                    Topic(row["Name"], row.get("TopicId", b""), leader["Host"], leader["Port"])
                    for row, part in rows
                    for leader in [brokers[part["LeaderId"]]]
                ]
            if time.monotonic() > deadline or not NOT_YET.issuperset(filter(None, errors)):
                raise NoTopic(f"no leader of {names[0]} and {len(names) - 1} more: errors {sorted(set(errors))}")
            time.sleep(_PAUSE)
