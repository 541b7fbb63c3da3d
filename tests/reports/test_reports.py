"""Reports: their form, the parts of a failure, and escaped text of targets."""

from __future__ import annotations

import html
import io
import json
import re
import xml.etree.ElementTree as ET
from importlib import import_module

import pytest
from json_reports import VALIDATOR
from msgspec.structs import replace
from rich.console import Console

from conformance import codec
from conformance.cases.model import (
    FAILURES,
    PASSED,
    Accepted,
    Case,
    CaseOrigin,
    ExpectAnyOf,
    ExpectBytes,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectEquivalentBytes,
    ExpectRejection,
    ExpectSize,
    ExpectValue,
    NoAnswer,
    Rejected,
    Unsupported,
    Verdict,
    VerdictKind,
)
from conformance.codec.json_notation import UNSHOWN
from conformance.files.atomic import OutputFiles
from conformance.judging.judge import judge
from conformance.reports.explain import explain, reproduce
from conformance.reports.formats import FORMATS, Report, write_files
from conformance.reports.html import render as render_page
from conformance.reports.json_report import render as render_json
from conformance.reports.junit import render as as_junit
from conformance.reports.screen import TargetScreen
from conformance.reports.text import target_report, target_summary
from conformance.runner.results import Result, TargetRun
from conformance.semantics.consumer_view import ConsumerView
from conformance.targets.protocol import description

PLAIN = bytes.fromhex(
    "0000000000000000 0000004c ffffffff 02 fcfd2439 0000 00000002 00000000000003e8 00000000000003f2"
    "ffffffffffffffff ffff ffffffff 00000003 10000000026b027600 10000a02026b027600 10001404026b027600"
)
DESCRIBED = {
    "ok": True,
    "protocol": 1,
    "name": "t",
    "version": "1.2",
    "language": "go",
    "supports": {"decode": ["INT8"]},
}


def case(expect=None, *, id="varint/sixty-three", op="decode", type="VARINT", data=b"\x7e", **rest):
    request = {"op": op, "type": type, **({"hex": data.hex()} if op == "decode" else {"value": 63})}
    given = {"requirement": "varint.examples", "level": "must", **rest}
    return Case(id, op, codec.wire(type), request=request, expect=expect or ExpectValue(63, 1), data=data, **given)


def result(one, outcome, *, target="t", known=False, counts=None, level=""):
    verdict = judge(one, outcome)
    level = level or verdict.level or one.level
    bad = verdict.kind in (VerdictKind.FAIL, VerdictKind.CRASH, VerdictKind.TIMEOUT)
    counts = bad if counts is None else counts
    disputed = verdict.kind in one.disputed
    return Result(target, one, outcome, verdict, level, known=known, counts=counts, disputed=disputed)


def run(*results, name="t", problem=""):
    return TargetRun(name, description(DESCRIBED), problem, list(results))


PASS = result(case(), Accepted({"value": 63, "consumed": 1}))
FAIL = result(case(id="varint/wrong"), Accepted({"value": 62, "consumed": 1}))
CRASH = result(case(id="varint/crash"), NoAnswer("crash", "TypeError: boom"))
TIMEOUT = result(case(id="varint/slow"), NoAnswer("timeout", "no answer in 5 s", flaky=True))
SKIP = result(case(id="varint/skip"), Unsupported("no such type"))
EITHER = result(case(ExpectAnyOf(), id="varint/open"), Rejected("other"))
FAULT = result(case(id="varint/fault"), NoAnswer("protocol", "no JSON"))
KNOWN = result(case(id="varint/known"), Accepted({"value": 0}), known=True)
UNCOUNTED = result(case(id="varint/uncounted", level="may"), Accepted({"value": 0}), counts=False)
DISPUTED = result(case(id="varint/disputed", disputed=frozenset({"fail"})), Accepted({"value": 0}), counts=False)
EVERY = [PASS, FAIL, CRASH, TIMEOUT, SKIP, EITHER, FAULT, KNOWN, UNCOUNTED, DISPUTED]


def text(renderable, width=100):
    console = Console(file=io.StringIO(), width=width, color_system=None, legacy_windows=False)
    console.print(renderable, crop=False)
    return console.file.getvalue()


def as_json(whole_report):
    shown = json.loads("".join(render_json(whole_report)))
    VALIDATOR.validate(shown)
    return shown


def report(record, catalog):
    return text(target_report(record, catalog.requirements))


# --- text ---------------------------------------------------------------------------------------------


def test_the_reason_of_a_failed_start_is_one_line_for_every_command():
    problem = f"command:{'/folder' * 40}/adapter could not be started in 3 attempts: exited with status 9"
    assert problem in text(target_summary(TargetRun("t", problem=problem))).splitlines()


# --- formats ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS, ids=[form.name for form in FORMATS])
def test_every_format_is_written_to_its_file(form, tmp_path):
    whole_report = Report([run(*EVERY)], 7)
    files = {form.name: tmp_path / "report"}
    write_files(files, whole_report, OutputFiles())
    assert (tmp_path / "report").read_text(encoding="utf-8") == "".join(form.pieces(whole_report)) != ""


@pytest.mark.parametrize("command", ["run", "campaign"])
def test_every_format_is_an_option_of_runs_and_of_campaigns(command):
    module = import_module(f"conformance.commands.{command}")
    options = {name for parameter in module.command.params for name in parameter.opts}
    assert options >= {f"--{form.name}" for form in FORMATS}


# --- JSON ---------------------------------------------------------------------------------------------


def test_the_json_report_has_the_form_of_the_contract():
    shown = as_json(Report([run(*EVERY)], 7))
    assert set(shown) >= {"suite", "targets", "summary", "results"}
    assert set(shown["suite"]) == {"name", "version", "seed"}
    assert shown["suite"]["seed"] == 7
    assert shown["targets"][0]["target"] == "t"
    assert shown["targets"][0]["describe"]["supports"] == DESCRIBED["supports"]
    assert shown["targets"][0]["status"] == "judged"
    verdicts = {kind: sum(str(r.verdict.kind) == kind for r in EVERY) for kind in map(str, VerdictKind)}
    assert shown["summary"] == {"t": {**verdicts, "disputed": 1}}
    assert [one["id"] for one in shown["results"]] == [one.case.id for one in EVERY]
    keys = {"target", "id", "kind", "op", "type", "requirement", "level", "basis", "verdict"}
    keys |= {"upstream", "flaky"}
    in_full = {"reproduce", "hex", "expected", "actual", "via"}
    for one in shown["results"]:
        expected_keys = {"pass": set(), "skip": set(), "either": {"actual"}}.get(one["verdict"], in_full)
        assert keys <= set(one)
        assert in_full & set(one) == expected_keys, "its id determines the other keys"
        assert ("detail" in one) == (one["verdict"] != "pass")
        assert ("known" in one) == (one["verdict"] in map(str, FAILURES))


def test_the_json_report_describes_each_result():
    rows = {one["id"]: one for one in as_json(Report([run(*EVERY)], 7))["results"]}
    wrong = rows["varint/wrong"]
    assert (wrong["expected"], wrong["actual"]) == ({"value": 63, "consumed": 1}, {"value": 62, "consumed": 1})
    assert (wrong["hex"], wrong["kind"], wrong["verdict"], wrong["upstream"]) == ("7e", "vector", "fail", None)
    assert rows["varint/disputed"]["upstream"] == "differs"
    assert rows["varint/known"]["known"] is True
    assert rows["varint/slow"]["flaky"] is True
    assert rows["varint/crash"]["also"] == ["robustness.answers"]
    assert rows["varint/open"]["actual"] == {"error": "other", "message": ""}


@pytest.mark.parametrize(
    ("expect", "shown"),
    [
        (ExpectValue(63, None), {"value": 63}),
        (ExpectRejection("corrupt", "corrupt"), {"reject": "corrupt"}),
        (
            ExpectAnyOf((ExpectRejection(), ExpectValue(0, 2))),
            {"either": [{"reject": "malformed"}, {"value": 0, "consumed": 2}]},
        ),
        (ExpectBytes(b"\x7e"), {"hex": "7e"}),
        (ExpectEquivalentBytes(63), {"decodes-to": 63}),
        (ExpectSize(1), {"size": 1}),
    ],
)
def test_every_expectation_has_a_form_in_json(expect, shown):
    op = {ExpectBytes: "encode", ExpectEquivalentBytes: "encode", ExpectSize: "size"}.get(type(expect), "decode")
    one = result(case(expect, op=op), NoAnswer("crash", "TypeError: boom"))
    assert as_json(Report([run(one)], 7))["results"][0]["expected"] == shown


@pytest.mark.parametrize(
    ("record", "status"),
    [
        (TargetRun("t"), "not started"),
        (run(PASS), "judged"),
        (run(PASS, problem="it died"), "stopped early"),
        (replace(run(CRASH), answered=False), "answered nothing"),
        (run(SKIP), "not judged"),
        (run(FAULT, SKIP), "not judged"),
    ],
)
def test_the_status_of_a_target_shows_its_progress(record, status):
    assert as_json(Report([record], 7))["targets"][0]["status"] == status


VIA = replace(FAIL, via="public: poll > decode_varint")


def test_the_json_report_names_the_entry_points_of_failures():
    rows = {one["id"]: one for one in as_json(Report([run(VIA, PASS, SKIP, CRASH)], 7))["results"]}
    assert (rows["varint/wrong"]["via"], rows["varint/crash"]["via"]) == ("public: poll > decode_varint", None)
    assert not any("via" in rows[name] for name in ("varint/sixty-three", "varint/skip"))


# --- JUnit --------------------------------------------------------------------------------------------


def junit(*runs, stale=()):
    return ET.fromstring("".join(as_junit(Report(runs, 7, stale))))


def colours(root):
    """Case name to the tag of its result."""
    return {one.get("name"): next((child.tag for child in one), "passed") for one in root.iter("testcase")}


def test_junit_has_failures_exactly_if_the_exit_status_is_not_0():
    assert colours(junit(run(*EVERY))) == {
        **{"varint/sixty-three": "passed", "varint/wrong": "failure", "varint/crash": "error"},
        **{"varint/slow": "error", "varint/skip": "skipped", "varint/open": "skipped", "varint/fault": "error"},
        **{"varint/known": "skipped", "varint/uncounted": "skipped", "varint/disputed": "skipped"},
    }


def test_a_failure_below_the_requested_level_is_skipped_with_the_reason():
    root = junit(run(UNCOUNTED, KNOWN))
    messages = [one.get("message") for one in root.iter("skipped")]
    assert "value differs" in messages[0]
    assert messages[1].startswith("known fail")


def test_junit_counts_agree_with_its_cases():
    root = junit(run(*EVERY), run(PASS, name="u"))
    suites = list(root.iter("testsuite"))
    assert [suite.get("name") for suite in suites] == ["t: VARINT", "u: VARINT"]
    counts = {name: int(suites[0].get(name)) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 10, "failures": 1, "errors": 3, "skipped": 5}


def test_a_suite_in_junit_has_the_waiting_time_and_its_cases_have_none():
    root = junit(
        replace(run(PASS, FAIL), waited={"VARINT": 1.5}),
        replace(run(PASS, name="u"), waited={"VARINT": 0.25}),
    )
    assert [suite.get("time") for suite in root.iter("testsuite")] == ["1.500", "0.250"]
    assert root.get("time") == "1.750"
    assert not any(one.get("time") for one in root.iter("testcase"))


def test_a_target_that_could_not_be_judged_is_a_separate_error():
    assert colours(junit(TargetRun("t", problem="no such program"))) == {"start": "error"}
    assert colours(junit(run(SKIP))) == {"varint/skip": "skipped", "start": "error"}
    assert colours(junit(run(PASS, problem="died three times"))) == {"varint/sixty-three": "passed", "start": "error"}


def test_a_stale_known_failure_is_a_failure():
    root = junit(run(PASS), stale=[("a/b", "no case has this id")])
    assert colours(root)["a/b"] == "failure"


def test_a_failure_in_junit_shows_all_parts_for_a_reader():
    failure = next(junit(run(FAIL)).iter("failure"))
    assert "varint.examples" in failure.get("message")
    assert "must" in failure.get("message")
    for part in ("63", "62", "conformance run t --select varint/wrong"):
        assert part in failure.text


# --- text ---------------------------------------------------------------------------------------------


def test_a_failure_shows_id_requirement_level_expected_actual_bytes_and_the_command(catalog):
    shown = report(run(FAIL), catalog)
    for part in ("varint/wrong", "varint.examples", "must", "expected", "63", "actual", "62", "7e"):
        assert part in shown
    assert "conformance run t --select varint/wrong" in shown
    assert catalog.requirements["varint.examples"].source[0] in shown


def test_a_failure_shows_its_basis_in_every_report(catalog):
    basis = catalog.requirements["varint.examples"].basis
    whole_report = run(replace(FAIL, basis=basis))
    assert f"varint.examples  {basis}  primitive-types" in report(whole_report, catalog)
    assert next(junit(whole_report).iter("failure")).get("message").startswith(f"varint.examples (must, {basis}): ")
    assert as_json(Report([whole_report], 7))["results"][0]["basis"] == basis


def test_a_failure_shows_its_entry_point_on_the_console_and_in_junit(catalog):
    assert "via public: poll > decode_varint" in report(run(VIA), catalog)
    assert "via: public: poll > decode_varint" in next(junit(run(VIA)).iter("failure")).text
    assert "via" not in report(run(FAIL), catalog)
    assert "via" not in next(junit(run(FAIL)).iter("failure")).text


def test_passes_and_known_failures_are_counted_but_not_listed(catalog):
    shown = report(run(PASS, KNOWN, SKIP, EITHER), catalog)
    assert "varint/known" not in shown
    assert "varint/sixty-three" not in shown
    assert "no such type" in shown


def test_known_failures_are_not_counted_in_the_column_of_their_verdict():
    head, must = text(target_summary(run(PASS, FAIL, KNOWN, KNOWN))).splitlines()[:2]
    assert dict(zip(head.split()[1:3], must.split()[1:3], strict=True)) == {"pass": "1", "fail": "1"}
    assert must.split() == ["must", "1", "1", "2"]


def test_known_failures_are_not_listed_under_their_verdict_on_the_screen(catalog):
    shown = text(TargetScreen(run(PASS, FAIL, KNOWN, KNOWN), catalog.requirements))
    assert "cases: 1 pass, 1 fail, 2 known" in shown


@pytest.mark.parametrize(
    "given, heading", [("t", "t 1.2 (go)"), ("module:./t.py", "t 1.2 (go) as module:./t.py"), ("x", "t 1.2 (go) as x")]
)
def test_the_headline_of_a_report_is_the_reported_name_of_the_target(given, heading, catalog):
    record = run(FAIL, name=given)
    assert report(record, catalog).splitlines()[0].split(" ─")[0] == heading
    assert text(TargetScreen(record, catalog.requirements)).splitlines()[0].split(" ─")[0] == heading
    page = "".join(render_page(Report([record], 7, requirements=catalog.requirements)))
    assert re.search(r'<h2 id="target-0">(.*?)<', page)[1].strip() == "t"


def test_disputed_failures_and_adapter_faults_are_separate(catalog):
    shown = report(run(FAIL, DISPUTED, FAULT), catalog)
    order = ("varint/wrong", "Disputed", "varint/disputed", "varint/fault")
    places = [shown.index(part) for part in order]
    assert places == sorted(places)


def test_a_wrong_field_is_shown_at_its_bytes(catalog):
    value = codec.decode("RECORD_BATCH", PLAIN).value
    answer = codec.wire("RECORD_BATCH").notation.render(value)
    answer["records"][1]["offset"] = "7"
    one = case(
        ExpectValue(value, 88), id="batch/x", type="RECORD_BATCH", data=PLAIN, checked_fields=("records.offset",)
    )
    shown = explain(result(one, Accepted({"value": answer, "consumed": 88})))
    assert (shown.expected, shown.actual) == ('records[1].offset = "1"', 'records[1].offset = "7"')
    assert shown.lines[shown.place].path == "records[1].offsetDelta"
    assert 3 <= len(shown.lines) <= 8
    assert "→" in report(run(result(one, Accepted({"value": answer, "consumed": 88}))), catalog)


@pytest.mark.parametrize("field, is_shown", [("records", True), ("baseSequence", False)])
def test_the_note_of_a_vector_is_shown_only_for_its_own_fault(field, is_shown, catalog):
    case = catalog.cases["batch/record-count-3"]
    answer = case.wire.notation.render(case.expect.value)
    answer[field] = answer["records"][:2] if field == "records" else 7
    wrong = result(case, Accepted({"value": answer, "consumed": len(case.data)}))
    assert (case.note in report(run(wrong), catalog)) is is_shown


def test_a_wrong_flag_is_shown_at_the_attributes():
    value = codec.decode("RECORD_BATCH", PLAIN).value
    one = case(ExpectValue(value, 88), id="batch/x", type="RECORD_BATCH", data=PLAIN, checked_fields=("compression",))
    shown = explain(result(one, Accepted({"value": {"compression": "gzip"}, "consumed": 88})))
    assert shown.lines[shown.place].path == "attributes"


SEEN = {"offset": "0", "timestamp": "5", "timestampType": "CreateTime", "key": None, "value": "61", "headers": []}
CORRUPT = codec.Violation("crc.mismatch-corrupt", 17, "the checksum differs")


@pytest.mark.parametrize(
    ("damage", "answer", "path", "expected", "actual"),
    [
        (
            None,
            {"records": [SEEN], "nextOffset": "1"},
            "records[0]",
            "no records[0]",
            f"records[0] = {json.dumps(SEEN)}",
        ),
        (None, {"records": [], "nextOffset": "0", "error": "corrupt"}, "error", "no error", 'error = "corrupt"'),
        (CORRUPT, {"records": [], "nextOffset": "0"}, "error", "an error", "no error"),
        (None, {"records": []}, "nextOffset", 'nextOffset = "0"', "no nextOffset"),
    ],
)
def test_a_part_missing_on_one_side_is_called_missing(damage, answer, path, expected, actual):
    view = ConsumerView(0, (), (), {}, damage=damage)
    one = case(ExpectConsumerView(view, view), op="read", type="LOG", data=b"")
    shown = explain(replace(result(one, Accepted({"value": answer})), verdict=Verdict(VerdictKind.FAIL, path=path)))
    assert (shown.expected, shown.actual) == (expected, actual)


EMPTY = {
    "an encoder that wrote nothing": (case(ExpectBytes(b"\x7e"), op="encode"), Accepted({"hex": ""}), "wrote no bytes"),
    "a writer that is due to write nothing": (case(ExpectBytes(b""), op="encode"), Accepted({"hex": "7e"}), "no bytes"),
    "a converter that wrote nothing": (
        case(ExpectConvertedRecords(()), op="convert", type="LOG", data=b""),
        Accepted({"hex": ""}),
        "wrote no bytes",
    ),
    "a decoder that shows no value": (case(), Accepted({"consumed": 9}), "accepted, without a value"),
    "a value that is not looked at": (
        case(ExpectValue(UNSHOWN, None)),
        Rejected("other"),
        "accepted, with any value",
    ),
    "a crash without a message": (case(), NoAnswer("crash", ""), "crash: no message"),
    "a refusal without a message": (case(), Rejected("other", ""), "rejected (other)"),
}


@pytest.mark.parametrize(("one", "outcome", "words"), EMPTY.values(), ids=EMPTY)
def test_every_report_describes_an_empty_outcome_in_words(one, outcome, words, catalog):
    shown = replace(result(one, outcome), verdict=Verdict(VerdictKind.FAIL, "it differs"), counts=True)
    assert words in (explain(shown).expected, explain(shown).actual)
    whole_report = Report([run(shown)], 7, requirements=catalog.requirements)
    files = {
        form.name: "".join(form.pieces(whole_report)) for form in FORMATS if form.name in ("html", "junit", "markdown")
    }
    screen = text(TargetScreen(whole_report.runs[0], catalog.requirements), width=200)
    for name, whole in {**files, "screen": screen, "report": report(whole_report.runs[0], catalog)}.items():
        assert words in html.unescape(whole), name
        assert "(nothing)" not in whole
        assert "(0 bytes)" not in whole


def test_bytes_that_must_be_rejected_are_shown_at_the_violation():
    data = PLAIN[:17] + bytes(4) + PLAIN[21:]
    shown = explain(result(case(ExpectRejection(), type="RECORD_BATCH", data=data), Accepted({"consumed": 88})))
    assert shown.lines[shown.place].path == "crc"
    assert shown.lines[shown.place].marks


# --- reproduction -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "command"),
    [
        (case(), "conformance run t --select varint/sixty-three"),
        (case(origin="my vectors"), "conformance run t --vectors 'my vectors' --select varint/sixty-three"),
        (case(id="bytes/VARINT/abc", kind=CaseOrigin.AD_HOC), "conformance run t --case VARINT:7e"),
        (
            case(ExpectBytes(b"\x7e"), id="bytes/VARINT/abc", op="encode", kind=CaseOrigin.AD_HOC),
            "conformance run t --op encode --case VARINT:63",
        ),
        (
            case(id="bytes/BYTES/abc", type="BYTES", data=bytes(2000), origin="big.bin", kind=CaseOrigin.AD_HOC),
            "conformance run t --case BYTES:@big.bin",
        ),
        (case(id="probe/VARINT:decode", kind=CaseOrigin.PROBE), "conformance doctor t"),
    ],
)
def test_one_command_repeats_the_request(one, command):
    assert reproduce(Result("t", one, Accepted({}), PASSED, "must")) == command


def test_the_command_is_quoted_for_the_shell():
    one = Result("command:a b; rm *", case(), Accepted({}), PASSED, "must")
    assert reproduce(one).startswith("conformance run 'command:a b; rm *' ")


# --- hostile targets ----------------------------------------------------------------------------------

HOSTILE = {
    "terminal": "\x1b[31mred\x1b]0;title\x07\r\x08\x00\x9b2J\u202e",
    "markup": "[red]x[/red] [link=http://x]y[/link] [/] [bold",
    "xml": "]]> <script>alert(1)</script> & \" ' <!-- <![CDATA[",
    "unicode": "\ufffe\uffff\ud800\udfff\U0001f600\u2028\x85",
    "long": "x" * 1_000_000,
    "lines": "a\nb\r\nc\n" * 50,
}


def hostile_results(hostile_text):
    detail = NoAnswer("crash", hostile_text)
    yield result(case(id="varint/a"), detail)
    yield result(case(id="varint/b"), NoAnswer("protocol", hostile_text))
    yield result(case(id="varint/c"), Rejected("other", hostile_text))
    yield result(case(id="varint/d"), Unsupported(hostile_text))
    yield result(case(id="varint/e"), Accepted({"value": hostile_text}))
    yield result(
        case(ExpectValue("a", 3), id="string/f", type="STRING", data=b"\0\1a"), Accepted({"value": hostile_text})
    )
    yield result(case(ExpectAnyOf((ExpectRejection(),)), id="varint/g"), Accepted({"value": 5, "extra": hostile_text}))
    yield result(case(ExpectBytes(b"\x7e"), id="varint/h", op="encode"), Accepted({"hex": hostile_text}))
    yield result(
        case(ExpectBytes(b"\x7e"), id="varint/i", op="encode"), Accepted({"hex": "fe00", "extra": hostile_text})
    )
    yield result(case(ExpectSize(1), id="varint/j", op="size"), Accepted({"size": 2, "extra": hostile_text}))
    value = {"records": [{"key": "00", "headers": [{"key": hostile_text, "value": None}]}], "magic": 1}
    yield result(
        case(ExpectValue({"magic": 2, "records": ({"headers": ({"key": "a"},)},)}, 1), id="b/k", type="RECORD_BATCH"),
        Accepted({"value": value}),
    )


def hostile_run(hostile_text):
    raw = {**DESCRIBED, "name": hostile_text, "version": hostile_text, "language": hostile_text}
    return TargetRun("t", description(raw), f"it said {hostile_text}", list(hostile_results(hostile_text)))


@pytest.mark.parametrize("hostile_text", HOSTILE.values(), ids=HOSTILE)
def test_text_of_a_target_reaches_the_terminal_only_as_text(hostile_text, catalog):
    for shown in (report(hostile_run(hostile_text), catalog), text(target_summary(hostile_run(hostile_text)))):
        assert all(char == "\n" or char.isprintable() for char in shown)
        shown.encode("utf-8")


def test_markup_is_shown_as_it_was_written(catalog):
    assert "[red]x[/red]" in report(hostile_run(HOSTILE["markup"]), catalog)


@pytest.mark.parametrize("hostile_text", HOSTILE.values(), ids=HOSTILE)
def test_text_of_a_target_does_not_break_the_xml(hostile_text):
    written = "".join(as_junit(Report([hostile_run(hostile_text)], 7)))
    root = ET.fromstring(written.encode("utf-8"))
    names = {one.tag for one in root.iter()}
    assert names <= {"testsuites", "testsuite", "testcase", "failure", "error", "skipped"}
    assert "varint/a" in colours(root)


@pytest.mark.parametrize("hostile_text", [HOSTILE[name] for name in HOSTILE if name != "unicode"])
def test_text_of_a_target_does_not_break_the_json(hostile_text):
    shown = as_json(Report([hostile_run(hostile_text)], 7))
    rows = {one["id"]: one for one in shown["results"]}
    assert rows["varint/a"]["actual"] == {"crash": hostile_text}
    assert rows["string/f"]["actual"] == {"value": hostile_text}


def test_a_megabyte_from_a_target_does_not_fill_the_report(catalog):
    assert len(report(hostile_run(HOSTILE["long"]), catalog)) < 200_000


NAMES = ["command:\x1b[31m", "command:]]><x>", "command:\udcff", "[red]t[/red]"]


@pytest.mark.parametrize("name", NAMES)
def test_a_target_with_a_hostile_name_is_plain_text_on_the_terminal(name, catalog):
    shown = report(run(*(replace(one, target=name) for one in EVERY), name=name), catalog)
    assert all(char == "\n" or char.isprintable() for char in shown)


@pytest.mark.parametrize("name", [NAMES[0], NAMES[2]])
def test_a_target_with_control_characters_in_its_name_is_reported_in_junit(name):
    junit(run(*(replace(one, target=name) for one in EVERY), name=name))


@pytest.mark.parametrize("name", [NAMES[1], NAMES[3]])
def test_a_target_with_markup_in_its_name_is_reported_in_junit(name):
    root = junit(run(*(replace(one, target=name) for one in EVERY), name=name))
    assert next(root.iter("testcase")).get("classname") == name


def test_a_verdict_without_an_answer_shows_its_detail(catalog):
    shown = report(run(CRASH, TIMEOUT), catalog)
    assert "TypeError: boom" in shown
    assert "no answer in 5 s" in shown
    assert "flaky" in shown
    assert Verdict(VerdictKind.PASS).detail == ""
