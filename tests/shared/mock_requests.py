"""Requests to a mock broker without a socket, about its topic `t`."""

from tiny_client import frame, response


def send_request(broker, name, version, body):
    return response(name, version, broker.respond(frame(name, version, body, client="t")[4:]).frame)[1]


def fetch(broker, offset=0, session=(0, -1)):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1}
    topics = ({"Topic": "t", "Partitions": (part,)},) if offset is not None else ()
    body = {"MaxWaitMs": 1, "MinBytes": 1, "SessionId": session[0], "SessionEpoch": session[1], "Topics": topics}
    return send_request(broker, "Fetch", 12, {**body, "ForgottenTopicsData": ()})


def partition(answer):
    return answer["Responses"][0]["Partitions"][0]
