"""The group of a client: how each generation of it is made up, and what its members say to one another."""

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
"""How a generation is made up in which the client leads another member."""
_APART = (OTHER_TOPIC, OWNED_PARTITION_CONFLICT)
"""The same, where that wants another topic."""
_NEWEST, _TO_COME = 3, 7
"""The newest version of what members say that there is, in which Apache Kafka's do, and one that is yet to come."""
_ADDED = b"\x00\x00\x00\x05later"
"""What stands behind the fields of that: a reader passes over it."""


class GroupState(Struct):
    """A group with a client as member, as its coordinator keeps it."""

    errors: dict[str, list[int]] = field(default_factory=dict)
    """By request, the errors with which the next ones are answered."""
    error_is_permanent: bool = False
    """Whether the first error comes each time."""
    group_generations: list[str] = field(default_factory=list)
    """How the next generations are made up; behind them the client is the only member."""
    now: str = ""
    """How this one is."""
    generation: int = 0
    coordinator: int = NODE_1
    """The node that coordinates it."""
    coordinator_moves: bool = False
    """Whether the other node comes to coordinate it when this one says that it does not, or is gone."""
    stopped_nodes: set[str] = field(default_factory=set)
    """The members that it does not know any more."""

    @classmethod
    def of(cls, kind: ClientScenario) -> Self:
        """The group in a scenario of this kind."""
        errors = {name: [*codes] for name, codes in kind.request_errors.items()}
        return cls(
            errors=errors,
            error_is_permanent=kind.error_is_permanent,
            group_generations=[*kind.group_generations],
            coordinator_moves=kind.coordinator_moves,
        )

    def error(self, name: str, node: int | None = None) -> int:
        """The error with which a request is answered now, by a node where only the coordinator answers; 0 for none.

        Raises CloseConnection where the node is gone.
        """
        if node not in (None, self.coordinator):
            return ErrorCode.NOT_COORDINATOR
        error = self.next_of(self.errors.get(name, []))
        if self.coordinator_moves and error in (ErrorCode.NOT_COORDINATOR, CLOSE_CONNECTION):
            self.coordinator = NODE_2
        if error == CLOSE_CONNECTION:
            raise CloseConnection("its answer is lost")
        return error

    def next_of(self, codes: list[int]) -> int:
        """The next one of these errors, which then is told, but for one that stays; 0 where there is none."""
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
        """Whether the client has nothing to read in it, and is told at once that another one is to come."""
        return self.now in (FOLLOWER_NO_PARTITION, *LEADER_COMPOSITIONS)

    @property
    def serves_nothing(self) -> bool:
        """Whether nothing is served in it, so that a client stays until it knows the topic of another member."""
        return self.now in _APART

    def new_member(self, group: str) -> str:
        """An id that no member had."""
        return f"{group}-member-{self.generation}-{len(self.stopped_nodes)}"

    def assigned(self, topic: str) -> bytes:
        """What another member that leads assigns to the client, its topic or nothing, with null for user data."""
        rows = () if self.is_idle_generation else ({"Topic": topic, "Partitions": (0,)},)
        return _said(
            "Assignment", {"AssignedPartitions": rows, "UserData": None}, is_newer=self.now == FOLLOWER_NEWER_VERSION
        )


def other_member(topic: str, group: GroupState) -> Value:
    """Another member of the group, which wants the same topic, or another one, or says what nobody can read."""
    how = group.now
    wanted = topic + OTHER_TOPIC_SUFFIX if how in _APART else topic
    said: Value = {"Topics": (wanted,), "UserData": None, "OwnedPartitions": (), "GenerationId": -1, "RackId": "rack"}
    if how == OWNED_PARTITION_CONFLICT:
        said |= {"OwnedPartitions": ({"Topic": topic, "Partitions": (0,)},), "GenerationId": group.generation - 1}
    written = _said("Subscription", said)
    metadata = {EMPTY_METADATA: b"", MALFORMED_METADATA: written[:9]}.get(how, written)
    return {"MemberId": OTHER_MEMBER_ID, "GroupInstanceId": None, "Metadata": metadata}


def _said(what: str, value: Value, *, is_newer: bool = False) -> bytes:
    body = shipped_types().wire(type_name(f"ConsumerProtocol{what}", _NEWEST)).encode(value)
    version = _TO_COME if is_newer else _NEWEST
    return version.to_bytes(2, "big") + body + (_ADDED if is_newer else b"")
