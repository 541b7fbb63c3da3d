"""The bundled adapters, on the real libraries: in order, and verdicts that do not change unseen."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance.targets.resolve import adapters

KNOWN = Path(__file__).parent / "known"
PYTHON = sorted(name for name, adapter in adapters().items() if adapter.language == "python")


def conformance(*arguments, cwd):
    command = [sys.executable, "-m", "conformance", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=600)


def require(name):
    lacking = adapters()[name].missing()
    if lacking:
        pytest.skip(f"{name} lacks {', '.join(lacking)}")


@pytest.mark.parametrize("name", PYTHON)
def test_a_python_adapter_is_in_order(name, tmp_path):
    require(name)
    done = conformance("doctor", name, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", PYTHON)
def test_the_verdicts_on_a_library_are_those_that_are_pinned(name, tmp_path):
    require(name)
    arguments = ["run", name, "--generated", 0, "--json", "r.json", "--known-failures", KNOWN / f"{name}.yaml"]
    done = conformance(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    assert "Traceback" not in done.stdout + done.stderr
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    judged = [result for result in results if result["verdict"] not in ("skip", "protocol")]
    assert len(judged) >= 600


@pytest.mark.parametrize("name", PYTHON)
def test_every_counting_failure_names_requirement_bytes_and_reproduction(name, tmp_path):
    require(name)
    conformance("run", name, "--generated", 20, "--json", "r.json", cwd=tmp_path)
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    failures = [result for result in results if result["verdict"] in ("fail", "crash", "timeout")]
    assert failures
    for failure in failures:
        assert failure["requirement"]
        assert failure["hex"] is not None or failure["op"] == "encode"
        assert failure["reproduce"] == shlex.join(["conformance", "run", name, "--select", failure["id"]])


@pytest.fixture(scope="module")
def kafka_clients(tmp_path_factory):
    for tool in ("java", "mvn"):
        if not shutil.which(tool):
            pytest.skip(f"kafka-clients lacks {tool} on the PATH")
    if adapters()["kafka-clients"].missing():
        done = conformance("targets", "--setup", "kafka-clients", cwd=tmp_path_factory.mktemp("setup"))
        assert done.returncode == 0, done.stdout + done.stderr
    return "kafka-clients"


def test_apache_kafkas_own_code_passes_every_must_that_is_not_disputed(kafka_clients, tmp_path):
    done = conformance("run", kafka_clients, "--json", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["summary"][kafka_clients]["pass"] > 2000
    skipped = [result["id"] for result in report["results"] if result["verdict"] == "skip"]
    assert len(skipped) < 40, skipped


def test_the_adapter_of_apache_kafkas_own_code_is_in_order(kafka_clients, tmp_path):
    done = conformance("doctor", kafka_clients, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
