"""A broker on a free port, in threads, that handles batches and sequences with the reference.

`Ways` has a function for each of its actions; a faulty broker replaces one of them.
"""

from __future__ import annotations

import socket
import socketserver
import struct
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from uuid import uuid4

from conformance import codec
from conformance.cases.append import append_question, max_magic_of_fetch
from conformance.cases.model import ExpectAppend
from conformance.cases.raw_requests import BoundaryValues
from conformance.cases.reference_answers import error_class
from conformance.codec.builders import marker
from conformance.codec.log import last_offset
from conformance.codec.record_batch import BATCH_LAYOUT, HEADER_SIZE, stored_magic
from conformance.definitions.loader import shipped_types
from conformance.definitions.request_frames import MalformedFrame, request_named, response_frame
from conformance.live_brokers.connection import request_names
from conformance.semantics.format_conversion import NotConvertible, convert
from conformance.semantics.partition_log import appended_bytes, compact_batch
from conformance.semantics.producer_state import kafka_results
from conformance.targets.protocol import ERRORS

ERROR_CODES = {"corrupt": 2, "unsupported-codec": 76, "malformed": 87}
FATE_CODES = {"out-of-order": 45, "duplicate": 46, "fenced": 47}
API_VERSIONS, LARGEST = 18, 100 << 20
UNKNOWN_TOPIC, UNKNOWN_ID, OUT_OF_RANGE, FENCED, TOO_LARGE = 3, 100, 1, 90, 10
OFFERED = {
    **{"ApiVersions": (0, 0), "Metadata": (0, 12), "CreateTopics": (2, 7), "DeleteTopics": (1, 6)},
    **{"SaslHandshake": (0, 1), "SaslAuthenticate": (0, 2)},
    **{"Produce": (0, 9), "Fetch": (0, 12), "InitProducerId": (0, 4), "FindCoordinator": (1, 4)},
    **{"AddPartitionsToTxn": (0, 3), "EndTxn": (0, 3), "JoinGroup": (0, 9)},
    **{"ListOffsets": (1, 7), "DeleteRecords": (0, 2)},
}
SETTINGS = {
    **{"compression.type": "compressionType", "message.timestamp.type": "timestampType"},
    **{"cleanup.policy": "cleanup", "max.message.bytes": "maxMessageBytes"},
    **{"retention.ms": "retention", "delete.retention.ms": "deleteRetention"},
}
assert set(ERROR_CODES) < set(ERRORS)


def checked(data, _settings):
    """Return the error code for bytes, 0 to accept them: each record needs an offset, as in Apache Kafka."""
    read = codec.decode("RECORD_BATCH", data)
    if not read.ok:
        return ERROR_CODES.get(error_class(read.violations[0]), 87)
    if read.consumed < len(data):
        return 87
    # `fate` checks sequences.
    return 0 if 0 < read.value["recordCount"] == read.value["lastOffsetDelta"] + 1 else 87


def raised(data):
    """Return the batch of a message set, and the error code, 0 for none."""
    read = codec.decode("MESSAGE_SET", data)
    if not read.ok:
        return data, ERROR_CODES.get(error_class(read.violations[0]), 87)
    try:
        made = convert(data, 2, 0)
    except (codec.Unencodable, NotConvertible):
        return data, 87
    return made, 0 if isinstance(append_question({"hex": data}).expect, ExpectAppend) else 87


def lowered(data, magic):
    """Return the records for a fetch with a lower magic; None without a conversion."""
    try:
        return convert(data, magic)
    except codec.Unencodable:
        return None


def stored(batch, offset, settings):
    return appended_bytes(batch, offset, settings)


def told(offset):
    return offset


def fate(batches):
    """Return the result of the last batch sent to a log."""
    return kafka_results(batches)[-1]


def cleaned(batch, kept, horizon=None):
    """Return a batch after compaction."""
    return compact_batch(batch, kept, delete_horizon=horizon)


@dataclass(frozen=True)
class Ways:
    """The actions of a broker; a faulty one has another function for one of them."""

    checked: object = checked
    stored: object = stored
    raised: object = staticmethod(raised)
    """The conversion of a message set."""
    lowered: object = staticmethod(lowered)
    """The conversion of batches for a fetch with a lower magic."""
    carries: object = staticmethod(max_magic_of_fetch)
    """The highest magic of a version of Fetch."""
    is_too_large: object = staticmethod(lambda size, limit: size > limit)
    together: object = staticmethod(lambda told: told)
    """The response to a write of several partitions."""
    told: object = told
    fate: object = fate
    fate_codes: dict = field(default_factory=lambda: FATE_CODES)
    """The error codes of results."""
    served: object = staticmethod(lambda batch: [batch])
    """The served batches of an accepted one."""
    keeps_refused: bool = False
    kept: object = staticmethod(lambda stored, _: stored)
    """The bytes in its segment for stored batches; none after a rejection."""
    offered: dict = field(default_factory=lambda: OFFERED)
    topic_error: int = 0
    """The error code for every topic creation."""
    deletion_error: int = 0
    """The error code for every topic deletion."""
    answers: object = staticmethod(lambda _, frame: frame)
    """The sent bytes of a response frame; None closes the connection."""
    refuses_versions: bool = True
    """True if an unsupported ApiVersions request gets UNSUPPORTED_VERSION."""
    unreadable: object = staticmethod(lambda _, __: None)
    """The sent bytes for an unreadable frame, by broker and frame; None closes the connection."""
    identity: object = staticmethod(lambda number: number)
    """The producer id of the producer with a number."""
    fences: bool = True
    epoch_rises: bool = True
    marks: object = staticmethod(marker)
    """The marker batch of a transaction, or None."""
    holds_back: object = staticmethod(min)
    """The last stable offset, from the first offsets of open transactions."""
    lists: object = staticmethod(lambda listed: listed)
    """The listed aborted transactions, from the expected ones."""
    whole: bool = True
    """True if the first batch is returned for any size limit."""
    inside: bool = True
    """True if a fetch from inside a batch returns that batch."""
    ends: bool = True
    """True if a fetch beyond the end is rejected."""
    cleaned: object = staticmethod(cleaned)
    forgets: object = staticmethod(lambda gone, _: gone)
    """The tombstone offsets that compaction removes, from the expired ones and from all."""
    is_gone: object = staticmethod(lambda is_aborted: is_aborted)
    """True if compaction removes a batch; the argument is True for an aborted one."""
    begins: bool = True
    """True if a fetch below the log start is rejected."""
    fills: bool = True
    """True if a fetch from a compacted offset returns the following records."""
    low: object = staticmethod(lambda start: start)
    """The log start offset in a fetch response."""
    earliest: object = staticmethod(lambda start: start)
    """The log start offset in ListOffsets."""
    timed: object = staticmethod(
        lambda records, start, time: next((one for one in records if one[0] >= start and one[1] >= time), (-1, -1))
    )
    """Offset and timestamp for a ListOffsets by time, from those of the log and its start."""
    append_time: object = staticmethod(lambda time: time)
    """The returned append time, from the expected one."""
    acknowledges: object = staticmethod(lambda acks: acks != 0)
    """True if a produce request gets a response."""
    deleted: object = staticmethod(lambda _: None)
    """A further action on a log after DeleteRecords."""
    restarted: object = staticmethod(lambda _: None)
    """An action on each log at a restart."""


@dataclass
class Log:
    """The log of a partition."""

    settings: dict
    id: bytes = field(default_factory=lambda: uuid4().bytes)
    start: int = 0
    end: int = 0
    batches: list = field(default_factory=list)
    """The offset after each batch, and its served bytes."""
    sent: list = field(default_factory=list)
    firsts: dict = field(default_factory=dict)
    """The offsets of the batches of producers."""
    undecided: dict = field(default_factory=dict)
    """The first offset of each open transaction, by producer id."""
    aborted: list = field(default_factory=list)
    """Producer id, first offset and marker offset of each aborted transaction."""
    others: dict = field(default_factory=dict)
    """The further partitions of the topic, by index."""

    def partition(self, index):
        return self.others[index] if index else self

    def append(self, data, ways, version=9):
        """Append bytes or reject them; return the error code and the offset of the response."""
        if ways.is_too_large(len(data), int(self.settings.get("maxMessageBytes", LARGEST))):
            return TOO_LARGE, -1
        error = 0
        if stored_magic(data) in (0, 1):
            data, error = ways.raised(data) if version < 3 else (data, ERROR_CODES["malformed"])
        error = error or ways.checked(data, self.settings)
        batch = codec.decode("RECORD_BATCH", data).value
        known = None
        if not error and batch is not None:
            known = (batch["producerId"], batch["producerEpoch"], batch["baseSequence"])
            self.sent.append(batch)
            became = ways.fate(self.sent)
            if became == "duplicate" and known in self.firsts:
                return 0, self.firsts[known]
            error = ways.fate_codes.get(became, 0)
        if error and not ways.keeps_refused:
            return error, -1
        offset = self.end
        try:
            kept = raw(data, offset) if error or batch is None else ways.stored(batch, offset, self.settings)
        except codec.Unencodable:
            return ERROR_CODES["malformed"], -1
        self.firsts.setdefault(known, offset)
        self.end += max(1, BATCH_LAYOUT.read_field("lastOffsetDelta", data) + 1) if len(data) >= HEADER_SIZE else 1
        self.batches += [(self.end, one) for one in ways.served(kept)]
        if not error and batch is not None and batch["isTransactional"] and not batch["isControlBatch"]:
            self.undecided.setdefault(batch["producerId"], offset)
        is_compacted = "deleteRetention" in self.settings
        if not error and is_compacted and batch is not None and batch["records"][0]["key"] == b"filler":
            self.compact(ways)
        return error, -1 if error else ways.told(offset)

    def decide(self, identity, epoch, ways, *, commit):
        """Write the marker of a transaction with batches in this log."""
        first = self.undecided.pop(identity, None)
        made = ways.marks(identity, epoch, commit=commit)
        if first is None or made is None:
            return
        if not commit:
            self.aborted.append((identity, first, self.end))
        self.batches.append((self.end + 1, appended_bytes(made, self.end, {})))
        self.end += 1

    def stable(self, ways):
        """Return the last stable offset."""
        return ways.holds_back(self.undecided.values()) if self.undecided else self.end

    def listed(self, offset, ways):
        """Return the aborted transactions with a marker at or after an offset."""
        expected = [{"ProducerId": one, "FirstOffset": first} for one, first, at in self.aborted if at >= offset]
        return ways.lists(expected)

    def served(self, offset, most, ways, stop):
        """Return the batches from the one with an offset up to another: limited in bytes, but at least one batch."""
        data = b""
        for end, batch in self.batches:
            base = struct.unpack_from(">q", batch)[0]
            is_due = end > offset and base < stop and (ways.inside or base >= offset)
            if is_due and ((not data and ways.whole) or len(data) + len(batch) <= most):
                data += batch
        return data

    def compact(self, ways):
        """Compact all batches except the last: keep the last record of each key, and tombstones for a while."""
        whole = [codec.decode("RECORD_BATCH", data).value for _, data in self.batches]
        data = [one for one in whole if not one["isControlBatch"] and not ways.is_gone(self._is_aborted(one))]
        last = {record["key"]: record["offset"] for batch in data for record in batch["records"]}
        null = nulls(data)
        now = int(time.time() * 1000)
        over = nulls(one for one in data if one["hasDeleteHorizonMs"] and one["baseTimestamp"] <= now)
        markers = {one["baseOffset"] for one in whole if one["isControlBatch"]}
        kept = frozenset({*last.values(), *markers} - ways.forgets(over, null))
        horizon = now + int(self.settings.get("deleteRetention", 0))
        late = (null | {at for _, _, at in self.aborted}) & kept
        left = [ways.cleaned(one, kept, horizon if late & offsets(one) else None) for one in whole]
        kept = [one for one in left if one["records"] or one["producerId"] >= 0]
        self.batches = [(last_offset(one) + 1, codec.wire("RECORD_BATCH").encode(one)) for one in kept]

    def _is_aborted(self, batch):
        own = [(first, at) for one, first, at in self.aborted if one == batch["producerId"]]
        return batch["isTransactional"] and any(first <= batch["baseOffset"] < at for first, at in own)

    def delete(self, before, ways):
        """Delete all records before an offset."""
        self.start = max(self.start, before)
        ways.deleted(self)

    def holds(self, offset):
        """Return True if a batch contains an offset, or if it is the log end."""
        return offset == self.end or any(struct.unpack_from(">q", one)[0] <= offset < end for end, one in self.batches)


def offsets(batch):
    """Return the offsets of the records of a batch."""
    return {record["offset"] for record in batch["records"]}


def nulls(batches):
    """Return the offsets of records with a null value."""
    return {record["offset"] for one in batches for record in one["records"] if record["value"] is None}


def raw(data, offset):
    """Return bytes with only a new offset, like a broker without checks."""
    return struct.pack(">q", offset) + data[8:]


class ModelBroker:
    """A broker on a free port; a context manager. `sends(request, frame)` returns the bytes to send.

    It returns None to close the connection.
    """

    def __init__(self, ways=None, sends=lambda _, frame: frame, tls=None, login=None, log_dir=None):
        self.ways, self.sends = ways or Ways(), sends
        self.tls, self.login = tls, login
        """The TLS context of its listener, and the accepted SASL/PLAIN bytes; None without."""
        self.log_dir = log_dir
        """The folder of segments, one subfolder per partition, or None."""
        self.logs = {}
        self.failing = 0
        """The error code of every fetch."""
        self.served = None
        """The records of every fetch instead of the log."""
        self.silent_on = ""
        """The request with a response without partitions."""
        self.advertised = None
        """The advertised address."""
        self.newest = {}
        """Producer id and epoch, by transactional id."""
        self.given = 4000
        self.asked = Counter()
        self.versions = set()
        self._lock = threading.Lock()
        self._open = set()
        self._server = None
        self.port = 0

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def start(self):
        """Listen on the same port as before."""
        broker = self

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                broker._open.add(self.request)
                with suppress(OSError, EOFError), broker._safe(self.request) as connection:
                    broker._open.add(connection)
                    broker._converse(connection)

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address, daemon_threads, block_on_close = True, True, False

        self._server = Server(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def stop(self):
        """Stop listening, and close all connections."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()
            self._server = None
        for connection in tuple(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._open.clear()

    def _safe(self, connection):
        """Return the connection, with TLS if configured."""
        return connection if self.tls is None else self.tls.wrap_socket(connection, server_side=True)

    def _converse(self, connection):
        is_in = self.login is None
        while True:
            (size,) = struct.unpack(">i", take(connection, 4))
            frame = take(connection, size) if 0 <= size <= LARGEST else b""
            request = self._request(frame)
            if request is None:
                sent = self._of_unreadable(frame)
                if sent is None:
                    shut(connection)
                    return
                connection.sendall(sent)
                continue
            version, correlation = request.version, request.header["CorrelationId"]
            self.versions.add((request.name, version))
            if not is_in and request.name not in ("ApiVersions", "SaslHandshake", "SaslAuthenticate"):
                return
            with self._lock:
                self.asked[request.name] += 1
                body = getattr(self, "_" + request.name, plain_body)(request)
            is_in = is_in or (request.name == "SaslAuthenticate" and not body["ErrorCode"])
            if request.name == self.silent_on:
                body = {"Responses": []}
            if request.name == "Produce" and not self.ways.acknowledges(request.body["Acks"]):
                continue
            answer = response_frame(correlation, request.name, version, body)
            sent = self.ways.answers(request, framed(answer))
            sent = None if sent is None else self.sends(request, sent)
            if sent is None:
                shut(connection)
                return
            connection.sendall(sent)

    def hang(self):
        """Stop answering requests."""
        self._lock.acquire()

    def _request(self, frame):
        """Return the request of a frame; None for an unreadable or unsupported one."""
        try:
            key, version, _ = struct.unpack_from(">hhi", frame)
            name = request_names()[key]
            low, high = self.ways.offered[name]
            return request_named(name, version, frame) if low <= version <= high else None
        except (struct.error, KeyError, MalformedFrame):
            return None

    def _of_unreadable(self, frame):
        """Return the response to an unreadable frame: for unsupported ApiVersions the error in version 0."""
        key, version, correlation = struct.unpack_from(">hhi", frame.ljust(8, b"\xff"))
        is_other = not self.ways.offered["ApiVersions"][0] <= version <= self.ways.offered["ApiVersions"][1]
        if key == API_VERSIONS and is_other and self.ways.refuses_versions:
            return framed(response_frame(correlation, "ApiVersions", 0, {"ErrorCode": 35, "ApiKeys": []}))
        return self.ways.unreadable(self, frame)

    # --- the answers ---

    def _ApiVersions(self, _):  # noqa: N802
        keys = {name: key for key, name in request_names().items()}
        rows = [{"ApiKey": keys[name], "MinVersion": low, "MaxVersion": high}
                for name, (low, high) in self.ways.offered.items()]  # fmt: skip
        return {"ErrorCode": 0, "ApiKeys": rows}

    def _SaslHandshake(self, request):  # noqa: N802
        is_known = self.login is not None and request.body["Mechanism"] == "PLAIN"
        return {"ErrorCode": 0 if is_known else 33, "Mechanisms": ["PLAIN"] if self.login else []}

    def _SaslAuthenticate(self, request):  # noqa: N802
        is_right = request.body["AuthBytes"] == self.login
        told = None if is_right else "Authentication failed: Invalid username or password"
        return {"ErrorCode": 0 if is_right else 58, "ErrorMessage": told, "AuthBytes": b""}

    def _Metadata(self, request):  # noqa: N802
        rows = []
        asked = request.body["Topics"]
        is_of_all = asked is None or (not asked and request.version == 0)
        for name in [*self.logs] if is_of_all else [self._name(row) for row in asked]:
            if "CreateTopics" not in self.ways.offered and request.body.get("AllowAutoTopicCreation", True):
                self.logs.setdefault(name, Log({}))
            log = self.logs.get(name)
            part = {"ErrorCode": 0, "LeaderId": 1, "ReplicaNodes": [1], "IsrNodes": [1]}
            parts = [] if log is None else [{**part, "PartitionIndex": index} for index in (0, *log.others)]
            known = {"ErrorCode": UNKNOWN_TOPIC} if log is None else {"TopicId": log.id}
            rows.append({"ErrorCode": 0, "Name": name, "Partitions": parts, **known})
        host, port = self.advertised or ("127.0.0.1", self.port)
        node = {"NodeId": 1, "Host": host, "Port": port}
        return {"Brokers": [node], "ControllerId": 1, "ClusterId": "model", "Topics": rows}

    def _name(self, row):
        """Return the name of a topic, given by name or id."""
        named = (name for name, log in self.logs.items() if log.id == row["TopicId"]) if row["Name"] is None else ()
        return row["Name"] if row["Name"] is not None else next(iter(named), "")

    def _CreateTopics(self, request):  # noqa: N802
        rows = []
        for row in request.body["Topics"]:
            given = {SETTINGS[entry["Name"]]: entry["Value"] for entry in row["Configs"] if entry["Name"] in SETTINGS}
            if given.get("compressionType") == "uncompressed":
                given["compressionType"] = "none"
            if not self.ways.topic_error:
                others = {index: Log(given) for index in range(1, row["NumPartitions"])}
                self.logs[row["Name"]] = Log(given, others=others)
            rows.append({"Name": row["Name"], "ErrorCode": self.ways.topic_error, "ErrorMessage": None})
        return {"Topics": rows}

    def _DeleteTopics(self, request):  # noqa: N802
        names = request.body.get("TopicNames") or [row["Name"] for row in request.body["Topics"]]
        if not self.ways.deletion_error:
            for name in names:
                del self.logs[name]
        return {"Responses": [{"Name": name, "ErrorCode": self.ways.deletion_error} for name in names]}

    def _Produce(self, request):  # noqa: N802
        rows = []
        for row in request.body["TopicData"]:
            named, log, unknown = self._log(row, "Name")
            told = [self._written(part, log and log.partition(part["Index"]), unknown, request)
                    for part in row["PartitionData"]]  # fmt: skip
            rows.append({**named, "PartitionResponses": self.ways.together(told)})
        return {"Responses": rows}

    def _written(self, part, log, unknown, request):
        """Return the response to the data for one partition."""
        data, before = part["Records"] or b"", len(log.batches) if log else 0
        error, offset = (
            unknown if log is None else FENCED * self._is_fenced(request.body.get("TransactionalId"), data),
            -1,
        )
        if not error:
            error, offset = log.append(data, self.ways, request.version)
        if self.log_dir is not None and log is not None:
            self._keep(log, [batch for _, batch in log.batches[before:]], data)
        due = 0 if not error and log.settings.get("timestampType") == "LogAppendTime" else -1
        time = self.ways.append_time(due)
        return {"Index": part["Index"], "ErrorCode": error, "BaseOffset": offset, "LogAppendTimeMs": time}

    def _keep(self, log, batches, sent):
        """Write batches to the segment of a log with `Ways.kept`."""
        places = ((name, index, one.partition(index)) for name, one in self.logs.items() for index in (0, *one.others))
        name, index = next((name, index) for name, index, one in places if one is log)
        folder = self.log_dir / f"{name}-{index}"
        folder.mkdir(exist_ok=True)
        with (folder / f"{0:020d}.log").open("ab") as file:
            file.write(self.ways.kept(b"".join(batches), sent))

    def _Fetch(self, request):  # noqa: N802
        rows = []
        for row in request.body["Topics"]:
            named, whole, unknown = self._log(row, "Topic")
            for part in row["Partitions"]:
                log = whole and whole.partition(part["Partition"])
                shown = {
                    "PartitionIndex": part["Partition"],
                    "HighWatermark": -1 if log is None else log.end,
                    "Records": b"",
                }
                if log is None or self.failing:
                    shown["ErrorCode"] = self.failing or unknown
                elif self.served is not None:
                    shown |= {"ErrorCode": 0, "Records": self.served}
                elif self._is_outside(log, part["FetchOffset"]):
                    shown["ErrorCode"] = OUT_OF_RANGE
                else:
                    shown |= self._part(log, part["FetchOffset"], part["PartitionMaxBytes"], request)
                rows.append({**named, "Partitions": [shown]})
        return {"Responses": rows}

    def _is_outside(self, log, offset):
        """Return True if a fetch is out of range."""
        is_behind, is_before = offset > log.end and self.ways.ends, offset < log.start and self.ways.begins
        return is_behind or is_before or (not self.ways.fills and not log.holds(offset))

    def _DeleteRecords(self, request):  # noqa: N802
        rows = []
        for row in request.body["Topics"]:
            log, parts = self.logs[row["Name"]], []
            for part in row["Partitions"]:
                log.delete(part["Offset"], self.ways)
                parts.append({**part, "LowWatermark": self.ways.low(log.start), "ErrorCode": 0})
            rows.append({**row, "Partitions": parts})
        return {"Topics": rows}

    def _ListOffsets(self, request):  # noqa: N802
        rows = []
        for row in request.body["Topics"]:
            log = self.logs.get(row["Name"])
            if log is not None and log.settings.get("retention") == "1":
                log.delete(log.end, self.ways)
            told = [
                {**part, "ErrorCode": UNKNOWN_TOPIC if log is None else 0,
                 **dict(zip(("Offset", "Timestamp"), self._found(log, part["Timestamp"]), strict=True))}
                for part in row["Partitions"]
            ]  # fmt: skip
            rows.append({**row, "Partitions": told})
        return {"Topics": rows}

    def _found(self, log, time):
        """Return offset and timestamp for a ListOffsets by time, or the special values for the ends of the log."""
        if log is None:
            return -1, -1
        if time < 0:
            return log.end if time == -1 else self.ways.earliest(log.start), -1
        records = [record for _, data in log.batches for record in codec.decode("RECORD_BATCH", data).value["records"]]
        return self.ways.timed([(one["offset"], one["timestamp"]) for one in records], log.start, time)

    def restart(self):
        """Restart with the stored logs."""
        self.stop()
        for log in self.logs.values():
            self.ways.restarted(log)
        self.start()

    def _part(self, log, offset, most, request):
        """Return the part of a log for a fetch."""
        is_committed, stable = request.body.get("IsolationLevel"), log.stable(self.ways)
        shown = {"ErrorCode": 0, "LastStableOffset": stable, "LogStartOffset": log.start}
        shown["Records"] = log.served(offset, most, self.ways, stable if is_committed else log.end)
        if (magic := self.ways.carries(request.version)) < 2 and shown["Records"]:
            shown["Records"] = self.ways.lowered(shown["Records"], magic)
            if shown["Records"] is None:
                return {"ErrorCode": ERROR_CODES["unsupported-codec"]}
        return {**shown, "AbortedTransactions": log.listed(offset, self.ways)} if is_committed else shown

    def _InitProducerId(self, request):  # noqa: N802
        named = request.body["TransactionalId"]
        known = self.newest.get(named) if named is not None else None
        if known is None:
            self.given += 1
        identity, epoch = known or (self.ways.identity(self.given), -1)
        epoch += bool(self.ways.epoch_rises or known is None)
        if named is not None:
            self.newest[named] = identity, epoch
        for log in self.logs.values():
            log.decide(identity, epoch, self.ways, commit=False)
        return {"ErrorCode": 0, "ProducerId": identity, "ProducerEpoch": epoch}

    def _is_fenced(self, named, data):
        """Return True for a batch of an older producer instance."""
        batch = codec.decode("RECORD_BATCH", data).value if named is not None and self.ways.fences else None
        return batch is not None and self.newest.get(named) != (batch["producerId"], batch["producerEpoch"])

    def _FindCoordinator(self, request):  # noqa: N802
        node = {"ErrorCode": 0, "NodeId": 1, "Host": "127.0.0.1", "Port": self.port}
        keys = request.body.get("CoordinatorKeys", ())
        return node if request.version < 4 else {"Coordinators": [{**node, "Key": key} for key in keys]}

    def _AddPartitionsToTxn(self, request):  # noqa: N802
        topics = request.body["V3AndBelowTopics"]
        parts = [{"PartitionIndex": 0, "PartitionErrorCode": 0}]
        return {"ResultsByTopicV3AndBelow": [{"Name": row["Name"], "ResultsByPartition": parts} for row in topics]}

    def _EndTxn(self, request):  # noqa: N802
        body = request.body
        identity = body["ProducerId"], body["ProducerEpoch"]
        if self.newest.get(body["TransactionalId"]) != identity and self.ways.fences:
            return {"ErrorCode": FENCED}
        for log in self.logs.values():
            log.decide(*identity, self.ways, commit=body["Committed"])
        return {"ErrorCode": 0}

    def _log(self, row, key):
        """Return the topic key of a row, its log, and the error code without a log."""
        if "TopicId" in row:
            log = next((log for log in self.logs.values() if log.id == row["TopicId"]), None)
            return {"TopicId": row["TopicId"]}, log, UNKNOWN_ID
        return {key: row[key]}, self.logs.get(row[key]), UNKNOWN_TOPIC


def plain_body(request):
    """Return a response to a request without an effect here."""
    message = shipped_types().messages[f"{request.name}Response"]
    return BoundaryValues(message, request.version, {}).plain()


def framed(answer):
    """Return a response with its size."""
    return struct.pack(">i", len(answer)) + answer


def shut(connection):
    """Close a connection immediately, even if another thread uses it."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


def take(connection, count):
    """Return a number of bytes from a connection. Raises EOFError or OSError."""
    taken = b""
    while len(taken) < count:
        part = connection.recv(count - len(taken))
        if not part:
            raise EOFError
        taken += part
    return taken
