"""`conformance fixtures DIR`: golden files and their manifest."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

from conformance import __version__, codec
from conformance.cases.model import ExpectAnyOf
from conformance.catalog.catalog import CaseStore, Catalog
from conformance.runner import fixtures

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


# --- content of the folder ----------------------------------------------------------------------------


def test_another_process_with_another_hash_seed_writes_the_same_bytes(written):
    """The manifest has the checksum of each file, so the files need not be written again."""
    code = (
        "import sys; from conformance.catalog.catalog_builder import read_catalog; "
        "import conformance.runner.fixtures as f; "
        "sys.stdout.buffer.write(f.manifest(f.fixtures(read_catalog())))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "77"}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True)
    assert done.stdout.splitlines() == (written / "manifest.json").read_bytes().splitlines()


def test_the_manifest_is_true_of_the_files(written, manifest):
    assert (manifest["suite"], manifest["version"]) == ("kafka-conformance", __version__)
    files = tree(written)
    assert {*files} == {"manifest.json", *(entry["path"] for entry in manifest["fixtures"])}
    for entry in manifest["fixtures"]:
        data = files[entry["path"]]
        assert (entry["size"], entry["sha256"]) == (len(data), hashlib.sha256(data).hexdigest()), entry["path"]
        assert list(entry) == ["path", "type", "sha256", "size", "value", "requirement", "valid"]


def test_the_size_in_the_docs_is_that_of_the_files(written):
    page = (Path(__file__).parents[2] / "docs" / "fixtures.md").read_text(encoding="utf-8")
    megabytes = sum(path.stat().st_size for path in written.rglob("*") if path.is_file()) / 1e6
    assert int(re.search(r"All files together have about (\d+) MB", page)[1]) == pytest.approx(megabytes, rel=0.1)


def test_the_reference_reads_and_writes_the_fixtures_as_stated(written, manifest, catalog):
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


def test_every_vector_with_bytes_is_a_fixture_unless_unspecified(manifest, catalog, vectors):
    expected = {
        f"{fixtures.folder_name(vector.type)}/{fixtures.file_name(vector.id)}"
        for vector in vectors
        if vector.data is not None and not isinstance(catalog.cases[vector.id].expect, ExpectAnyOf)
        # For operations on whole logs, the fixture is the log.
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


# --- writing into a folder ----------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch, catalog):
    """Return a function that selects the vectors of two, with three batches, so that writing is quick."""

    def choose(*ids):
        chosen = (*ids, "covering/001", "covering/002", "covering/003")
        few = Catalog(catalog.requirements, CaseStore(catalog.cases[name] for name in chosen))
        monkeypatch.setattr(fixtures, "read_catalog", lambda: few)

    choose("varint/zero", "varint/six-bytes")
    return choose


@pytest.mark.usefixtures("few")
def test_the_folder_is_created(tmp_path):
    assert fixtures.write_fixtures(tmp_path / "a" / "b") == 5
    assert (tmp_path / "a" / "b" / "VARINT" / "varint~zero.bin").read_bytes() == b"\0"


def test_foreign_files_stay(few, tmp_path):
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


def test_files_of_an_older_run_are_updated_or_removed(few, tmp_path):
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
def test_a_foreign_manifest_is_kept_and_no_file_is_written(tmp_path, found):
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
