"""`pytest --kafka-target` in a user's project: it has the verdicts of `conformance run` and fails when that does."""

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from command_line import conformance
from forked_pytest import forked

from conformance.strategies.seeded.cases import generated_cases

pytestmark = pytest.mark.integration

OWN = "def test_own():\n    pass\n"

WRONG = """
from conformance import Reject, Unsupported

def describe():
    supports = {"decode": ["VARINT", "INT8", "BOOLEAN", "RECORD_BATCH"], "encode": ["VARINT"], "size": ["VARINT"]}
    named = {"name": "wrong", "version": "1", "language": "python"}
    via = {"decode VARINT": "public: poll > varint"}
    return {**named, "supports": supports, "codecs": ["none"], "via": via}

def decode(kind, data, **_):
    if kind == "INT8":
        if not data:
            raise Reject("malformed", "nothing there")
        return int.from_bytes(data[:1], "big", signed=True), 1
    if kind == "BOOLEAN":
        raise Unsupported("after all")
    if kind == "RECORD_BATCH":
        raise Reject("malformed", "whatever it is")
    value = shift = at = 0
    while True:
        if at == len(data):
            raise Reject("malformed", "cut")
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return (value >> 1) ^ -(value & 1), at

def encode(kind, value, **_):
    left, data = (value << 1) ^ (value >> 31), b""
    while left > 127:
        data, left = data + bytes((left & 127 | 128,)), left >> 7
    return data + bytes((left,))

def size(kind, value, **_):
    return len(encode(kind, value)) if value < 2**31 - 1 else [][0]
"""

LOADED = importlib.metadata.entry_points(group="pytest11", name="kafka-conformance")
PLUGIN = () if LOADED else ("-p", "conformance.pytest_plugin")


def options(*arguments):
    return [*PLUGIN, "-p", "no:hypothesispytest", *map(str, arguments)]


def command(*arguments):
    return [sys.executable, "-m", "pytest", *options(*arguments)]


@pytest.fixture
def foreign(tmp_path, tmp_path_factory, traces):
    """Return a user's project with its own test and an adapter with several faults."""
    (tmp_path / "test_own.py").write_text(OWN)
    (tmp_path / "wrong.py").write_text(WRONG)
    return Foreign(tmp_path, tmp_path_factory.mktemp("output"), traces.env)


class Foreign:
    """A project in a folder; no process started in it may stay alive."""

    def __init__(self, folder, outputs, env):
        self.folder, self._outputs = folder, outputs
        # With TOX_ENV_DIR, pytest would use one cache for all these projects; with CI or BUILD_NUMBER, its summary
        # would repeat each failure.
        others = ("PYTEST_", "COV_", "TOX_", "CI", "BUILD_NUMBER")
        self.env = {name: value for name, value in env.items() if not name.startswith(others)}

    def pytest(self, *arguments):
        return forked(options(*arguments), self.folder, self.env, self._outputs)

    def pytest_alone(self, *arguments):
        """Run pytest in a separate interpreter."""
        return subprocess.run(
            command(*arguments), cwd=self.folder, env=self.env, capture_output=True, text=True, check=False
        )

    def run(self, *arguments):
        """Return the status of `conformance run` and the results of its JSON report."""
        done = conformance("run", *arguments, "--json", "run.json", cwd=self.folder, env=self.env)
        return done.returncode, json.loads((self.folder / "run.json").read_text())["results"]

    def judged(self, *arguments, run=None):
        """Return the finished pytest process and, by test name, each outcome with its properties."""
        done = (run or self.pytest)("--junitxml=j.xml", "-q", *arguments)
        return done, {case.get("name"): _outcome(case) for case in ET.parse(self.folder / "j.xml").iter("testcase")}


def _outcome(case):
    properties = {entry.get("name"): entry.get("value") for entry in case.iter("property")}
    for tag in ("failure", "error", "skipped"):
        found = case.find(tag)
        if found is not None:
            return ("xfailed" if found.get("type") == "pytest.xfail" else tag), properties, found.get("message")
    return "passed", properties, ""


def verdicts(outcomes):
    return {
        properties["kafka-case"]: (properties["verdict"], properties["requirement"], properties["level"])
        for _, properties, _ in outcomes.values()
        if "requirement" in properties
    }


def vectors(results):
    """Return the verdicts on vectors without unclaimed ones, which pytest deselects."""
    return {
        result["id"]: (result["verdict"], result["requirement"], result["level"])
        for result in results
        if result["kind"] == "vector" and not result["id"].startswith("probe/")
        if result["verdict"] != "skip" or "not claimed" not in result["detail"]
    }


SELECTED = ("type:VARINT", "type:INT8", "type:BOOLEAN", "requirement:crc.mismatch-corrupt")


STARTS = """
with open("starts", "a") as file:
    file.write("+")
"""


def test_the_verdicts_equal_those_of_run_and_each_pytest_process_starts_the_target_once(foreign):
    selection = [f"--select={pattern}" for pattern in SELECTED]
    ours = [f"--kafka-select={pattern}" for pattern in SELECTED]
    status, results = foreign.run("module:./wrong.py", "--generated=20", *selection)
    assert status == 3
    assert {kind for kind, _, _ in vectors(results).values()} == {"pass", "fail", "skip", "crash", "either"}
    (foreign.folder / "wrong.py").write_text(STARTS + WRONG)
    # With workers, the main process also starts the target once.
    for workers, starts in ((0, "+"), (2, "+++")):
        signal_number = ("--kafka-target=module:./wrong.py", "--kafka-generated=20", *ours, f"-n{workers}")
        done, outcomes = foreign.judged(*signal_number, run=foreign.pytest_alone)
        assert done.returncode == 1
        assert verdicts(outcomes) == vectors(results)
        for name in ("VARINT", "INT8"):
            counts = Counter(r["verdict"] for r in results if r["kind"] == "generated" and r["type"] == name)
            shown = outcomes[f"property/{name}"][1]["counts"].split(", ")
            # The JSON report contains no unclaimed generated cases.
            shown = [part for part in shown if not part.startswith("skip ")]
            assert shown == [f"{kind} {counts[kind]}" for kind in sorted(counts)]
        states = {name: outcomes[name][0] for name in ("property/VARINT", "property/INT8", "test_own", "probe/claims")}
        assert states == {
            "property/VARINT": "failure",
            "property/INT8": "passed",
            "test_own": "passed",
            "probe/claims": "failure",
        }
        assert (foreign.folder / "starts").read_text() == starts
        (foreign.folder / "starts").unlink()


def test_the_whole_catalogue_has_the_verdicts_of_run_and_every_type_a_property(foreign):
    (foreign.folder / "test_own.py").unlink()
    status, results = foreign.run("reference", "--generated=0")
    # Plugins with hooks around each of 11,000 items take a fifth of the session.
    without = ("logging", "skipping", "setuponly", "unraisableexception", "threadexception")
    plain = ("-s", *(f"-pno:{plugin}" for plugin in without))
    done, outcomes = foreign.judged("--kafka-target=reference", "--kafka-generated=2", *plain)
    assert verdicts(outcomes) == vectors(results)
    assert (status, done.returncode) == (0, 0)
    assert {state for state, _, _ in outcomes.values()} == {"passed"}
    types = {name.partition("/")[2] for name in outcomes if name.startswith("property/")}
    assert {"VARINT", "ARRAY<INT32>", "TAGGED_FIELDS", "RECORD_BATCH", "LOG"} <= types


def test_without_the_option_the_plugin_imports_and_collects_nothing(foreign):
    (foreign.folder / "test_own.py").write_text(
        "import sys\n"
        "def test_own():\n"
        "    ours = sorted(name for name in sys.modules if name.split('.')[0] == 'conformance')\n"
        "    assert ours == ['conformance', 'conformance.pytest_plugin']\n"
        "    assert not {'rich', 'yaml', 'msgspec', 'psutil', 'click', 'zstandard'} & set(sys.modules)\n"
    )
    done, outcomes = foreign.judged(run=foreign.pytest_alone)
    assert done.returncode == 0, done.stdout
    assert list(outcomes) == ["test_own"]


def test_a_failure_contains_all_parts_of_the_output_of_run(foreign, catalog):
    basis = catalog.requirements["varint.max-five-bytes"].basis
    done = foreign.pytest("--kafka-target=module:./wrong.py", "--kafka-select=varint/six-bytes")
    assert done.returncode == 1
    for part in (
        "FAILED kafka-conformance::varint/six-bytes - ",
        f"varint.max-five-bytes (must, {basis}): fail",
        "a reader accepts a sixth byte because the value is 0",
        "expected: rejected (malformed)",
        "actual:   accepted: 0",
        "via:      public: poll > varint",
        "80 80 80 80 80 00",
        "conformance run module:./wrong.py --select varint/six-bytes",
    ):
        assert part in done.stdout


ENCODES = "def encode(kind, value, **_):\n"
OUT_OF_RANGE = "    if not -2**31 <= value < 2**31:\n        raise Reject('invalid-value', '')\n"


def test_a_property_shows_the_smallest_failure_of_each_kind_once(foreign):
    dies = f"{ENCODES}{OUT_OF_RANGE}    assert value < 2**28\n"
    (foreign.folder / "wrong.py").write_text(WRONG.replace(ENCODES, dies))
    done = foreign.pytest(
        "--kafka-target=module:./wrong.py",
        "--kafka-select=type:VARINT",
        "--kafka-generated=150",
        "kafka-conformance::property/VARINT",
    )
    assert done.returncode == 1
    decode, encode = sorted(re.findall(r"conformance run module:./wrong.py (.*)$", done.stdout, re.MULTILINE))
    assert re.fullmatch(r"--case VARINT:[0-9a-f]{12}", decode)
    assert re.fullmatch(r"--op encode --case VARINT:2684354\d\d", encode)
    assert re.search(r"^bytes/VARINT/[0-9a-f]{12}  module:./wrong.py$", done.stdout, re.MULTILINE)
    shown = re.search(
        r"^the smallest of (\d+) generated failures, shrunk from gen/\d+/VARINT/0/\d+(:encode)?$",
        done.stdout,
        re.MULTILINE,
    )
    further = re.search(r"^  (\d+) × (crash|invalid input accepted): ", done.stdout, re.MULTILINE)
    assert f"\n{int(shown[1]) + int(further[1])} of " in done.stdout


LOST = """
import os

if os.path.exists("dies"):
    os._exit(9)
count = 0

def decode(kind, data, **parameters):
    global count
    count += 1
    if count > {}:
        open("dies", "w").close()
        os._exit(7)
    return decoded(kind, data)
"""


def test_a_failure_is_shown_even_if_the_target_is_lost_during_shrinking(foreign, catalog):
    decodes = [case for case in generated_cases(["VARINT"], 60, 0, catalog) if case.op == "decode"]
    encodes = WRONG.replace(ENCODES, ENCODES + OUT_OF_RANGE)
    # One more for the test of the claim.
    lost = encodes.replace("def decode(", "def decoded(") + LOST.format(len(decodes) + 1)
    (foreign.folder / "wrong.py").write_text(lost)
    done, outcomes = foreign.judged(
        "--kafka-target=module:./wrong.py",
        "--kafka-select=type:VARINT",
        "--kafka-generated=60",
        "kafka-conformance::property/VARINT",
    )
    assert outcomes["property/VARINT"][0] == "failure", done.stdout
    assert re.search(r"varint.max-five-bytes \(must, \w+\): fail", done.stdout)
    assert re.search(r"^gen/\d+/VARINT/0/\d+  module:./wrong.py  \[flaky\]$", done.stdout, re.MULTILINE)


# --- what counts --------------------------------------------------------------------------------------


def test_failures_below_the_requested_level_are_skips(foreign):
    arguments = ("--kafka-target=module:./wrong.py", "--kafka-select=requirement:crc.mismatch-corrupt")
    for level, state, status in (("must", "skipped", 0), ("should", "failure", 1)):
        done, outcomes = foreign.judged(*arguments, "--kafka-generated=0", f"--kafka-fail-on={level}")
        failing = [outcome for outcome in outcomes.values() if outcome[1].get("verdict") == "fail"]
        assert failing
        assert {outcome[0] for outcome in failing} == {state}
        assert all("should" in outcome[2] for outcome in failing)
        assert done.returncode == status


KNOWN = """
- {id: varint/six-bytes, reason: protobuf habits}
- {id: varint/six-bytes-high, reason: it used to die, verdict: crash}
- {id: varint/ten-bytes-*, reason: all of a kind}
- {id: varint/zero, reason: once upon a time}
- {id: varint/z*, reason: these pass}
- {id: varint/no-such-case, reason: renamed}
- {id: varint/minus-2, reason: comes and goes, flaky: true}
- {id: "gen/4/VARINT/*", reason: overlong ones}
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["plain", "two workers"])
def test_known_failures_are_strict_xfails(foreign, workers):
    (foreign.folder / "known.yaml").write_text(KNOWN)
    done, outcomes = foreign.judged(
        "--kafka-target=module:./wrong.py",
        "--kafka-select=type:VARINT",
        "--kafka-known-failures=known.yaml",
        "--kafka-generated=20",
        *workers,
    )
    assert done.returncode == 1
    assert outcomes["varint/six-bytes"][0] == "xfailed"
    assert "protobuf habits" in outcomes["varint/six-bytes"][2]
    assert outcomes["varint/six-bytes-high"][0] == "failure"
    assert outcomes["varint/ten-bytes-protobuf"][0] == "xfailed"
    assert outcomes["varint/zero"][0] == "failure"
    assert "XPASS(strict)" in outcomes["varint/zero"][2]
    assert outcomes["varint/minus-2"][0] == "passed"
    assert outcomes["property/VARINT"][0] == "xfailed"
    stale = re.findall(r"^stale known failure (\S+) \(line (\d+)\)", done.stdout, re.MULTILINE)
    assert stale == [("varint/zero", "5"), ("varint/z*", "6"), ("varint/no-such-case", "7")]


@pytest.mark.parametrize("entry, status", [("varint/[ms]*", 0), ("varint/z*", 1)])
def test_a_stale_entry_alone_fails_the_session_as_it_fails_the_run(foreign, entry, status):
    (foreign.folder / "known.yaml").write_text(f"- {{id: varint/six-*, reason: x}}\n- {{id: '{entry}', reason: x}}\n")
    selected = ("varint/six-*", "varint/z*")
    done = foreign.pytest(
        "--kafka-target=module:./wrong.py",
        "--kafka-known-failures=known.yaml",
        "--kafka-generated=0",
        *(f"--kafka-select={pattern}" for pattern in selected),
    )
    ran, _ = foreign.run(
        "module:./wrong.py",
        "--known-failures=known.yaml",
        "--generated=0",
        *(f"--select={pattern}" for pattern in selected),
    )
    assert (done.returncode, ran) == (status, status)


def test_with_runxfail_known_failures_fail(foreign):
    (foreign.folder / "known.yaml").write_text("- {id: varint/six-bytes, reason: x}\n")
    arguments = ("--kafka-target=module:./wrong.py", "--kafka-known-failures=known.yaml", "--runxfail")
    _, outcomes = foreign.judged(*arguments, "--kafka-select=varint/six-bytes")
    assert outcomes["varint/six-bytes"][0] == "failure"


def test_unclaimed_cases_are_deselected_and_counted_in_one_line(foreign):
    arguments = ("--kafka-target=module:./wrong.py", "--kafka-generated=2", "--kafka-select=type:INT8")
    done = foreign.pytest(*arguments, "--kafka-select=type:UUID", "-rA")
    _, results = foreign.run("module:./wrong.py", "--generated=2", "--select=type:INT8", "--select=type:UUID")
    unclaimed = [row for row in results if row["kind"] == "vector" and "not claimed" in row.get("detail", "")]
    # Including the property of UUID; the property of INT8 decodes.
    assert len(unclaimed) > 3
    (line,) = [line for line in done.stdout.splitlines() if "deselected, not claimed by the target" in line]
    assert line.endswith(f"module:./wrong.py 1 {len(unclaimed) + 1}")
    assert f"{len(unclaimed) + 1} deselected" in done.stdout.splitlines()[-1]
    assert "uuid/" not in done.stdout
    assert "PASSED kafka-conformance::property/INT8" in done.stdout


def test_a_target_without_a_judged_case_fails_the_session(foreign):
    done = foreign.pytest("--kafka-target=module:./wrong.py", "--kafka-select=type:UUID")
    assert done.returncode == 1
    assert "module:./wrong.py was judged on no case" in done.stdout


# --- selection by pytest ------------------------------------------------------------------------------


def test_node_ids_and_last_failed_select_the_cases_too(foreign):
    target = "--kafka-target=module:./wrong.py"
    wanted = ("kafka-conformance::varint/six-bytes", "kafka-conformance::varint/zero")
    _, outcomes = foreign.judged(target, *wanted)
    assert {name: outcome[0] for name, outcome in outcomes.items()} == {
        "varint/six-bytes": "failure",
        "varint/zero": "passed",
    }
    some = "--kafka-select=type:VARINT"
    _, outcomes = foreign.judged(target, some, "--lf")
    assert list(outcomes) == ["varint/six-bytes"]
    done = foreign.pytest(target, some, "kafka-conformance::varint/sixty-bytes")
    assert (done.returncode, "not found: kafka-conformance::varint/sixty-bytes" in done.stderr) == (4, True)


def test_with_several_targets_node_ids_name_the_target(foreign):
    done = foreign.pytest(
        "--kafka-target=module:./wrong.py", "--kafka-target=reference", "--kafka-select=varint/six-bytes", "-v"
    )
    assert "kafka-conformance::module:./wrong.py::varint/six-bytes FAILED" in done.stdout
    assert "kafka-conformance::reference::varint/six-bytes PASSED" in done.stdout
    assert done.returncode == 1


WRONG_USAGE = {
    "unknown target": (["--kafka-target=kafka-pyhton"], "unknown target 'kafka-pyhton'"),
    "target that does not start": (["--kafka-target=command:false"], "could not be started"),
    "target that does not start, with workers": (["--kafka-target=command:false", "-n2"], "could not be started"),
    "selection of nothing": (["--kafka-target=reference", "--kafka-select=no/such"], "no case matches"),
    "file that is not there": (["--kafka-target=reference", "--kafka-known-failures=no/k.yaml"], "no/k.yaml"),
    "no number": (["--kafka-target=reference", "--kafka-timeout=soon"], "expected a number, found 'soon'"),
}


@pytest.mark.parametrize("arguments, named", WRONG_USAGE.values(), ids=WRONG_USAGE)
def test_wrong_usage_is_one_error_and_nothing_runs(foreign, arguments, named):
    done = foreign.pytest(*arguments)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert named in done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "passed" not in done.stdout


# --- processes ----------------------------------------------------------------------------------------


def test_a_target_that_cannot_be_restarted_fails_once(foreign):
    dies = WRONG.replace("def decode(kind, data, **_):", "def decode(kind, data, **_):\n    import os; os._exit(7)")
    once = "import os, sys\nif os.path.exists('started'):\n    os._exit(9)\nopen('started', 'w').close()\n"
    (foreign.folder / "wrong.py").write_text(once + dies)
    done, outcomes = foreign.judged(
        "--kafka-target=module:./wrong.py", "--kafka-select=varint/six-*", "--kafka-generated=0"
    )
    states = [state for state, _, _ in outcomes.values()]
    assert done.returncode == 1
    assert states.count("failure") == 1
    assert "exited with status 9" in done.stdout
    assert "not sent: " in "".join(message for _, _, message in outcomes.values())


HANGS = WRONG.replace(
    "def decode(kind, data, **_):",
    "def decode(kind, data, **_):\n    if data == bytes.fromhex('808080808000'):\n        open('hangs', 'w').close()\n"
    "        import time\n        time.sleep(3600)",
)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("signal_number", "status"),
    [(signal.SIGINT, 2), (signal.SIGTERM, 2), (signal.SIGHUP, 2), (signal.SIGKILL, -signal.SIGKILL)],
)
def test_an_ended_session_leaves_no_target_running(foreign, workers, signal_number, status, traces):
    (foreign.folder / "wrong.py").write_text(HANGS)
    arguments = ("--kafka-target=module:./wrong.py", "--kafka-select=varint/six-*", "--kafka-timeout=60")
    process = subprocess.Popen(
        command(*arguments, f"-n{workers}"),
        cwd=foreign.folder,
        env=foreign.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while not (foreign.folder / "hangs").exists() and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(process.pid, signal_number)
    try:
        # pytest-xdist waits twice ten seconds for its workers before it exits.
        assert process.wait(120) == status
    finally:
        process.kill()
        process.wait()
    # The workers of a killed session notice it after some seconds; then their targets end.
    until = time.monotonic() + 60 * (signal_number == signal.SIGKILL)
    while traces.left() and time.monotonic() < until:
        time.sleep(0.1)
    # The fixture `traces` checks that no process is left.


def test_stopping_at_the_first_failure_leaves_no_target_running(foreign):
    arguments = ("--kafka-target=module:./wrong.py", "--kafka-select=varint/*", "--kafka-generated=0", "-x", "-n2")
    assert foreign.pytest(*arguments).returncode != 0
