"""How requests name a topic of the scripted broker: by its name, or by its id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from conformance.codec.derived_fields import Values
from conformance.targets.live.topics import NO_ID

if TYPE_CHECKING:
    from conformance.targets.live.broker import Broker
    from conformance.targets.live.topics import Topic


def named(broker: Broker, row: Values, key: str) -> tuple[Values, Topic | None]:
    """How a row of a request names a topic, by name or by id, as the response repeats it; and the topic."""
    if "TopicId" not in row:
        return {key: row[key]}, broker.topics.get(row[key])
    return {"TopicId": row["TopicId"]}, broker.topics.get(name_of(broker, row["TopicId"]) or "")


def name_of(broker: Broker, topic_id: bytes) -> str | None:
    """The name of the topic with this id; None where there is no such topic, or topics have no ids."""
    if topic_id == NO_ID:
        return None
    return next((name for name, topic in broker.topics.items() if topic.id == topic_id), None)
