"""Campaigns on an embedded Spark: killed and continued, with different Javas and numbers of cores."""

import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark", reason="campaigns need the extra spark")

import pyspark
from command_line import conformance
from traces import is_at_work
from traps import Traps, without_safe_path

from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.store import CampaignFolder
from conformance.pipeline.campaign.tables import rows_of
from conformance.strategies.seeded.cases import types_for

pytestmark = pytest.mark.integration

PROGRAM = Path(sys.executable).parent / "conformance"
SPARK = Path(pyspark.__file__).parent
LIAR = f"command:{sys.executable} -m conformance.selftest.bad_targets varint-off-by-one"
CASES = 8000


def arguments(out, *options):
    selection = ["--cases", str(CASES), "--seed", "3", "--select", "type:VAR*", "--select", "type:RECORD"]
    return ["campaign", LIAR, *selection, "--out", out, *options]


def command(out, master, *options):
    return [sys.executable, "-m", "conformance", *arguments(out, "--master", master, *options)]


def path_without_java(folder):
    """Return a PATH with all programs except those of Java."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


@pytest.fixture(scope="module")
def quiet(tmp_path_factory):
    """Return an undisturbed campaign on all cores, on a machine without Java."""
    folder = tmp_path_factory.mktemp("quiet")
    env = {**os.environ, "PATH": path_without_java(folder / "bin"), "XDG_CACHE_HOME": str(folder / "cache")}
    env.pop("JAVA_HOME", None)
    (folder / "cwd").mkdir()
    (folder / "home").mkdir()
    report = folder / "report.json"
    done = subprocess.run(
        [sys.executable, "-m", "conformance", *arguments(folder / "out", "--json", report)],
        env={**env, "HOME": str(folder / "home")},
        cwd=folder / "cwd",
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return folder, done


def complaints(done):
    """Return the standard error of a campaign without progress lines, which depend on the load."""
    return re.sub(r"\d of \d slices\n", "", done.stderr)


def tables(folder):
    store = CampaignFolder(folder)
    assert store.complete
    return [sorted(json.dumps(row, sort_keys=True) for row in rows_of(path)) for path in (store.counts, store.failures)]


def test_without_java_on_the_path_a_campaign_uses_the_java_of_the_wheel(quiet):
    folder, done = quiet
    assert done.returncode == 1, done.stderr
    assert complaints(done) == ""
    assert shutil.which("java", path=str(folder / "bin")) is None
    assert len(list((folder / "cache").glob("kafka-conformance/*/java-*/bin/java"))) == 1
    assert list((folder / "cwd").iterdir()) == []
    assert list((folder / "home").iterdir()) == []


def test_a_campaign_writes_the_reports_of_a_run_and_reproducing_vectors(quiet, tmp_path):
    folder, done = quiet
    report = json.loads((folder / "report.json").read_text())
    assert report["summary"][LIAR]["fail"] == len(list(rows_of(CampaignFolder(folder / "out").failures))) > 0
    assert {row["type"] for row in report["shrunk"]} == {"VARINT", "VARLONG"}
    assert sum(row["count"] for row in report["shrunk"]) == report["summary"][LIAR]["fail"]
    for shrunk in report["shrunk"]:
        # Of failures with one cause only the smallest is shown in full, the others with their original case.
        assert shrunk["id"] in done.stdout or shrunk["of"] in done.stdout
    rows = list(rows_of(CampaignFolder(folder / "out").clusters))
    assert sum(row["count"] for row in rows) == report["summary"][LIAR]["fail"]
    assert {row["smallest"] for row in rows} == {row["id"] for row in report["results"]}
    vectors = ["--vectors", folder / "out" / "vectors", "--select", "bytes/*", "--json", tmp_path / "again.json"]
    again = conformance("run", LIAR, *vectors, cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    verdicts = {row["id"]: row["verdict"] for row in json.loads((tmp_path / "again.json").read_text())["results"]}
    assert {shrunk["id"] for shrunk in report["shrunk"]} <= {
        name for name, found in verdicts.items() if found == "fail"
    }


def test_a_run_and_a_campaign_have_equal_results_for_every_jobs_and_hash_seed(quiet, tmp_path, catalog):
    folder, _ = quiet
    names = types_for(["type:VAR*", "type:RECORD"])
    campaign = Campaign((LIAR,), tuple(names), CASES, seed=3)
    case_ids = {case.id for number in range(campaign.slices) for case in campaign.cases_of(number, catalog)}
    expected = {row["id"]: shared_fields(row) for row in rows_of(CampaignFolder(folder / "out").failures)}
    report = tmp_path / "run.json"
    select = [option for name in names for option in ("--select", f"gen/*/{name}/*")]
    many = ["--generated", str(-(-CASES // len(names))), "--seed", "3", "--jobs", "1"]
    subprocess.run(
        [sys.executable, "-m", "conformance", "run", LIAR, *select, *many, "--json", report],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        check=False,
        timeout=240,
    )
    rows = {row["id"]: row for row in json.loads(report.read_text())["results"]}
    assert case_ids <= rows.keys()
    failed = {
        name: shared_fields(rows[name]) for name in case_ids if rows[name]["verdict"] in ("fail", "crash", "timeout")
    }
    assert failed == expected
    assert len(expected) > 100


def shared_fields(row):
    """Return the fields of a failure that a report and a table share."""
    return [row[key] for key in ("verdict", "requirement", "level", "cause", "detail")]


def test_a_failing_case_can_be_run_again_by_its_id(quiet, tmp_path):
    folder, _ = quiet
    row = next(row for row in rows_of(CampaignFolder(folder / "out").failures) if row["level"] == "must")
    assert conformance("run", LIAR, "--select", row["id"], "--quiet", cwd=tmp_path).returncode == 1


def test_a_campaign_has_the_same_tables_after_kills_and_a_crashed_java(quiet, tmp_path, traces):
    out = tmp_path / "out"
    killed_at_any_moment(out, traces)
    java_dies(out, traces)
    kept = min(CampaignFolder(out).done())
    path = CampaignFolder(out).path_of(kept)
    path.write_bytes(path.read_bytes()[:100])
    again = subprocess.run(
        command(out, "local[1]", "--quiet"), env=traces.env, capture_output=True, text=True, check=False, timeout=240
    )
    assert again.returncode == 1, again.stderr
    assert complaints(again) == f"damaged slices, judged again: {kept}\n"
    assert tables(out) == tables(quiet[0] / "out")
    assert not CampaignFolder(out).slices.exists()


def killed_at_any_moment(out, traces):
    """Kill a campaign with some finished slices, and check that no process is left."""
    process = subprocess.Popen(
        command(out, "local[1]"), env=traces.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    slices = CampaignFolder(out).slices
    until = time.monotonic() + 120
    while not (slices.is_dir() and list(slices.glob("0*.parquet"))):
        assert time.monotonic() < until
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    time.sleep(random.uniform(0, 1.5))
    process.send_signal(signal.SIGKILL)
    process.communicate()
    done = CampaignFolder(out).done()
    assert 0 < len(done) < CASES // 1000
    assert not CampaignFolder(out).complete
    while traces.left():
        assert time.monotonic() < until, "processes of the killed driver still run"


def java_dies(out, traces):
    """Kill the Java of a campaign: one line reports it with the command to continue."""
    process = subprocess.Popen(
        command(out, "local[1]"), env=traces.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    until = time.monotonic() + 120
    while not is_at_work(process.pid):
        assert time.monotonic() < until
        assert process.poll() is None, process.stdout.read()
        time.sleep(0.02)
    for child in psutil.Process(process.pid).children():
        if child.name() == "java":
            child.kill()
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 3, output
    assert "Spark stopped: its Java has ended (repeat the command to continue)\n" in output
    assert "Traceback" not in output
    assert "Connection refused" not in output


NEIGHBOURLY = """
import json, sys
from neighbour import answer

for line in sys.stdin:
    print(json.dumps({"id": json.loads(line)["id"], **answer}), flush=True)
"""
FEW = ("--select", "type:INT8", "--cases", "20", "--out", "out")
DESCRIBED = {"ok": True, "protocol": 1, "name": "t", "version": "1", "language": "python", "supports": {}}


@pytest.mark.parametrize("is_submitted", [False, True], ids=["alone", "by spark-submit"])
def test_a_campaign_imports_no_code_of_the_working_folder(is_submitted, tmp_path):
    above, cwd, target, driver = (tmp_path / name for name in ("above", "above/cwd", "target", "driver.py"))
    traps = Traps(cwd)
    for folder in (above / "bin", above / "jars", target):
        folder.mkdir()
    spark_submit = above / "bin" / "spark-submit"
    spark_submit.write_text(f"#!/bin/sh\ntouch {shlex.quote(str(tmp_path / 'submitted'))}\nexit 1\n")
    spark_submit.chmod(0o755)
    (target / "neighbour.py").write_text(f"answer = {DESCRIBED}\n")
    (target / "script.py").write_text(NEIGHBOURLY)
    driver.write_text("from conformance.cli import main\n\nmain()\n")
    campaign_arguments = ["campaign", f"command:{shlex.join([sys.executable, str(target / 'script.py')])}", *FEW]
    command, env = [PROGRAM, *campaign_arguments, "--master", "local[1]"], without_safe_path()
    if is_submitted:
        command = [SPARK / "bin" / "spark-submit", "--master", "local[1]", driver, *campaign_arguments]
        env |= {"SPARK_HOME": str(SPARK), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert traps.imported == []
    assert not (tmp_path / "submitted").exists()
    assert done.returncode == 3, done.stdout + done.stderr
    assert "decode of INT8" in done.stdout


def test_an_interrupted_campaign_reports_its_results_and_leaves_no_process(tmp_path, traces):
    out, report = tmp_path / "out", tmp_path / "report.json"
    process = subprocess.Popen(
        command(out, "local[2]", "--json", report, "--quiet"),
        env=traces.env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    until = time.monotonic() + 120
    while not list(CampaignFolder(out).slices.glob("0*.parquet")):
        assert time.monotonic() < until
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output = process.communicate(timeout=120)
    assert process.returncode == 130, output
    assert output[1] == b""
    done = len(CampaignFolder(out).done())
    assert 0 < done < CASES // 1000
    assert not CampaignFolder(out).complete
    result = json.loads(report.read_text())
    assert result["summary"][LIAR]["fail"] > 0
    results = sum(result["summary"][LIAR].values()) - result["summary"][LIAR]["disputed"]
    halt = f"interrupted after {results} cases"
    assert [(one["status"], one["problem"]) for one in result["targets"]] == [("interrupted", halt)]
    assert halt in output[0].decode()


def test_a_complete_campaign_is_reported_again_without_spark(quiet, tmp_path):
    folder, _ = quiet
    before = tables(folder / "out")
    again = conformance(*arguments(folder / "out", "--master", "nonesuch://", "--quiet"), cwd=tmp_path)
    assert again.returncode == 1, again.stderr
    assert tables(folder / "out") == before


@pytest.mark.parametrize(
    "master, output",
    [
        ("nonesuch://", "Master must either be yarn or start with spark"),
        pytest.param("spark://127.0.0.1:1", "All masters are unresponsive", marks=pytest.mark.slow),
    ],
)
def test_a_wrong_master_is_one_line_and_status_2_and_leaves_no_process(tmp_path, traces, master, output):
    done = subprocess.run(
        command(tmp_path / "out", master), env=traces.env, capture_output=True, text=True, check=False, timeout=240
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("conformance: Spark did not start: ")
    assert output in done.stderr
