"""Clients and brokers with unusual responses: partial responses, fetch sessions, closed connections."""

import pytest
from live_runs import BRIEF, judged, tiny

pytestmark = pytest.mark.integration

PIECES, NULL, THROTTLED, SESSION, RESET, UNKNOWN, UNDECIDED, NO_LEADER, OLDER, LOST = CASES = tuple(
    f"request/{name}"
    for name in (
        *("answers-in-pieces", "null-records", "throttled", "fetch-session", "offset-out-of-range", "unknown-error"),
        *("undecided", "no-leader", "broker-older", "fetch-session-lost"),
    )
)
ALONE = (SESSION, LOST, OLDER)
"""Options for clients that work with the full offer."""
ONE_READ = """
def exactly(self, size):
    data = self.socket.recv(size)
    if len(data) < size: raise ValueError("an answer was cut")
    return data
Connection.exactly = exactly
"""
NEVER_NULL = """
fetched = Connection.fetch
def fetch(self, line, offset):
    part = fetched(self, line, offset)
    if "HighWatermark" in part: len(part["Records"])
    return part
Connection.fetch = fetch
"""
SOME_TOPIC = """
original = Connection.ask
def ask(self, name, version, body):
    found = original(self, name, version, body)
    while name == "Fetch" and not found["Responses"]: time.sleep(0.1)
    return found
Connection.ask = ask
import time
"""
AFTER = """
fetched = Connection.fetch
def fetch(self, line, offset):
    part = fetched(self, line, offset)
    {}
    return part
Connection.fetch = fetch
"""
KNOWS_ALL = AFTER.format("dict.fromkeys((0, 1, 6, 9, 56))[part.get('ErrorCode', 0)]")
TO_THE_END = AFTER.format("if part.get('LastStableOffset') == 0: raise RuntimeError('records were lost')")
GAPS = """
fetched = Connection.fetch
def fetch(self, line, offset):
    part = fetched(self, line, offset)
    return fetched(self, line, 1) if part.get("LastStableOffset") == 0 else part
Connection.fetch = fetch
"""
AT_ITS_WORD = """
fetched, Connection.begins_at = Connection.fetch, None
def fetch(self, line, offset):
    part = fetched(self, line, offset if self.begins_at is None else self.begins_at)
    if part.get("ErrorCode") == 1: self.begins_at = -1
    return part
Connection.fetch = fetch
"""
LED_AT_ONCE = """
consumed = consume
def consume(line):
    topic = {"Name": line["topic"]}
    (row,) = Connection(line["bootstrap"]).ask("Metadata", 1, {"Topics": (topic,)})["Topics"]
    if row["Partitions"][0]["LeaderId"] < 0: raise IndexError("node -1")
    consumed(line)
"""
NEEDS_METADATA_13 = """
consumed = consume
def consume(line):
    connection = Connection(line["bootstrap"])
    client = {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"}
    connection.socket.sendall(frame("ApiVersions", 4, client))
    data = connection.exactly(struct.unpack(">i", connection.exactly(4))[0])
    keys = response("ApiVersions", 0 if data[4:6] == b"\\0\\x23" else 4, data)[1]["ApiKeys"]
    if not any(row["ApiKey"] == 3 for row in keys): connection.ask("Metadata", 13, {"Topics": ()})
    consumed(line)
"""
ONCE = """
from pathlib import Path
fetched, marker = Connection.fetch, Path(__file__).with_name("raised")
def fetch(self, line, offset):
    part = fetched(self, line, offset)
    if part["Records"] is None and not marker.exists():
        marker.touch()
        raise TypeError("once")
    return part
Connection.fetch = fetch
"""


@pytest.fixture
def run(tmp_path, traces):
    """Return a function that runs a changed client and returns the rows of its report by case."""

    def start(change="", offers="bare", cases=CASES):
        program = f"{change}\nfor line in lines(): consume(line)\n"
        return judged(tiny(tmp_path, program, versions=offers), tmp_path, traces.env, *cases, op="send", limits=BRIEF)

    yield start
    assert traces.left() == []


SESSIONS = """
Connection.version, Connection.session, Connection.epoch, Connection.known = 12, 0, 0, None
def fetch(self, line, offset):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    topics = ({"Topic": line["topic"], "Partitions": (part,)},) if offset != self.known else ()
    body = {"MaxWaitMs": 100, "MinBytes": 1, "IsolationLevel": 0, "Topics": topics, "ForgottenTopicsData": ()}
    answer = self.ask("Fetch", 12, {**body, "SessionId": self.session, "SessionEpoch": self.epoch})
    self.session = answer["SessionId"]
    self.known, self.epoch = (offset, NEXT_EPOCH) if self.session else (None, 0)
    rows = [part for row in answer["Responses"] for part in row["Partitions"]]
    return rows[0] if rows else NOTHING
Connection.fetch = fetch
"""
HONEST = SESSIONS.replace("NEXT_EPOCH", "self.epoch + 1").replace("NOTHING", '{"Records": None}')
STUCK = SESSIONS.replace("NEXT_EPOCH", "1").replace("NOTHING", '{"Records": None}')
NAMED_ALONE = HONEST.replace(
    "rows = [",
    """if not body["Topics"]: time.sleep(0.1)
    rows = [] if not body["Topics"] else [""",
)


@pytest.mark.parametrize("offers", ["bare", "low"])
def test_a_client_that_reads_partial_responses_and_continues_passes(run, offers):
    expected = dict.fromkeys(CASES, "pass") | {SESSION: "skip", LOST: "skip"}
    assert {case: row["verdict"] for case, row in run(offers=offers).items()} == expected


def test_a_client_that_fetches_in_a_session_passes(run):
    assert {case: row["verdict"] for case, row in run(HONEST, offers="full").items()} == dict.fromkeys(CASES, "pass")


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        (STUCK, "epoch 1 follows session epoch 1 in fetch session"),
        (NAMED_ALONE, "no fetch of a session begins after the first offset"),
    ],
    ids=["numbers all alike", "hears of what it named alone"],
)
def test_a_client_with_a_broken_fetch_session_is_found(run, change, detail):
    found = run(change, offers="full")[SESSION]
    assert (found["verdict"], found["level"], found["requirement"]) == ("fail", "should", "fetch.session")
    assert detail in found["detail"]


@pytest.mark.parametrize(
    ("change", "case", "verdict", "detail"),
    [
        (ONE_READ, PIECES, "crash", "an answer was cut"),
        (NEVER_NULL, NULL, "crash", "TypeError: object of type 'NoneType' has no len()"),
        (SOME_TOPIC, THROTTLED, "fail", "the client fetches no offset after the first one"),
        (KNOWS_ALL, UNKNOWN, "crash", "KeyError: 32000"),
        (TO_THE_END, UNDECIDED, "crash", "RuntimeError: records were lost"),
        (GAPS, UNDECIDED, "fail", "the next fetch skips this offset"),
        (AT_ITS_WORD, RESET, "fail", "the client fetches no offset after the first one"),
        (LED_AT_ONCE, NO_LEADER, "crash", "IndexError: node -1"),
    ],
    ids=[
        *("one read an answer", "records are never null", "some topic is there", "each code is known"),
        *("what is undecided is lost", "what is undecided is a gap", "a refused partition tells offsets"),
        "there is always a leader",
    ],
)
def test_a_client_that_relies_on_undocumented_behaviour_is_found(run, change, case, verdict, detail):
    found = run(change)
    assert found[case]["verdict"] == verdict
    assert detail in found[case]["detail"]
    assert {row["verdict"] for name, row in found.items() if name not in (case, SESSION, LOST)} == {"pass"}
    assert found[case]["level"] == ("must" if verdict == "crash" else "should")
    assert found[case]["requirement"] == {
        PIECES: "response.read-by-size",
        UNKNOWN: "response.unknown-error",
        RESET: "response.offset-out-of-range",
        NO_LEADER: "response.error-for-the-moment",
    }.get(case, "response.nothing-to-fetch")


ANY_ID = HONEST.replace("if self.session else (None, 0)", "")


@pytest.mark.parametrize(("change", "verdict"), [(HONEST, "pass"), (ANY_ID, "fail")], ids=["none", "a session"])
def test_a_client_that_uses_session_id_0_as_a_session_is_found(run, change, verdict):
    (row,) = run(change, offers="full", cases=("request/fetch-session-declined",)).values()
    assert (row["verdict"], row["requirement"]) == (verdict, "fetch.session")


def test_a_client_that_trusts_the_short_api_versions_error_response_is_found(run):
    found = run(HONEST + NEEDS_METADATA_13, offers="full")
    assert (found[OLDER]["verdict"], found[OLDER]["requirement"]) == ("crash", "api-versions.older-broker")
    assert {row["verdict"] for name, row in found.items() if name != OLDER} == {"pass"}


def test_a_client_that_fails_once_is_tested_again(run, tmp_path):
    assert run(ONCE)[NULL]["verdict"] == "pass"
    assert (tmp_path / "tiny" / "raised").exists()


UNANSWERED = """
consumed = consume
def consume(line):
    Connection(line["bootstrap"]).socket.sendall(frame("Metadata", 2, {"Topics": None}))
    consumed(line)
"""


def test_an_unhandled_request_is_no_failure_of_the_client(run):
    assert {row["verdict"] for name, row in run(UNANSWERED).items() if name not in ALONE} == {"skip"}


STAYS = """
tiny_client.leading = lambda line, connection: connection
"""


@pytest.mark.parametrize(("change", "verdict"), [("", "pass"), (STAYS, "fail")], ids=["follows", "stays"])
def test_a_client_that_keeps_fetching_from_the_old_leader_is_found(run, change, verdict):
    (row,) = run(change, cases=("request/leader-moved",)).values()
    assert (row["verdict"], row["level"], row["requirement"]) == (verdict, "should", "response.leader-elsewhere")


ENDED, RESTARTED = ENDS = ("request/connection-ended", "request/broker-restarted")


@pytest.mark.parametrize(
    ("most", "dies"), [(20, ()), (2, (RESTARTED,)), (0, ENDS)], ids=["comes back", "twice", "dies"]
)
def test_a_client_that_fails_after_a_closed_connection_is_found(run, most, dies):
    found = run(f"tiny_client.MAX_RECONNECTS = {most}", cases=ENDS)
    assert {case for case, row in found.items() if row["verdict"] == "crash"} == {*dies}
    assert {row["verdict"] for row in found.values()} <= {"pass", "crash"}
    assert {row["requirement"] for row in found.values()} == {"response.connection-ended"}


PLACES = ("request/place-valid", "request/place-valid-late", "request/place-refused", "request/epoch-raised")
ASKS = """
Connection.version = 12
def fetch(self, line, offset):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    topics = ({"Topic": line["topic"], "Partitions": (part,)},)
    answer = self.ask("Fetch", 12, {"MaxWaitMs": 100, "MinBytes": 1, "Topics": topics, "ForgottenTopicsData": ()})
    found = answer["Responses"][0]["Partitions"][0]
    return self.validated(line, offset) if found["ErrorCode"] == 6 else found
def validated(self, line, offset):
    self = tiny_client.leading(line, self)
    part = {"Partition": 0, "LeaderEpoch": 0}
    while True:
        topics = ({"Topic": line["topic"], "Partitions": (part,)},)
        told_of = self.ask("OffsetForLeaderEpoch", 3, {"ReplicaId": -1, "Topics": topics})["Topics"][0]["Partitions"][0]
        if told_of["ErrorCode"] in STAYS or told_of["EndOffset"] >= offset:
            return {**self.fetch(line, offset), "ErrorCode": 6}
        if told_of["ErrorCode"] not in AGAIN:
            return {**self.fetch(line, 3), "ErrorCode": 6}
Connection.fetch, Connection.validated = fetch, validated
"""


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (ASKS.replace("STAYS", "()").replace("AGAIN", "(29, 75)"), None),
        (ASKS.replace("STAYS", "(29, 75)").replace("AGAIN", "()"), None),
        (ASKS.replace("STAYS", "()").replace("AGAIN", "(75,)"), "request/place-refused"),
        (ASKS.replace("STAYS", "(29,)").replace("AGAIN", "()"), "request/place-valid-late"),
    ],
    ids=["asks again", "goes on", "passes over all of an error that stays", "passes over all of one that passes"],
)
def test_a_client_that_loses_its_offset_after_an_error_of_a_new_leader_is_found(run, change, lost):
    found = run(change, offers="full", cases=PLACES)
    assert {case for case, row in found.items() if row["verdict"] != "pass"} == {lost} - {None}
    if lost:
        row = found[lost]
        assert (row["verdict"], row["level"], row["requirement"]) == ("fail", "should", "response.place-valid")


OVER_ERRORS = (
    ASKS.replace("STAYS", "()").replace("AGAIN", "()").replace('{**self.fetch(line, 3), "ErrorCode": 6}', "SAID")
)


@pytest.mark.parametrize(
    ("message", "verdict"), [('{"Records": bytes(80)}', "skip"), ("{}[29]", "crash")], ids=["an error", "its death"]
)
def test_a_client_may_report_an_error_of_a_new_leader_but_must_not_crash(run, message, verdict):
    (row,) = run(OVER_ERRORS.replace("SAID", message), offers="full", cases=("request/place-refused",)).values()
    assert row["verdict"] == verdict
    assert ("the client reports to the application" if verdict == "skip" else "KeyError: 29") in row["detail"]


DIES_OF_SIZES = """
exactly = Connection.exactly
def whole(self, size):
    if size < 0: raise SystemExit("a size below 0")
    return exactly(self, size)
Connection.exactly = whole
"""


def test_a_client_that_crashes_on_a_negative_response_size_is_found(run):
    (row,) = run(DIES_OF_SIZES, cases=("request/size-below-zero",)).values()
    assert (row["verdict"], row["level"], row["requirement"]) == ("crash", "must", "response.size-below-zero")


DIES_OF_REPLICA = """
def fetch(self, line, offset):
    part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
    topics = ({"Topic": line["topic"], "Partitions": (part,)},)
    body = {"MaxWaitMs": 100, "MinBytes": 1, "IsolationLevel": 0, "Topics": topics, "RackId": "r"}
    found = self.ask("Fetch", 11, body)["Responses"][0]["Partitions"][0]
    if found["PreferredReadReplica"] > 0: raise SystemExit("another replica")
    return found
Connection.fetch = fetch
"""


def test_a_client_that_crashes_on_a_preferred_replica_is_found(run):
    (row,) = run(DIES_OF_REPLICA, offers="full", cases=("request/replica-preferred",)).values()
    assert (row["verdict"], row["level"], row["requirement"]) == ("crash", "must", "response.preferred-replica")
