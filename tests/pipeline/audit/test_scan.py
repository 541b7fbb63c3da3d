"""Audits on Spark, from the command line to the tables; a real broker's segments; logs as a data source."""

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark", reason="audits need the extra spark")

import pyarrow.parquet as pq
from click.testing import CliRunner
from command_line import conformance
from segment_files import RECORDS, audit, changed, partition, places, plain, shown, written
from traces import is_at_work
from traps import Traps

from conformance import codec
from conformance.cli import main
from conformance.commands import scan as scan_command
from conformance.pipeline.audit import local_runner, spark_runner
from conformance.pipeline.audit.batch_columns import read_batch
from conformance.pipeline.audit.segment_reader import parts_of
from conformance.pipeline.audit.segments import find_segments
from conformance.pipeline.audit.spark_runner import audit as audit_on_spark
from conformance.pipeline.audit.table_steps import AuditSettings, logs_of
from conformance.pipeline.kafka_log_source import read, register
from conformance.pipeline.spark_session import session

pytestmark = pytest.mark.integration

CRC, RISE = "crc.mismatch-corrupt", "log.offsets-rise"


@pytest.fixture(scope="module")
def scanned(tmp_path_factory):
    """Yield a scan on Spark: its folder, the expected findings, its output, and its session, shared by all tests.

    A process has one Spark, and each start takes ten seconds.
    """
    folder = tmp_path_factory.mktemp("scanned")
    logs, expected = with_damage(folder)
    Traps(folder)
    kept = []
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patched:

        def opened(*given):
            kept.append(stack.enter_context(session(*given)))
            return nullcontext(kept[0])

        patched.setattr(spark_runner, "session", opened)
        patched.delenv("PYTHONSAFEPATH", raising=False)
        options = ("--out", folder / "out", "--json", folder / "found.json")
        done = conformance("scan", logs, *options, "--master", "local[2]", cwd=folder)
        yield folder, expected, done, kept[0]


@pytest.fixture(scope="module")
def spark(scanned):
    register(scanned[-1])
    return scanned[-1]


@pytest.fixture
def damaged(tmp_path):
    return with_damage(tmp_path)


def with_damage(folder):
    """Return two partitions: a valid one, and one with a flipped bit, a repeated batch and a cut tail."""
    log = partition(compression=4)
    flipped = bytearray(log[0][1])
    flipped[90] ^= 4
    log[0][1] = bytes(flipped)
    log[1] = [*log[1][:2], log[1][1], *log[1][2:]]
    log[2] = [*log[2][:3], log[2][3][:50]]
    written(folder / "logs", partition(), "sound-3")
    place = written(folder / "logs", log, "broken-0")
    where = places(log)
    names = [str(place / f"{20 * at:020}.log") for at in range(3)]
    return folder / "logs", [
        ("broken", 0, names[0], where[0][1], RECORDS, CRC, "must"),
        ("broken", 0, names[1], where[1][2], 20 + RECORDS, RISE, "must"),
        ("broken", 0, names[2], where[2][3], None, "batch.length-wrong-rejected", "note"),
    ]


def rows(folder):
    return pq.read_table(folder).to_pylist()


def test_a_scan_ends_in_tables_a_summary_and_a_status(scanned, tmp_path):
    folder, expected, done, _ = scanned
    out = folder / "out"
    assert (done.returncode, done.stderr) == (1, "6 segments, 0.0 MB\n"), done.stdout
    names = ("topic", "partition", "path", "position", "base_offset", "requirement", "level")
    assert [tuple(row[name] for name in names) for row in rows(out / "findings")] == expected
    assert all(row["detail"] for row in rows(out / "findings"))
    summary = [
        {"topic": "broken", "partition": 0, "requirement": rule, "level": level, "findings": 1}
        for *_, rule, level in sorted(expected, key=lambda row: row[5])
    ]
    assert sorted(rows(out / "summary"), key=lambda row: row["requirement"]) == summary
    whole = {row["topic"]: (row["segments"], row["batches"], row["records"]) for row in rows(out / "partitions")}
    assert whole == {"sound": (3, 12, 60), "broken": (3, 11, 55)}
    report = json.loads((folder / "found.json").read_text())
    assert [row["position"] for row in report["first"]] == [row[3] for row in expected[:2]]
    lines = [line for line in done.stdout.splitlines() if line.startswith("must ")]
    details = [row["detail"] for row in rows(out / "findings")]
    for line, (*_, file, at, _, rule, _), detail in zip(lines, expected[:2], details[:2], strict=True):
        assert line.startswith(f"must {rule} {file}, byte {at} ")
        assert line.endswith(f": {detail}"), "a finding is one line of any length"
    assert "2 partitions, 6 segments" in done.stdout
    assert "2 must, 1 note" in done.stdout
    options = ["--out", f"{out}2", "--json", str(tmp_path / "here.json")]
    local_runner = CliRunner().invoke(main, ["scan", str(folder / "logs"), *options])
    assert (local_runner.exit_code, local_runner.output.replace(f"{out}2", str(out))) == (
        done.returncode,
        done.stderr + done.stdout,
    )
    assert (tmp_path / "here.json").read_text() == (folder / "found.json").read_text()


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["nowhere", "--out", "new"], "nowhere: no such file or folder"),
        (["logs", "--out", "logs"], "logs: expected a new or empty folder"),
        (["empty", "--out", "new"], "empty: expected a segment"),
        (["logs", "--out", "new", "--conf", "x"], "--conf: expected KEY=VALUE"),
        (["logs", "--out", "new", "--json", "nowhere/found.json"], "nowhere/found.json: No such file"),
        (["logs", "--out", "/dev/null/new"], "/dev/null/new: Not a directory"),
    ],
)
def test_bad_input_gets_one_error_and_status_2_before_spark_is_started(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    written("logs", partition())
    done = CliRunner().invoke(main, ["scan", *arguments, "--master", "nonesuch"])
    assert done.exit_code == 2
    assert message in done.output
    assert not Path("new").exists()


def test_parts_of_segments_have_equal_findings_on_spark_and_in_process(spark, damaged):
    logs, _ = damaged
    lost = partition()
    lost[1] = [lost[1][0], *lost[1][2:]]
    written(logs, lost, "orders-0")
    written(logs, lost, "others-0")
    found = audit_on_spark(spark, find_segments([str(logs)]), AuditSettings({}, 300, ("ord*",))).findings.collect()
    local_runner = audit(logs) + audit(logs / "orders-0", uncompacted=True)
    names = ("path", "position", "base_offset", "requirement", "level", "detail")
    assert sorted(tuple(row[name] for name in names) for row in found) == sorted(map(tuple, local_runner))
    assert [row["requirement"] for row in found if row["topic"] == "orders"] == ["sequence.gap-out-of-order"]


def types_of(table):
    return [(field.name, field.type) for field in table.schema]


@pytest.mark.parametrize("what", ["damaged", "nothing found", "unread"])
def test_tables_written_in_process_equal_those_of_spark(spark, damaged, tmp_path, what):
    logs, _ = damaged
    if what == "nothing found":
        shutil.rmtree(logs / "broken-0")
    if what == "unread":
        (logs / "broken-0" / f"{99:020}.log").symlink_to("nowhere")
        (logs / f"{5:020}.log").write_bytes(b"\0\0\0\1")
        written(logs, [part * 3 for part in partition()], "orders-0")
    segments, rules = find_segments([str(logs)]), AuditSettings({}, 300, ("ord*",))
    on_spark, in_here = spark_runner.audit(spark, segments, rules), local_runner.audit(segments, rules)
    spark_runner.write(on_spark, str(tmp_path / "spark"))
    (tmp_path / "here").mkdir()
    local_runner.write(in_here, tmp_path / "here")
    logs = logs_of(row["log"] for table in in_here.logs for row in table.to_pylist())
    assert logs == logs_of(row["log"] for row in on_spark.logs.collect()), "the content of the page"
    assert sum(len(log.segments) for log in logs) == len(segments)
    for name in ("findings", "summary", "partitions"):
        ours, sparks = (pq.read_table(tmp_path / way / name) for way in ("here", "spark"))
        assert types_of(ours) == types_of(sparks)
        assert ours.to_pylist() == sparks.to_pylist()
        assert (ours.num_rows > 0) == (what != "nothing found" or name == "partitions")
        assert spark.read.parquet(str(tmp_path / "here" / name)).count() == ours.num_rows


def test_a_write_error_of_spark_is_one_line(spark, damaged, monkeypatch, tmp_path):
    logs, _ = damaged
    monkeypatch.setattr(spark_runner, "session", lambda *_: nullcontext(spark))
    done = conformance("scan", logs, "--out", "nosuch://place/x", "--master", "local[2]", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("conformance: nosuch://place/x: ")
    assert "Traceback" not in done.stdout + done.stderr


def started(pid):
    """Return True if a scan started Java."""
    return any(one.name() in ("java", "bash", "sh") for one in psutil.Process(pid).children())


@pytest.mark.parametrize("moment, number", [("starts", signal.SIGTERM), ("works", signal.SIGINT)])
def test_an_interrupted_scan_shows_no_java_error_and_leaves_no_process(tmp_path, traces, moment, number):
    one = plain(0)
    logs = tmp_path / "topic-0"
    logs.mkdir()
    (logs / f"{0:020}.log").write_bytes(b"".join(struct.pack(">q", at * RECORDS) + one[8:] for at in range(200_000)))
    command = [sys.executable, "-m", "conformance", "scan", str(logs), "--out", str(tmp_path / "out")]
    process = subprocess.Popen(
        [*command, "--master", "local[1]"],
        env=traces.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    until = time.monotonic() + 240
    try:
        while not (started if moment == "starts" else is_at_work)(process.pid):
            assert time.monotonic() < until
            assert process.poll() is None, process.stdout.read()
            time.sleep(0.05)
        os.kill(process.pid, number) if moment == "starts" else os.killpg(process.pid, number)
        message, _ = process.communicate(timeout=240)
    finally:
        process.kill()
    assert (process.returncode, message) == (130, "1 segments, 25.2 MB\n")
    assert list((tmp_path / "out").iterdir()) == []


# --- a data source ------------------------------------------------------------------------------------


def test_batches_are_rows_with_their_violated_requirement(spark, damaged):
    logs, expected = damaged
    found = spark.read.format("kafka-log").load(str(logs))
    assert found.count() == 12 + 13
    bad = found.filter("violation is not null").select("topic", "position", "violation").collect()
    assert sorted(map(tuple, bad)) == sorted(("broken", row[3], row[5]) for row in expected if row[5] != RISE)
    kinds = found.filter("magic = 2").groupBy("topic", "compression").count().collect()
    assert sorted(map(tuple, kinds)) == [("broken", "zstd", 12), ("sound", "none", 12)]


def test_no_worker_of_spark_imports_from_the_working_folder(scanned, spark, damaged):
    spark.read.format("kafka-log").load(str(damaged[0])).count()
    assert Traps(scanned[0]).imported == []


def test_records_are_rows_with_the_values_of_the_reference(spark, broker_logs):
    found = spark.read.format("kafka-log").option("rows", "records").load(str(broker_logs / "plain-lz4-0"))
    wanted = []
    for segment in find_segments([str(broker_logs / "plain-lz4-0")]):
        for entry in codec.entries(Path(segment.path).read_bytes()):
            for record in entry.value["records"]:
                headers = [(header["key"], header["value"]) for header in record["headers"]]
                wanted.append((record["offset"], record["timestamp"], record["key"], record["value"], headers))
    assert dict(found.dtypes)["timestamp"] == "timestamp"
    got = found.select("offset", "timestampMillis", "key", "value", "headers").orderBy("offset").collect()
    assert [
        (*map(as_bytes, row[:4]), [(as_bytes(part[0]), as_bytes(part[1])) for part in row[4]]) for row in got
    ] == wanted


@pytest.mark.parametrize(
    "condition, expected",
    [
        ("offset between 18 and 21 and partition = 3", [18, 19, 20, 21]),
        ("partition in (1, 2)", []),
        ("timestamp >= timestamp '1970-01-01 00:00:01.057 UTC' and topic = 'orders'", [57, 57, 58, 58, 59, 59]),
        ("topic is null", [0, 1, 2, 3, 4]),
        ("not (partition = 0) and offset < 2", [0, 1]),
        ("cast(key as string) = 'key-7' and partition is not null", [7, 7]),
    ],
)
def test_a_query_returns_the_same_rows_with_and_without_pushdown(records, condition, expected):
    for rows_of_records in records:
        found = rows_of_records.filter(condition).select("offset").collect()
        assert sorted(row.offset for row in found) == expected


@pytest.fixture(scope="module")
def records(spark, tmp_path_factory):
    """Return the records of the source, and a table of all of them that only Spark filters."""
    folder = tmp_path_factory.mktemp("records")
    for name in ("orders-0", "orders-3"):
        written(folder, partition(), name)
    (folder / f"{0:020}.log").write_bytes(plain(0))
    found = spark.read.format("kafka-log").option("rows", "records").load(str(folder))
    return found, spark.createDataFrame(found.toArrow())


def as_bytes(value):
    return bytes(value) if isinstance(value, bytearray) else value


@pytest.mark.parametrize(
    "options, message", [({"rows": "bytes"}, "batches, records"), ({"splitSize": "x"}, "splitSize")]
)
def test_a_wrong_option_of_the_data_source_is_an_error_with_the_expected_form(spark, tmp_path, options, message):
    with pytest.raises(Exception, match=message):
        spark.read.format("kafka-log").options(**options).load(str(tmp_path)).count()


DOCS = (Path(__file__).parents[3] / "docs" / "scan.md").read_text(encoding="utf-8")


EXAMPLES = re.findall(r"```python\n(.*?)```", DOCS, re.DOTALL)


def test_the_example_of_a_query_in_the_docs_runs(spark, tmp_path, capsys):
    place = written(tmp_path, partition())
    assert "/var/lib/kafka/data/orders-3" in EXAMPLES[1]
    exec(EXAMPLES[1].replace("/var/lib/kafka/data/orders-3", str(place)), {"spark": spark})
    shown = capsys.readouterr().out
    assert "sum(recordCount)" in shown
    assert "|    19|1970-01-01" in shown
    assert "|key-19|" in shown


def test_the_example_of_a_session_in_the_docs_runs(tmp_path):
    place = written(tmp_path, partition())
    assert "/var/lib/kafka/data/orders-3" in EXAMPLES[0]
    program = EXAMPLES[0].replace("/var/lib/kafka/data/orders-3", str(place))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, done.stdout, done.stderr) == (0, "12\n", "")


def test_every_documented_option_of_a_scan_exists():
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", DOCS)) - {"--type", "--requirements"}
    given = {option for parameter in scan_command.command.params for option in parameter.opts}
    assert {"--out", "--uncompacted"} <= shown <= given


def test_the_tables_have_the_documented_columns(spark, damaged):
    logs, _ = damaged
    tables = audit_on_spark(spark, find_segments([str(logs)]), AuditSettings({}))
    for name in ("findings", "summary", "partitions"):
        (cells,) = re.findall(rf"^\| `{name}` \| (.*) \|$", DOCS, re.MULTILINE)
        assert re.findall(r"`(\w+)`", cells) == getattr(tables, name).columns


# --- a real broker ------------------------------------------------------------------------------------


def test_segments_of_a_real_broker_have_no_findings_and_cover_every_kind_of_batch(broker_logs):
    assert audit(broker_logs) == audit(broker_logs, 500) == []
    found = find_segments([str(broker_logs)])
    topics = {segment.topic for segment in found}
    assert {"__cluster_metadata", "__consumer_offsets", "__transaction_state", "append-time", "compacted"} <= topics
    batches = [
        row
        for one in found
        for part in parts_of(one, 1 << 30)
        for some in read(part, "batches")
        for row in some.to_pylist()
    ]
    assert {row["compression"] for row in batches} == {"none", "gzip", "snappy", "lz4", "zstd"}
    assert {row["timestampType"] for row in batches} == {"CreateTime", "LogAppendTime"}
    assert any(row["isTransactional"] and not row["isControlBatch"] for row in batches)
    assert any(row["recordCount"] <= row["lastOffset"] - row["baseOffset"] for row in batches)
    for suffix in (".index", ".timeindex", ".txnindex"):
        assert any(path.stat().st_size for path in broker_logs.glob(f"*/*{suffix}"))
    assert len([one for one in found if one.topic == "transactions"]) > 2
    assert audit(broker_logs / "transactions-0", uncompacted=True) == []


def test_every_batch_of_a_real_broker_is_clean_and_accepted_by_the_reference(broker_logs):
    for segment in find_segments([str(broker_logs)]):
        data = Path(segment.path).read_bytes()
        for entry in codec.entries(data):
            assert not entry.violations, (segment.path, entry)
            batch = read_batch(data, entry.start)
            assert batch is not None, (segment.path, entry.start)
            assert batch.offsets().tolist() == [record["offset"] for record in entry.value["records"]]
            assert batch.timestamps().tolist() == [record["timestamp"] for record in entry.value["records"]]


def batch_of(path, row):
    """Return the place of a batch in a file."""
    entry = list(codec.entries(path.read_bytes()))[row]
    return entry.start, entry.stop


def copied(logs, name, folder):
    """Copy a partition without its indexes, which would no longer match moved batches."""
    place = folder / name
    shutil.copytree(logs / name, place)
    for index in place.glob("*index"):
        index.unlink()
    return place


def spoiled(path, start, stop, new):
    data = path.read_bytes()
    path.write_bytes(data[:start] + new + data[stop:])


PLANTS = {
    "a bit flipped": (lambda one: bytes((*one[:80], one[80] ^ 1, *one[81:])), 0, CRC),
    "the checksum": (lambda one: bytes((*one[:17], one[17] ^ 1, *one[18:])), 0, CRC),
    "maxTimestamp": (lambda one: changed(one, 35, ">q", 1_800_000_000_000), 0, "batch.max-timestamp"),
    "the count": (lambda one: changed(one, 57, ">i", 1), 0, "batch.record-count-mismatch"),
    "lastOffsetDelta": (lambda one: changed(one, 23, ">i", 0), 0, "batch.last-offset-delta"),
    "a batch twice": (lambda one: one + one, 1, RISE),
    "a lost batch": (lambda _: b"", 0, "sequence.gap-out-of-order"),
    "bytes gone": (lambda one: one[:70] + one[75:], 0, CRC),
}


@pytest.mark.parametrize("topic", ["plain-none-0", "plain-gzip-0", "plain-zstd-0"])
@pytest.mark.parametrize("name", PLANTS)
def test_damage_in_a_real_segment_is_the_only_finding_and_has_its_place(broker_logs, tmp_path, topic, name):
    place = copied(broker_logs, topic, tmp_path)
    path = sorted(place.glob("*.log"))[1]
    start, stop = batch_of(path, 1)
    spoil, later, rule = PLANTS[name]
    spoiled(path, start, stop, spoil(path.read_bytes()[start:stop]))
    at = start + later * (stop - start)
    for size in (1 << 30, 1):
        assert shown(audit(place, size)) == [(path.name, at, rule, "must")]


def test_a_marker_of_an_older_epoch_in_a_real_log_is_found(broker_logs, tmp_path):
    place = copied(broker_logs, "transactions-0", tmp_path)
    path, entry = [
        (path, entry)
        for path in sorted(place.glob("*.log"))
        for entry in codec.entries(path.read_bytes())
        if entry.value["isControlBatch"]
    ][-1]
    assert entry.value["producerEpoch"] > 0
    spoiled(path, entry.start, entry.stop, changed(path.read_bytes()[entry.start : entry.stop], 51, ">h", 0))
    for size in (1 << 30, 1):
        assert shown(audit(place, size)) == [(path.name, entry.start, "producer-epoch.fences", "must")]
