"""Campaigns and audits on a cluster: a master and two workers in separate processes, one of which is lost."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="campaigns and audits need the extra spark")

import pyarrow.parquet as pq
import pyspark
from segment_files import partition, places, written
from traces import Traces

from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.tables import rows_of
from conformance.pipeline.spark_session import java_home

pytestmark = pytest.mark.slow
TARGET = '''\
def describe():
    return {"ok": True, "protocol": 1, "name": "bytewise", "supports": {"decode": ["INT8", "INT16"]}}
def decode(type, data, **_):
    """Takes numbers for unsigned."""
    size = {"INT8": 1, "INT16": 2}[type]
    if len(data) < size:
        from conformance import Reject
        raise Reject("malformed", "too short")
    return {"value": int.from_bytes(data[:size], "big"), "consumed": size}
'''
CASES = 60_000


class Cluster:
    """A standalone master with two workers, each in a separate session."""

    def __init__(self, folder, stack, env):
        self.folder = folder
        env = {**env, "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1"}
        env.pop("PYTHONPATH", None)  # the executors run the code that the driver sends
        self.env = {**env, "PYSPARK_PYTHON": sys.executable}
        self.stack = stack
        self.master = self.start("master.Master", "--port", "0", "--webui-port", "0")
        self.url = self.wait_for_output(self.master, "Starting Spark master at ").split()[0]
        self.workers = [self.worker(name) for name in ("one", "two")]
        for worker in self.workers:
            self.wait_for_output(worker, "Successfully registered with master")

    def worker(self, name):
        given = ["--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", str(self.folder / name)]
        return self.start("worker.Worker", *given, self.url)

    def start(self, program, *arguments):
        log = self.folder / f"{len(list(self.folder.glob('*.log')))}.log"
        with log.open("w") as output:
            started = subprocess.Popen(
                [
                    Path(pyspark.__file__).parent / "bin" / "spark-class",
                    f"org.apache.spark.deploy.{program}",
                    *("--host", "127.0.0.1", *arguments),
                ],
                env=self.env,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        started.log = log
        self.stack.callback(self.lose, started)
        return started

    def lose(self, process):
        """Kill a process with its children."""
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    @staticmethod
    def wait_for_output(process, words):
        """Wait for some words in the output of a process, and return the text after them."""
        until = time.monotonic() + 90
        while words not in (text := process.log.read_text()):
            assert process.poll() is None, text
            assert time.monotonic() < until, text
            time.sleep(0.1)
        return text.split(words)[1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Return the working folder, which contains a target."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "bytewise.py").write_text(TARGET)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    traces = Traces()
    with ExitStack() as stack:
        yield Cluster(tmp_path_factory.mktemp("cluster"), stack, traces.env)
    until = time.monotonic() + 60
    while left := traces.left():
        assert time.monotonic() < until, f"the cluster is gone, and left {left}"


def arguments(out):
    options = ["--cases", str(CASES), "--select", "type:INT8", "--select", "type:INT16", "--out", str(out), "--quiet"]
    return ["campaign", "module:./bytewise.py", *options]


def conformance(place, *given, env):
    return subprocess.Popen(
        [sys.executable, "-m", "conformance", *given],
        env=env,
        cwd=place,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def tables(folder):
    store = CampaignFolder(folder)
    assert store.complete
    return [sorted(json.dumps(row, sort_keys=True) for row in rows_of(path)) for path in (store.counts, store.failures)]


@pytest.fixture(scope="module")
def quiet(place):
    """Return the tables of an undisturbed campaign."""
    done = conformance(place, *arguments("quiet"), "--master", "local[2]", env=dict(os.environ))
    output = done.communicate(timeout=600)
    assert done.returncode == 1, output
    return tables(place / "quiet")


def on_cluster(cluster):
    """Return the environment of a driver with this package, and the options of the cluster."""
    env = {**cluster.env, **{name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}}
    settings = ["spark.files=bytewise.py", "spark.executor.memory=512m", "spark.executor.cores=1"]
    return env, ["--master", cluster.url, *(part for setting in settings for part in ("--conf", setting))]


def test_a_campaign_that_loses_a_worker_has_the_same_tables(cluster, place, quiet):
    env, options = on_cluster(cluster)
    running = conformance(place, *arguments("lost"), *options, env=env)
    until = time.monotonic() + 240
    while len(list((place / "lost" / "slices").glob("0*.parquet"))) < 5:
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)
    lost = cluster.workers.pop(0)
    work = [path for path in cluster.folder.glob("*/app-*/*") if path.is_dir()]
    assert len({path.parent.parent for path in work}) == 2, "both workers have an executor"
    cluster.lose(lost)
    assert not (place / "lost" / "counts.parquet").exists(), "it was not finished"
    output = running.communicate(timeout=400)
    assert running.returncode == 1, output
    assert output[1] == ""
    assert tables(place / "lost") == quiet


DRIVER = "from conformance.cli import main\n\nmain()\n"


def submitted(cluster, place, *arguments, settings=(), program=DRIVER):
    """Return the output of spark-submit for a program and its arguments."""
    (place / "driver.py").write_text(program)
    env, _ = on_cluster(cluster)
    submit = [Path(pyspark.__file__).parent / "bin" / "spark-submit", "--master", cluster.url]
    return subprocess.run(
        [*submit, *settings, "--conf", "spark.executor.memory=512m", "driver.py", *arguments],
        env={**env, "PYSPARK_DRIVER_PYTHON": sys.executable},
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )


def test_spark_submit_runs_a_campaign(cluster, place, quiet):
    done = submitted(cluster, place, *arguments("submitted"), settings=("--files", "bytewise.py"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert tables(place / "submitted") == quiet


# --- audits -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def logs(place):
    """Return three valid partitions, one with a flipped bit, and the position of that byte."""
    log = partition(compression=4)
    log[1][2] = log[1][2][:-1] + bytes([log[1][2][-1] ^ 4])
    for number in range(3):
        written(place / "logs", partition(), f"sound-{number}")
    file = written(place / "logs", log, "broken-0") / f"{20:020}.log"
    return [(str(file), places(log)[1][2], "crc.mismatch-corrupt", "must")]


def findings(folder):
    names = ("path", "position", "requirement", "level")
    return [tuple(row[name] for name in names) for row in pq.read_table(folder / "findings").to_pylist()]


def test_a_cluster_runs_an_audit(cluster, place, logs):
    env, options = on_cluster(cluster)
    running = conformance(place, "scan", str(place / "logs"), "--out", "found", *options, env=env)
    output = running.communicate(timeout=400)
    assert running.returncode == 1, output
    assert "4 partitions, 12 segments" in output[0]
    assert findings(place / "found") == logs


def test_spark_submit_runs_an_audit(cluster, place, logs):
    done = submitted(cluster, place, "scan", str(place / "logs"), "--out", "sent")
    assert done.returncode == 1, done.stdout + done.stderr
    assert findings(place / "sent") == logs


ASKING = """\
import sys
from pyspark.sql import SparkSession
from conformance.pipeline.kafka_log_source import register

spark = SparkSession.builder.getOrCreate()
register(spark)
batches = spark.read.format("kafka-log").load(sys.argv[1])
print("batches", [tuple(row) for row in batches.groupBy("violation").count().orderBy("violation").collect()])
"""


def test_executors_read_logs_as_a_data_source(cluster, place, logs):
    done = submitted(cluster, place, str(place / "logs"), program=ASKING)
    assert f"batches {[(None, 47), (logs[0][2], 1)]}" in done.stdout, done.stdout + done.stderr
