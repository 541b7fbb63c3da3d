"""Clients in a consumer group: requests to its coordinator, and other members."""

import pytest
from live_runs import BRIEF, judged, tiny

pytestmark = pytest.mark.integration

BODY = """
import time

original = tiny_client.write_line
STEP, VERSION, EPOCH, KEPT = 0.02, 7, -1, {}

def written(what, value):
    return b"\\0\\3" + codec.encode(wire("ConsumerProtocol" + what, 3), value)

def read(what, data):
    version = min(int.from_bytes(data[:2], "big"), 3)
    return codec.decode(wire("ConsumerProtocol" + what, version), data[2:]).value

def members_in(joined):
    return sorted(row["MemberId"] for row in joined["Members"])

def assigned(topic, place):
    return () if place else ({"Topic": topic, "Partitions": (0,)},)

def joined(connection, topic, me):
    metadata = written("Subscription", {"Topics": (topic,), "UserData": b""})
    protocol = {"Name": "range", "Metadata": metadata}
    times = {"SessionTimeoutMs": 6000, "RebalanceTimeoutMs": 6000}
    body = {"GroupId": topic, "MemberId": me, "ProtocolType": "consumer", "Protocols": (protocol,), **times}
    return connection.ask("JoinGroup", 5, body)

def synced(connection, topic, me, answer):
    rows = [
        {"MemberId": one, "Assignment": written("Assignment", {"AssignedPartitions": assigned(topic, place)})}
        for place, one in enumerate(members_in(answer))
    ]
    body = {"GroupId": topic, "MemberId": me, "GenerationId": answer["GenerationId"], "Assignments": rows}
    return connection.ask("SyncGroup", 3, body)

def idle(connection, topic, me, generation):
    body = {"GroupId": topic, "MemberId": me, "GenerationId": generation}
    while not connection.ask("Heartbeat", 3, body)["ErrorCode"]:
        time.sleep(STEP)

def begins_at(offset):
    return 0 if offset < 0 else offset

def next_to(offset):
    return offset + 1

def known_as(me, error, given=""):
    return given if error == 79 else "" if error == 25 else me

def commit(connection, line, me, generation, offset):
    part = {"PartitionIndex": 0, "CommittedOffset": offset}
    if VERSION > 5:
        part["CommittedLeaderEpoch"] = EPOCH
    rows = ({"Name": line["topic"], "Partitions": (part,)},)
    body = {"GroupId": line["topic"], "MemberId": me, "GenerationIdOrMemberEpoch": generation, "Topics": rows, **KEPT}
    while not is_done(connection.ask("OffsetCommit", VERSION, body)["Topics"][0]["Partitions"][0]["ErrorCode"]):
        time.sleep(STEP)

def is_done(error):
    return not error

def in_group(line):
    connection, topic, me = Connection(line["bootstrap"]), line["topic"], ""
    while True:
        time.sleep(STEP)
        answer = joined(connection, topic, me)
        if answer["ErrorCode"]:
            me = known_as(me, answer["ErrorCode"], answer["MemberId"])
            continue
        one = synced(connection, topic, me, answer)
        if one["ErrorCode"]:
            me = known_as(me, one["ErrorCode"])
            continue
        try:
            mine = read("Assignment", one["Assignment"])["AssignedPartitions"]
        except ValueError as error:
            return original(topic=topic, error="other", message=str(error))
        if not mine:
            if idle(connection, topic, me, answer["GenerationId"]):
                return
            continue
        beat = {"GroupId": topic, "MemberId": me, "GenerationId": answer["GenerationId"]}
        if connection.ask("Heartbeat", 3, beat)["ErrorCode"]:
            continue
        rows = ({"Name": topic, "PartitionIndexes": (0,)},)
        found = connection.ask("OffsetFetch", 5, {"GroupId": topic, "Topics": rows})
        if found["ErrorCode"]:
            continue
        start = begins_at(found["Topics"][0]["Partitions"][0]["CommittedOffset"])
        def write_and_commit(**fields):
            original(**fields)
            if "record" in fields and fields["record"]["key"] != END:
                place = next_to(int(fields["record"]["offset"]))
                commit(connection, line, me, answer["GenerationId"], place)
        tiny_client.write_line = write_and_commit
        consume({**line, "offset": str(start)})
        tiny_client.write_line = original
        return

CHANGE
for line in lines(): in_group(line) if "group" in line else consume(line)
"""
CASES = tuple(
    f"request/{name}"
    for name in (
        *("group-without-offset", "committed", "rebalance", "group-loading", "member-unknown", "assignment-of-another"),
        *("assignment-newer", "assignment-none", "assignment-shared", "group-of-two", "join-group", "sync-group"),
        *("heartbeat", "offset-fetch", "offset-commit"),
    )
)
AT_ITS_WORD = """
begins_at = lambda offset: offset
tiny_client.beginning = lambda line, connection, offset: offset
"""
ITS_OWN = "next_to = lambda offset: offset"
NOT_KEPT = "VERSION, KEPT = 3, {'RetentionTimeMs': 0}"
THE_SAME = "known_as = lambda me, error, given='': given if error == 79 else me"
STRICT = """
def read(what, data):
    got = codec.decode(wire("ConsumerProtocol" + what, int.from_bytes(data[:2], "big") % 4), data[2:])
    if data[1] > 3: raise ValueError("a version that nobody knows")
    return got.value
"""
GIVES_UP = """
def idle(connection, topic, *_):
    original(topic=topic, error="other", message="nothing to read")
    return True
"""
TO_ALL = 'assigned = lambda topic, _: ({"Topic": topic, "Partitions": (0,)},)'
FROM_ONE = 'assigned = lambda topic, place: () if place else ({"Topic": topic, "Partitions": (1,)},)'
ONE_MORE = 'assigned = lambda topic, place: () if place else ({"Topic": topic, "Partitions": (0, 1)},)'
TO_NOBODY = """
shared = synced
def synced(connection, topic, me, answer):
    if len(answer["Members"]) > 1: return {"ErrorCode": 27}
    return shared(connection, topic, me, answer)
"""


@pytest.fixture
def run(tmp_path, traces):
    """Return a function that runs a changed client and returns the rows of its report by case."""

    def start(change="", *cases, groups=True):
        target = tiny(tmp_path, BODY.replace("CHANGE", change), groups=groups)
        return judged(target, tmp_path, traces.env, *(cases or CASES), op="send", limits=BRIEF)

    yield start
    assert traces.left() == []


def test_a_member_that_follows_its_group_passes(run):
    assert {case: row["verdict"] for case, row in run().items()} == dict.fromkeys(CASES, "pass")


def test_a_client_without_group_support_joins_no_group(run):
    found = run(groups=False)
    assert {row["verdict"] for row in found.values()} == {"skip"}
    assert found["request/committed"]["detail"] == "unsupported: groups is not claimed"
    assert found["request/join-group"]["detail"] == "unobserved: no JoinGroup request was sent"


@pytest.mark.parametrize(
    ("change", "requirement", "cases", "detail"),
    [
        (
            ITS_OWN,
            "group.commits-next-offset",
            ["committed"],
            "offset 0 is committed, but the next offset to read is 1",
        ),
        ("EPOCH = 0", "group.commits-next-offset", ["committed"], "leader epoch 0 is committed"),
        (NOT_KEPT, "group.commits-next-offset", ["committed"], "RetentionTimeMs is 0"),
        (THE_SAME, "group.unknown-member", ["member-unknown"], "the client fetches no offset after the first one"),
        (STRICT, "group.assignment-read", ["assignment-newer"], "the client fetches no offset after the first one"),
        (TO_ALL, "group.leader-shares", ["assignment-shared"], "assigned 2 times among 2 members"),
        (
            TO_NOBODY,
            "group.leader-shares",
            ["assignment-shared"],
            "the client is leader of two members, but assigns no partition",
        ),
        (FROM_ONE, "group.leader-shares", ["assignment-shared"], "assigned 0 times among 2 members"),
        (ONE_MORE, "group.leader-shares", ["assignment-shared"], "2 partitions are assigned, but the topic has one"),
    ],
    ids=[
        "its own offset",
        "an epoch of its own",
        "for no time",
        "the same id",
        "no newer version",
        "to all",
        "to nobody",
        "partitions from 1 on",
        "one too many",
    ],
)
def test_a_member_with_wrong_group_behaviour_is_found(run, change, requirement, cases, detail):
    found = run(change)
    failed = {case.removeprefix("request/"): row for case, row in found.items() if row["verdict"] != "pass"}
    assert list(failed) == cases
    for row in failed.values():
        assert (row["verdict"], row["level"], row["requirement"]) == ("fail", "should", requirement)
        assert detail in row["detail"]


def test_a_member_that_uses_a_missing_offset_is_found(run):
    found = run(AT_ITS_WORD, "request/group-without-offset")
    assert found["request/group-without-offset"]["requirement"] == "group.offset-none"
    assert found["request/group-without-offset"]["verdict"] == "fail"


def test_a_member_without_partitions_that_never_rejoins_is_found(run):
    found = run(GIVES_UP)
    failed = [case for case, row in found.items() if row["verdict"] == "fail"]
    assert failed == ["request/assignment-none", "request/group-of-two"]
    assert found["request/assignment-none"]["requirement"] == "group.assignment-read"


LOOKS_AGAIN = """
class Coordinated(Connection):
    known = None
    def ask(self, name, version, body):
        while name != "FindCoordinator" and "GroupId" in body:
            if self.known is None:
                found = self.ask("FindCoordinator", 1, {"Key": body["GroupId"], "KeyType": 0})
                self.known = Plain("%s:%d" % (found["Host"], found["Port"]))
            try:
                answer = self.known.ask(name, version, body)
            except OSError:
                answer = {"ErrorCode": 16}
            if answer.get("ErrorCode") != 16: return answer
            self.known = None
        return super().ask(name, version, body)
Plain, Connection = Connection, Coordinated
"""


@pytest.mark.parametrize(
    ("change", "case", "verdict"),
    [
        (LOOKS_AGAIN, "coordinator-elsewhere", "pass"),
        (LOOKS_AGAIN, "coordinator-gone", "pass"),
        (LOOKS_AGAIN.replace('answer = {"ErrorCode": 16}', "raise"), "coordinator-gone", "crash"),
    ],
    ids=["elsewhere", "gone", "asks nobody again"],
)
def test_a_member_that_does_not_find_its_new_coordinator_is_found(run, change, case, verdict):
    (row,) = run(change, f"request/{case}").values()
    assert (row["verdict"], row["requirement"]) == (verdict, "response.coordinator-elsewhere"), row


TO_EACH = """
def synced(connection, topic, me, answer):
    rows = []
    for row in answer["Members"]:
        mine = [{"Topic": wanted, "Partitions": (0,)} for wanted in read("Subscription", row["Metadata"])["Topics"]]
        rows.append({"MemberId": row["MemberId"], "Assignment": written("Assignment", {"AssignedPartitions": mine})})
    body = {"GroupId": topic, "MemberId": me, "GenerationId": answer["GenerationId"], "Assignments": rows}
    return connection.ask("SyncGroup", 3, body)
"""


@pytest.mark.parametrize(("change", "verdict"), [(TO_EACH, "pass"), ("", "fail")], ids=["to each", "to the first"])
def test_a_leader_that_ignores_subscriptions_is_found(run, change, verdict):
    (row,) = run(change, "request/topics-of-others").values()
    assert (row["verdict"], row["requirement"]) == (verdict, "group.leader-by-subscription"), row


DIES = """
plain = synced
def synced(connection, topic, me, answer):
    for row in answer["Members"]:
        fields = read("Subscription", row["Metadata"])
        assert {owned["Topic"] for owned in fields.get("OwnedPartitions", ())} <= {*fields["Topics"]}
    return plain(connection, topic, me, answer)
"""


@pytest.mark.parametrize(("change", "verdict"), [("", "pass"), (DIES, "crash")], ids=["goes on", "dies"])
def test_a_leader_that_crashes_on_owned_partitions_is_found(run, change, verdict):
    (row,) = run(change, "request/claims-of-others").values()
    assert (row["verdict"], row["requirement"]) == (verdict, "group.leader-by-subscription"), row


TELLS = """
def is_done(error):
    if error: raise ValueError("refused")
    return True
silent = in_group
def in_group(line):
    try:
        silent(line)
    except ValueError as error:
        tiny_client.write_line = original
        original(topic=line["topic"], error="other", message=str(error))
"""


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ("", "pass"),
        ("is_done = lambda error: True", "fail"),
        (TELLS, "skip"),
    ],
    ids=["again", "given up", "reported"],
)
def test_a_member_that_drops_a_commit_without_an_error_is_found(run, change, verdict):
    (row,) = run(change, "request/commit-loading").values()
    assert (row["verdict"], row["requirement"]) == (verdict, "response.error-for-the-moment"), row


@pytest.mark.parametrize(("epoch", "verdict"), [(-1, "pass"), (5, "fail")], ids=["none", "that of its first place"])
def test_a_member_that_commits_an_old_leader_epoch_is_found(run, epoch, verdict):
    (row,) = run(f"EPOCH = {epoch}", "request/committed-before").values()
    assert (row["verdict"], row["requirement"]) == (verdict, "group.commits-next-offset")
    assert verdict == "pass" or "leader epoch 5 is committed" in row["detail"]
