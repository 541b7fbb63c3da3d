"""The compiled catalogue: the same cases as from the files, kept in the cache, and never stale or damaged."""

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
    """A bundled catalogue of one file and few cases, so that making it is quick; returns the file."""
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


def test_what_was_kept_equals_what_was_made(catalog):
    catalog_builder.save_cached(catalog_builder.BundledCatalog(catalog.requirements, catalog.cases, ()))
    loaded = catalog_builder.load_cached()
    assert loaded.requirements == catalog.requirements
    assert list(loaded.cases) == list(catalog.cases)
    for case in catalog.cases.values():
        again = loaded.cases[case.id]
        assert again == case
        assert again.wire.name == case.wire.name


def test_a_message_that_a_vector_defines_is_kept_with_its_definition(catalog):
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
def test_the_second_reading_makes_no_case(monkeypatch):
    first = read_catalog()
    monkeypatch.setattr(catalog_builder, "make_cases", lambda *_: pytest.fail("a case was made"))
    second = read_catalog()
    assert dict(second.cases) == dict(first.cases)
    assert second.types.messages == first.types.messages


@pytest.mark.usefixtures("small")
def test_cases_that_come_with_the_package_are_neither_made_nor_kept_in_the_cache(cache, monkeypatch):
    bundled = catalog_builder.build()
    catalog_builder.write_to_wheel(bundled)
    monkeypatch.setattr(catalog_builder, "build", lambda: pytest.fail("the cases were made"))
    assert dict(read_catalog().cases) == dict(bundled.cases)
    assert [path.parent for path in kept(cache)] == [kept_files.PACKAGE]


def test_cases_that_come_with_the_package_are_not_those_of_a_vector_that_was_changed(small):
    catalog_builder.write_to_wheel(catalog_builder.build())
    small.write_text(small.read_text().replace("some/zero", "some/nought"))
    assert "some/nought" in read_catalog().cases


def test_the_cases_of_the_wheel_are_those_that_this_python_makes():
    if not list(kept_files.PACKAGE.glob("catalogue-*")):
        pytest.skip("a checkout comes without cases; a wheel is installed by tox")
    shipped = catalog_builder.load_cached()
    made = catalog_builder.build()
    assert (shipped.requirements, shipped.messages) == (made.requirements, made.messages)
    assert list(shipped.cases.items()) == list(made.cases.items())


def test_a_changed_vector_is_read_anew(small):
    read_catalog()
    small.write_text(small.read_text().replace("some/zero", "some/nought"))
    assert "some/nought" in read_catalog().cases


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:7], lambda b: b[:40] + bytes([b[40] ^ 1]) + b[41:]])
def test_a_damaged_file_is_made_anew(cache, damage):
    cases = dict(read_catalog().cases)
    (path,) = kept(cache)
    path.write_bytes(damage(path.read_bytes()))
    assert dict(read_catalog().cases) == cases
    assert catalog_builder.load_cached() is not None


@pytest.mark.usefixtures("small")
def test_a_cache_that_cannot_be_written_is_done_without(cache, monkeypatch):
    (cache / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "file"))
    assert "some/zero" in read_catalog().cases


def test_files_of_older_sources_do_not_pile_up(small, cache):
    for number in range(10):
        small.write_text(small.read_text() + f"# {number}\n")
        read_catalog()
    assert len(kept(cache)) == 4


def test_a_definition_that_a_vector_contradicts_is_refused_from_the_cache_too(small):
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


def test_every_module_that_cases_are_made_by_is_part_of_the_key():
    files = "(module.__file__ for name, module in sys.modules.items() if name.startswith('conformance'))"
    told = f"import sys, conformance.catalog.catalog; print(*{files})"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    sources = {path.resolve() for pattern in kept_files.SOURCES for path in kept_files.PACKAGE.glob(pattern)}
    used = {Path(name).resolve() for name in done.stdout.split()}
    assert len(used) > 40
    assert used <= sources
