"""The page: its content, no network access, escaped text of targets, and its display in a browser."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner
from msgspec.structs import replace
from pages import Elements, assert_accessible

from conformance.cases.model import PASSED
from conformance.cli import main
from conformance.reports.formats import Report
from conformance.reports.html import render
from conformance.reports.matrix import RequirementState, matrix
from conformance.reports.target_differences import disagreements
from conformance.runner.executor import judge_target
from conformance.runner.policy import FailurePolicy
from conformance.runner.results import TargetRun
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import target_spec

SCRIPT = "<script>document.title = 'owned'</script>"
HOSTILE = f"""
def describe():
    return {{"name": "{SCRIPT}", "version": "\\"'><img src=x onerror='document.title=1'>", "language": "{SCRIPT}",
            "supports": {{"decode": ["VARINT", "RECORD_BATCH"]}}, "via": {{"decode": "public: {SCRIPT}"}}}}

def decode(type, data, **_):
    if len(data) % 3 == 0:
        raise ValueError("{SCRIPT} \\x1b[31m")
    return {{"value": 7 if type == "VARINT" else {{"baseOffset": "{SCRIPT}"}}, "consumed": 1}}
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the page of a run of a hostile target and the reference."""
    folder = tmp_path_factory.mktemp("page")
    (folder / "hostile.py").write_text(HOSTILE)
    page = folder / "page.html"
    options = ["--select", "type:VARINT", "--select", "batch/*", "--generated", "20", "--html", str(page), "-q"]
    done = CliRunner().invoke(main, ["run", f"module:{folder / 'hostile.py'}", "reference", *options])
    assert done.exit_code in (1, 3), done.output
    return page


@pytest.fixture(scope="module")
def judged(catalog, tmp_path_factory):
    """Return the record of the hostile target on 3,000 cases of the whole catalogue, including all of VARINT."""
    path = tmp_path_factory.mktemp("target") / "hostile.py"
    path.write_text(HOSTILE)
    run = TargetRun("hostile")
    claimed = [case for case in catalog.cases.values() if case.type == "VARINT"]
    others = [case for case in catalog.cases.values() if case.type != "VARINT"]
    cases = [*claimed, *others[:: len(others) // 3000]][:3000]
    judge_target(
        target_spec(f"module:{path}", None, ResourceLimits()), run, cases, catalog.requirements, FailurePolicy()
    )
    return run


# --- without a browser --------------------------------------------------------------------------------


def test_the_page_needs_no_network(written):
    for tag, given in Elements(written.read_text()).found:
        assert tag not in ("link", "img", "iframe")
        assert not given.get("src")
        assert given.get("href", "#").startswith("#")


def test_text_of_a_target_stays_text(written):
    page = written.read_text()
    assert SCRIPT not in page
    assert "&lt;script&gt;document.title" in page
    assert [tag for tag, _ in Elements(page).found].count("script") == 1
    assert "\x1b" not in page


def test_all_tags_are_closed_and_every_link_has_a_target(written):
    elements = Elements(written.read_text())
    assert not elements.stack
    ids = [given["id"] for _, given in elements.found if "id" in given]
    assert len(set(ids)) == len(ids)
    assert {given["href"][1:] for _, given in elements.found if given.get("href")} <= set(ids)


def test_each_failure_has_its_verdict_bytes_entry_point_and_command(written):
    page = written.read_text()
    assert "must, stated" in page
    assert re.search(r"conformance run \S+hostile.py --select varint/\S+", page)
    assert "via public: " in page
    assert re.search(r'<tr class="place"><td>→</td>', page)


def test_a_row_counts_the_same_cases_for_every_target(judged, catalog):
    other = TargetRun("other", judged.description, "", judged.results[:100])
    for rows in matrix([judged, other], catalog.requirements).values():
        for row in rows:
            assert sum(row.cells[0].states.values()) >= len(row.cases) > 0
            assert sum(row.cells[1].states.values()) <= len(row.cases)
            assert (
                row.cells[1].state is not RequirementState.SKIPPED or not row.cells[1].states[RequirementState.PASSES]
            )


def test_a_cell_shows_the_worst_verdict(judged, catalog):
    sections = matrix([judged], catalog.requirements)
    cells = {row.requirement.id: row.cells[0] for rows in sections.values() for row in rows}
    assert cells["varint.examples"].state in (RequirementState.CRASHES, RequirementState.FAILS)
    assert cells["varint.examples"].shown == cells["varint.examples"].states[cells["varint.examples"].state]
    assert cells["uint32.layout"].state is RequirementState.SKIPPED


def test_the_page_shows_where_the_targets_differ(written):
    page = written.read_text()
    part = page[page.index('<h2 id="disagreements">') : page.index('<h2 id="target-0">')]
    assert "✓ accepts" in part
    assert "✗ another value" in part
    assert re.search(r"conformance run \S+hostile.py reference --select varint/\S+", part)


def test_twelve_targets_on_three_thousand_cases_stay_under_five_megabytes(judged, catalog):
    runs = [TargetRun(f"target-{number}", judged.description, "", judged.results) for number in range(12)]
    runs[0] = TargetRun("mended", judged.description, "", [replace(one, verdict=PASSED) for one in judged.results])
    assert len(disagreements(runs)) > 3
    assert len("".join(render(Report(runs, 0, requirements=catalog.requirements))).encode()) < 5_000_000


# --- in Chromium --------------------------------------------------------------------------------------


def shown(browser, selector):
    return [element for element in browser.find_elements("css selector", selector) if element.is_displayed()]


ROWS = ".matrix tbody tr[data-text]"


def test_the_page_renders_and_no_script_of_a_target_runs(browser, written):
    browser.get(written.as_uri())
    assert browser.title.startswith("Kafka wire format: module:")
    assert len(shown(browser, ROWS)) > 50
    assert not [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]


def test_the_filters_narrow_the_requirements(browser, written):
    browser.get(written.as_uri())
    everything = len(shown(browser, ROWS))
    from selenium.webdriver.support.select import Select

    Select(browser.find_element("css selector", "select[name=level]")).select_by_visible_text("may")
    may = shown(browser, ROWS)
    assert 0 < len(may) < everything
    assert {row.get_attribute("data-level") for row in may} == {"may"}
    browser.find_element("css selector", "button[type=reset]").click()
    browser.implicitly_wait(1)
    browser.find_element("css selector", "input[type=search]").send_keys("zig-zag")
    assert 0 < len(shown(browser, ROWS)) < everything
    assert f"{len(shown(browser, ROWS))} requirements" in browser.find_element("id", "count").text
    browser.find_element("css selector", "button[type=reset]").click()
    browser.find_elements("css selector", "input[name=target]")[0].click()
    assert not shown(browser, "[data-column='0']")


def test_a_cell_opens_its_failure(browser, written):
    browser.get(written.as_uri())
    assert not shown(browser, "details.failure .sides")
    browser.find_element("css selector", "td.cell.bad a").click()
    assert len(shown(browser, "details.failure .sides")) == 1
    focused = browser.switch_to.active_element
    assert focused.tag_name == "summary"


def test_the_command_is_copied(browser, written):
    browser.get(written.as_uri())
    browser.find_element("css selector", "td.cell.bad a").click()
    button = shown(browser, "button.copy")[0]
    button.click()
    waiting = pytest.importorskip("selenium.webdriver.support.wait")
    waiting.WebDriverWait(browser, 30).until(lambda _: "Copied" in button.text)  # the clipboard is asynchronous
    assert browser.find_element("css selector", "details[open].failure pre").text.startswith("conformance ")


@pytest.mark.parametrize("width", [1280, 390], ids=["screen", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_accessibility_checker_has_no_findings(browser, written, axe, tmp_path, scheme, width):
    assert_accessible(browser, written, axe, tmp_path / f"{scheme}-{width}.png", scheme, width)
