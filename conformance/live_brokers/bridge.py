"""A broker behind the line protocol: writes and fetches each case in a separate topic.

`python -m conformance.live_brokers HOST:PORT` reads requests from standard input. The data of a case is between two
plain batches: one is written before it and one after it.
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
"""The first version of each request that can contain only record batches."""
_NONE = 1 << 15
"""A version above all others."""
_VIA = {"exchange": "a connection of its own"}
"""The entry points that differ from Produce and Fetch."""
_SECONDS = 5.0
"""The timeout of an answer."""
_RECONNECT_TIMEOUT_S = 10.0
"""Seconds to connect again after a connection was lost."""
_CONNECT_POLL_S = 0.2
_MAX_NOT_READY_CASES = 3
"""After so many cases in a row for which the broker was not ready, it gets no more requests."""


class BrokerNotReady(Exception):
    """A broker that accepts no plain batch in a new topic, so the case has no verdict; the message has the reason."""


class BrokerBridge:
    """Sends cases to one broker, one at a time. `close` it."""

    def __init__(
        self, address: BrokerAddress, voids: int = _MAX_NOT_READY_CASES, reboot: Callable[[], object] | None = None
    ) -> None:
        """Connect. After `voids` cases in a row for which the broker was not ready, stop.

        `reboot` restarts a broker that keeps its log and its port. Raises OSError, ConnectionClosed, ResponseTimeout,
        MalformedFrame or TopicNotAvailable.
        """
        self._address, self._voids_left, self._voids, self._reboot = address, voids, voids, reboot
        self._connections: dict[tuple[str, int], BrokerConnection] = {}
        self._has_served = False
        self.gone = ""
        """Why the broker gets no more requests; empty while it gets them."""
        self._topics = self._begin()
        self._topic: BrokerTopic | None = None
        """The topic in the frames of `exchange` requests."""
        self._operations: Mapping[str, Callable[[Request], Answer]] = {
            "append": AppendRunner(self._connection, self._new_partition, self._reconnect, address.log_dir).answer,
            "sequence": self._sequence,
            "exchange": self._exchange,
            "scenario": self._scenario,
        }

    def _begin(self) -> TopicFactory | PreparedTopics:
        """Connect and return the topics for the cases.

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
        """Return the answer to `describe`."""
        address, offered = self._address, self._connection().offered
        # Apache Kafka 4 offers Produce 0 to 2 for old clients, and accepts no data in these versions.
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
        return {**described, **{part: value for part, value in known.items() if value}}

    def answer(self, request: Mapping[str, object]) -> Answer:
        """Return the answer to a request, without its id. No behaviour of the broker raises an error."""
        if request.get("op") == "describe":
            return self.describe()
        row = self._operations.get(str(request.get("op")))
        if row is None:
            return {"unsupported": "a broker does not get this request"}
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
            # The other cases would test only a part of the cluster.
            self._close_all()
            self.gone = f"{self._address.name}: {problem}"
            return {"targetUnavailable": self.gone}
        self._voids_left = self._voids
        return answer

    def _not_ready_answer(self, problem: str) -> Answer:
        """Return the answer for a broker that was not ready; stop after several of them."""
        self._close_all()
        self._voids_left -= 1
        if self._voids_left <= 0:
            self.gone = f"{self._address.name} is not ready: {problem}"
        return {"unsupported": f"the broker was not ready: {problem}"}

    def _disconnected_answer(self, problem: str) -> Answer:
        """Return the answer for a lost connection, which counts only for this case."""
        self._close_all()
        try:
            self._connect_with_retry()
        except BrokerUnreachable as down:
            self.gone = f"{self._address.name} does not answer any more: {down}"
            problem = f"{problem}, and the broker does not come back: {down}"
        return {"crash": problem}

    # --- sequence -------------------------------------------------------------------------------------

    def _sequence(self, parts: Request) -> Answer:
        """Write the batches of producers one after the other, and return the results."""
        partition, end = self._new_partition({})
        return send_sequence(partition, parts["batches"], end)

    # --- exchange -------------------------------------------------------------------------------------

    def _exchange(self, parts: Request) -> Answer:
        """Send frames on separate connections; afterwards the broker must answer on another connection."""
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
        """Return the topic for frames; a missing topic if the broker cannot create one."""
        try:
            return self._new_partition({})[0].topic
        except (BrokerNotReady, VersionNotSupported, TopicNotAvailable):
            self._close_all()
            return BrokerTopic(f"{self._address.prefix}none", b"", self._address.host, self._address.port)

    # --- scenario -------------------------------------------------------------------------------------

    def _scenario(self, parts: Request) -> Answer:
        """Run the steps of a scenario, and return the results."""
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
        """Return the first partition of a new topic with a plain batch, and its end offset.

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
            raise BrokerNotReady(f"Metadata names {topic.host}:{topic.port} as leader of a new topic: {down}") from None
        except (KafkaErrorResponse, ResponseTimeout, ConnectionClosed, MalformedFrame, OSError) as problem:
            raise BrokerNotReady(f"a plain batch in a new topic: {problem}") from None
        self._has_served = True
        return partition, offset + 1

    def _connection(self, host: str = "", port: int = 0) -> BrokerConnection:
        """Return the connection to a place; connect again if it was closed.

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
        """Return the connection to a place, with retries: the broker may restart. Raises BrokerUnreachable."""
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
        """Return a new connection to the leader of a topic. Raises BrokerUnreachable."""
        self._close_all()
        return self._connect_with_retry(topic.host, topic.port)

    def _close_all(self) -> None:
        """Close every connection, so that no late response reaches the next case."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def serve(
    address: BrokerAddress, restart: Callable[[], BrokerAddress] | None = None, *, keeps_log: bool = False
) -> None:
    """Answer the requests on standard input until it ends; `restart` starts a stopped broker again.

    If it `keeps_log`, a scenario may restart it too. Without `restart`, every request after the stop gets the reason
    as its answer. Raises the errors of BrokerBridge at the start, and those of `restart`.
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
                # The broker stopped before this case, so the crash does not belong to the case.
                answer = target.answer(request) if "crash" not in answer else answer
            sys.stdout.buffer.write(encoder.encode({"id": request.get("id"), **answer}) + b"\n")
            sys.stdout.buffer.flush()
    finally:
        target.close()
