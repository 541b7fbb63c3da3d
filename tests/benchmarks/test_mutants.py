"""The mutant sweep over the codec: it finds the statements to mutate and kills mutants, but not the original."""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from msgspec import structs

from conformance.cases.model import ExpectRejection
from conformance.catalog.catalog import CaseStore
from conformance.strategies.seeded.cases import generated_cases

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent.parent
SAMPLE = 24
AT_LEAST = 85
"""Minimum percentage of mutants without an entry in mutants.yaml; each drawn one of these must be killed."""


@pytest.fixture(scope="session")
def sweeping():
    """Return the script as a module."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "benchmarks" / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def mutants(sweeping):
    return sweeping.mutants_of(sweeping.PACKAGE)


@pytest.fixture(scope="module")
def workshop(sweeping, catalog):
    """Yield one workshop for all mutants; it first runs the whole catalogue on the original."""
    with sweeping.opened(catalog) as opened:
        yield opened


@pytest.fixture(scope="module")
def fate_of(workshop, mutants):
    """Return a cached function from a mutant to its fate in that workshop."""
    return cache(lambda file, text, damage: workshop.fate(the(mutants, file, text, damage)))


def the(mutants, file, text, damage):
    found = [mutant for mutant in mutants if (mutant.file, mutant.damage) == (file, damage) and text in mutant.text]
    assert len(found) == 1, found
    return found[0]


def only(catalog, holds):
    """Return the catalogue with the cases that satisfy a condition."""
    return replace(catalog, cases=CaseStore(case for case in catalog.cases.values() if holds(case)))


def put(package, file, text):
    (package / file).parent.mkdir(exist_ok=True)
    (package / file).write_text(text)


# --- mutants ------------------------------------------------------------------------------------------

SNIPPET = '''
"""Kept: a docstring."""
from __future__ import annotations
__all__ = ["kept"]
LIMIT: int = 5
SHIFTED = 1 << 3
def read(cursor: Cursor, least: int = 0) -> None:
    """Kept."""
    start = -1
    if cursor.left < least and not start:
        cursor.fail("kept.rule", f"kept {start}", at=start - 1)
    if cursor.left > 100:
        cursor.remark("kept.rule", "kept")
    if cursor.tracing:
        cursor.path = "kept"
    width = 7 if cursor.tracing else 9
    depth = 7 if not cursor.tracing else 9
    if least is None:
        raise Unencodable("kept.rule", "kept")
    if not isinstance(least, int):
        raise Unencodable("kept.rule", "kept")
    if least == 7:
        raise NotationError("kept")
    if least not in values:
        raise Unencodable("general.exact-encoding", "kept")
    cursor.take(least, "kept.rule", "kept", open=least > 8)
    return b"" + name.encode("utf-8") + struct.pack(">i", True)
'''
DAMAGES = [
    ("LIMIT: int = 5", "5 -> 4"),
    ("LIMIT: int = 5", "5 -> 6"),
    ("SHIFTED = 1 << 3", "1 << 3 -> 7"),
    ("SHIFTED = 1 << 3", "1 << 3 -> 9"),
    ("def read(cursor: Cursor, least: int = 0) -> None:", "0 -> 1"),
    ("start = -1", "-1 -> -2"),
    ("start = -1", "-1 -> 0"),
    ("if cursor.left < least and not start:", "and -> or"),
    ("if cursor.left < least and not start:", "< -> <="),
    ("if cursor.left < least and not start:", "not removed"),
    ('cursor.fail("kept.rule", f"kept {start}", at=start - 1)', "fail -> pass"),
    ("width = 7 if cursor.tracing else 9", "9 -> 8"),
    ("width = 7 if cursor.tracing else 9", "9 -> 10"),
    ("depth = 7 if not cursor.tracing else 9", "7 -> 6"),
    ("depth = 7 if not cursor.tracing else 9", "7 -> 8"),
    ("if least is None:", "is -> is not"),
    ('raise Unencodable("kept.rule", "kept")', "raise -> pass"),
    ('return b"" + name.encode("utf-8") + struct.pack(">i", True)', "b'' -> b'\\x00'"),
    ('return b"" + name.encode("utf-8") + struct.pack(">i", True)', "'utf-8' -> 'latin-1'"),
    ('return b"" + name.encode("utf-8") + struct.pack(">i", True)', "'>i' -> '<i'"),
    ('return b"" + name.encode("utf-8") + struct.pack(">i", True)', "True -> False"),
]


def test_each_statement_has_its_expected_mutants(sweeping, tmp_path):
    put(tmp_path, "codec/it.py", SNIPPET)
    put(tmp_path, "codec/hex_dump.py", SNIPPET)
    put(tmp_path, "targets/it.py", SNIPPET)
    found = sweeping.mutants_of(tmp_path)
    assert [(mutant.text, mutant.damage) for mutant in found] == DAMAGES
    assert {mutant.file for mutant in found} == {"codec/it.py"}


def test_a_mutated_statement_keeps_its_lines(sweeping, tmp_path):
    source = "def f(cursor):\n    cursor.fail(\n        1,\n    )\n    return (\n        1 +\n        cursor)\n"
    put(tmp_path, "codec/it.py", source)
    fail, plus = [mutant for mutant in sweeping.mutants_of(tmp_path) if mutant.damage in ("fail -> pass", "+ -> -")]
    assert fail.applied(source.encode()).decode().splitlines()[4] == "    return ("
    assert plus.applied(source.encode()).count(b"\n") == source.count("\n")
    assert ast.unparse(ast.parse(plus.applied(source.encode()))).endswith("return 1 - cursor")


def test_functions_that_only_add_remarks_are_not_mutated(sweeping, tmp_path):
    body = "    if not there:\n        return\n    low = 1 + there\n    if low < 2:\n        cursor.remark('a', 'b')\n"
    for name, last in [("a.py", ""), ("b.py", "    return low\n"), ("c.py", "    there['x'] = low\n")]:
        put(tmp_path, f"semantics/{name}", f"def f(cursor, there):\n{body}{last}")
    found = sweeping.mutants_of(tmp_path)
    assert {mutant.file for mutant in found} == {"semantics/b.py", "semantics/c.py"}
    assert not any(mutant.text.startswith("if low") for mutant in found)


def test_every_mutant_is_different_valid_python_with_a_unique_id(sweeping, mutants):
    sources = {mutant.file: (sweeping.PACKAGE / mutant.file).read_bytes() for mutant in mutants}
    plain = {file: ast.dump(ast.parse(source)) for file, source in sources.items()}
    for mutant in mutants[::5]:
        assert ast.dump(ast.parse(mutant.applied(sources[mutant.file]))) != plain[mutant.file], mutant
    assert len({mutant.id for mutant in mutants}) == len(mutants)
    assert {"codec/__init__.py", "codec/primitives.py", "codec/log.py", "semantics/consumer_view.py"} <= set(sources)
    assert not {"codec/hex_dump.py", "codec/_stored_frames.py", "codec/compare.py"} & set(sources)


def test_a_sample_is_the_same_every_time(sweeping, mutants):
    drawn = sweeping.sampled(mutants, 20, 7)
    assert drawn == sweeping.sampled(mutants, 20, 7)
    assert drawn != sweeping.sampled(mutants, 20, 8)
    assert drawn == [mutant for mutant in mutants if mutant in drawn]
    assert sweeping.sampled(mutants, 10**6, 0) == mutants


def test_every_explained_survivor_exists(sweeping, mutants):
    """Only the whole sweep shows if they survive, but an entry without a mutant is always wrong."""
    for known in sweeping.known_survivors():
        assert any(map(known.covers, mutants)), known
        for damage in known.damages:
            assert any(known.covers(mutant) and mutant.damage == damage for mutant in mutants), (known, damage)


def test_exempt_names_and_files_exist(sweeping):
    """The sweep would mutate a renamed class or function again without notice."""
    files = [path for folder in sweeping.FOLDERS for path in (sweeping.PACKAGE / folder).rglob("*.py")]
    words = {word for path in files for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    stale = [name for name in sweeping.EXEMPT if not words.issuperset(name.rpartition(":")[2].split("."))]
    assert stale == []
    assert all((sweeping.PACKAGE / name.partition(":")[0]).exists() for name in sweeping.EXEMPT if ":" in name)
    assert all((sweeping.PACKAGE / file).exists() for file in sweeping.EXEMPT_FILES)


# --- killed mutants -----------------------------------------------------------------------------------

DEADLY = [
    ("codec/wire_type.py", "if at - start == self.limit:", "== -> !="),
    ("codec/primitives.py", '_32 = VarintFormat(32, 5, "varint', "5 -> 6"),
    ("codec/wire_type.py", 'raise Unencodable("int.out-of-range', "raise -> pass"),
    ("codec/derived_fields.py", "if computed != stated:", "!= -> =="),
    ("codec/derived_fields.py", "self.checksum.name", "violation -> pass"),
    ("codec/derived_fields.py", "cursor.end = cursor.pos + stated", "+ -> -"),
    ("codec/legacy_message.py", "if rest < OVERHEAD:", "< -> <="),
    ("codec/compression_formats.py", "zlib.decompressobj(", "+ -> -"),
    ("semantics/consumer_view.py", "while self._coming and self._coming", "and -> or"),
    ("semantics/producer_state.py", "if _span(first, count) in known.batches:", "in -> not in"),
    ("codec/compression_formats.py", '_XERIAL = b"', "b'\\x82SNAPPY\\x00' -> b'\\x82SNAPPY\\x01'"),
]


def test_the_unmutated_codec_is_not_killed_after_a_mutant(sweeping, mutants, catalog):
    """The fixture `workshop` checks the original with the whole catalogue."""
    every_eighth = {case.id for case in list(catalog.cases.values())[::8]}
    with sweeping.opened(only(catalog, lambda case: case.id in every_eighth)) as workshop:
        assert workshop.fate(the(mutants, "codec/derived_fields.py", "if computed != stated:", "!= -> ==")).killed
        assert workshop.fate(sweeping.ORIGINAL) == sweeping.Fate(sweeping.ORIGINAL)


def test_the_sweep_stops_if_a_case_kills_the_unmutated_codec(sweeping, catalog):
    wrong = replace(catalog.cases["varint/63"], expect=ExpectRejection())
    with pytest.raises(SystemExit, match=wrong.id), sweeping.opened(replace(catalog, cases=CaseStore([wrong]))):
        pass


@pytest.mark.parametrize(("file", "text", "damage"), DEADLY)
def test_deadly_mutants_are_killed(fate_of, file, text, damage):
    fate = fate_of(file, text, damage)
    assert fate.killed
    assert fate.vectors.startswith(("fail: ", "crash: ", "protocol: ")), fate


def test_a_missing_checksum_check_fails_a_crc_requirement(fate_of):
    fate = fate_of("codec/derived_fields.py", "self.checksum.name", "violation -> pass")
    assert fate.vectors.rpartition(" ")[2].startswith(("crc.", "legacy.crc")), fate


def test_a_mutant_that_cannot_be_imported_is_killed(workshop, sweeping):
    broken = sweeping.Mutant("codec/log.py", 1, 0, "x -> y", "", (0, 3), "nonsense")
    assert workshop.fate(broken).vectors.startswith("not started: ")


def test_a_mutant_that_hangs_is_killed(workshop, sweeping, mutants, monkeypatch):
    """The loop over the groups of a varint never ends; the sweep waits for only one such failure."""
    monkeypatch.setattr(sweeping, "LIMITS", structs.replace(sweeping.LIMITS, timeout=2.0))
    fate = workshop.fate(the(mutants, "codec/wire_type.py", "raw >>= 7", ">> -> <<"))
    assert fate.vectors.startswith(("timeout: ", "fail: ", "crash: "))


def test_another_accepted_interpretation_is_distinguished_and_not_killed(sweeping, mutants, catalog):
    another = the(mutants, "codec/compression_formats.py", "if stop.violation.open or not stream.plain:", "not removed")
    framed = only(catalog, lambda case: case.id.startswith(("snappy/", "gzip/", "lz4/", "zstd/", "compression/")))
    with sweeping.opened(framed) as workshop:
        fate = workshop.fate(another)
    assert not fate.killed
    assert fate.distinguished_by.startswith("snappy/"), fate


def test_generated_cases_are_run_independently_of_the_vectors(sweeping, mutants, catalog):
    cases = list(generated_cases(["VARINT"], 20, 0, catalog))
    vectors = only(catalog, lambda case: case.type == "VARINT")
    with sweeping.opened(vectors, cases, alone=True) as workshop:
        fate = workshop.fate(the(mutants, "codec/wire_type.py", "return raw >> 1 ^ -(raw & 1)", "^ -> |"))
    assert fate.vectors
    assert fate.generated.startswith("fail: gen/"), fate


def test_the_rates_count_distinguished_mutants_as_survivors(sweeping, mutants):
    one, two, three, four = mutants[:4]
    fates = [
        sweeping.Fate(one, "fail: case", "fail: gen/2"),
        sweeping.Fate(two, "", "fail: gen/2"),
        sweeping.Fate(three, distinguished_by="case"),
        sweeping.Fate(four),
    ]
    known = [sweeping.Known(three.file, three.text, (three.damage,), "why"), sweeping.Known("no.py", "x", (), "why")]
    tally = sweeping.Tally(fates, known)
    assert tally.rate == 50.0
    assert [
        tally.share(lambda fate, name=name: getattr(fate, name))
        for name in ("vectors", "generated", "distinguished_by")
    ] == [*(25.0, 50.0, 25.0)]
    assert tally.stale() == known[1:]
    assert [reason for _, reason in tally.survivors] == ["why", ""]
    *_, last = tally.table()
    assert last.endswith("No case may hold 1 of them against a target. Of the other 3, 2 are killed: 66.7 %")


def test_an_explained_gap_counts_as_a_survivor(sweeping, mutants):
    one, two = mutants[:2]
    gap = sweeping.Known(one.file, one.text, (one.damage,), "why", is_gap=True)
    tally = sweeping.Tally([sweeping.Fate(one), sweeping.Fate(two, "fail: case")], [gap])
    assert tally.equivalent == 0
    assert any(known.is_gap for known in sweeping.known_survivors())


def test_a_reason_for_a_line_after_another_applies_to_no_equal_line(sweeping, mutants):
    (first, *rest) = [one for one in mutants if (one.file, one.text) == ("semantics/consumer_view.py", "return False")]
    reason = sweeping.Known(first.file, first.text, (), "why", first.above)
    assert reason.covers(first)
    assert [one.above for one in rest if reason.covers(one)] == [first.above] * sum(
        o.above == first.above for o in rest
    )
    assert not all(map(reason.covers, rest))


def test_the_vectors_kill_a_sample_except_for_explained_survivors(workshop, sweeping, mutants):
    """Explained mutants are not run: a survivor costs most, because all cases run on it."""
    known = sweeping.known_survivors()
    explained = {mutant.id for mutant in mutants if any(entry.covers(mutant) for entry in known)}
    assert 1 - len(explained) / len(mutants) >= AT_LEAST / 100
    deadly = [mutant for mutant in sweeping.sampled(mutants, SAMPLE, 0) if mutant.id not in explained]
    assert len(deadly) > SAMPLE / 2
    fates = sweeping.sweep(deadly, workshop)
    assert [f"{fate.mutant.id}: {fate.mutant.text}" for fate in fates if not fate.killed] == []
