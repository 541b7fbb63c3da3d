"""A Kafka consumer of a few lines: fetches in version 4, and lets the reference say what an application sees."""

import json
import socket
import struct
import sys

from conformance import codec
from conformance.codec.message_definition import type_name
from conformance.definitions.shipped import shipped_types
from conformance.targets.reference import answer

END = b"conformance.end".hex()


def say(**told):
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def wire(name, version):
    return shipped_types().wire(type_name(name, version))


def frame(name, version, body, correlation=1):
    key = shipped_types().messages[f"{name}Request"].api_key
    header = {"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": correlation, "ClientId": "tiny"}
    data = codec.encode(wire("RequestHeader", 1), header) + codec.encode(wire(f"{name}Request", version), body)
    return struct.pack(">i", len(data)) + data


class Connection:
    def __init__(self, bootstrap):
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)

    def ask(self, name, version, body):
        self.socket.sendall(frame(name, version, body))
        size = struct.unpack(">i", self.exactly(4))[0]
        return codec.decode(wire(f"{name}Response", version), self.exactly(size)[4:]).value

    def exactly(self, size):
        data = b""
        while len(data) < size:
            chunk = self.socket.recv(size - len(data))
            if not chunk:
                raise ConnectionError("closed")
            data += chunk
        return data

    def fetch(self, told, offset):
        partition = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
        body = {
            "ReplicaId": -1,
            "MaxWaitMs": 100,
            "MinBytes": 1,
            "IsolationLevel": int(told["isolation"] == "read_committed"),
            "Topics": ({"Topic": told["topic"], "Partitions": (partition,)},),
        }
        return self.ask("Fetch", 4, body)["Responses"][0]["Partitions"][0]


def consume(told):
    """Say all records of a topic, as an honest consumer hands them out."""
    connection, offset = Connection(told["bootstrap"]), int(told["offset"])
    while True:
        part = connection.fetch(told, offset)
        listed = [
            {"producerId": str(row["ProducerId"]), "firstOffset": str(row["FirstOffset"])}
            for row in part["AbortedTransactions"] or ()
        ]
        asked = {"hex": part["Records"].hex(), "isolation": told["isolation"], "fetchOffset": str(offset)}
        seen = answer({"op": "read", **asked, "aborted": listed})["value"]
        for record in seen["records"]:
            say(topic=told["topic"], record=record)
            if record["key"] == END:
                return say(topic=told["topic"], end=True)
        if "error" in seen:
            return say(topic=told["topic"], error=seen["error"], message="damaged")
        offset = int(seen["nextOffset"])
        if offset >= 1 << 63:
            return say(topic=told["topic"], error="other", message="no fetch can begin there")


def told():
    """The lines of the suite."""
    say(version="1")
    for line in sys.stdin:
        yield json.loads(line)
