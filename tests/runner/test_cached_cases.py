"""The cached generated cases of a run without options: they equal generated ones, and fit only this run."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from conformance.definitions._parser import parse_definition
from conformance.files import cache as kept
from conformance.runner import generated_cases as prepared_cases
from conformance.runner.generated_cases import CACHE, COUNT, SEED, GenerationRequest, cached_cases, generate
from conformance.runner.selection import Selection
from conformance.strategies.seeded.cases import generated_cases

NAMES = ("VARINT", "UUID", "MESSAGE<MetadataRequest,9>")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """Use a separate cache, and a package without cases."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kept, "PACKAGE", tmp_path)
    return tmp_path


@pytest.fixture
def only_kept(monkeypatch):
    monkeypatch.setattr(prepared_cases, "generate_in_process", lambda *_: pytest.fail("cases were made"))


def order(*names, count=COUNT, seed=SEED, patterns=()):
    return GenerationRequest(names, count, seed, patterns)


def unpacked(cases):
    return [case.to_case() for case in cases]


def test_a_run_without_options_uses_the_cached_cases():
    assert (Selection().generated, Selection().seed) == (COUNT, SEED)


def test_generated_cases_are_read_from_the_cache(catalog, request):
    first = unpacked(cached_cases(order(*NAMES), catalog))
    assert first == [*generated_cases(NAMES, COUNT, SEED, catalog)]
    request.getfixturevalue("only_kept")
    assert unpacked(cached_cases(order(*NAMES), catalog)) == first
    assert unpacked(cached_cases(order("UUID"), catalog)) == [*generated_cases(["UUID"], COUNT, SEED, catalog)]


def test_a_selection_uses_the_cached_cases(catalog, request):
    list(cached_cases(order(*NAMES), catalog))
    request.getfixturevalue("only_kept")
    some = order("VARINT", patterns=("gen/*/VARINT/*:encode",))
    assert unpacked(cached_cases(some, catalog)) == [*generate(some, catalog)] != []


def test_cached_cases_are_not_used_for_another_type_number_or_seed(catalog):
    list(cached_cases(order(*NAMES), catalog))
    for other in (order("VARINT", "INT8"), order("VARINT", count=20), order("VARINT", seed=1)):
        assert unpacked(cached_cases(other, catalog)) == [*generate(other, catalog)]


def test_a_part_of_the_cases_is_not_cached(catalog, cache):
    list(cached_cases(order("VARINT", patterns=("gen/*/VARINT/*:encode",)), catalog))
    some = cached_cases(order("VARINT"), catalog)
    next(some)
    some.close()
    assert list(cache.rglob("generated-*")) == []


def test_a_user_definition_does_not_use_cached_cases_of_the_shipped_one(catalog):
    list(cached_cases(order(*NAMES), catalog))
    own = {"name": "MetadataRequest", "apiKey": 3, "type": "request", "validVersions": "9", "flexibleVersions": "none",
           "fields": [{"name": "Id", "type": "int32", "versions": "9+"}]}  # fmt: skip
    known = replace(catalog, types=catalog.types.adding([parse_definition(own)[0]]))
    cases = unpacked(cached_cases(order("MESSAGE<MetadataRequest,9>"), known))
    assert len(cases) > COUNT / 8
    assert {case.wire for case in cases} == {known.types.wire("MESSAGE<MetadataRequest,9>")}


def test_a_damaged_cache_file_is_built_again(catalog, cache):
    first = unpacked(cached_cases(order("VARINT"), catalog))
    (path,) = cache.rglob("generated-*")
    path.write_bytes(path.read_bytes()[:-1])
    assert unpacked(cached_cases(order("VARINT"), catalog)) == first


def test_every_module_that_generates_cases_is_part_of_the_cache_key(monkeypatch):
    monkeypatch.undo()
    files = "(module.__file__ for name, module in sys.modules.items() if name.startswith('conformance'))"
    script = f"import sys, conformance.strategies.seeded.cases; print(*{files})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    sources = {path.resolve() for pattern in CACHE.sources for path in kept.PACKAGE.glob(pattern)}
    used = {Path(name).resolve() for name in done.stdout.split()} - {
        Path(kept.PACKAGE / "strategies/__init__.py").resolve()
    }
    assert len(used) > 50
    assert used <= sources


def test_the_cases_of_the_wheel_equal_those_built_by_this_python(catalog, monkeypatch):
    monkeypatch.undo()
    if not list(kept.PACKAGE.glob("generated-*")):
        pytest.skip("a checkout comes without cases; a wheel is installed by tox")
    shipped = prepared_cases._cached()
    for name in list(shipped)[::7]:
        assert unpacked(shipped[name]) == [*generated_cases([name], COUNT, SEED, catalog)], name
