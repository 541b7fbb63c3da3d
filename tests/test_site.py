"""The site of the documentation: it is complete, loads nothing from other hosts, and has no dead links."""

import html
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed (`tox -e docs` has it)")

ROOT = Path(__file__).parent.parent
LOADS = re.compile(r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc=[\"']?([^\"'\s>]+)|@import\s*([^;]+)")
LINKS = re.compile(r"<link\b[^>]*>")


def build(folder, source=ROOT):
    """Build the site; standard error contains the problems."""
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(folder), "-f", str(source / "mkdocs.yml")]
    return subprocess.run(
        command, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    if built := os.environ.get("BUILT_SITE"):  # built by `tox -e docs`
        return Path(built)
    folder = tmp_path_factory.mktemp("site")
    done = build(folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_of_the_docs_is_on_the_site_without_our_scripts(site):
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert pages <= {path.stem for path in site.glob("*.html")}
    assert list(site.rglob("*.py")) == []


def test_the_menu_names_every_page(site):
    menu = re.search(
        r"<nav class=\"md-nav md-nav--primary.*?</nav>\s*</div>", (site / "404.html").read_text(), re.DOTALL
    )
    for path in (ROOT / "docs").glob("*.md"):
        assert f'{path.stem}.html"' in menu[0] or path.stem == "index", path


def test_no_page_loads_resources_from_another_host(site):
    """Only links may lead to other hosts, not resources that a browser loads."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        fetched = [first or second for first, second in LOADS.findall(text)]
        fetched += [link for link in LINKS.findall(text) if 'rel="canonical"' not in link]
        assert [address for address in fetched if re.search(r"(?:https?:)?//", address)] == [], page
    for sheet in site.rglob("*.css"):
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", sheet.read_text(encoding="utf-8")) == [], sheet


def test_every_requirement_and_case_is_on_the_page_of_its_document(site, catalog):
    table = (site / "requirements" / "index.html").read_text(encoding="utf-8")
    for name, requirement in catalog.requirements.items():
        assert f'href="{requirement.source[0].partition("#")[0]}.html#{name}"' in table, name
    pages = {page.stem: page.read_text(encoding="utf-8") for page in (site / "requirements").glob("*.html")}
    for name, cases in catalog.covering().items():
        text = pages[catalog.requirements[name].source[0].partition("#")[0]]
        own = text.partition(f'id="{name}"')[2].partition("<h3")[0]
        assert re.findall(r"<code>(.*?)</code>", own.partition("</summary>")[2]) == list(map(html.escape, cases)), name


def test_the_table_is_filtered_by_words_level_and_basis_in_a_browser(site, catalog, browser):
    rows = [(name, one.level, one.basis) for name, one in catalog.requirements.items()]
    wanted = [row for row in rows if row[0].startswith("varint.") and row[1:] == ("must", "stated")]
    browser.get((site / "requirements" / "index.html").as_uri())
    output = browser.find_element("css selector", "form.narrow output")
    assert output.text == f"{len(rows)} of {len(rows)}"
    for name, text in (("text", "varint. must"), ("level", "must"), ("basis", "stated")):
        browser.find_element("name", name).send_keys(text)
    shown = [row.text.split()[:3] for row in browser.find_elements("css selector", "article tbody tr")]
    shown = [tuple(row) for row in shown if row]
    assert [row for row in shown if row[0].startswith("varint.")] == wanted
    assert all("varint." in row[0] and row[1:] == ("must", "stated") for row in shown)
    assert output.text == f"{len(shown)} of {len(rows)}"


DEAD = ("nowhere.md", "concepts.md" + "#nowhere", "#nowhere", "/docs/concepts.md", "requirements/varint.md")


def test_dead_links_and_pages_without_a_menu_entry_fail_the_build(tmp_path):
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    with (tmp_path / "docs" / "ci.md").open("a", encoding="utf-8") as page:
        page.writelines(f"\n[there]({link})\n" for link in DEAD)
    (tmp_path / "docs" / "lonely.md").write_text("# Lonely\n", encoding="utf-8")
    done = build(tmp_path / "site", tmp_path)
    warnings = [line for line in done.stderr.splitlines() if line.startswith("WARNING")]
    assert done.returncode != 0
    assert all(any("ci.md" in line and link in line for line in warnings) for link in DEAD), warnings
    assert "lonely.md" in done.stderr
    assert len(warnings) == len(DEAD) + 1
