"""Unmodified clients with the mock broker: verdicts on their records, for any behaviour."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import conformance
from live_runs import judged
from platformdirs import user_cache_path

from conformance import __version__
from conformance.cases.api_versions_profiles import VERSION_PROFILES
from conformance.live_clients import driver_process

pytestmark = pytest.mark.integration

SHARED = Path(__file__).parents[1] / "shared"
DRIVER = """
name: {name}
language: python
module: {module}
entry-point: tiny.consume
codecs: [none, gzip, snappy, lz4, zstd]
magics: [0, 1, 2]
isolations: [read_uncommitted, read_committed]
concurrency: {concurrency}
"""
START = f"import os, socket, sys, threading, time\nsys.path.insert(0, {str(SHARED)!r})\nfrom tiny_client import *\n"
HONEST = "for line in lines(): consume(line)\n"
THREE = "batch/three-records:read"
GZIP = "gzip/text-flag:read"
SHORT = {"_IDLE_TIMEOUT_S": 2.5}
"""A short timeout for tests of clients that do not answer."""


@pytest.fixture
def run(tmp_path, traces):
    """Return a function that runs a driver of the test and returns the rows of its report by case."""

    def start(body, *select, concurrency=1, offers="bare", op="read", **how):
        folder = tmp_path / "tiny"
        folder.mkdir(exist_ok=True)
        (folder / "driver.py").write_text(START + body)
        text = DRIVER.format(name="tiny", module="driver.py", concurrency=concurrency)
        (folder / "driver.yaml").write_text(f"{text}versions: {offers}\n")
        return judged(f"live:{folder / 'driver.yaml'}", tmp_path, traces.env, *select, op=op, **how)

    yield start
    assert traces.left() == []


def test_a_correct_client_conforms(run):
    found = run(HONEST, "read/*", "attributes/*:read", "message-set/v1-*:read", concurrency=1, status=0)
    assert len(found) > 250
    assert {row["verdict"] for row in found.values()} <= {"pass", "either", "skip"}
    assert sum(row["verdict"] == "pass" for row in found.values()) > 150


def test_a_missing_record_is_a_failure(run):
    body = "def lossy(**fields):\n    if fields.get('record', {}).get('offset') != '1': write_line(**fields)\n"
    body += "import tiny_client\nwrite_line, tiny_client.write_line = tiny_client.write_line, lossy\n" + HONEST
    found = run(body, THREE, status=1)
    assert found[THREE]["verdict"] == "fail"


NEWER = """
import tiny_client
write_line, newest = tiny_client.write_line, 0
def lossy(record=None, **fields):
    if record and newest >= 12 and {loses} in record["key"]: record = {{**record, "key": None}}
    write_line(**fields, **({{"record": record}} if record else {{}}))
tiny_client.write_line = lossy
for line in lines():
    offered = Connection(line["bootstrap"]).ask("ApiVersions", 0, {{}})["ApiKeys"]
    newest = next(row["MaxVersion"] for row in offered if row["ApiKey"] == 1)
    consume(line)
"""


@pytest.mark.parametrize(
    ("loses", "offers", "verdict"),
    [("'6b3'", "bare", "fail"), ("'6b3'", "full", "fail"), ("''", "bare", "pass"), ("'6b9'", "bare", "pass")],
    ids=["keys in a new fetch", "keys in a new fetch, which is all it knows", "all keys in a new fetch", "nothing"],
)
def test_messages_of_magic_1_are_also_read_with_new_fetch_versions(run, loses, offers, verdict):
    old = "message-set/v1-three-messages:read"
    found = run(NEWER.format(loses=loses), old, THREE, offers=offers)
    assert (found[old]["verdict"], found[THREE]["verdict"]) == (verdict, "pass")
    is_reported = "where everything is offered" in json.dumps(found[old])
    assert is_reported == (verdict == "fail" and offers == "bare")


def test_only_a_client_with_a_reduced_offer_is_also_tested_with_the_full_offer(run, tmp_path):
    old, topics = "message-set/v1-one-message:read", {}
    needs_all = "    Connection(line['bootstrap']).ask('Metadata', 9, {'Topics': ()})\n"
    for offers, needs in (("full", ""), ("bare", ""), ("bare", needs_all)):
        topics_file = tmp_path / f"{offers}-{len(needs)}"
        notes = f"    if line['topic'].startswith('case'): open({str(topics_file)!r}, 'a').write('topic ')\n"
        body = f"write_line(version='1')\nfor line in map(json.loads, sys.stdin):\n{notes}{needs}    consume(line)\n"
        assert run(body, old, offers=offers)[old]["verdict"] == "pass"
        topics[offers, needs] = len(topics_file.read_text().split())
    assert topics["bare", ""] == topics["full", ""] + 2, "the check with the full offer, and the case there"
    assert topics["bare", needs_all] == topics["full", ""], "the client is only judged with the full offer"


def test_aborted_transactions_are_also_read_with_new_fetch_versions(run):
    case = "read/aborted-is-hidden"
    body = NEWER.format(loses="'6b9'").replace("consume(line)", "consume({**line, **(BLIND if newest >= 12 else {})})")
    found = run("BLIND = {'isolation': 'read_uncommitted'}\n" + body, case, THREE)
    assert {name: row["verdict"] for name, row in found.items()} == {case: "fail", THREE: "pass"}
    assert "where everything is offered" in json.dumps(found[case])


def test_all_topic_names_have_the_same_length(run, tmp_path):
    names = tmp_path / "names"
    note = f"open({str(names)!r}, 'a').write(line['topic'] + ' ')"
    run(f"for line in lines():\n    {note}\n    consume(line)\n", "batch/t*:read", "message-set/v1-*:read", status=0)
    names = names.read_text().split()
    assert len(names) > 12
    assert {len(name) for name in names} == {24}


def test_the_last_error_of_a_crashed_client_is_shown_without_its_log(run):
    writes = "sys.stderr.write('%7|LOG|a.c:9: Assertion failed\\n%7|LOG|1732600000.5 fetch\\n'); sys.stderr.flush()"
    row = run(
        f"for line in lines():\n    if 'case' in line['topic']: {writes}; os.abort()\n    consume(line)\n", THREE
    )[THREE]
    assert (
        row["cause"] == "crash: the client was killed by SIGABRT; standard error ends: %#|LOG|a.c:#: Assertion failed"
    )


def test_a_crash_with_the_full_offer_is_marked_as_such(run):
    old = "message-set/v1-three-messages:read"
    body = NEWER.format(loses="'6b3'").replace('record = {**record, "key": None}', "os._exit(5)")
    row = run(body, old)[old]
    assert row["verdict"] == "crash"
    assert row["cause"] == "crash: the client exited with status # (where everything is offered)"


def test_a_client_that_refetches_valid_bytes_has_rejected_them(run):
    body = """
for line in lines():
    connection = Connection(line["bootstrap"])
    while not b"conformance.end" in connection.fetch(line, int(line["offset"]))["Records"][:90]: pass
    write_line(topic=line["topic"], record={"offset": "9", "key": END})
    write_line(topic=line["topic"], end=True)
"""
    found = run(body, THREE, status=1)
    assert found[THREE]["verdict"] == "fail"
    assert "fetched offset 0 5 times" in json.dumps(found[THREE])


DIES = """
for line in lines():
    if Connection(line["bootstrap"]).fetch(line, int(line["offset"]))["Records"][61:62] == b"\\x1f": os.abort()
    consume(line)
"""


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_crash_is_attributed_only_to_its_case(run, concurrency):
    found = run(DIES, THREE, GZIP, "batch/single-record:read", "offset/*:read", concurrency=concurrency)
    assert {name for name, row in found.items() if row["verdict"] == "crash"} == {GZIP}
    assert "SIGABRT" in found[GZIP]["detail"]


def test_a_crash_with_many_waiting_cases_causes_few_restarts(run, tmp_path):
    body = f"open({str(tmp_path / 'starts')!r}, 'a').write('started ')\ntime.sleep(0.3)\n" + DIES
    found = run(body, GZIP, "offset/*:read", "lz4/*:read", concurrency=32)
    assert {name for name, row in found.items() if row["verdict"] == "crash"} == {GZIP}
    assert len(found) > 40
    starts = (tmp_path / "starts").read_text().split()
    # Two shared processes, six separate ones, and up to three around the crash: fresh, after it, at the end.
    assert len(starts) < 32 / 2


DIES_FOR_GOOD = (
    """
import pathlib
started = pathlib.Path(sys.argv[0]).with_name("started")
if started.exists(): raise SystemExit("no more")
started.touch()
"""
    + DIES
)


def test_a_driver_that_does_not_restart_fails_each_remaining_case(run):
    found = run(DIES_FOR_GOOD, GZIP, THREE, concurrency=2)
    assert found[GZIP]["verdict"] == "crash"
    assert "the driver did not start again" in json.dumps(found)


def test_a_timeout_of_a_client_shows_its_fetches(run):
    body = """
for line in lines():
    connection = Connection(line["bootstrap"])
    connection.fetch(line, 0), connection.fetch(line, 0)
    time.sleep(100)
"""
    found = run(body, THREE, limits=SHORT)
    assert found[THREE]["verdict"] == "timeout"
    assert re.search(r"it fetched offset 0 2 times in [\d.]+ s, [\d.]+ a second", found[THREE]["detail"])


def test_the_fatal_error_of_a_driver_is_shown_without_its_log(run):
    body = """
for line in lines():
    if line["topic"].startswith("base"): consume(line)
    else:
        print("12:00:01 DEBUG fetching", file=sys.stderr)
        print("An Error: that is part of a log", file=sys.stderr)
        raise LookupError("no such codec")
"""
    found = run(body, THREE)
    assert found[THREE]["verdict"] == "crash"
    assert found[THREE]["detail"].endswith("exited with status 1; standard error ends: LookupError: no such codec")


@pytest.mark.parametrize(
    ("line", "is_reported"),
    [
        ("TypeError [ERR_X]: of Node", True),
        ('Exception in thread "main" java.lang.IllegalStateException: of Java', True),
        ("Uncaught RangeError: of a browser", True),
        ("thread 'main' panicked at src/main.rs:4:5", True),
        ("12:00:01 Error: of a log", False),
        ("Errors: 3", False),
    ],
)
def test_an_uncaught_exception_is_the_shown_error_line(line, is_reported):
    assert bool(driver_process._CRASH_LINE.search(line)) is is_reported


def test_an_uncaught_exception_is_a_crash(run):
    found = run("for line in lines(): write_line(topic=line['topic'], crash='TypeError: no')\n", THREE)
    assert (found[THREE]["verdict"], found[THREE]["detail"]) == ("crash", "TypeError: no")


def test_an_unhandled_request_is_no_failure(run):
    body = """
for line in lines():
    connection = Connection(line["bootstrap"])
    connection.socket.sendall(frame("Heartbeat", 0, {"GroupId": "g", "GenerationId": 1, "MemberId": "m"}))
    time.sleep(100)
"""
    found = run(body, THREE, status=3)
    assert {row["verdict"] for row in found.values()} == {"protocol", "skip"}
    assert "the mock broker cannot answer Heartbeat 0" in next(iter(found.values()))["detail"]


@pytest.mark.parametrize(
    ("sends", "text"),
    [
        ("", "did not consume a plain batch"),
        (
            "s = Connection(line['bootstrap']).socket; s.sendall(GARBLED); s.recv(1)",
            "it sent bytes that are no request (MetadataRequest 1: int.truncated-rejected at byte 0",
        ),
    ],
)
def test_a_client_that_cannot_read_a_plain_batch_is_not_judged(sends, text, tmp_path, traces):
    body = f"""
write_line(version="1")
open("starts", "a").write("start ")
for line in map(json.loads, sys.stdin):
    {sends}
    write_line(topic=line["topic"], error="other", message="no such setting")
"""
    garbled = "GARBLED = bytes.fromhex('0000000a0003000100000001ffff')\n"
    (tmp_path / "driver.py").write_text(START + "import json\n" + garbled + body)
    (tmp_path / "driver.yaml").write_text(DRIVER.format(name=tmp_path.name, module="driver.py", concurrency=1))
    done = conformance("run", "live:./driver.yaml", "--select", THREE, cwd=tmp_path, env=traces.env)
    assert done.returncode == 3
    assert (tmp_path / "starts").read_text().split() == ["start"] * len(VERSION_PROFILES), (
        "one start for each offer, without a retry"
    )
    assert "the client did not consume a plain batch" in done.stdout + done.stderr
    assert "no such setting" in done.stdout + done.stderr
    assert text in " ".join((done.stdout + done.stderr).split())


def test_a_client_that_fails_with_single_entries_is_found(run):
    body = """
import tiny_client
class Hasty(Connection):
    def fetch(self, line, offset):
        part = super().fetch(line, offset)
        entries = codec.decode("LOG", part["Records"]).value["batches"]
        if all(entry.get("isControlBatch") for entry in entries): time.sleep(100)  # it waits for data for ever
        return part
tiny_client.Connection = Hasty
from conformance import codec
"""
    found = run(body + HONEST, "read/aborted-compressed", THREE, limits=SHORT)
    assert found[THREE]["verdict"] == "pass"
    wrong = [row for row in found.values() if row["verdict"] == "timeout"]
    assert wrong


OWN_READER = """
from conformance.codec.record_batch import BATCH_LAYOUT
FIELDS = ("baseOffset", "batchLength", "lastOffsetDelta", "baseTimestamp", "recordCount")

def record(data, at, header):
    def number():
        nonlocal at
        read = codec.decode("VARLONG", data[at:])
        at += read.consumed
        return read.value + 0  # None where there is no number
    def octets():
        nonlocal at
        size = number()
        at += max(0, size)
        if at > len(data): raise IndexError("the bytes end inside a record")
        return None if size < 0 else data[at - size : at].hex()
    number(), number()  # its length; its attributes, which are 0
    timestamp, offset = (header[name] + number() for name in ("baseTimestamp", "baseOffset"))
    key, value = octets(), octets()
    headers = [{"key": bytes.fromhex(octets()).decode(), "value": octets()} for _ in range(number())]
    shown = {"offset": str(offset), "timestamp": str(timestamp), "timestampType": "CreateTime"}
    return at, {**shown, "key": key, "value": value, "headers": headers}

def read(line):
    connection, offset = Connection(line["bootstrap"]), int(line["offset"])
    while True:
        data, at = connection.fetch(line, offset)["Records"], 0
        while at < len(data):
            try:
                header = {name: BATCH_LAYOUT.read_field(name, data, at) for name in FIELDS}
                stop, at = at + 12 + header["batchLength"], at + 61
                for _ in range(header["recordCount"]):
                    at, one = record(data[:@END@], at, header)
                    write_line(topic=line["topic"], record=one)
                    if one["key"] == END: return write_line(topic=line["topic"], end=True)
                if at < stop: raise IndexError("bytes are left over")
            except (TypeError, IndexError, struct.error) as error:
                return write_line(topic=line["topic"], error="other", message=str(error))
            at, offset = @NEXT@, header["baseOffset"] + header["lastOffsetDelta"] + 1

for line in lines(): read(line)
"""
TOO_MANY = "batch/record-count-one-too-many:read"


@pytest.mark.parametrize(
    ("end", "following", "failed"),
    [("stop", "stop", set()), ("len(data)", "stop", {TOO_MANY}), ("stop", "stop + 1", {THREE})],
    ids=["honest", "by a record", "by a byte"],
)
def test_a_client_that_reads_beyond_a_batch_is_found(run, end, following, failed):
    """With only the batch in its response, the bytes would end there and hide the fault."""
    body = OWN_READER.replace("@END@", end).replace("@NEXT@", following)
    found = run(body, THREE, TOO_MANY)
    assert {name for name, row in found.items() if row["verdict"] != "pass"} == failed
    assert {row["verdict"] for name, row in found.items() if name in failed} <= {"fail"}


LOSES = """
import tiny_client
from conformance.codec.log import extents
class Hasty(Connection):
    end = 0
    def fetch(self, line, offset):
        part = super().fetch(line, max(offset, self.end))
        data, at = part["Records"], [at for at, _ in extents(part["Records"])]
        {deed}
        return {{**part, "Records": data}}
tiny_client.Connection = Hasty
"""
AT_ONE = "message-set/v1-null-key-with-value:read"


@pytest.mark.parametrize(
    ("deed", "lost"),
    [
        (
            "if len(at) > 1: data, self.end = data[: at[-1]], part['HighWatermark']",
            {THREE: "the record behind the bytes of the case, at offset 3, was not handed out",
             AT_ONE: "the record behind the bytes of the case, at offset 2, was not handed out"},
        ),
        (
            "data = data[at[1] :] if len(at) > 2 else data",
            {AT_ONE: "the record before the bytes of the case, at offset 0, was not handed out"},
        ),
    ],
    ids=["behind", "before"],
)  # fmt: skip
def test_a_lost_guard_record_is_reported(run, deed, lost):
    found = run(LOSES.format(deed=deed) + HONEST, THREE, AT_ONE, status=1)
    assert {name: row["detail"] for name, row in found.items() if row["verdict"] == "fail"} == lost
    assert {row["cause"] for name, row in found.items() if name in lost} == {
        re.sub(r"\d", "#", f"guard violation: {next(iter(lost.values()))}")
    }


def test_a_client_with_endless_records_is_ended(run):
    body = """
for line in lines():
    fetched = Connection(line["bootstrap"]).fetch(line, 0)
    record = {"offset": "0", "timestamp": "0", "timestampType": "CreateTime", "key": None, "value": None, "headers": []}
    while True: write_line(topic=line["topic"], record=record)
"""
    found = run(body, THREE)
    assert found[THREE]["verdict"] == "fail"
    assert "handed out 40000 records and did not stop" in json.dumps(found[THREE])


OWN = "os.getpid()"
CHILD = "subprocess.Popen([sys.executable, '-c', 'while True: pass']).pid"
"""kcat is a child process of its driver, and uses a full CPU after a timeout."""


@pytest.mark.parametrize(("pid", "gone"), [(OWN, ""), (CHILD, "Z")], ids=["itself", "its child"])
def test_a_client_with_a_timeout_is_gone_before_the_next_case(run, tmp_path, pid, gone):
    """A dead child may be a zombie. The retry runs in parallel to the next case, so only the first try counts."""
    pids = tmp_path / "pids"
    body = f"""
import subprocess
with open({str(pids)!r}, "a+") as file:
    file.seek(0)
    for pid in file.read().split()[:1]:
        if os.path.exists(f"/proc/{{pid}}") and open(f"/proc/{{pid}}/stat").read().split()[2] != {gone!r}: os.abort()
for line in lines():
    if Connection(line["bootstrap"]).fetch(line, int(line["offset"]))["Records"][61:62] == b"\\x1f":
        open({str(pids)!r}, "a").write(f"{{{pid}}} ")
        time.sleep(100)
    consume(line)
"""
    found = run(body, GZIP, THREE, limits=SHORT)
    assert {name: row["verdict"] for name, row in found.items()} == {GZIP: "timeout", THREE: "pass"}
    assert len(pids.read_text().split()) > 1


def test_child_processes_do_not_outlive_a_client(run):
    body = """
if os.fork() == 0: time.sleep(100)
"""
    assert run(body + HONEST, THREE, status=0)  # `run` checks that no process is left


HOSTILE = {
    "garbage": "s.sendall(os.urandom(300))",
    "half a frame": "s.sendall(frame('ApiVersions', 0, {})[:7])",
    "a frame of 2 GiB": "s.sendall(b'\\x7f\\xff\\xff\\xff' + bytes(100))",
    "a negative size": "s.sendall(b'\\xff\\xff\\xff\\xff')",
    "responses that nobody reads": "s.sendall(frame('Metadata', 1, {'Topics': None}) * 2000)",
}


@pytest.mark.parametrize("deed", HOSTILE.values(), ids=HOSTILE)
def test_hostile_bytes_of_a_client_change_no_verdict(run, deed):
    body = f"""
kept = []
def disturb(line):
    s = Connection(line["bootstrap"]).socket
    kept.append(s)
    s.setblocking(False)
    try: {deed}
    except OSError: pass
for line in lines():
    disturb(line)
    consume(line)
"""
    found = run(body, "offset/*:read")
    assert {row["verdict"] for row in found.values()} <= {"pass", "either", "skip"}


def test_nearly_a_thousand_connections_are_accepted(run):
    """The broker accepts a thousand; closed ones still count for a moment."""
    body = """
kept = []
for line in lines():
    if not kept: kept += [Connection(line["bootstrap"]) for _ in range(980)]
    consume(line)
"""
    assert run(body, THREE, GZIP, status=0)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise SystemExit('no library')\n", "the driver ended; standard error ends: no library"),
        ("print('hello')\n", "no JSON object"),
    ],
    ids=["ends", "talks"],
)
def test_a_driver_that_does_not_start_is_one_line(tmp_path, traces, body, text):
    (tmp_path / "driver.py").write_text(body)
    (tmp_path / "driver.yaml").write_text(DRIVER.format(name=tmp_path.name, module="driver.py", concurrency=1))
    done = conformance("run", "live:./driver.yaml", "--select", THREE, cwd=tmp_path, env=traces.env)
    assert done.returncode == 3
    assert text in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_a_user_driver_is_built_in_a_separate_folder(tmp_path, traces):
    build = [sys.executable, "-c", "import shutil; shutil.copy('driver.py', 'built.py')"]
    env = {**traces.env, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    own = tmp_path / "cache" / "kafka-conformance" / __version__
    own.mkdir(parents=True)
    for kept in filter(Path.is_file, user_cache_path("kafka-conformance", version=__version__).glob("*")):
        (own / kept.name).symlink_to(kept)  # avoids another build of the cases

    def command(folder, *words):
        return conformance(*words, cwd=tmp_path / folder, env=env)

    for folder in ("one/tiny", "two/tiny"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "driver.py").write_text(START + HONEST)
        text = DRIVER.format(name="tiny", module="built.py", concurrency=1)
        (tmp_path / folder / "driver.yaml").write_text(f"{text}setup: [{json.dumps(build)}]\n")
    done = command("one/tiny", "run", "live:./driver.yaml", "--select", THREE)
    assert (done.returncode, done.stdout) == (2, "")
    advice = f"(conformance targets --setup live:{tmp_path.resolve()}/one/tiny/driver.yaml)"
    assert done.stderr.endswith(f"{advice}\n")
    assert command("one/tiny", "targets", "--setup", "live:./driver.yaml").returncode == 0
    assert command("one/tiny", "run", "live:./driver.yaml", "--select", THREE).returncode == 0
    assert command("two/tiny", "run", "live:./driver.yaml", "--select", THREE).returncode == 2, (
        "not the one of the other"
    )
    missing = command("one", "targets", "--setup", "live:./driver.yaml")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert traces.left() == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("live:nobody", "unknown live client"),
        ("live:./driver.yaml", "there is no file"),
    ],
)
def test_an_unknown_live_client_is_one_line(tmp_path, given, problem):
    done = conformance("run", given, cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("concurrency: many", "concurrency: expected a number, got text"),
        ("speed: 3", "speed: unknown key"),
        ("concurrency: 1\nversions: all", "versions is one of bare, low, full, old, not 'all'"),
    ],
)
def test_an_invalid_driver_file_is_one_line_with_its_place(tmp_path, line, problem):
    text = DRIVER.format(name=tmp_path.name, module="driver.py", concurrency=1).replace("concurrency: 1", line)
    (tmp_path / "driver.yaml").write_text(text)
    done = conformance("run", "live:./driver.yaml", cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr


# --- other commands with a live client ----------------------------------------------------------------

SLOW = "for number, line in enumerate(lines()):\n    if 0 < number < 6: time.sleep(1.2)\n    consume(line)\n"


@pytest.fixture
def driver(tmp_path):
    """Return a function that writes a driver of the test and returns its target."""

    def write(body):
        (tmp_path / "driver.py").write_text(START + body)
        (tmp_path / "driver.yaml").write_text(DRIVER.format(name=tmp_path.name, module="driver.py", concurrency=1))
        return "live:./driver.yaml"

    return write


def test_a_driver_without_an_isolation_setting_fails_no_isolation_case(driver, tmp_path, traces):
    target = driver(HONEST)
    file = tmp_path / "driver.yaml"
    file.write_text(file.read_text().replace("[read_uncommitted, read_committed]", "[read_uncommitted]"))
    found = judged(target, tmp_path, traces.env, "request/fetch", "request/isolation-*", op="send")
    assert {name: row["verdict"] for name, row in found.items()} == {
        "request/fetch": "pass",
        "request/isolation-read-committed": "skip",
        "request/isolation-read-uncommitted": "skip",
    }
    assert "no choice" in found["request/isolation-read-uncommitted"]["detail"]


def test_doctor_uses_the_timeouts_of_a_live_client(driver, tmp_path, traces):
    done = conformance("doctor", driver(SLOW), cwd=tmp_path, env=traces.env)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAIL" not in done.stdout
    assert "slow" not in done.stdout
    assert traces.left() == []


def test_pytest_judges_a_live_client(driver, tmp_path, traces):
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--kafka-target", driver(HONEST)]
    selected = ["--kafka-select", "offset/*:read", "--rootdir", ".", "-c", "/dev/null"]
    done = subprocess.run(
        [*command, *selected], cwd=tmp_path, env=traces.env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_generated_cases_of_a_live_client_are_judged_and_saved(driver, tmp_path, traces):
    body = "import tiny_client\nwrite_line = tiny_client.write_line\n"
    body += "tiny_client.write_line = lambda **fields: write_line(**keyless(fields))\n"
    body += "def keyless(fields):\n    record = fields.get('record')\n"
    body += "    return {**fields, 'record': {**record, 'headers': []}} if record else fields\n"
    target = driver(body + HONEST)
    select = ("--select", "gen/4/READ/*", "--generated", "40", "--seed", "1", "--quiet")

    def run(*options):
        return conformance("run", target, *select, *options, cwd=tmp_path, env=traces.env).returncode

    assert run("--json", "r.json", "--save-failures", "saved") == 1
    rows = json.loads((tmp_path / "r.json").read_text())["results"]
    assert [row["verdict"] for row in rows if row["kind"] == "generated" and row["op"] == "read"].count("pass") > 10
    failed = [row["id"] for row in rows if row["verdict"] == "fail"]
    assert any(name.startswith("gen/") for name in failed)
    assert list((tmp_path / "saved").glob("*.yaml"))
    assert run("--known-failures", "known.yaml", "--update-known-failures") == 0
    assert run("--known-failures", "known.yaml") == 0


# --- requests of clients ------------------------------------------------------------------------------


@pytest.fixture
def sent(run):
    """Return a function that runs a client with an extra request before it consumes; it returns rows by case."""

    def start(deed, *, status=1):
        body = f"""
for line in lines():
    s = Connection(line["bootstrap"]).socket
    {deed}
    consume(line)
"""
        return run(body, "request/*", status=status, op="send")

    return start


def test_a_correct_client_sends_valid_requests(sent):
    found = sent("pass", status=0)
    passed = {name for name, row in found.items() if row["verdict"] == "pass"}
    assert {"request/size", "request/fetch", "request/version-offered", "request/correlation-ids"} <= passed
    assert {"request/isolation-read-committed", "request/isolation-read-uncommitted"} <= passed
    assert "request/only-version-offered" in passed
    assert {row["verdict"] for row in found.values()} == {"pass", "skip"}
    assert found["request/join-group"]["detail"] == "unobserved: no JoinGroup request was sent"


METADATA = "frame('Metadata', 1, {'Topics': None})"
WRONG = {
    "request/size": ("s.sendall(b'\\xff\\xff\\xff\\xff')", "the request size is -1"),
    "request/metadata": (f"s.sendall(b'\\0\\0\\0\\x13' + {METADATA}[4:] + b'\\0')", "1 bytes are left over inside"),
    "request/version-offered": (
        "s.sendall(frame('Metadata', 2, {'Topics': None}))",
        "the client sent Metadata 2, but the broker supports versions 0 to 1",
    ),
    "request/correlation-ids": (f"s.sendall({METADATA} * 2)", "an unanswered request has the same correlation id"),
    "request/isolation-read-committed": (
        "line['isolation'] = 'read_uncommitted'",
        "isolation level 0 instead of read_committed",
    ),
}


@pytest.mark.parametrize(("case", "deed", "detail"), [(name, *rest) for name, rest in WRONG.items()], ids=WRONG)
def test_invalid_requests_of_a_client_are_found(sent, case, deed, detail):
    found = sent(deed, status=0 if case == "request/correlation-ids" else 1)
    assert {name for name, row in found.items() if row["verdict"] == "fail"} == {case}
    assert detail in found[case]["detail"]
    assert found[case]["actual"]["value"]


LOOKS_AT_THE_HIGHEST = """
for line in lines():
    connection = Connection(line["bootstrap"])
    highest = {row["ApiKey"]: row["MaxVersion"] for row in connection.ask("ApiVersions", 0, {})["ApiKeys"]}
    if highest[1] < 5: connection.socket.sendall(frame("Fetch", 2, {}))
    consume(line)
"""


def test_a_version_below_the_only_offered_one_is_always_found(run):
    found = run(LOOKS_AT_THE_HIGHEST, "request/*", status=1, op="send", offers="low")
    assert {name for name, row in found.items() if row["verdict"] == "fail"} == {"request/only-version-offered"}
    assert (
        found["request/only-version-offered"]["detail"]
        == "the client sent Fetch 2, but the broker supports versions 4 to 4"
    )


def test_a_client_that_needs_more_than_the_smallest_offer_fails_no_case(run):
    body = LOOKS_AT_THE_HIGHEST.replace(
        'connection.socket.sendall(frame("Fetch", 2, {}))',
        'write_line(topic=line["topic"], error="other", message="too old"); continue',
    )
    found = run(body, "request/*", status=0, op="send", offers="low")
    assert found["request/only-version-offered"]["detail"] == "unobserved: no Fetch request was sent"


STRANGE = """
write_line(version="1")
for line in map(json.loads, sys.stdin):
    connection = Connection(line["bootstrap"])
    {first}
    connection.socket.sendall(frame(*{strange}))
    connection.socket.recv(9)
    {then}write_line(topic=line["topic"], error="other", message="nothing came")
"""
SEND_API_VERSIONS = "connection.ask('ApiVersions', 0, {})"
GET_ERROR_35 = "connection.socket.sendall(frame('ApiVersions', 3, {})); connection.socket.recv(9)"
ANOTHER = "Connection(line['bootstrap'])"
FETCH_12 = "('Fetch', 12, {})"


def test_a_client_that_sends_versions_not_offered_fails_only_for_that(run):
    body = STRANGE.format(first=SEND_API_VERSIONS, strange=FETCH_12, then="")
    found = run(body, "request/*", "compression/*:encode", THREE, status=1, op="", offers="low")
    judged = {name: row["verdict"] for name, row in found.items() if row["verdict"] != "skip"}
    assert judged == {"request/version-offered": "fail"}
    assert found["request/version-offered"]["level"] == "must"
    assert (
        found["request/version-offered"]["detail"]
        == "the client sent Fetch 12, but the broker supports versions 4 to 11"
    )
    reasons = {row["detail"] for row in found.values() if row["verdict"] == "skip"}
    assert all(
        "the client sent Fetch 12, but the broker supports versions 4 to 11; the client is not judged" in reason
        for reason in reasons
    )


@pytest.mark.parametrize(
    ("first", "strange"),
    [
        ("pass", FETCH_12),
        (GET_ERROR_35, FETCH_12),
        (SEND_API_VERSIONS, "('ApiVersions', 3, {})"),
        (SEND_API_VERSIONS, "('ListGroups', 0, {})"),
        (SEND_API_VERSIONS, "('Produce', 4, {'Acks': 0, 'TopicData': ()})"),
    ],
    ids=["knows no offer", "gets only error 35", "ApiVersions", "offered in no version", "offered"],
)
def test_a_client_without_records_does_not_fail_for_an_allowed_version(run, first, strange):
    assert run(STRANGE.format(first=first, strange=strange, then=""), "request/*", status=3, op="", offers="low") == {}


def test_an_offer_known_only_to_a_later_consumer_fails_no_case(run):
    """The offer to one consumer may be unknown to another."""
    body = STRANGE.format(first="pass", strange=FETCH_12, then=f"{SEND_API_VERSIONS.replace('connection', ANOTHER)}; ")
    assert run(body, "request/*", status=3, op="", offers="low") == {}


NEEDS = """
write_line(version="1")
known = {{}}
for line in map(json.loads, sys.stdin):
    connection = Connection(line["bootstrap"])
    {asks}
    consume(line)
"""
GIVES_UP = """
    rows = connection.ask('ApiVersions', 0, {})['ApiKeys']
    newest = known.setdefault('Fetch', max(row['MaxVersion'] for row in rows if row['ApiKey'] == 1))
    if newest < 11:
        write_line(topic=line["topic"], error="other", message="the broker is too old")
        continue
"""
HEARTBEAT = "connection.ask('Heartbeat', 0, {'GroupId': 'g', 'GenerationId': 1, 'MemberId': 'm'})"


SEND_NEWER_API_VERSIONS = (
    "connection.socket.sendall(frame('ApiVersions', 4, {'ClientSoftwareName': 'c', 'ClientSoftwareVersion': '1'})); "
    "connection.exactly(struct.unpack('>i', connection.exactly(4))[0])"
)


@pytest.mark.parametrize(
    ("asks", "offers", "charged"),
    [
        ("connection.ask('Metadata', 5, {'Topics': ()})", "low", False),
        ("connection.ask('Metadata', 9, {'Topics': ()})", "full", False),
        (HEARTBEAT, "low", False),
        (GIVES_UP, "low", False),
        (f"{SEND_API_VERSIONS}; connection.ask('Metadata', 5, {{'Topics': ()}})", "low", True),
        (f"{SEND_NEWER_API_VERSIONS}; {SEND_API_VERSIONS}", "bare", False),
    ],
    ids=["low", "full", "a request", "gives up", "gets the versions", "sends a newer request first"],
)
def test_a_client_that_needs_a_larger_offer_is_judged_with_it(tmp_path, run, asks, offers, charged):
    found = run(NEEDS.format(asks=asks), THREE, "batch/single-record:read", "request/version-offered", op="")
    verdicts = {name: row["verdict"] for name, row in found.items()}
    assert verdicts[THREE] == verdicts["batch/single-record:read"] == "pass"
    assert verdicts["request/version-offered"] == ("fail" if charged else "pass")
    (target,) = json.loads((tmp_path / "r.json").read_text())["targets"]
    assert target["describe"]["versions"] == offers


def test_doctor_reports_that_only_the_request_versions_are_judged(driver, tmp_path, traces):
    target = driver(STRANGE.format(first=SEND_API_VERSIONS, strange="('Fetch', 2, {})", then=""))
    done = conformance("doctor", target, cwd=tmp_path, env=traces.env)
    assert done.returncode == 3
    text = " ".join(done.stdout.split())
    assert "is tested for: the client sent Fetch 2, but the broker supports versions 4 to 4" in text
    assert traces.left() == []


TAGS = """
stumbled = []
for line in lines():
    connection = Connection(line["bootstrap"])
    connection.socket.sendall(frame("Metadata", {version}, {{"Topics": None}}))
    data = connection.exactly(struct.unpack(">i", connection.exactly(4))[0])
    tags = response("Metadata", {version}, data)[1]["Brokers"][0].get("_unknownTaggedFields", ())
    in_header = data[4] > 0
    if {gives_up}: write_line(topic=line["topic"], error="other", message="more bytes than due"); continue
    consume(line)
"""


@pytest.mark.parametrize(
    ("version", "gives_up", "verdict", "detail"),
    [
        (
            9,
            "tags",
            "fail",
            "the client fetches no offset after the first one: responses, such as to Metadata 9, contain",
        ),
        (9, "in_header", "fail", "the client fetches no offset"),
        (9, "tags and not stumbled and not stumbled.append(1)", "pass", ""),
        (9, "False", "pass", ""),
        (9, "line['topic'].startswith('case')", "skip", "does not come through where everything is offered"),
        (8, "tags", "skip", "unobserved: no response had tagged fields"),
    ],
    ids=["stumbles", "stumbles over the header", "stumbles once", "skips them", "stumbles anyway", "is sent none"],
)
def test_a_client_that_does_not_skip_unknown_tags_is_found(run, version, gives_up, verdict, detail):
    body = TAGS.format(version=version, gives_up=gives_up)
    case = "request/unknown-tags-skipped"
    found = run(body, case, op="send", offers="full")
    assert found[case]["verdict"] == verdict
    assert detail in found[case].get("detail", "")
    assert found[case]["level"] == "must"


def test_an_invalid_request_is_shown_byte_by_byte(tmp_path, run):
    deed = WRONG["request/metadata"][0].removeprefix("s.")
    body = f"for line in lines():\n    Connection(line['bootstrap']).socket.{deed}\n"
    run(body + "    consume(line)\n", "request/metadata", status=1, op="send", options=("--html", "r.html"))
    text = (tmp_path / "r.html").read_text()
    assert "Header.ClientId" in text
    assert "(not read)" in text
    assert "1 bytes are left over" in text
