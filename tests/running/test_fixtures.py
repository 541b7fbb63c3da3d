"""`conformance fixtures DIR`: golden files, their manifest, and the covering set of record batches."""

import hashlib
import json
import os
import subprocess
import sys
from itertools import combinations, product
from urllib.parse import unquote

import pytest

from conformance import __version__, codec
from conformance.cases import covering
from conformance.cases.catalog import Catalog
from conformance.cases.compiled import Cases
from conformance.cases.model import AnyOf
from conformance.running import fixtures

RESERVED = {"con", "prn", "aux", "nul", *(f"{name}{number}" for name in ("com", "lpt") for number in range(10))}


def tree(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fixtures")
    fixtures.write_fixtures(folder)
    return folder


@pytest.fixture(scope="module")
def manifest(written):
    return json.loads((written / "manifest.json").read_bytes())


# --- what stands in the folder ------------------------------------------------------------------------


def test_another_process_with_another_hash_seed_writes_the_same_bytes(written, tmp_path):
    code = "import pathlib, sys, conformance.running.fixtures as f; f.write_fixtures(pathlib.Path(sys.argv[1]))"
    env = {**os.environ, "PYTHONHASHSEED": "77"}
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], env=env, check=True)
    first, second = tree(written), tree(tmp_path)
    assert list(first) == list(second)
    assert [path for path in first if first[path] != second[path]] == []


def test_the_manifest_is_true_of_the_files(written, manifest):
    assert (manifest["suite"], manifest["version"]) == ("kafka-conformance", __version__)
    files = tree(written)
    assert {*files} == {"manifest.json", *(entry["path"] for entry in manifest["fixtures"])}
    for entry in manifest["fixtures"]:
        data = files[entry["path"]]
        assert (entry["size"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest()), entry["path"]
        assert list(entry) == ["path", "type", "sha256", "size", "value", "requirement", "valid"]


def test_the_reference_keeps_both_promises(written, manifest, catalog):
    for entry in manifest["fixtures"]:
        wire = catalog.types.wire(entry["type"])
        read = codec.decode(wire, (written / entry["path"]).read_bytes())
        assert read.ok == entry["valid"], entry["path"]
        if entry["valid"]:
            notation = wire.notation
            assert not read.remarks, entry["path"]
            assert notation.same(notation.parse(entry["value"]), read.value), entry["path"]
        else:
            assert entry["value"] is None


def test_every_vector_with_bytes_is_there_unless_it_is_an_open_place(manifest, catalog, vectors):
    expected = {
        f"{fixtures.folder_name(vector.type)}/{fixtures.file_name(vector.id)}"
        for vector in vectors
        if vector.data is not None and not isinstance(catalog.cases[vector.id].expect, AnyOf)
        # Of those that a whole log is asked for, the log is what a fixture can hold.
        if "op" not in vector.row or not codec.decode("LOG", vector.data).remarks
    }
    found = {entry["path"] for entry in manifest["fixtures"]}
    assert expected <= found
    assert all("/covering~" in path for path in found - expected)


def test_every_requirement_is_in_the_register(manifest, catalog):
    assert {entry["requirement"] for entry in manifest["fixtures"]} <= catalog.requirements.keys()


# --- names --------------------------------------------------------------------------------------------


def test_names_are_unique_and_allowed_on_any_file_system(manifest):
    paths = [entry["path"] for entry in manifest["fixtures"]]
    assert len({path.casefold() for path in paths}) == len(paths)
    assert {path.partition("/")[0].casefold() for path in paths}.isdisjoint(RESERVED)
    assert max(map(len, paths)) < 120


@pytest.mark.parametrize(
    "case, name",
    [
        ("varint/six-bytes", "varint~six-bytes.bin"),
        ("a/b.c", "a~b=2ec.bin"),
        ("a/B", "a~=42.bin"),
        ("con/x", "con~x.bin"),
        ("bytes/ARRAY<INT8>/00", "bytes~=41=52=52=41=59=3c=49=4e=548=3e~00.bin"),
    ],
)
def test_a_case_id_can_be_told_from_its_file_name(case, name):
    assert fixtures.file_name(case) == name
    assert unquote(name.removesuffix(".bin").replace("~", "/").replace("=", "%")) == case


def test_a_type_can_be_told_from_its_folder_name():
    assert fixtures.folder_name("COMPACT_ARRAY<ARRAY<INT32>>") == "COMPACT_ARRAY-ARRAY-INT32"


# --- the covering set ---------------------------------------------------------------------------------


def strata():
    """What batches can be like, said independently: in each stratum every factor varies freely."""
    for control, transactional, single in product([False, True], repeat=3):
        if control and not single:
            continue
        free = {factor: set(levels) for factor, levels in covering.FACTORS.items()}
        free["control"] = {"yes" if control else "no"}
        free["transactional"] = {"yes" if transactional else "no"}
        free["records"] = {"one"} if single else {"two", "three", "many"}
        if single:
            free["timestamps"] = {"equal", "-1"}
        if control:
            free |= {"codec": {"none"}, "key": {"ABORT", "COMMIT"}, "value": {"marker"}, "headers": {"none"}}
            free["offsets"] -= {"with gaps"}
            free["producer"] = {"none", "no sequence"}
        else:
            free["key"] -= {"ABORT", "COMMIT"}
            free["value"] -= {"marker"}
            free["producer"] -= {"no sequence"}
        if transactional:
            free["producer"] -= {"none"}
        yield free


def test_every_pair_that_can_stand_in_a_batch_occurs_in_the_covering_set():
    possible = {
        ((one, level), (other, further))
        for free in strata()
        for one, other in combinations(covering.FACTORS, 2)
        for level in free[one]
        for further in free[other]
    }
    covered = {pair for row in covering.rows() for pair in combinations(row.items(), 2)}
    assert covered == possible


def test_every_row_of_the_covering_set_can_stand_in_a_batch():
    for row in covering.rows():
        assert any(all(row[factor] in levels for factor, levels in free.items()) for free in strata()), row


def test_the_covering_set_is_small():
    # No fewer rows than the two largest factors have pairs: 7 keys of data by 6 kinds of headers.
    assert 42 <= len(covering.rows()) <= 70


def test_the_batches_are_read_without_a_remark_and_as_they_were_meant():
    notation = codec.wire("RECORD_BATCH").notation
    for number, row in enumerate(covering.rows(), 1):
        data, value = covering.batch(row, number)
        read = codec.decode("RECORD_BATCH", data)
        assert (read.violations, read.remarks, read.consumed) == ((), (), len(data)), row
        assert notation.render(read.value) == notation.render(value), row


def test_the_factors_are_seen_in_the_values():
    """The levels that are named for numbers have these numbers."""
    rows = covering.rows()
    values = [covering.batch(row, number)[1] for number, row in enumerate(rows)]
    deltas = {row["timestamps"]: [] for row in rows}
    for row, value in zip(rows, values, strict=True):
        deltas[row["timestamps"]] += [abs(record["timestampDelta"]) for record in value["records"]]
        assert (value["isTransactional"], value["isControlBatch"]) == (
            row["transactional"] == "yes",
            row["control"] == "yes",
        )
        if row["key"].endswith("bytes"):
            assert {len(record["key"]) for record in value["records"]} == {int(row["key"].split()[0])}
    assert max(deltas["deltas beyond 31 bits"]) > 1 << 31
    assert max(deltas["deltas beyond 42 bits"]) > 1 << 42
    assert max(deltas["equal"]) == max(deltas["-1"]) == 0


def test_no_compressor_is_asked(monkeypatch):
    from conformance.codec import framings

    def refuse(*_, **__):
        pytest.fail("a compression library wrote bytes")

    for library, name in [
        (framings.gzip, "compress"),
        (framings.snappy, "compress"),
        (framings.lz4.frame, "compress"),
        (framings.zstandard, "ZstdCompressor"),
    ]:
        monkeypatch.setattr(library, name, refuse)
    for number, row in enumerate(covering.rows()):
        covering.batch(row, number)


# --- writing into a folder ----------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch, catalog):
    """Two vectors and three batches, so that writing is quick; returns a function that chooses the vectors."""
    three = covering.rows()[:3]
    monkeypatch.setattr(covering, "rows", lambda: three)

    def choose(*ids):
        few = Catalog(catalog.requirements, Cases(catalog.cases[name] for name in ids))
        monkeypatch.setattr(fixtures, "read_catalog", lambda: few)

    choose("varint/zero", "varint/six-bytes")
    return choose


@pytest.mark.usefixtures("few")
def test_the_folder_is_made(tmp_path):
    assert fixtures.write_fixtures(tmp_path / "a" / "b") == 5
    assert (tmp_path / "a" / "b" / "VARINT" / "varint~zero.bin").read_bytes() == b"\0"


def test_files_of_others_stay(few, tmp_path):
    (tmp_path / "VARINT").mkdir()
    (tmp_path / "VARINT" / "mine.bin").write_bytes(b"mine")
    (tmp_path / "README").write_bytes(b"mine")
    fixtures.write_fixtures(tmp_path)
    few("int8/zero")
    fixtures.write_fixtures(tmp_path)
    assert tree(tmp_path).keys() == {
        "README",
        "manifest.json",
        "VARINT/mine.bin",
        "INT8/int8~zero.bin",
        *(f"RECORD_BATCH/covering~00{number}.bin" for number in (1, 2, 3)),
    }


def test_what_an_older_run_wrote_is_mended_and_what_is_no_fixture_any_more_goes(few, tmp_path):
    fixtures.write_fixtures(tmp_path)
    (tmp_path / "VARINT" / "varint~zero.bin").write_bytes(b"damaged")
    few("varint/zero")
    fixtures.write_fixtures(tmp_path)
    assert [path for path in tree(tmp_path) if "VARINT" in path] == ["VARINT/varint~zero.bin"]
    assert (tmp_path / "VARINT" / "varint~zero.bin").read_bytes() == b"\0"
    few()
    fixtures.write_fixtures(tmp_path)
    assert not (tmp_path / "VARINT").exists()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("found", [b"{}", b"[]", b"no JSON", b"\xff", b'{"suite":"another","fixtures":[]}', b"null"])
def test_a_manifest_of_others_is_left_and_nothing_written(tmp_path, found):
    (tmp_path / "manifest.json").write_bytes(found)
    with pytest.raises(FileExistsError, match=r"left as it is.*manifest\.json"):
        fixtures.write_fixtures(tmp_path)
    assert tree(tmp_path) == {"manifest.json": found}


@pytest.mark.usefixtures("few")
def test_a_manifest_that_points_elsewhere_removes_nothing_there(tmp_path):
    kept = [tmp_path / "outside.bin", tmp_path / "dir" / "notes.txt", tmp_path / "dir" / "VARINT" / "x.txt"]
    (tmp_path / "dir" / "VARINT").mkdir(parents=True)
    for path in kept:
        path.write_bytes(b"")
    paths = ["../outside.bin", "notes.txt", "VARINT/x.txt", str(kept[0]), "VARINT/../notes.txt"]
    listed = {"suite": "kafka-conformance", "fixtures": [{"path": path} for path in paths]}
    (tmp_path / "dir" / "manifest.json").write_text(json.dumps(listed))
    fixtures.write_fixtures(tmp_path / "dir")
    assert all(path.exists() for path in kept)


@pytest.mark.usefixtures("few")
def test_a_file_in_place_of_the_folder_is_an_error_that_names_it(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"")
    with pytest.raises(OSError, match="file"):
        fixtures.write_fixtures(path)


def test_the_manifest_is_written_last_and_in_one_step(few, tmp_path, monkeypatch):
    fixtures.write_fixtures(tmp_path)
    before = (tmp_path / "manifest.json").read_bytes()
    few("int8/zero")

    def stop(*_):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(fixtures, "_remove", stop)
    with pytest.raises(OSError, match="no space"):
        fixtures.write_fixtures(tmp_path)
    assert (tmp_path / "manifest.json").read_bytes() == before
    assert not list(tmp_path.glob("*.new"))
