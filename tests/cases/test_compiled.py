"""The cached catalogue: it has the same cases as the vector files, and is never stale or damaged."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from conformance import codec
from conformance.catalog import catalog_builder
from conformance.catalog.catalog import CaseStore
from conformance.catalog.catalog_builder import read_catalog
from conformance.errors import FileError
from conformance.files import cache as kept_files

SOME = ("batch/three-records", "batch/three-records:read", "varint/six-bytes:encode")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def small(monkeypatch, tmp_path):
    """Return the only vector file of a small bundled catalogue, which is quick to build."""
    folder = tmp_path / "vectors"
    (folder / "primitives").mkdir(parents=True)
    shutil.copy(catalog_builder.VECTORS / "requirements.yaml", folder)
    path = folder / "primitives" / "some.yaml"
    path.write_text('- {id: some/zero, type: VARINT, requirement: varint.examples, value: 0, hex: "00"}\n')
    monkeypatch.setattr(catalog_builder, "VECTORS", folder)
    monkeypatch.setattr(kept_files, "PACKAGE", tmp_path)
    return path


def kept(cache):
    return sorted(cache.rglob("catalogue-*"))


def test_the_cached_catalogue_equals_the_built_one(catalog):
    catalog_builder.save_cached(catalog_builder.BundledCatalog(catalog.requirements, catalog.cases, ()))
    loaded = catalog_builder.load_cached()
    assert loaded.requirements == catalog.requirements
    assert list(loaded.cases) == list(catalog.cases)
    for case in catalog.cases.values():
        again = loaded.cases[case.id]
        assert again == case
        assert again.wire.name == case.wire.name


def test_a_message_defined_by_a_vector_is_cached_with_its_definition(catalog):
    own = [case for case in catalog.cases.values() if isinstance(case.wire, codec.MessageType)]
    own = [case for case in own if not case.wire.message.is_shipped]
    assert own
    catalog_builder.save_cached(catalog_builder.BundledCatalog(catalog.requirements, CaseStore(own), ()))
    kept = catalog_builder.load_cached().cases
    for case in own:
        again = kept[case.id]
        assert again.wire.message == case.wire.message
        assert again.wire.message.source == case.wire.message.source


@pytest.mark.usefixtures("small")
def test_the_second_read_builds_no_case(monkeypatch):
    first = read_catalog()
    monkeypatch.setattr(catalog_builder, "make_cases", lambda *_: pytest.fail("a case was made"))
    second = read_catalog()
    assert dict(second.cases) == dict(first.cases)
    assert second.types.messages == first.types.messages


@pytest.mark.usefixtures("small")
def test_packaged_cases_are_neither_built_nor_cached(cache, monkeypatch):
    bundled = catalog_builder.build()
    catalog_builder.write_to_wheel(bundled)
    monkeypatch.setattr(catalog_builder, "build", lambda: pytest.fail("the cases were made"))
    assert dict(read_catalog().cases) == dict(bundled.cases)
    assert [path.parent for path in kept(cache)] == [kept_files.PACKAGE]


def test_packaged_cases_are_not_used_after_a_vector_changed(small):
    catalog_builder.write_to_wheel(catalog_builder.build())
    small.write_text(small.read_text().replace("some/zero", "some/nought"))
    assert "some/nought" in read_catalog().cases


def test_the_cases_of_the_wheel_equal_those_built_by_this_python():
    if not list(kept_files.PACKAGE.glob("catalogue-*")):
        pytest.skip("a checkout comes without cases; a wheel is installed by tox")
    shipped = catalog_builder.load_cached()
    made = catalog_builder.build()
    assert (shipped.requirements, shipped.messages) == (made.requirements, made.messages)
    assert list(shipped.cases.items()) == list(made.cases.items())


def test_a_changed_vector_is_read_again(small):
    read_catalog()
    small.write_text(small.read_text().replace("some/zero", "some/nought"))
    assert "some/nought" in read_catalog().cases


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:7], lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]])
def test_a_damaged_cache_file_is_built_again(cache, damage):
    cases = dict(read_catalog().cases)
    (path,) = kept(cache)
    path.write_bytes(damage(path.read_bytes()))
    assert dict(read_catalog().cases) == cases
    assert catalog_builder.load_cached() is not None


@pytest.mark.usefixtures("small")
def test_an_unwritable_cache_is_not_used(cache, monkeypatch):
    (cache / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "file"))
    assert "some/zero" in read_catalog().cases


def test_cache_files_of_older_sources_are_removed(small, cache):
    for number in range(10):
        small.write_text(small.read_text() + f"# {number}\n")
        read_catalog()
    assert len(kept(cache)) == 4


def test_a_definition_that_contradicts_a_vector_is_rejected_from_the_cache_too(small):
    definition = '{name: Own, type: data, validVersions: "0", flexibleVersions: none, fields: []}'
    small.write_text(
        f"definitions: {{Own: {definition.replace('name: Own, ', '')}}}\nvectors:\n"
        '- {id: own/one, type: MESSAGE, message: Own, version: 0, requirement: varint.examples, value: {}, hex: ""}\n'
    )
    (own,) = [message for message in read_catalog().types.messages.values() if message.name == "Own"]
    other = type(own)(**{name: getattr(own, name) for name in ("name", "kind", "valid", "flexible", "structures")})
    for _ in range(2):
        with pytest.raises(FileError, match="message Own has two different definitions"):
            read_catalog(messages=[other])


def test_every_module_that_builds_cases_is_part_of_the_cache_key():
    files = "(module.__file__ for name, module in sys.modules.items() if name.startswith('conformance'))"
    script = f"import sys, conformance.catalog.catalog; print(*{files})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    sources = {path.resolve() for pattern in kept_files.SOURCES for path in kept_files.PACKAGE.glob(pattern)}
    used = {Path(name).resolve() for name in done.stdout.split()}
    assert len(used) > 40
    assert used <= sources
