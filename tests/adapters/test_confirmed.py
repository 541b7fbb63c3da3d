"""The verdicts on bundled libraries change only with their pins, and each failure was confirmed by hand: each pin, and
the cause of each generated failure, belongs to a finding in docs/findings."""

import json
import re
import shlex
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec
import pytest
import yaml
from command_line import conformance
from finding_pages import findings
from json_reports import messages_judged

from conformance.reports.screen import LINES
from conformance.targets.resolve import adapters

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent.parent
PINNED = {path.stem: path for path in sorted((ROOT / "tests" / "known").glob("*.yaml"))}


LIBRARIES = sorted(name for name, adapter in adapters().items() if adapter.language == "python")
JUDGED_AT_LEAST = {"aiokafka": 600, "aiokafka-pure": 600, "kafka-python": 600, "kio": 600}
"""The minimum number of judged vectors, so that a lost claim is noticed; 1 for a library not listed here."""


@pytest.fixture(scope="module")
def run(request, tmp_path_factory):
    """Return the text and the report of one run of the installed and selected libraries.

    It has the defaults, 200 generated cases per type with seed 0, and the pinned vectors as known failures.
    """
    folder = tmp_path_factory.mktemp("libraries")
    selected = {item.callspec.params.get("judged") for item in request.session.items if hasattr(item, "callspec")}
    present = [name for name in LIBRARIES if name in selected and not adapters()[name].missing()]
    if not present:
        pytest.skip("none of the libraries is installed (extra: clients)")
    pins = [PINNED[name].read_text() for name in present if name in PINNED]
    (folder / "known.yaml").write_text("".join(pins) or "[]")
    arguments = ["run", *present, "--json", "r.json", "--known-failures", "known.yaml"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", "80")
        done = conformance(*arguments, cwd=folder)
    assert "Traceback" not in done.stdout + done.stderr
    return done, json.loads((folder / "r.json").read_text())


@pytest.fixture
def judged(run, request):
    """Return the name of one library, its part of the screen, and its results."""
    name = request.param
    if lacking := adapters()[name].missing():
        pytest.skip(f"{name} lacks {', '.join(lacking)}")
    done, report = run
    part = re.search(rf"^{name} [^\n]*─\n(?:(?!^[^\n]*──)[^\n]*\n)*", done.stdout, re.MULTILINE)
    return name, part[0], [row for row in report["results"] if row["target"] == name]


of_each_library = pytest.mark.parametrize("judged", LIBRARIES, indirect=True)


def cases(target):
    """Return the patterns of the cases that each finding on a target covers, by its title."""
    return {one.fields["title"]: one.cases for one in findings("adapter", target)}


def causes(target):
    """Return the causes that each finding on a target covers, by its title."""
    return {one.fields["title"]: one.causes for one in findings("adapter", target)}


def failing(results):
    return [row for row in results if row["verdict"] in ("fail", "crash", "timeout")]


def counted(results):
    """Return the undisputed failures at must, crashes and timeouts."""
    undisputed = [row for row in failing(results) if row["upstream"] is None]
    return [row for row in undisputed if row["level"] == "must" or row["verdict"] != "fail"]


def unconfirmed(results, causes_by_title):
    """Return the counted causes without an entry, each with an example."""
    confirmed = {cause for named in causes_by_title.values() for cause in named}
    wrong = counted(results)
    return {row["cause"]: row["reproduce"] for row in wrong if row["cause"] not in confirmed}


def without_entry(pins, globs_by_title):
    globs = [glob for globs in globs_by_title.values() for glob in globs]
    return [pin for pin in pins if not any(fnmatchcase(pin, glob) for glob in globs)]


def pins(target):
    return [pin["id"] for pin in yaml.safe_load(PINNED[target].read_text(encoding="utf-8"))]


@pytest.mark.parametrize("target", PINNED)
def test_each_pinned_failure_belongs_to_an_entry(target):
    assert without_entry(pins(target), cases(target)) == []


@pytest.mark.parametrize("target", PINNED)
def test_a_pinned_failure_without_an_entry_is_found(target):
    assert without_entry(["no-such-family/case"], cases(target)) == ["no-such-family/case"]


def test_each_pattern_of_a_finding_matches_a_pin():
    assert {target for one in findings("adapter") for target in one.versions} <= set(PINNED)
    for one in findings("adapter"):
        pinned = [pin for target in one.versions for pin in pins(target)]
        unused = [pattern for pattern in one.cases if not any(fnmatchcase(pin, pattern) for pin in pinned)]
        assert unused == [], one.fields["title"]


def test_each_finding_on_an_adapter_has_a_cause_or_is_not_run():
    assert all(one.causes or "unpinned" in one.fields for one in findings("adapter"))


@of_each_library
def test_the_verdicts_on_a_library_equal_the_pinned_ones(judged, run):
    name, _, results = judged
    assert re.findall("^stale .*$", run[0].stdout + run[0].stderr, re.MULTILINE) == []
    vectors = [row for row in results if row["kind"] == "vector" and not row["id"].startswith("bytes/")]
    assert [(row["id"], row["verdict"]) for row in counted(vectors) if not row["known"]] == []
    assert [row["id"] for row in results if row["verdict"] == "protocol"] == []
    assert sum(row["verdict"] != "skip" for row in vectors) >= JUDGED_AT_LEAST.get(name, 1)


@pytest.mark.parametrize("judged", JUDGED_AT_LEAST, indirect=True)
def test_at_least_20_common_messages_are_judged_without_an_option(judged):
    assert len(messages_judged(judged[2])) >= 20


@of_each_library
def test_the_output_of_a_run_fits_on_a_screen_of_80_columns_with_uncut_commands(judged):
    name, text, _ = judged
    lines = text.splitlines()
    assert 2 <= len(lines) <= LINES, text
    assert [line for line in lines if len(line) > 80 and not line.startswith(f"  conformance run {name} ")] == []
    assert re.match("(conforms|does not conform): meets requirements must [0-9]+/[0-9]+", lines[1])


def test_the_json_report_of_three_libraries_has_a_bounded_size(run):
    _, report = run
    if lacking := {"kafka-python", "aiokafka", "kio"} - {row["target"] for row in report["targets"]}:
        pytest.skip(f"not installed: {', '.join(sorted(lacking))}")
    fourth = [row for key in ("results", "causes", "shrunk") for row in report[key] if row["target"] == "aiokafka-pure"]
    size, spared = (len(msgspec.json.encode(part)) for part in (report, fourth))
    assert size - spared < 20_000_000


@of_each_library
def test_every_failure_names_requirement_bytes_and_reproduction(judged):
    name, _, results = judged
    failures = failing(results)
    assert name not in PINNED or any(row["kind"] == "generated" for row in failures)
    for failure in failures:
        assert failure["requirement"]
        assert failure["hex"] is not None or failure["op"] == "encode"
        assert failure["reproduce"] == shlex.join(["conformance", "run", name, "--select", failure["id"]])


@pytest.mark.parametrize("judged", [name for name in LIBRARIES if name in PINNED], indirect=True)
def test_the_cause_of_each_generated_failure_has_an_entry(judged):
    name, _, results = judged
    generated = [row for row in results if row["kind"] == "generated"]
    assert sum(row["verdict"] == "fail" for row in generated) > 10
    assert unconfirmed(generated, causes(name)) == {}


def test_a_cause_without_an_entry_is_found():
    failing = {"verdict": "fail", "level": "must", "upstream": None, "cause": "off by 3: X", "reproduce": "run x"}
    named = {"An entry": ["off by 2: X"]}
    crash = {**failing, "verdict": "crash", "level": "may", "cause": "crash: E"}
    others = [
        {**failing, "cause": "off by 2: X"},
        {**failing, "cause": "lapse: X", "level": "should"},
        {**failing, "cause": "as Kafka: X", "upstream": "differs"},
        {**failing, "cause": None, "verdict": "pass"},
    ]
    assert unconfirmed([failing, crash, *others], named) == {"off by 3: X": "run x", "crash: E": "run x"}
