"""A broker behind the line protocol: each request becomes a topic of its own, written to and fetched.

`python -m conformance.targets.brokers HOST:PORT` reads requests from standard input and answers each when the broker
has shown what it makes of it. What was appended stands between a plain batch before it and one behind it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from conformance.cases.model import Answer, Request
from conformance.cases.operations import OPERATIONS
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.log import LOG
from conformance.codec.notation import NotationError
from conformance.targets.brokers.bundled import Running
from conformance.targets.brokers.connection import Connection, Late, Lost, NotOffered
from conformance.targets.brokers.partition import Partition, Refusal, error_class
from conformance.targets.brokers.producers import fates
from conformance.targets.brokers.topics import NoTopic, Topics
from conformance.targets.live.frames import Garbled
from conformance.targets.probes import plain_log
from conformance.targets.protocol import PROTOCOL

_BATCHES = 3
"""The first version of Produce that carries record batches alone."""
_NAMES = {"compressionType": "compression.type", "timestampType": "message.timestamp.type"}
"""The setting of a topic that a part of an `append` request names."""
_VALUES = {"none": "uncompressed"}
"""The values of these settings that brokers call otherwise."""
_ITS_AFFAIR = {10: "the limit of a batch", 32: "the limits of timestamps", 44: "a policy of the broker"}
"""Errors by which a broker keeps to its settings, which no document gives."""
_SECONDS = 5.0
"""Seconds that a broker has for an answer."""
_BACK = 10.0
"""Seconds that a broker has to come back after a connection was lost."""
_PAUSE = 0.2


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens, and what the suite calls it."""

    host: str
    port: int
    name: str
    version: str = ""
    language: str = ""
    prefix: str = "conformance-"
    clean: bool = False

    @classmethod
    def of(cls, running: Running) -> Address:
        """That of a broker that the suite has started."""
        manifest = running.manifest
        return cls(running.host, running.port, manifest.name, manifest.version, manifest.language)


class BrokerDown(Exception):
    """A broker that takes no connection, or no plain batch, any more; the message says since when."""


class BrokerTarget:
    """Puts cases to one broker, one at a time. `close` it."""

    def __init__(self, address: Address) -> None:
        """Connect. Raises OSError, Lost, Late or Garbled."""
        self._address = address
        self._connections: dict[tuple[str, int], Connection] = {}
        self.gone = ""
        """Why the broker cannot be asked any more; empty while it can."""
        self._topics = Topics(self._connection(), address.prefix)
        self._operations: Mapping[str, Callable[[Request], Answer]] = {
            "append": self._append,
            "sequence": self._sequence,
        }

    def close(self) -> None:
        """Delete the topics where that is wanted, and close the connections."""
        if self._address.clean:
            with suppress(OSError, Lost, Late, Garbled, NotOffered):
                self._topics.connection = self._connection()
                self._topics.delete()
        for connection in self._connections.values():
            connection.close()

    def describe(self) -> Answer:
        """What the broker says of itself."""
        address, produce = self._address, self._connection().offered.get("Produce", (0, -1))
        described: Answer = {
            "ok": True,
            "protocol": PROTOCOL,
            "name": address.name,
            "supports": dict.fromkeys(self._operations, True),
            "via": dict.fromkeys(self._operations, "public: Produce, then Fetch"),
            "codecs": list(CODEC_NAMES),
            "magics": [*([0, 1] if produce[0] < _BATCHES else []), 2],
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
        try:
            return row(OPERATIONS[str(request["op"])].parse(request, LOG))
        except NotationError as error:
            return {"ok": False, "error": "invalid-value", "message": str(error)}
        except Refusal as refusal:
            return {"ok": False, "error": error_class(refusal.code), "message": f"a fetch is answered with {refusal}"}
        except (NotOffered, NoTopic) as reason:
            return {"unsupported": str(reason)}
        except Late as problem:
            self._drop()
            return {"timeout": str(problem)}
        except Garbled as problem:
            self._drop()
            return {"crash": f"an answer cannot be read: {problem}"}
        except (Lost, OSError) as problem:
            self._drop()
            return {"crash": str(problem)}
        except BrokerDown as problem:
            self._drop()
            self.gone = str(problem)
            return {"crash": str(problem)}

    # --- append ---------------------------------------------------------------------------------------

    def _append(self, parts: Request) -> Answer:
        """Write a plain batch, the case and a plain batch, and fetch what stands between the two."""
        chosen = {name: str(parts[part]) for part, name in _NAMES.items() if part in parts}
        partition = self._partition({name: _VALUES.get(value, value) for name, value in chosen.items()})
        end = partition.produce(plain_log(2)) + 1
        told, refusal = self._told(partition, parts["hex"])
        after = self._plain_after(partition)
        served = partition.fetch(end, until=after)
        value = {"logEnd": str(end), "baseOffset": str(end if told is None else told)}
        if refusal is None or served:
            message = {"message": f"it is served, although refused: {refusal}"} if refusal else {}
            return {"ok": True, "hex": served.hex(), "value": value, **message}
        if refusal.code in _ITS_AFFAIR:
            return {"unsupported": f"{_ITS_AFFAIR[refusal.code]}: {refusal}"}
        return {"ok": False, "error": error_class(refusal.code), "message": str(refusal)}

    def _told(self, partition: Partition, data: bytes) -> tuple[int | None, Refusal | None]:
        """The offset that the broker tells of a batch, or how it refused it."""
        try:
            return partition.produce(data), None
        except Refusal as refusal:
            return None, refusal
        except Lost as lost:
            self._come_back(partition, str(lost))
            return None, Refusal(0, str(lost))

    def _plain_after(self, partition: Partition) -> int:
        try:
            return partition.produce(plain_log(2))
        except Refusal as refusal:
            raise BrokerDown(f"after this batch the log takes no plain one any more: {refusal}") from None

    def _come_back(self, partition: Partition, lost: str) -> None:
        """Connect again after a connection was lost. Raises BrokerDown."""
        self._drop()
        deadline = time.monotonic() + _BACK
        while True:
            try:
                partition.connection = self._connection(partition.topic.host, partition.topic.port)
            except (OSError, Lost, Late, Garbled) as problem:
                if time.monotonic() > deadline:
                    raise BrokerDown(f"{lost}, and the broker does not come back: {problem}") from None
                time.sleep(_PAUSE)
            else:
                return

    # --- sequence -------------------------------------------------------------------------------------

    def _sequence(self, parts: Request) -> Answer:
        """Write batches of producers one after the other: the fate of each."""
        return fates(self._partition({}), parts["batches"])

    # --- connections ----------------------------------------------------------------------------------

    def _partition(self, settings: Mapping[str, str]) -> Partition:
        self._topics.connection = self._connection()
        topic = self._topics.take(settings)
        return Partition(self._connection(topic.host, topic.port), topic)

    def _connection(self, host: str = "", port: int = 0) -> Connection:
        place = (host or self._address.host, port or self._address.port)
        if place not in self._connections:
            self._connections[place] = Connection(*place, _SECONDS)
        return self._connections[place]

    def _drop(self) -> None:
        """Close every connection: what is still under way on one says nothing of the next case."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()


def serve(address: Address, restart: Callable[[], None] | None = None) -> None:
    """Answer the requests on standard input until it ends; a broker that has gone is started anew by `restart`.

    Raises OSError, Lost, Late or Garbled at the start, and what `restart` raises.
    """
    target = BrokerTarget(address)
    encoder = msgspec.json.Encoder()
    try:
        for line in sys.stdin.buffer:
            request = msgspec.json.decode(line)
            sys.stdout.buffer.write(encoder.encode({"id": request.get("id"), **target.answer(request)}) + b"\n")
            sys.stdout.buffer.flush()
            if target.gone and restart is None:
                sys.exit(target.gone)
            if target.gone and restart is not None:
                restart()
                target = BrokerTarget(address)
    finally:
        target.close()
