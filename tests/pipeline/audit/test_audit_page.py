"""The page of an audit: its content, no network access, escaped names, and its display in a browser."""

import re

import pytest

pytest.importorskip("pyarrow", reason="audits need the extra scan")
pytest.importorskip("numpy", reason="audits need the extra scan")

from click.testing import CliRunner
from log_bytes import batch, message, record
from pages import Elements, assert_accessible
from segment_files import RECORDS, partition, places, written

from conformance.cli import main
from conformance.pipeline.audit import html_page as module
from conformance.pipeline.audit.part_state import MOST_PERIODS, BatchStatistics

pytestmark = pytest.mark.integration

HOSTILE = "<script>document.title='owned'<\u2215script>\x1b[31m"
"""Name of a topic."""
START = 1_700_000_000_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a valid partition, a damaged one with a hostile name, and one of many sizes and codecs over months."""
    logs = tmp_path_factory.mktemp("logs")
    broken = partition(compression=4)
    damaged = bytearray(broken[0][1])
    damaged[90] ^= 4
    broken[0][1] = bytes(damaged)
    broken[1] = [*broken[1][:2], broken[1][1], *broken[1][2:], b"\0\0\0\1" * 20]
    many = [
        batch(
            at,
            [record(at, timestamp=1_700_000_000_000 + at * 25_000_000, value=b"x" * (at % 9 * 99))],
            compression=at % 5,
        )
        for at in range(300)
    ]
    written(logs, partition(), "sound-3")
    written(logs, broken, f"{HOSTILE}-0")
    written(logs, [[message(0), *many[1:]]], "many-1")
    return logs


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    done = CliRunner().invoke(
        main, ["scan", str(folder), "--out", str(out / "tables"), "--html", str(out / "page.html")]
    )
    assert done.exit_code == 1, done.output
    return out / "page.html"


def test_the_page_needs_no_network_and_runs_no_script(page):
    elements = Elements(page.read_text())
    assert not elements.stack
    for tag, given in elements.found:
        assert tag not in ("link", "img", "iframe", "script")
        assert not given.get("src")
        assert given.get("href", "#").startswith("#")
    ids = [given["id"] for _, given in elements.found if "id" in given]
    assert len(set(ids)) == len(ids)
    assert {given["href"][1:] for _, given in elements.found if given.get("href")} <= set(ids)


def test_names_stay_text(page):
    text = page.read_text()
    assert "<script" not in text
    assert "&lt;script&gt;document.title" in text
    assert "\x1b" not in text


def test_findings_are_shown_at_their_places_with_the_bytes(page):
    text = page.read_text()
    assert text.count('<details class="failure">') == 3
    assert re.search(r"crc.mismatch-corrupt .*byte 114, offset 5<", text)
    assert re.search(r'<tr class="place"><td>131</td>.*<td>crc</td>', text), "bytes count from the start of the file"
    assert len(re.findall(r'class="place" x="[\d.]+" width="1"', text)) == 3
    assert len(re.findall(r'<a href="#finding-\d+">byte', text)) == 3


def test_codecs_sizes_and_times_are_counted(page):
    text = page.read_text()
    assert '<th scope="row">lz4</th><td class="number">60</td>' in text
    assert '<th scope="row">none, magic 1</th><td class="number">1</td>' in text
    assert "from 1970-01-01 00:00:00 to 2024-02-" in text
    chart = text[text.index('<figure class="chart">') : text.index("</svg>", text.index('<figure class="chart">'))]
    assert 40 < chart.count("<rect") <= MOST_PERIODS
    assert "No findings" not in text


def test_a_page_states_that_a_log_is_valid(tmp_path):
    written(tmp_path / "logs", partition())
    options = ["--out", str(tmp_path / "out"), "--html", str(tmp_path / "page.html")]
    assert CliRunner().invoke(main, ["scan", str(tmp_path / "logs"), *options]).exit_code == 0
    text = (tmp_path / "page.html").read_text()
    assert "No findings" in text
    assert f"0 to {12 * RECORDS - 41}</td>" in text


def test_a_page_shows_the_first_findings_and_the_logs_with_the_most(tmp_path, monkeypatch):
    monkeypatch.setattr("conformance.pipeline.audit.local_runner.ON_PAGE", 2)
    monkeypatch.setattr(module, "_MOST_LOGS", 2)
    for number in range(4):
        twice = [segment * (1 + (number == 3)) for segment in partition()]
        written(tmp_path / "logs", twice, f"topic-{number}")
    options = ["--out", str(tmp_path / "out"), "--html", str(tmp_path / "page.html")]
    assert CliRunner().invoke(main, ["scan", str(tmp_path / "logs"), *options]).exit_code == 1
    text = (tmp_path / "page.html").read_text()
    assert "The first 2 of 3;" in text
    assert "the table of partitions contains 2 more" in text
    assert "/topic-3</h3>" in text


def test_statistics_are_bounded_and_independent_of_the_order_of_parts():
    times = [0, 5, 1 << 20, 1 << 40, (1 << 63) - 1, *(1_700_000_000_000 + at * 7_000_000 for at in range(1000))]
    whole, parts = BatchStatistics(), [BatchStatistics() for _ in range(7)]
    for at, time in enumerate(times):
        for shape in (whole, parts[at % 7]):
            shape.add_batch(100 + at, 1, time, "none")
    forward, backward = BatchStatistics(), BatchStatistics()
    for part in parts:
        forward.add(part)
    for part in reversed(parts):
        backward.add(part)
    assert whole == forward == backward
    assert len(whole.periods) <= MOST_PERIODS
    assert sum(part.batches for part in whole.periods.values()) == len(times)


def test_a_chart_labels_a_plausible_time_by_its_date_and_others_by_number():
    assert module._period(1_700_000_000, 1000) == "2023-11-14 22:13:20"
    assert module._period((1 << 63) - 1, 1) == "9223372036854775807 ms"


def test_bytes_of_a_removed_file_are_omitted(tmp_path):
    assert module._lines(str(tmp_path / "gone.log"), 0) == ()
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(partition()[0][0])
    assert module._lines(str(path), 10_000) == ()
    assert [line.path for line in module._lines(str(path), 0)][:2] == ["baseOffset", "batchLength"]
    assert len(places(partition())) == 3


@pytest.mark.parametrize("width", [1280, 390], ids=["screen", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_an_accessibility_checker_has_no_findings(browser, page, axe, tmp_path, scheme, width):
    assert_accessible(browser, page, axe, tmp_path / f"{scheme}-{width}.png", scheme, width)


def test_a_link_to_a_finding_opens_it(browser, page):
    browser.get(page.as_uri())
    browser.find_element("css selector", ".meter a").click()
    shown = [one for one in browser.find_elements("css selector", "details.failure > div") if one.is_displayed()]
    assert len(shown) == 1
    assert browser.title == "Audit of Kafka logs: 3 partitions"
