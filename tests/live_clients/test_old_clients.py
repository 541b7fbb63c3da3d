"""Clients older than record batches, judged on the messages in Fetch 0 to 3."""

import json
from pathlib import Path

import pytest
from live_runs import judged

pytestmark = pytest.mark.integration

SHARED = Path(__file__).parents[1] / "shared"
DRIVER = """
name: tiny
language: python
module: driver.py
entry-point: tiny.consume
codecs: [none, gzip]
magics: [0, 1, 2]
isolations: [read_uncommitted, read_committed]
writer: tiny.send
producer-features: [none, timestamps, idempotence]
concurrency: 1
versions: {offers}
"""
START = f"""
import sys
sys.path.insert(0, {str(SHARED)!r})
import tiny_client
from tiny_client import *
from conformance.codec.log import extents
from conformance.codec.record_batch import stored_magic
class Old(Connection):
    version = {{version}}
    def fetch(self, line, offset):
        part = super().fetch(line, offset)
        if part["ErrorCode"] == 35: open({{refused!r}}, "w").close()
        log = part["Records"] or b""
        newest = max((stored_magic(log, at) for at, _ in extents(log)), default=0)
        assert newest <= (self.version >= 2) + (self.version >= 4), "it cannot know this magic"
        return part
tiny_client.Connection = Old
"""
HONEST = "for line in lines(): consume(line)\n"
OLDEST, OLD, BATCH = "message-set/v0-one-message:read", "message-set/v1-three-messages:read", "batch/three-records:read"
CUT = "message-set/v0-size-0:read"


@pytest.fixture
def run(tmp_path, traces):
    """Return a function that runs a client with one Fetch version; it returns the rows by case and its profile."""

    def start(version, body, *select, offers="bare", status=None):
        refused = tmp_path / "refused"
        (tmp_path / "driver.py").write_text(START.format(version=version, refused=str(refused)) + body)
        (tmp_path / "driver.yaml").write_text(DRIVER.format(offers=offers).replace("tiny\n", f"{tmp_path.name}\n", 1))
        target = f"live:{tmp_path / 'driver.yaml'}"
        found = judged(target, tmp_path, traces.env, *select, status=status, op="")
        (about,) = json.loads((tmp_path / "r.json").read_text())["targets"]
        assert not refused.exists(), "its Fetch version cannot return the records of a topic"
        return found, about.get("describe") or {}

    yield start
    assert traces.left() == []


@pytest.mark.parametrize(
    ("version", "offers", "magics"), [(0, "bare", [0]), (1, "old", [0]), (2, "old", [0, 1]), (3, "bare", [0, 1])]
)
def test_a_client_without_batches_is_judged_on_the_magics_of_its_fetch_versions(run, version, offers, magics):
    written = "batch/single-record:encode"
    sent = ("request/fetch", "request/size", "request/isolation-read-uncommitted", "request/produce")
    scenarios = ("request/only-version-offered", "request/unknown-tags-skipped")
    patterns = (
        OLDEST,
        CUT,
        OLD,
        "read/fetch-inside-v0-wrapper",
        BATCH,
        "read/aborted-is-hidden",
        written,
        *sent,
        *scenarios,
    )
    found, about = run(version, HONEST, *patterns, offers=offers, status=0)
    assert (about["versions"], about["magics"]) == ("old", magics)
    assert about["supports"] == {"read": True, "send": True, "encode": []}
    assert {found[case]["verdict"] for case in (OLDEST, "read/fetch-inside-v0-wrapper", *sent[:2])} == {"pass"}
    assert found[CUT]["verdict"] in ("pass", "either")
    assert found[OLD]["verdict"] == ("pass" if 1 in magics else "skip")
    skipped = (BATCH, "read/aborted-is-hidden", written, *sent[2:], *scenarios)
    assert {found[case]["verdict"] for case in skipped} == {"skip"}


def test_a_magic_unknown_to_its_fetch_version_is_not_served(run):
    strange, short = "message-set/magic-3-after-a-message:read", "message-set/v0-then-1-bytes:read"
    found, _ = run(1, HONEST, short, strange, "batch/magic-one:read", offers="old")
    assert found[short]["verdict"] != "skip"
    for case in (strange, "batch/magic-one:read"):
        assert found[case]["detail"].endswith("version of Fetch carries no magic above 0")


LOSES = """
def lossy(record=None, **fields):
    if record and record["key"] not in (END, b"key".hex()): record = {**record, "value": None}
    write_line(**fields, **({"record": record} if record else {}))
tiny_client.write_line = lossy
"""


def test_a_failure_of_a_client_without_batches_is_found(run):
    found, _ = run(2, LOSES + HONEST, OLDEST, OLD, BATCH, status=1)
    assert {name: row["verdict"] for name, row in found.items()} == {OLDEST: "fail", OLD: "fail", BATCH: "skip"}


def test_a_client_that_fetched_batches_gets_no_offer_without_them(run, tmp_path):
    topics = tmp_path / "topics"
    body = f"""
write_line(version="1")
for line in map(json.loads, sys.stdin):
    open({str(topics)!r}, "a").write("topic ")
    Connection(line["bootstrap"]).fetch(line, int(line["offset"]))
    write_line(topic=line["topic"], error="other", message="no such setting")
"""
    run(4, body, BATCH, status=3)
    plain = 3
    assert len(topics.read_text().split()) == plain * len(("bare", "low", "full"))


def test_a_version_outside_the_offer_is_a_fault_of_an_old_client(run):
    body = HONEST.replace("consume(line)", "Old(line['bootstrap']).ask('ApiVersions', 0, {}); consume(line)")
    body = body.replace("lines()", "map(json.loads, sys.stdin)")
    found, about = run(2, f"write_line(version='1')\n{body}", OLDEST, "request/version-offered", status=1)
    assert (about["versions"], found[OLDEST]["verdict"]) == ("old", "pass")
    assert (
        found["request/version-offered"]["detail"] == "the client sent Fetch 2, but the broker supports versions 4 to 4"
    )


def test_a_failure_with_messages_is_reported_for_a_client_of_only_messages(run, tmp_path):
    body = (
        "for line in map(json.loads, sys.stdin): write_line(topic=line['topic'], error='other', message='a setting')\n"
    )
    fetches = "Old(line['bootstrap']).fetch(line, int(line['offset'])); write_line("
    run(2, "write_line(version='1')\n" + body.replace("write_line(", fetches), OLDEST, status=3)
    (about,) = json.loads((tmp_path / "r.json").read_text())["targets"]
    assert "a setting" in about["problem"]


def test_a_client_of_only_messages_is_not_tested_with_the_full_offer(run, tmp_path):
    topics = tmp_path / "topics"
    body = f"for line in lines():\n    open({str(topics)!r}, 'a').write('topic ')\n    consume(line)\n"
    found, _ = run(2, body, OLD, offers="old", status=0)
    assert found[OLD]["verdict"] == "pass"
    assert len(topics.read_text().split()) == len(("the probe", "the case", "the case, one entry a fetch"))


def test_a_bundled_client_of_old_messages_is_judged_live(live_client, tmp_path, traces):
    sent = ("request/fetch", "request/size", "request/join-group", "request/offset-fetch", "request/version-offered")
    select = ("message-set/v1-*-messages:read", "read/magic-1-*", "message-set/*gzip*:read", *sent)
    found = judged(live_client("kafka-node"), tmp_path, traces.env, *select, op="")
    assert {name: found[name]["verdict"] for name in sent} == dict.fromkeys(sent, "pass")
    reads = [row["verdict"] for row in found.values() if row["op"] == "read" and row["verdict"] != "skip"]
    assert sum(verdict in ("pass", "either") for verdict in reads) > len(reads) // 2
    assert found[OLD]["verdict"] == "pass"
    assert traces.left() == []


@pytest.mark.parametrize(
    ("offers", "status", "charged"),
    [("bare", 3, ""), ("old", 1, "the client sent Fetch 4, but the broker supports versions 0 to 3")],
)
def test_old_versions_count_as_a_fault_only_if_the_driver_offers_them(run, offers, status, charged):
    body = """
write_line(version="1")
for line in map(json.loads, sys.stdin):
    connection = Connection(line["bootstrap"])
    fetch = next(row for row in connection.ask("ApiVersions", 0, {})["ApiKeys"] if row["ApiKey"] == 1)
    if fetch["MinVersion"] == 0:
        connection.socket.sendall(frame("Fetch", 4, {"Topics": ()}))
        connection.socket.recv(9)
    write_line(topic=line["topic"], error="other", message="no such setting")
"""
    found, _ = run(4, body, "request/version-offered", offers=offers, status=status)
    assert found.get("request/version-offered", {}).get("detail", "") == charged
