"""Shared fixtures: the catalogue, clients and brokers, and a check for processes that are left."""

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
from importlib.util import find_spec
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

# Under `nohup` or in a background script these signals are ignored, and commands would inherit that.
DEFAULTS = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
for number, handler in DEFAULTS.items():
    if signal.getsignal(number) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)

# The output of commands under test must not depend on the place of the tests.
os.environ.pop("GITHUB_ACTIONS", None)

UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
SHORT_LIVED_JAVA = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", *UNVERIFIED)
"""Options for a Java that runs for seconds: better compilation would double its time.

The verification of its classes, those of Spark and Apache Kafka, takes a tenth of its time.
"""
for of_spark in ("SPARK_SUBMIT_OPTS", "SPARK_LAUNCHER_OPTS"):
    os.environ[of_spark] = " ".join(SHORT_LIVED_JAVA)


# Thousands of tests and cases live to the end, so garbage collection should be rare.
gc.set_threshold(20_000, 20, 20)

pytest_plugins = ["needless_skips"]

collect_ignore = [] if os.environ.get("BUILT_SITE") or find_spec("mkdocs") else ["test_site.py"]
"""`tox -e docs` runs the tests of the site."""
OTHER_PROGRAMS = {"kafka_clients", "kafka_clients_3", "live_client", "bundled_broker", "broker_logs", "browser", "axe"}
"""Fixtures with programs that are not ours: a test that uses one is an integration test."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if OTHER_PROGRAMS & set(item.fixturenames):
            item.add_marker("integration")


class UnpackedOnce(CaseStore):
    """Cases that are unpacked and cached at their first use, because unpacking all of them takes half a second."""

    def __init__(self, cases):
        self.summaries, self._unpacked = cases.summaries, {}

    def __getitem__(self, name):
        if name not in self._unpacked:
            self._unpacked[name] = super().__getitem__(name)
        return self._unpacked[name]


@pytest.fixture(scope="session")
def catalog():
    """Return the bundled catalogue, with cases unpacked once for all tests."""
    packed = read_catalog()
    return replace(packed, cases=UnpackedOnce(packed.cases))


@pytest.fixture(scope="session")
def vectors():
    """Return the bundled vectors as written in their files."""
    return [vector for path in vector_files(VECTORS) for vector in read_vectors(path, shipped_types())]


def built(name: str, folder: Path) -> str:
    """Set up a bundled target and return its name; skip the test if a necessary tool is missing."""
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
    """Return a function that sets up a live client from a manifest and returns its target."""
    return lambda name: built(f"live:{name}", tmp_path_factory.mktemp("setup"))


@pytest.fixture(scope="session")
def broker_manifest(tmp_path_factory):
    """Return a function that sets up a bundled broker and returns its manifest."""

    def manifest(name):
        built(f"broker:{name}", tmp_path_factory.mktemp("setup"))
        return read_broker(brokers()[name].folder / BROKER)

    return manifest


@pytest.fixture(scope="module")
def bundled_broker(broker_manifest):
    """Return a function that sets up and starts a bundled broker, once for the tests of a file.

    The broker ends with the file, because an unused Apache Kafka still takes a CPU second per half minute.
    """
    with ExitStack() as stack:

        @cache
        def started(name):
            return stack.enter_context(BundledBroker(broker_manifest(name)))

        yield started


@pytest.fixture(scope="session")
def broker_logs(tmp_path_factory):
    """Return the folder with the logs of a real broker that wrote every kind of segment (tests/broker).

    The build of Maven is in the cache folder; the broker runs once for any number of workers.
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
            # No ephemeral port: connections of parallel tests could take it before the broker does.
            written = ["WriteLogs", logs, *map(str, free_ports())]
            told = "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"
            java = ["java", *SHORT_LIVED_JAVA, "-Xmx512m", told, "-cp", jars]
            subprocess.run([*java, *written], check=True, timeout=180)
            (shared / "broker-done").touch()
    return logs


@pytest.fixture(scope="session", autouse=True)
def _every_json_report_holds_to_the_schema(tmp_path_factory):
    """Check all files that tests wrote with `--json` against the shipped schema."""
    yield
    assert broken_reports(tmp_path_factory.getbasetemp()) == []


@pytest.fixture(scope="session")
def browser():
    """Return a headless Chromium."""
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
    """Return the source of the accessibility checker axe-core, from its npm package."""
    if not shutil.which("npm"):
        pytest.skip("npm is not on the PATH")
    folder = tmp_path_factory.mktemp("axe")
    subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True, timeout=120)
    (packed,) = folder.glob("*.tgz")
    with tarfile.open(fileobj=io.BytesIO(packed.read_bytes())) as archive:
        return archive.extractfile("package/axe.min.js").read().decode()


@pytest.fixture
def traces():
    """Yield the marks of processes started with `traces.env`; no such process may be left after the test."""
    traces = Traces()
    yield traces
    assert traces.left() == []


@pytest.fixture
def python_target(tmp_path):
    """Return a function that writes a program and returns its command; the body has `lines` (requests) and `say`."""

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
