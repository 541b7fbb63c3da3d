"""What several tests share: the catalogue, and one in which to look for processes that were left behind."""

from __future__ import annotations

import fcntl
import gc
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from json_reports import broken_reports
from traces import ROOT, Traces

from conformance.catalog.catalog import CaseStore
from conformance.catalog.catalog_builder import read_catalog
from conformance.catalog.vector_files import VECTORS, read_vectors, vector_files
from conformance.definitions.loader import shipped_types
from conformance.live_brokers.bundled_broker import BundledBroker, free_ports, read_broker
from conformance.targets.manifests import BROKER
from conformance.targets.resolve import adapters, brokers, drivers

AXE = "axe-core@4.11.0"

settings.register_profile("busy", deadline=None)  # no test asserts on wall time
settings.load_profile("busy")

# `nohup`, or a script that starts the tests in the background, has these signals ignored; commands would do so, too.
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
for told, due in DEFAULTS.items():
    if signal.getsignal(told) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(told, due)

# What the commands under test print is the same wherever the tests run.
os.environ.pop("GITHUB_ACTIONS", None)

UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
OF_A_SHORT_LIFE = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *UNVERIFIED)
"""Of a Java that lives for seconds: to compile its code any better costs as much again as all that it does.

To verify the classes that it loads, which are those of Spark and of Apache Kafka, costs a tenth of it.
"""
for of_spark in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ[of_spark] = " ".join(OF_A_SHORT_LIFE)


# Thousands of tests and cases live to the end: they are seldom looked through for cycles.
gc.set_threshold(20_000, 20, 20)

LONGEST = (
    *("test_unmodified_clients.py", "test_built_clients.py", "test_live_clients.py", "test_beside.py"),
    *("test_scan.py", "test_spark.py"),
    *("test_brokers_judged.py", "test_plugin.py"),
    *("test_mutants.py", "test_isolation.py", "test_hypothesis.py", "test_session.py", "test_bad_targets.py"),
    *("test_confirmed.py", "test_adapters.py", "test_seeded_cases.py", "test_contributing.py", "test_campaign.py"),
    *(
        "test_bundled.py",
        "test_commands.py",
        "test_docs.py",
        "test_new_adapter.py",
        "test_old_clients.py",
        "test_producing.py",
    ),
)
"""Files that take most of a minute of a core, or more, come first, so that no worker waits at the end for one of them.

A file is run by one worker (pyproject.toml: --dist loadfile): what its tests share is made once.
"""

ONCE = (
    *("test_unmodified_clients.py", "test_built_clients.py", "test_beside.py", "test_memberships.py"),
    *("test_live_clients.py",),
    *("test_producing.py", "test_elsewhere.py", "test_brokers_judged.py", "test_bundled.py", "test_harm.py"),
    *("test_described.py", "test_adapters.py", "test_bad_targets.py", "test_requirement_faults.py"),
    *("test_lying_brokers.py",),
    *("test_selftest.py", "test_contributing.py", "test_drafted_reports.py", "test_docs.py", "test_adapter_guide.py"),
    *("test_charging.py", "test_covering.py", "test_requirement_ids.py", "test_house.py", "test_old_clients.py"),
)
"""Files about what other programs do, about what the vectors hold and catch, or about the files of the checkout.

No Python changes any of that: they run on one (tox.ini). Elsewhere single tests are marked for that.
"""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    ranks = {name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path.name, len(LONGEST)))
    for item in items:
        if item.path.name in ONCE or item.path.parent.name == "benchmarks":
            item.add_marker("once")


class UnpackedOnce(CaseStore):
    """Cases of which each is unpacked when a test first asks for it, and kept: to unpack all takes half a second."""

    def __init__(self, cases):
        self.summaries, self._unpacked = cases.summaries, {}

    def __getitem__(self, name):
        if name not in self._unpacked:
            self._unpacked[name] = super().__getitem__(name)
        return self._unpacked[name]


@pytest.fixture(scope="session")
def catalog():
    """The bundled catalogue, its cases unpacked once for all tests."""
    packed = read_catalog()
    return replace(packed, cases=UnpackedOnce(packed.cases))


@pytest.fixture(scope="session")
def vectors():
    """The bundled vectors as they stand in their files."""
    return [vector for path in vector_files(VECTORS) for vector in read_vectors(path, shipped_types())]


def built(name: str, folder: Path) -> str:
    """The name of what comes with the suite, set up where what it needs for that is found; else the test is skipped."""
    adapter = next(
        one for one in (*adapters().values(), *drivers().values(), *brokers().values()) if one.target == name
    )
    if lacking := [need for need in adapter.missing() if not need.startswith("its set-up")]:
        pytest.skip(f"{name} lacks {', '.join(lacking)}")
    if adapter.missing():
        command = [sys.executable, "-m", "conformance", "targets", "--setup", name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=900)
        assert done.returncode == 0, done.stdout + done.stderr
    return name


@pytest.fixture(scope="session")
def kafka_clients(tmp_path_factory):
    return built("kafka-clients", tmp_path_factory.mktemp("setup"))


@pytest.fixture(scope="session")
def kafka_clients_3(tmp_path_factory):
    return built("kafka-clients-3", tmp_path_factory.mktemp("setup"))


@pytest.fixture(scope="session")
def live_client(tmp_path_factory):
    """Sets a live client up that is built from a manifest; its name as a target."""
    return lambda name: built(f"live:{name}", tmp_path_factory.mktemp("setup"))


@pytest.fixture(scope="session")
def broker_manifest(tmp_path_factory):
    """Sets a bundled broker up: what its broker.yaml says."""

    def manifest(name):
        built(f"broker:{name}", tmp_path_factory.mktemp("setup"))
        return read_broker(brokers()[name].folder / BROKER)

    return manifest


@pytest.fixture(scope="module")
def bundled_broker(broker_manifest):
    """Starts a bundled broker, once for the tests of a file, and ends it with them; it is set up first.

    One that is left alone is not idle: Apache Kafka takes a core second in half a minute.
    """
    with ExitStack() as stack:

        @cache
        def started(name):
            return stack.enter_context(BundledBroker(broker_manifest(name)))

        yield started


@pytest.fixture(scope="session")
def broker_logs(tmp_path_factory):
    """The folder with the logs of a real broker that has written every kind of segment and stopped (tests/broker).

    What Maven builds is kept in the cache folder; the broker runs once, whatever the number of workers.
    """
    for tool in ("java", "mvn"):
        if not shutil.which(tool):
            pytest.skip(f"a broker lacks {tool} on the PATH")
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-conformance"
    cache.mkdir(parents=True, exist_ok=True)
    logs = shared / "broker-logs"
    with (cache / "broker.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "broker-done").exists():
            program = ROOT / "tests" / "broker"
            subprocess.run(
                ["mvn", "-q", "-B", "package", f"-Dout={cache / 'broker'}"], cwd=program, check=True, timeout=900
            )
            jars = f"{cache}/broker/broker.jar:{cache}/broker/lib/*"
            # No port that the system gives to connections: those of tests beside would take it before the broker does.
            written = ["WriteLogs", logs, *map(str, free_ports())]
            told = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
            java = ["java", *OF_A_SHORT_LIFE, "-Xmx512m", told, "-cp", jars]
            subprocess.run([*java, *written], check=True, timeout=180)
            (shared / "broker-done").touch()
    return logs


@pytest.fixture(scope="session", autouse=True)
def _every_json_report_holds_to_the_schema(tmp_path_factory):
    """Whatever a test wrote with `--json`, the schema that ships describes it."""
    yield
    assert broken_reports(tmp_path_factory.getbasetemp()) == []


@pytest.fixture(scope="session")
def browser():
    """A headless Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("chromium or chromedriver is not on the PATH")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    with webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver"))) as driver:
        yield driver


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The text of the accessibility checker axe-core, from its npm package."""
    if not shutil.which("npm"):
        pytest.skip("npm is not on the PATH")
    folder = tmp_path_factory.mktemp("axe")
    subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True, timeout=120)
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


@pytest.fixture
def traces():
    """Processes started with `traces.env`; whatever the test, none of them may be left at its end."""
    traces = Traces()
    yield traces
    assert traces.left() == []


@pytest.fixture
def python_target(tmp_path):
    """Writes a program and returns the command that runs it: a body given `lines` (parsed requests) and `say`."""

    def write(body: str, name: str = "target.py") -> tuple[str, ...]:
        path = tmp_path / name
        path.write_text(PROLOGUE + body)
        return (sys.executable, str(path))

    return write


PROLOGUE = """\
import json, os, signal, sys, time
HERE = os.path.dirname(os.path.abspath(__file__))
DESCRIBED = {"ok": True, "protocol": 1, "name": "t", "version": "1", "language": "python",
             "supports": {"decode": ["INT8", "VARINT", "VARLONG", "UNSIGNED_VARINT"], "encode": ["INT8"]}}
def say(request, **answer):
    sys.stdout.write(json.dumps(dict(answer, id=request["id"])) + "\\n")
    sys.stdout.flush()
def requests():
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "describe":
            say(request, **DESCRIBED)
        else:
            yield request
def log(text):
    with open(os.path.join(HERE, "log"), "a") as file:
        file.write(text + "\\n")
"""
