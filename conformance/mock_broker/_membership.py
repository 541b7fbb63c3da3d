"""The group of a client: its members in each generation, and the metadata that they exchange."""

from __future__ import annotations

from typing import Self

from msgspec import Struct, field

from conformance.cases.client_scenarios import (
    CLOSE_CONNECTION,
    EMPTY_METADATA,
    FOLLOWER_NEWER_VERSION,
    FOLLOWER_NO_PARTITION,
    LEADER_OF_TWO,
    MALFORMED_METADATA,
    NODE_1,
    NODE_2,
    OTHER_MEMBER_ID,
    OTHER_TOPIC,
    OTHER_TOPIC_SUFFIX,
    OWNED_PARTITION_CONFLICT,
    ClientScenario,
)
from conformance.cases.model import Value
from conformance.codec.error_codes import ErrorCode
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import CloseConnection

LEADER_COMPOSITIONS = (LEADER_OF_TWO, EMPTY_METADATA, MALFORMED_METADATA, OTHER_TOPIC, OWNED_PARTITION_CONFLICT)
"""The compositions of a generation in which the client leads another member."""
_ON_ANOTHER_TOPIC = (OTHER_TOPIC, OWNED_PARTITION_CONFLICT)
"""The compositions of these that need another topic."""
_NEWEST, _FUTURE = 3, 7
"""The newest version of the consumer protocol, which Apache Kafka writes, and a version of the future."""
_ADDED = b"\x00\x00\x00\x05later"
"""Bytes after the fields of the future version: a reader skips them."""


class GroupState(Struct):
    """A group with the client as a member, as its coordinator keeps it."""

    errors: dict[str, list[int]] = field(default_factory=dict)
    """The errors of the next responses, by request."""
    error_is_permanent: bool = False
    """True if the first error is returned each time."""
    group_generations: list[str] = field(default_factory=list)
    """The compositions of the next generations; after them the client is the only member."""
    now: str = ""
    """The composition of the current generation."""
    generation: int = 0
    coordinator: int = NODE_1
    """The id of the node that is its coordinator."""
    coordinator_moves: bool = False
    """True if the other node becomes the coordinator when this one returns NOT_COORDINATOR or stops."""
    stopped_members: set[str] = field(default_factory=set)
    """The members that the group no longer knows."""

    @classmethod
    def of(cls, kind: ClientScenario) -> Self:
        """Return the group for a scenario."""
        errors = {name: [*codes] for name, codes in kind.request_errors.items()}
        return cls(
            errors=errors,
            error_is_permanent=kind.error_is_permanent,
            group_generations=[*kind.group_generations],
            coordinator_moves=kind.coordinator_moves,
        )

    def error(self, name: str, node: int | None = None) -> int:
        """Return the error for a request; `node` is given if only the coordinator answers. 0 means no error.

        Raises CloseConnection if the node is gone.
        """
        if node not in (None, self.coordinator):
            return ErrorCode.NOT_COORDINATOR
        error = self.next_of(self.errors.get(name, []))
        if self.coordinator_moves and error in (ErrorCode.NOT_COORDINATOR, CLOSE_CONNECTION):
            self.coordinator = NODE_2
        if error == CLOSE_CONNECTION:
            raise CloseConnection("the scenario drops this response")
        return error

    def next_of(self, codes: list[int]) -> int:
        """Return the next of these errors and remove it, unless errors are permanent; 0 if there is none."""
        if not codes:
            return 0
        return codes[0] if self.error_is_permanent else codes.pop(0)

    def next_generation(self) -> None:
        """Begin another generation."""
        self.now = self.group_generations.pop(0) if self.group_generations else ""
        self.generation += 2 if self.now == OWNED_PARTITION_CONFLICT else 1
        if self.generation > 1:
            self.errors.pop("Heartbeat", None)

    @property
    def is_idle_generation(self) -> bool:
        """True if the client has no partition in it, and learns at once that the next generation follows."""
        return self.now in (FOLLOWER_NO_PARTITION, *LEADER_COMPOSITIONS)

    @property
    def serves_nothing(self) -> bool:
        """True if no records are served in it, so that a client stays until it knows the topic of another member."""
        return self.now in _ON_ANOTHER_TOPIC

    def new_member(self, group: str) -> str:
        """Return a member id that no member had."""
        return f"{group}-member-{self.generation}-{len(self.stopped_members)}"

    def assigned(self, topic: str) -> bytes:
        """Return the assignment from another leader: the client's topic or no partition, with null as user data."""
        rows = () if self.is_idle_generation else ({"Topic": topic, "Partitions": (0,)},)
        return _encoded(
            "Assignment", {"AssignedPartitions": rows, "UserData": None}, is_newer=self.now == FOLLOWER_NEWER_VERSION
        )


def other_member(topic: str, group: GroupState) -> Value:
    """Return another member of the group, with the same topic, another topic, or malformed metadata."""
    how = group.now
    wanted = topic + OTHER_TOPIC_SUFFIX if how in _ON_ANOTHER_TOPIC else topic
    fields: Value = {"Topics": (wanted,), "UserData": None, "OwnedPartitions": (), "GenerationId": -1, "RackId": "rack"}
    if how == OWNED_PARTITION_CONFLICT:
        fields |= {"OwnedPartitions": ({"Topic": topic, "Partitions": (0,)},), "GenerationId": group.generation - 1}
    written = _encoded("Subscription", fields)
    metadata = {EMPTY_METADATA: b"", MALFORMED_METADATA: written[:9]}.get(how, written)
    return {"MemberId": OTHER_MEMBER_ID, "GroupInstanceId": None, "Metadata": metadata}


def _encoded(what: str, value: Value, *, is_newer: bool = False) -> bytes:
    body = shipped_types().wire(type_name(f"ConsumerProtocol{what}", _NEWEST)).encode(value)
    version = _FUTURE if is_newer else _NEWEST
    return version.to_bytes(2, "big") + body + (_ADDED if is_newer else b"")
