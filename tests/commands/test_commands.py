"""The command line: its output and exit status."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest
from command_line import conformance

from conformance import commands
from conformance.cases.model import BASES
from conformance.catalog.catalog_builder import read_catalog
from conformance.cli import COMMANDS, command_of

TINY_GZIP = json.dumps(
    {
        **{"baseOffset": "0", "partitionLeaderEpoch": 0, "compression": "gzip", "timestampType": "CreateTime"},
        **{"isTransactional": False, "isControlBatch": False},
        **{"producerId": "-1", "producerEpoch": -1, "baseSequence": -1},
        "records": [{"offset": "0", "timestamp": "0", "key": None, "value": "00", "headers": []}],
    }
)

WRONG_USAGE = {
    "unknown target": (["run", "kafka-pyhton"], "kafka-pyhton"),
    "unknown target, before anything is read": (["run", "kafka-pyhton", "--vectors", "nowhere"], "kafka-pyhton"),
    "unknown module file": (["run", "module:./nowhere.py"], "nowhere.py"),
    "module without a name": (["run", "module:"], "module:"),
    "unknown program": (["run", "command:no-such-program --x"], "no-such-program"),
    "unbalanced quotes": (["run", "command:sh -c 'x"], "quotation"),
    "selection without a case": (["run", "reference", "--select", "no/such-case"], "no case matches"),
    "unknown type of a case": (["run", "reference", "--case", "VARIANT:00"], "VARIANT"),
    "two cases": (
        ["run", "reference", "--case", "VARINT:00", "--case", "VARINT:01"],
        "--case: can be given only once (found 2)",
    ),
    "case without a type": (["run", "reference", "--case", "00"], "TYPE:HEX"),
    "case that is no hex": (["run", "reference", "--case", "VARINT:0g"], "hex digits"),
    "case from a file that is not there": (["run", "reference", "--case", "VARINT:@nowhere.bin"], "nowhere.bin"),
    "value that is none of its type": (["run", "reference", "--op", "encode", "--case", 'VARINT:"x"'], "VARINT"),
    "fetch of something else than a log": (
        ["run", "reference", "--op", "read", "--case", "VARINT:{}"],
        "expected a LOG for --op read, found VARINT",
    ),
    "fetch without a log": (["run", "reference", "--op", "read", "--case", "LOG:{}"], "a read request has hex"),
    "fetch that is no JSON": (["run", "reference", "--op", "read", "--case", "LOG:00"], "read request"),
    "fetch that is a number": (
        ["run", "reference", "--op", "read", "--case", "LOG:5"],
        "read request: expected an object",
    ),
    "message set that is a number": (
        ["run", "reference", "--op", "encode", "--case", "MESSAGE_SET:5"],
        "MESSAGE_SET: expected an object",
    ),
    "log to encode": (["run", "reference", "--op", "encode", "--case", "LOG:{}"], "not a LOG"),
    "value nested too deeply": (
        ["run", "reference", "--op", "encode", "--case", "INT32:" + "[" * 50_000],
        "nested more than 128 deep",
    ),
    "seed of another script": (["run", "reference", "--seed", "²"], "--seed: expected a number"),
    "seed of 5,000 digits": (
        ["run", "reference", "--seed", "9" * 5000],
        "at most 18 digits",
    ),
    "timeout that is not a number": (["run", "reference", "--timeout", "nan"], "--timeout: expected a number"),
    "report in a folder that is not there": (["run", "reference", "--json", "nowhere/r.json"], "nowhere/r.json"),
    "report that is a folder": (["run", "reference", "--junit", "."], ".: it is a folder"),
    "known failures to be written where no folder is": (
        ["run", "reference", "--update-known-failures", "--known-failures", "nowhere/k.yaml"],
        "nowhere/k.yaml",
    ),
    "failures to be saved in a file": (["run", "reference", "--save-failures", "bad.yaml"], "bad.yaml"),
    "findings in a folder that is not there": (["lint", ".", "--json", "nowhere/r.json"], "nowhere/r.json"),
    "conversion that nobody is asked for": (
        ["run", "reference", "--op", "convert", "--case", 'LOG:{"hex": "00", "magic": 1}'],
        "cut entry",
    ),
    "sequence of halves": (
        ["run", "reference", "--op", "sequence", "--case", 'LOG:{"batches": [{"producerId": "7"}]}'],
        "producerEpoch",
    ),
    "compression of one tiny record": (
        ["run", "reference", "--op", "encode", "--case", f"RECORD_BATCH:{TINY_GZIP}"],
        "not testable: an encoder may leave these records uncompressed",
    ),
    "message set without a magic": (["run", "reference", "--op", "encode", "--case", "MESSAGE_SET:[]"], "MESSAGE_SET"),
    "vectors that are not there": (["run", "reference", "--vectors", "nowhere"], "nowhere"),
    "malformed vectors": (["run", "reference", "--vectors", "bad.yaml"], "bad.yaml:"),
    "vectors with an unknown requirement": (["run", "reference", "--vectors", "rule.yaml"], "no.such-rule"),
    "known failures that are not there": (["run", "reference", "--known-failures", "nowhere/k.yaml"], "nowhere/k.yaml"),
    "malformed known failures": (["run", "reference", "--known-failures", "known.yaml"], "known.yaml:1"),
    "unknown option": (["run", "reference", "--no-such-option"], "--no-such-option"),
    "no target": (["run"], "TARGET"),
    "level that is none": (["run", "reference", "--fail-on", "may"], "may"),
    "basis that is none": (["run", "reference", "--basis", "guessed"], "guessed"),
    "basis of no selected case": (
        [
            "run",
            "reference",
            "--select",
            "requirement:general.exact-encoding",
            "--generated",
            "0",
            "--basis",
            "settled",
        ],
        "the selection matches no case",
    ),
    "case of one's own of another basis": (
        ["run", "reference", "--case", "INT8:00", "--basis", "settled"],
        "the selection matches no case",
    ),
    "version that is none": (["run", "reference", "--as-of", "soon"], "soon"),
    "report that cannot be written": (["run", "reference", "--json", "no/such/folder/x.json"], "no/such/folder"),
    "update without a file": (["run", "reference", "--update-known-failures"], "--known-failures"),
    "unknown case to show": (["show", "no/such-case"], "no/such-case"),
    "unknown type to explain": (["explain", "--type", "VARIANT", "00"], "VARIANT"),
    "unknown adapter to set up": (["targets", "--setup", "nobody"], "nobody"),
    "vectors to check that are not there": (["vectors", "check", "nowhere.yaml"], "nowhere.yaml"),
    "serving a command": (["serve", "command:cat"], "command:cat"),
}


@pytest.mark.parametrize("arguments, named", WRONG_USAGE.values(), ids=WRONG_USAGE)
def test_bad_input_is_one_error_that_names_it_and_status_2(tmp_path, arguments, named):
    (tmp_path / "bad.yaml").write_text('- id: x/y\n  type: VARINT\n  hex: "00\n')
    (tmp_path / "rule.yaml").write_text('- {id: x/y, type: VARINT, requirement: no.such-rule, value: 0, hex: "00"}\n')
    (tmp_path / "known.yaml").write_text("- {id: varint/zero}\n")
    done = conformance(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_a_module_that_does_not_import_is_one_line_and_status_3(tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_package\n")
    done = conformance("run", "module:./broken.py", "--select", "varint/*", cwd=tmp_path)
    assert done.returncode == 3
    assert "no_such_package" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


WRONG_VARINT = """
from conformance import Reject, Unsupported

def describe():
    return {"name": "wrong", "version": "1", "language": "python", "supports": {"decode": ["VARINT"]}, "codecs": []}

def decode(kind, data, **_):
    value = shift = at = 0
    while True:
        if at == len(data):
            raise Reject("malformed", "cut")
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return (value >> 1) ^ -(value & 1), at
"""


@pytest.fixture
def wrong(tmp_path):
    (tmp_path / "wrong.py").write_text(WRONG_VARINT)
    return tmp_path


def test_a_failure_shows_requirement_level_both_values_bytes_and_a_command(wrong):
    done = conformance("run", "module:./wrong.py", "--select", "varint/six-bytes", cwd=wrong)
    shown = done.stdout
    assert done.returncode == 1
    for part in (
        "varint/six-bytes",
        "varint.max-five-bytes",
        "must",
        "expected",
        "actual",
        "rejected (malformed)",
        "80",
    ):
        assert part in shown
    command = next(line.split() for line in shown.splitlines() if line.strip().startswith("conformance run"))
    again = conformance(*command[1:], cwd=wrong)
    assert again.returncode == 1
    assert "varint/six-bytes" in again.stdout


def test_a_reproducing_command_contains_the_given_interpreter(wrong):
    options = ("run", "module:./wrong.py", "reference", "--python", sys.executable, "--select", "varint/six-bytes")
    done = conformance(*options, "--json", "r.json", cwd=wrong)
    assert done.returncode == 1
    report = json.loads((wrong / "r.json").read_text())
    of_case = next(row["reproduce"] for row in report["results"] if row["verdict"] == "fail")
    (of_targets,) = [row["reproduce"] for row in report["disagreements"]]
    for command in (of_case, of_targets):
        assert f"--python {sys.executable} --select varint/six-bytes" in command
        assert conformance(*command.split()[1:], cwd=wrong).returncode == 1


def test_the_json_report_contains_every_result(wrong):
    done = conformance(
        "run",
        "module:./wrong.py",
        "reference",
        "--select",
        "type:VARINT",
        "--generated",
        0,
        "--json",
        "r.json",
        cwd=wrong,
    )
    report = json.loads((wrong / "r.json").read_text())
    assert done.returncode == 1
    assert [target["target"] for target in report["targets"]] == ["module:./wrong.py", "reference"]
    results = [result for result in report["results"] if result["target"] == "reference"]
    listed = conformance("list", "--select", "type:VARINT", cwd=wrong).stdout.splitlines()
    assert [result["id"] for result in results] == [line.split("\t")[0] for line in listed]
    assert sum(report["summary"]["reference"][kind] for kind in ("pass", "either")) == len(results)


def test_results_are_equal_for_every_number_of_jobs(wrong):
    for jobs in (1, 4):
        conformance("run", "module:./wrong.py", "--generated", 2, "--jobs", jobs, "--json", f"{jobs}.json", cwd=wrong)
    assert (wrong / "1.json").read_text() == (wrong / "4.json").read_text()


def test_junit_is_red_exactly_when_the_status_is_not_zero(wrong):
    for selection, red in (("varint/six-bytes", True), ("varint/zero", False)):
        done = conformance("run", "module:./wrong.py", "--select", selection, "--junit", "j.xml", cwd=wrong)
        found = ET.parse(wrong / "j.xml").getroot()
        assert (done.returncode != 0) is red
        assert bool(found.findall(".//failure") + found.findall(".//error")) is red


def test_written_known_failures_excuse_the_named_failures(wrong):
    arguments = ["run", "module:./wrong.py", "--select", "type:VARINT", "--known-failures", "k.yaml"]
    assert conformance(*arguments, "--update-known-failures", cwd=wrong).returncode == 0
    assert "varint/six-bytes" in (wrong / "k.yaml").read_text()
    assert conformance(*arguments, cwd=wrong).returncode == 0
    (wrong / "wrong.py").write_text(WRONG_VARINT.replace("127) << shift", "127) << 0"))
    assert conformance(*arguments, cwd=wrong).returncode == 1


def test_an_update_lists_added_and_dropped_entries(wrong):
    (wrong / "k.yaml").write_text("- {id: varint/zero, reason: once upon a time}\n")
    arguments = ["run", "module:./wrong.py", "--select", "varint/z*", "--select", "varint/six-bytes"]
    done = conformance(*arguments, "--known-failures", "k.yaml", "--update-known-failures", cwd=wrong)
    lines = done.stdout.splitlines()
    assert done.returncode == 0
    assert "k.yaml: 1 added, 1 dropped, 1 in all" in lines
    assert any(line.startswith("  + varint/six-bytes  (varint.max-five-bytes: ") for line in lines)
    assert "  - varint/zero  (once upon a time)" in lines


def test_known_generated_failures_stay_known_with_another_seed_and_command_line(wrong):
    known = ["--known-failures", "k.yaml", "--select", "type:VARINT", "--generated", "300"]
    before = conformance("run", "module:./wrong.py", *known, "--seed", "1", cwd=wrong)
    done = conformance("run", "module:./wrong.py", *known, "--update-known-failures", cwd=wrong)
    assert (before.returncode, done.returncode) == (1, 0)
    assert "gen/" not in (wrong / "k.yaml").read_text()
    assert "break" not in done.stdout
    (wrong / "elsewhere").mkdir()
    (wrong / "wrong.py").rename(wrong / "elsewhere" / "adapter.py")
    again = conformance("run", "module:elsewhere/adapter.py", *known, "--seed", "1", cwd=wrong)
    assert again.returncode == 0, again.stdout


def test_a_missing_file_of_known_failures_is_empty(wrong):
    arguments = ["run", "module:./wrong.py", "--known-failures", "k.yaml", "--select"]
    assert conformance(*arguments, "varint/zero", cwd=wrong).returncode == 0
    assert conformance(*arguments, "varint/six-bytes", cwd=wrong).returncode == 1
    assert not (wrong / "k.yaml").exists()


STOPS_AFTER_8_KIB = ["bash", "-c", 'ulimit -f 8; exec "$@"', "-"]
"""A prefix for a command line: each file fails after 8 KiB, as on a full disk."""


def test_a_full_disk_destroys_no_file_and_the_output_is_printed(wrong):
    arguments = ["run", "module:./wrong.py", "--select", "type:VARINT", "--known-failures", "k.yaml"]
    before = "".join(f"- {{id: gen/9/INT8/0/{number}, reason: kept}}\n" for number in range(1000))
    (wrong / "k.yaml").write_text(before)
    files = ["-v", "--update-known-failures", "--json", "r.json", "--junit", "r.xml"]
    # -B: a cut bytecode file would break other processes.
    command = [*STOPS_AFTER_8_KIB, sys.executable, "-B", "-m", "conformance", *arguments, *files]
    # A measurement of coverage would write a file there too.
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    done = subprocess.run(command, cwd=wrong, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "varint/six-bytes" in done.stdout
    assert sorted(line.split(":")[1] for line in done.stderr.splitlines()) == [" k.yaml", " r.json", " r.xml"]
    assert (wrong / "k.yaml").read_text() == before
    assert sorted(path.name for path in wrong.iterdir() if path.is_file()) == ["k.yaml", "wrong.py"]


def test_known_failures_changed_during_the_run_are_kept_and_reported(wrong):
    (wrong / "k.yaml").write_text("[]\n")
    source = (wrong / "wrong.py").read_text()
    (wrong / "wrong.py").write_text(source + "\nopen('k.yaml', 'a').write('# from an editor\\n')\n")
    arguments = ["run", "module:./wrong.py", "--select", "type:VARINT", "--known-failures", "k.yaml"]
    done = conformance(*arguments, "--update-known-failures", "--jobs", "1", "-v", cwd=wrong)
    assert done.returncode == 2
    assert "k.yaml: not written, because another process changed it" in done.stderr
    assert "varint/six-bytes" in done.stdout
    assert "varint" not in (wrong / "k.yaml").read_text()


def test_a_known_failure_that_passes_is_stale_and_fails_the_run(wrong):
    (wrong / "k.yaml").write_text("- {id: varint/zero, reason: once upon a time}\n")
    done = conformance("run", "module:./wrong.py", "--select", "varint/zero", "--known-failures", "k.yaml", cwd=wrong)
    assert done.returncode == 1
    assert "stale" in done.stdout


@pytest.mark.parametrize(
    "arguments, status",
    [
        (["--case", "VARINT:808080808000"], 1),
        (["--case", "VARINT:7e"], 0),
        (["--case", "VARINT:@six.bin"], 1),
    ],
)
def test_a_user_case_is_judged_by_the_reference(wrong, arguments, status):
    (wrong / "six.bin").write_bytes(bytes.fromhex("808080808000"))
    assert conformance("run", "module:./wrong.py", *arguments, cwd=wrong).returncode == status


def test_a_user_case_can_be_encoded(tmp_path):
    done = conformance("run", "reference", "--op", "encode", "--case", "ARRAY<INT32>:[1,2]", cwd=tmp_path)
    assert done.returncode == 0


def test_further_vectors_join_the_catalogue(wrong):
    (wrong / "mine.yaml").write_text(
        "type: VARINT\nvectors:\n"
        '  - {id: mine/seven, requirement: varint.max-five-bytes, hex: "80808080808000", reject: malformed}\n'
    )
    done = conformance("run", "module:./wrong.py", "--vectors", "mine.yaml", "--select", "mine/*", cwd=wrong)
    assert done.returncode == 1
    assert "--vectors mine.yaml --select mine/seven" in done.stdout


def test_show_explains_a_case_field_by_field(tmp_path):
    shown = conformance("show", "varint/six-bytes", cwd=tmp_path).stdout
    for part in ("varint.max-five-bytes", "primitive-types#varint", "rejected (malformed)", "80"):
        assert part in shown


def test_show_explains_a_generated_case_too(tmp_path):
    shown = conformance("show", "gen/4/UNSIGNED_VARINT/0/1", cwd=tmp_path).stdout
    for part in ("gen/4/UNSIGNED_VARINT/0/1", "varint.truncated-rejected", "rejected (malformed)"):
        assert part in shown
    unknown = conformance("show", "gen/4/UNSIGNED_VARIN/0/1", cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "UNSIGNED_VARIN" in unknown.stderr


def test_explain_annotates_bytes_with_every_violation(tmp_path):
    shown = conformance("explain", "--type", "STRING", "ffff", cwd=tmp_path).stdout
    assert "string.null-rejected" in shown
    piped = conformance("explain", "--type", "INT16", "-", cwd=tmp_path, stdin=b"\x01\x00").stdout
    assert "256" in piped


def test_list_requirements_names_the_cases_of_each(tmp_path):
    lines = conformance("list", "--requirements", cwd=tmp_path).stdout.splitlines()
    row = next(line.split("\t") for line in lines if line.startswith("varint.max-five-bytes\t"))
    assert row[1] == "must"
    assert row[2] in BASES
    assert row[4].endswith("cases by vector")
    assert "varint/six-bytes" in row[5].split()


@pytest.mark.parametrize(
    ("requirement", "means"),
    [
        ("broker.holds-back-undecided", "live broker"),
        ("crc.broker-validates", "live broker"),
        ("request.size", "live client"),
        ("broker.monotonic-offsets", "vector, live broker, lint"),
    ],
)
def test_list_requirements_shows_the_kinds_of_tests_of_each(requirement, means, tmp_path):
    lines = conformance("list", "--requirements", cwd=tmp_path).stdout.splitlines()
    row = next(line.split("\t") for line in lines if line.startswith(requirement + "\t"))
    assert row[4].partition(" cases by ")[2] == means


def served(target, lines, cwd):
    """Return the answers of `serve` to lines; a module replaces its process."""
    command = [sys.executable, "-m", "conformance", "serve", target]
    return subprocess.run(command, cwd=cwd, input=lines, capture_output=True, check=False)


def test_serve_speaks_the_protocol_for_the_reference(tmp_path):
    lines = b'{"id":0,"op":"describe","protocol":1}\n{"id":1,"op":"decode","type":"VARINT","hex":"7e"}\nnonsense\n'
    done = served("reference", lines, tmp_path)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0
    assert answers[0]["protocol"] == 1
    assert answers[1] == {"id": 1, "ok": True, "value": 63, "consumed": 1}
    assert "unsupported" in answers[2]


def test_serve_speaks_the_protocol_for_a_module(wrong):
    lines = b'{"id":7,"op":"decode","type":"VARINT","hex":"7e00"}\n'
    done = served("module:./wrong.py", lines, wrong)
    assert json.loads(done.stdout) == {"id": 7, "ok": True, "value": 63, "consumed": 1}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Return a function that runs a target on the whole catalogue and returns each case with its verdict."""

    @cache
    def judged(target):
        folder = tmp_path_factory.mktemp("whole")
        done = conformance("run", target, "--generated", 20, "--json", "r.json", cwd=folder)
        assert done.returncode == 0
        assert "conforms: meets requirements must" in done.stdout
        return [(row["id"], row["verdict"]) for row in json.loads((folder / "r.json").read_text())["results"]]

    return judged


def test_the_reference_conforms_in_process(whole):
    assert [case for case, verdict in whole("reference") if verdict in ("fail", "crash", "timeout", "protocol")] == []


@pytest.mark.integration
def test_the_reference_has_equal_verdicts_in_process_and_through_serve(whole):
    assert whole("reference") == whole(f"command:{sys.executable} -m conformance serve reference")


def test_a_run_does_not_import_hypothesis(tmp_path):
    probe = "import sys, conformance.runner, conformance.targets.reference; print('hypothesis' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


HEAVY = ("rich", "yaml", "zstandard", "psutil", "msgspec", "conformance.codec", "conformance.commands.run")


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_version_and_help_import_no_heavy_module(tmp_path, option):
    probe = (
        "import sys; from conformance.cli import main\n"
        f"try: main([{option!r}])\n"
        f"finally: print([m for m in {HEAVY} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


SMALL = {
    "show": (["show", "varint/six-bytes"], 88, ()),
    "list": (["list"], 73, ("rich",)),
    "explain": (["explain", "--type", "VARINT", "7e"], 67, ("platformdirs",)),
}
"""Fast commands, their maximum number of modules of the suite, and further modules that they must not import."""
UNNEEDED = (
    *("yaml", "psutil", "difflib", "rich.progress", "jinja2", "crc32c", "hypothesis", "conformance.strategies"),
    *("conformance.process.child_process", "conformance.selftest.requirement_faults", "conformance.judging.judge"),
)


@pytest.mark.parametrize("arguments, most, more", SMALL.values(), ids=SMALL)
def test_a_small_command_imports_only_what_it_uses(tmp_path, arguments, most, more):
    read_catalog()  # fills the cache of the catalogue
    probe = (
        f"import sys; from conformance.cli import main\ntry: main({arguments!r})\nfinally: print(' '.join(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1].split()
    assert "conformance.codec" in imported
    assert [name for name in (*UNNEEDED, *more) if name in imported] == []
    assert sum(name.startswith("conformance") for name in imported) <= most


def test_a_command_raises_the_threshold_of_the_garbage_collector(tmp_path):
    probe = (
        "import gc; from conformance.cli import main\n"
        "try: main(['explain', '--type', 'VARINT', '7e'])\n"
        "finally: print(gc.get_threshold()[0])"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "50000"


def test_a_run_imports_the_judge_after_it_starts_its_targets(tmp_path):
    probe = (
        "import sys; from contextlib import nullcontext; from conformance.commands import run\n"
        "def loaded_once(spec):\n"
        "    heavy = 'rich', 'conformance.reports', 'conformance.judging'\n"
        "    print([name for name in sys.modules if name.startswith(heavy)])\n"
        "    return nullcontext(spec)\n"
        "run.loaded_once = loaded_once\n"
        "run.command(['reference', '--select', 'varint/six-bytes'])"
    )
    done = subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("['conformance.reports', 'conformance.reports.formats']\nreference ")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_of_the_table_has_a_module_with_its_name(name):
    assert command_of(name).name == name


def test_every_module_of_a_command_is_in_the_table():
    folder = Path(commands.__file__).parent
    defining = [path.stem.replace("_", "-") for path in folder.glob("*.py") if "\ndef command(" in path.read_text()]
    assert sorted(defining) == list(COMMANDS)


def test_a_wrong_option_is_named_as_an_option(tmp_path):
    done = conformance("run", "reference", "--seed", "x", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "conformance: --seed: expected a number of at most 18 digits or random, found 'x'\n"
