"""A small Kafka consumer: it fetches in one version, and the reference computes the application's records."""

import json
import socket
import struct
import sys
import time

from conformance import codec
from conformance.codec.message_spec import header_version, type_name
from conformance.definitions.loader import shipped_types
from conformance.targets.reference import answer

END = b"conformance.end".hex()


def write_line(**fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def wire(name, version):
    return shipped_types().wire(type_name(name, version))


def frame(name, version, body, correlation=1, client="tiny"):
    message = shipped_types().messages[f"{name}Request"]
    header = {"RequestApiKey": message.api_key, "RequestApiVersion": version, "CorrelationId": correlation}
    data = codec.encode(wire("RequestHeader", header_version(message, version)), {**header, "ClientId": client})
    data += codec.encode(wire(message.name, version), body)
    return struct.pack(">i", len(data)) + data


def response(name, version, frame):
    """Return the correlation id and the body of a response."""
    message = shipped_types().messages[f"{name}Response"]
    header = codec.decode(wire("ResponseHeader", header_version(message, version)), frame)
    body = codec.decode(wire(message.name, version), frame[header.consumed :])
    assert body.ok
    assert header.consumed + body.consumed == len(frame)
    return header.value["CorrelationId"], body.value


MAX_RECONNECTS = 20
"""Maximum number of reconnects to read one topic."""


class BadSize(Exception):
    """An invalid size before a response."""


class Connection:
    version = 4
    """Version of Fetch."""

    def __init__(self, bootstrap, client="tiny"):
        self.client = client
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def ask(self, name, version, body):
        self.socket.sendall(frame(name, version, body, client=self.client))
        size = struct.unpack(">i", self.exactly(4))[0]
        return response(name, version, self.exactly(size))[1]

    def exactly(self, size):
        if size < 0:
            raise BadSize
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed")
            data += chunk
        return data

    def fetch(self, line, offset):
        partition = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
        body = {
            "ReplicaId": -1,
            "MaxWaitMs": 100,
            "MinBytes": 1,
            **({"IsolationLevel": int(line["isolation"] == "read_committed")} if self.version >= 4 else {}),
            "Topics": ({"Topic": line["topic"], "Partitions": (partition,)},),
        }
        topics = self.ask("Fetch", self.version, body)["Responses"]
        return topics[0]["Partitions"][0] if topics else {"Records": None}


def leading(line, connection):
    """Return a connection to the leader of a topic."""
    found = connection.ask("Metadata", 1, {"Topics": ({"Name": line["topic"]},)})
    leader = found["Topics"][0]["Partitions"][0]["LeaderId"]
    (node,) = [row for row in found["Brokers"] if row["NodeId"] == leader]
    return Connection(f"{node['Host']}:{node['Port']}")


def beginning(line, connection, offset):
    """Return the log start of a topic, or the given offset if the broker does not return it."""
    rows = ({"Name": line["topic"], "Partitions": ({"PartitionIndex": 0, "Timestamp": -2},)},)
    answer = connection.ask("ListOffsets", 1, {"ReplicaId": -1, "Topics": rows})
    (found,) = answer["Topics"][0]["Partitions"]
    return offset if found["ErrorCode"] else found["Offset"]


def consume(line):
    """Report all records of a topic, like a correct consumer."""
    connection, offset, ends = Connection(line["bootstrap"]), int(line["offset"]), 0
    while True:
        try:
            part = connection.fetch(line, offset)
        except (BadSize, OSError):
            ends += 1
            if ends > MAX_RECONNECTS:
                raise
            time.sleep(0.1)
            connection = Connection(line["bootstrap"])
            continue
        if part.get("ErrorCode") == 6:
            connection = leading(line, connection)
        if part.get("ErrorCode") == 1:
            offset = beginning(line, connection, offset)
            continue
        listed = [
            {"producerId": str(row["ProducerId"]), "firstOffset": str(row["FirstOffset"])}
            for row in part.get("AbortedTransactions") or ()
        ]
        request = {"hex": (part["Records"] or b"").hex(), "isolation": line["isolation"], "fetchOffset": str(offset)}
        seen = answer({"op": "read", **request, "aborted": listed})["value"]
        for record in seen["records"]:
            write_line(topic=line["topic"], record=record)
            if record["key"] == END:
                return write_line(topic=line["topic"], end=True)
        if "error" in seen:
            return write_line(topic=line["topic"], error=seen["error"], message="damaged")
        offset = int(seen["nextOffset"])
        if offset >= 1 << 63:
            return write_line(topic=line["topic"], error="other", message="no fetch can begin there")


def lines():
    """Yield the lines of the suite; consume the initial check topics here."""
    write_line(version="1")
    for line in map(json.loads, sys.stdin):
        if line["topic"].startswith("baseline"):
            consume(line)
        else:
            yield line
