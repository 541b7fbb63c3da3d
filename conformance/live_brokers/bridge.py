"""A broker behind the line protocol: each request becomes a topic of its own, written to and fetched.

`python -m conformance.live_brokers HOST:PORT` reads requests from standard input and answers each when the broker
has shown what it makes of it. What was appended stands between a plain batch before it and one behind it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping

import msgspec

from conformance import codec
from conformance.cases.model import Answer, Request
from conformance.cases.operations import OPERATIONS
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.json_notation import NotationError
from conformance.codec.log import LOG
from conformance.definitions.request_frames import MalformedFrame
from conformance.live_brokers.append import AppendRunner, send_sequence
from conformance.live_brokers.connection import (
    AccessDenied,
    BrokerConnection,
    BrokerUnreachable,
    ConnectionClosed,
    ResponseTimeout,
    VersionNotSupported,
)
from conformance.live_brokers.partition import KafkaErrorResponse, PartitionClient
from conformance.live_brokers.raw_requests import check_offered, memory_growth, memory_of, names_of, send_frames
from conformance.live_brokers.retention import StepNotPossible, settings_of
from conformance.live_brokers.scenario import BrokerScenarioRun
from conformance.live_brokers.scope import OutOfScope, Scope
from conformance.live_brokers.segments import SegmentDataNotFound
from conformance.live_brokers.topics import BrokerTopic, PreparedTopics, TopicFactory, TopicNotAvailable
from conformance.targets.broker_address import BrokerAddress
from conformance.targets.protocol import PROTOCOL

_BATCHES = {"Produce": 3, "Fetch": 4}
"""The first version of each request that carries record batches alone."""
_NONE = 1 << 15
"""A version above all."""
_VIA = {"exchange": "a connection of its own"}
"""The calls that are judged, where they are not those of a batch."""
_SECONDS = 5.0
"""Seconds that a broker has for an answer."""
_RECONNECT_TIMEOUT_S = 10.0
"""Seconds that a broker has to come back after a connection was lost."""
_CONNECT_POLL_S = 0.2
_MAX_NOT_READY_CASES = 3
"""So many cases after one another for which a broker was not ready, and it is not asked any more."""


class BrokerNotReady(Exception):
    """A broker that does not take a plain batch in a new topic: no case is to blame; the message says what it did."""


class BrokerBridge:
    """Puts cases to one broker, one at a time. `close` it."""

    def __init__(
        self, address: BrokerAddress, voids: int = _MAX_NOT_READY_CASES, reboot: Callable[[], object] | None = None
    ) -> None:
        """Connect; the broker may be not ready for fewer than `voids` cases.

        `reboot` restarts a broker that keeps its log and its port. Raises OSError, ConnectionClosed, ResponseTimeout,
        MalformedFrame or TopicNotAvailable.
        """
        self._address, self._voids_left, self._voids, self._reboot = address, voids, voids, reboot
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._has_served = False
        self.gone = ""
        """Why the broker cannot be asked any more; empty while it can."""
        self._topics = self._begin()
        self._topic: BrokerTopic | None = None
        """The topic that the frames of exchanges name."""
        self._operations: Mapping[str, Callable[[Request], Answer]] = {
            "append": AppendRunner(self._connection, self._new_partition, self._reconnect, address.log_dir).answer,
            "sequence": self._sequence,
            "exchange": self._exchange,
            "scenario": self._scenario,
        }

    def _begin(self) -> TopicFactory | PreparedTopics:
        """Connect: the topics that cases are put to.

        Raises OSError, ConnectionClosed, ResponseTimeout, MalformedFrame or TopicNotAvailable.
        """
        connection, address = self._connection(), self._address
        try:
            return (
                PreparedTopics(connection, address.topics)
                if address.topics
                else TopicFactory(connection, address.prefix)
            )
        except BaseException:
            self._close_all()
            raise

    def close(self) -> None:
        """Close the connections. The topics stay."""
        self._close_all()

    def describe(self) -> Answer:
        """What the broker says of itself."""
        address, offered = self._address, self._connection().offered
        # Apache Kafka 4 offers Produce 0 to 2, for the sake of old clients, and takes nothing in them.
        is_old = all(offered.get(name, (_NONE, 0))[0] < _BATCHES[name] for name in _BATCHES)
        described: Answer = {
            "ok": True,
            "protocol": PROTOCOL,
            "name": address.name,
            "supports": dict.fromkeys(self._operations, True),
            "via": {op: "public: " + _VIA.get(op, "Produce, then Fetch") for op in self._operations},
            "messages": {},
            "codecs": list(CODEC_NAMES),
            "magics": [*([0, 1] if is_old else []), 2],
        }
        known = {"version": address.version, "language": address.language}
        return {**described, **{part: told for part, told in known.items() if told}}

    def answer(self, request: Mapping[str, object]) -> Answer:
        """The answer to a request, without its id. Never raises for what the broker does."""
        if request.get("op") == "describe":
            return self.describe()
        row = self._operations.get(str(request.get("op")))
        if row is None:
            return {"unsupported": "a broker is not asked this"}
        if self.gone:
            return {"targetUnavailable": self.gone}
        try:
            self._connect_with_retry()
        except BrokerUnreachable as problem:
            self.gone = f"{self._address.name} does not answer any more: {problem}"
            return {"targetUnavailable": self.gone}
        return self._judged_by(row, request)

    def _judged_by(self, row: Callable[[Request], Answer], request: Mapping[str, object]) -> Answer:
        try:
            answer = row(OPERATIONS[str(request["op"])].parse(request, LOG))
        except (NotationError, codec.Unencodable) as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        except (VersionNotSupported, TopicNotAvailable, SegmentDataNotFound) as reason:
            return {"unsupported": str(reason)}
        except BrokerNotReady as problem:
            return self._not_ready_answer(str(problem))
        except ResponseTimeout as problem:
            self._close_all()
            return {"timeout": str(problem)}
        except MalformedFrame as problem:
            self._close_all()
            return {"crash": f"an answer cannot be read: {problem}"}
        except (ConnectionClosed, OSError) as problem:
            return self._disconnected_answer(str(problem))
        except BrokerUnreachable as problem:
            self._close_all()
            self.gone = f"{self._address.name} does not answer any more: {problem}"
            return {"crash": str(problem)}
        except OutOfScope as problem:
            # The other cases would be judged on a part of the cluster only.
            self._close_all()
            self.gone = f"{self._address.name}: {problem}"
            return {"targetUnavailable": self.gone}
        self._voids_left = self._voids
        return answer

    def _not_ready_answer(self, problem: str) -> Answer:
        """The answer where the broker was not ready; after several of them it is not asked any more."""
        self._close_all()
        self._voids_left -= 1
        if self._voids_left <= 0:
            self.gone = f"{self._address.name} is not ready: {problem}"
        return {"unsupported": f"the broker was not ready: {problem}"}

    def _disconnected_answer(self, problem: str) -> Answer:
        """The answer where the connection was lost in a case: that case alone is charged with it."""
        self._close_all()
        try:
            self._connect_with_retry()
        except BrokerUnreachable as down:
            self.gone = f"{self._address.name} does not answer any more: {down}"
            problem = f"{problem}, and the broker does not come back: {down}"
        return {"crash": problem}

    # --- sequence -------------------------------------------------------------------------------------

    def _sequence(self, parts: Request) -> Answer:
        """Write batches of producers one after the other: the fate of each."""
        partition, end = self._new_partition({})
        return send_sequence(partition, parts["batches"], end)

    # --- exchange -------------------------------------------------------------------------------------

    def _exchange(self, parts: Request) -> Answer:
        """Send frames on connections of their own: what came of each; then the broker serves another connection."""
        address = self._address
        check_offered(parts["frames"], self._connection().offered)
        if self._topic is None:
            self._topic = self._named()
        before = memory_of(address.pids)
        names = names_of(self._topic, address.prefix)
        value = send_frames(parts, names, lambda: self._connect(address.host, address.port))
        self._connection().ask("ApiVersions", 0, {})
        return {"ok": True, "value": value, "memoryGrowth": memory_growth(before, address.pids, parts["frames"])}

    def _named(self) -> BrokerTopic:
        """The topic that frames name; one that is not there, where none can be had."""
        try:
            return self._new_partition({})[0].topic
        except (BrokerNotReady, VersionNotSupported, TopicNotAvailable):
            self._close_all()
            return BrokerTopic(f"{self._address.prefix}none", b"", self._address.host, self._address.port)

    # --- scenario -------------------------------------------------------------------------------------

    def _scenario(self, parts: Request) -> Answer:
        """Do steps one after the other: what the broker tells of each."""
        steps = parts["steps"]
        partition, end = self._new_partition(settings_of(steps))

        def restarted() -> PartitionClient:
            assert self._reboot is not None
            self._close_all()
            self._reboot()
            topic = partition.topic
            return PartitionClient(self._connect_with_retry(topic.host, topic.port), topic)

        try:
            return BrokerScenarioRun(partition, end, self._connect_with_retry, restarted if self._reboot else None).do(
                steps
            )
        except StepNotPossible as reason:
            return {"unsupported": str(reason)}

    # --- connections ----------------------------------------------------------------------------------

    def _new_partition(self, settings: Mapping[str, str], partitions: int = 1) -> tuple[PartitionClient, int]:
        """The first partition of a new topic with a plain batch, and where its log ends.

        Raises BrokerNotReady, VersionNotSupported or TopicNotAvailable.
        """
        try:
            self._topics.connection = self._connection()
            topic = self._topics.take(settings, partitions)
            partition = PartitionClient(self._connect_with_retry(topic.host, topic.port), topic)
            offset = partition.produce_one_record()
            begin = offset if self._address.topics else 0
            if not self._has_served and not partition.fetch(begin, until=begin + 1):
                raise BrokerNotReady("a plain batch in a new topic is not served")
        except BrokerUnreachable as down:
            raise BrokerNotReady(f"it says that {topic.host}:{topic.port} leads a new topic: {down}") from None
        except (KafkaErrorResponse, ResponseTimeout, ConnectionClosed, MalformedFrame, OSError) as problem:
            raise BrokerNotReady(f"a plain batch in a new topic: {problem}") from None
        self._has_served = True
        return partition, offset + 1

    def _connection(self, host: str = "", port: int = 0) -> BrokerConnection:
        """Return the connection to a place, a new one where it was closed.

        Raises OSError, ConnectionClosed, ResponseTimeout, MalformedFrame, or OutOfScope for a place that the user did
        not name.
        """
        place = (host or self._address.host, port or self._address.port)
        Scope.of(self._address).check_place(*place)
        if place in self._connections and not self._connections[place].is_idle:
            self._connections.pop(place).close()
        if place not in self._connections:
            self._connections[place] = self._connect(*place)
        return self._connections[place]

    def _connect(self, host: str, port: int) -> BrokerConnection:
        return BrokerConnection(host, port, _SECONDS, self._address.security, Scope.of(self._address))

    def _connect_with_retry(self, host: str = "", port: int = 0) -> BrokerConnection:
        """The same, with some patience: the broker may be about to come back. Raises BrokerUnreachable."""
        deadline = time.monotonic() + _RECONNECT_TIMEOUT_S
        while True:
            try:
                return self._connection(host, port)
            except AccessDenied as problem:
                raise BrokerUnreachable(str(problem)) from None
            except (OSError, ConnectionClosed, ResponseTimeout, MalformedFrame) as problem:
                if time.monotonic() > deadline:
                    raise BrokerUnreachable(str(problem)) from None
                time.sleep(_CONNECT_POLL_S)

    def _reconnect(self, topic: BrokerTopic) -> BrokerConnection:
        """A new connection to the leader of a topic, where one was lost. Raises BrokerUnreachable."""
        self._close_all()
        return self._connect_with_retry(topic.host, topic.port)

    def _close_all(self) -> None:
        """Close every connection: what is still under way on one says nothing of the next case."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def serve(
    address: BrokerAddress, restart: Callable[[], BrokerAddress] | None = None, *, keeps_log: bool = False
) -> None:
    """Answer the requests on standard input until it ends; a broker that has gone is started anew by `restart`.

    One that `keeps_log` is restarted where a case asks for it, too. Without `restart`, every request after that is
    answered with why it is gone. Raises as BrokerBridge at the start, and what `restart` raises.
    """
    voids = _MAX_NOT_READY_CASES if restart is None else 1
    reboot = restart if keeps_log else None
    target = BrokerBridge(address, voids, reboot)
    encoder = msgspec.json.Encoder()
    try:
        for line in sys.stdin.buffer:
            request = msgspec.json.decode(line)
            answer = target.answer(request)
            if target.gone and restart is not None:
                target.close()
                target = BrokerBridge(restart(), voids, reboot)
                # It had gone before this case, which is not to blame.
                answer = target.answer(request) if "crash" not in answer else answer
            sys.stdout.buffer.write(encoder.encode({"id": request.get("id"), **answer}) + b"\n")
            sys.stdout.buffer.flush()
    finally:
        target.close()
