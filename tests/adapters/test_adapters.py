"""The bundled adapters pass `doctor`, and Apache Kafka's own code passes every must."""

import json
import re
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from command_line import conformance
from json_reports import messages_judged

from conformance.cases.model import ExpectRejection
from conformance.codec.message_spec import type_name
from conformance.definitions.loader import read_definitions
from conformance.errors import FileError
from conformance.strategies.seeded.cases import case_of
from conformance.targets import manifests, resolve
from conformance.targets.limits import ResourceLimits
from conformance.targets.resolve import adapters, drivers
from conformance.targets.session import TargetSession

pytestmark = pytest.mark.integration

PYTHON = sorted(name for name, adapter in adapters().items() if adapter.language == "python")


ALONE = ("--jobs", 1)
"""One process for a Java target: a second one would load all classes again."""


def require(name):
    lacking = adapters()[name].missing()
    if lacking:
        pytest.skip(f"{name} lacks {', '.join(lacking)}")


@pytest.mark.parametrize("name", PYTHON)
def test_doctor_accepts_every_python_adapter(name, tmp_path):
    require(name)
    done = conformance("doctor", name, cwd=tmp_path)
    assert done.returncode == 0, done.stdout


def beyond_java(skip, catalog):
    """Return True for a skipped number that no writer may write and that Java's types cannot contain."""
    reason = re.search(r": the API takes (a Java (byte|short|int|long)$|32 bits)", skip["detail"])
    if skip["op"] != "encode" or not reason:
        return False
    name = skip["id"]
    (case,) = [catalog.cases[name]] if name in catalog.cases else case_of(name, catalog)
    return isinstance(case.expect, ExpectRejection)


def test_apache_kafkas_own_code_passes_every_must_that_is_not_disputed(kafka_clients, catalog, tmp_path):
    done = conformance("run", kafka_clients, *ALONE, "--json", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["summary"][kafka_clients]["pass"] > 2000
    assert len(messages_judged(report["results"])) >= 20
    # It has no message of our own definitions, none with arrays of some elements, and no longer converts down.
    skips = [result for result in report["results"] if result["verdict"] == "skip" and result["op"] != "convert"]
    skips = [skip for skip in skips if not skip["id"].startswith("message/")]
    skips = [skip for skip in skips if not ("ARRAY<" in skip["type"] and skip["detail"].endswith("is not claimed"))]
    # The fields of its messages are Java's numbers, so a number beyond them reaches none of its code.
    skipped = [skip["id"] for skip in skips if not beyond_java(skip, catalog)]
    assert len(skipped) < 100, skipped


@pytest.mark.parametrize("fixture", ["kafka_clients", "kafka_clients_3"])
def test_apache_kafkas_own_code_agrees_on_every_message_in_every_version(fixture, request, tmp_path):
    name = request.getfixturevalue(fixture)
    jar = next((adapters()[name].home / "target" / "lib").glob("kafka-clients-*.jar"))
    arguments = ["--definitions", jar, "--select", "gen/*MESSAGE<*", "--generated", 60, "--json", "r.json"]
    done = conformance("run", name, *ALONE, *arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    results = json.loads((tmp_path / "r.json").read_text())["results"]
    passed = {(result["type"], result["op"]) for result in results if result["verdict"] == "pass"}
    messages = read_definitions(jar).messages.values()
    every = {type_name(message.name, version) for message in messages for version in message.valid}
    assert len(every) > 600
    assert {name for name in every if (name, "decode") not in passed or (name, "encode") not in passed} == set()
    assert sum(result["id"].endswith(":skewed") for result in results) > 2000


def test_kafka_3_built_from_the_same_sources_passes_every_must_that_is_not_disputed(kafka_clients_3, tmp_path):
    done = conformance("run", kafka_clients_3, *ALONE, "--generated", 0, "--json", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done.stdout[-4000:]
    report = json.loads((tmp_path / "r.json").read_text())
    assert report["targets"][0]["describe"]["version"] == "3.9.2"
    assert report["summary"][kafka_clients_3]["pass"] > 1000


@pytest.mark.parametrize("fixture", ["kafka_clients", "kafka_clients_3"])
def test_doctor_accepts_the_adapter_of_apache_kafkas_own_code(fixture, request, tmp_path):
    done = conformance("doctor", request.getfixturevalue(fixture), cwd=tmp_path)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("fixture", ["kafka_clients", "kafka_clients_3"])
def test_apache_kafkas_own_code_is_judged_only_for_bytes_that_reach_it(fixture, request):
    adapter = adapters()[request.getfixturevalue(fixture)]
    with TargetSession(resolve.resolve(adapter.name), ResourceLimits()) as session:
        described = session.describe()
    claims = [(op, name) for op, names in described.supports.items() for name in names]
    doors = {claim: described.entry_point(*claim) for claim in [*claims, *((op, "") for op in described.whole_log)]}
    assert {claim for claim, door in doors.items() if door is None or door.kind == "unused"} == set()
    jars = [zipfile.ZipFile(jar) for jar in (adapter.home / "target" / "lib").glob("kafka-*.jar")]
    classes = {Path(name).stem for jar in jars for name in jar.namelist() if name.endswith(".class")}
    named = {word for door in doors.values() for word in re.findall(r"\b[A-Z]\w*[a-z]\w*", door.call)}
    assert named
    assert named - classes == set()


@pytest.fixture
def two_adapters(tmp_path, monkeypatch):
    """Return a folder of adapters; `old` is built from the files of `new` and its own; the cache is empty."""
    monkeypatch.setattr(resolve, "ADAPTERS", tmp_path / "adapters")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    texts = {
        "new/target.yaml": "name: new\ncommand: [cat]\nsetup: [['true']]\n",
        "new/shared": "of both",
        "new/source/version": "new",
        "old/target.yaml": "name: old\nbase: new\ncommand: [cat]\nsetup: [['true']]\n",
        "old/source/version": "old",
    }
    for name, text in texts.items():
        path = tmp_path / "adapters" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "adapters"


@pytest.mark.usefixtures("two_adapters")
def test_an_adapter_with_a_base_is_built_from_its_files_and_its_own_files_replace_them():
    old = adapters()["old"]
    list(manifests.set_up(old))
    assert old.missing() == []
    assert (old.home / "shared").read_text() == "of both"
    assert (old.home / "source/version").read_text() == "old"
    assert (old.home / "target.yaml").read_text().startswith("name: old")


def test_an_adapter_is_set_up_again_when_a_file_of_its_base_changes(two_adapters):
    old = adapters()["old"]
    list(manifests.set_up(old))
    (two_adapters / "new/shared").write_text("changed")
    assert old.missing() == ["its set-up (conformance targets --setup old)"]


def test_an_unchanged_copy_of_a_bundled_adapter_shares_its_build(two_adapters, tmp_path, monkeypatch):
    monkeypatch.setattr(manifests, "_BUNDLED", two_adapters)
    shutil.copytree(two_adapters, tmp_path / "copy")
    bundled, copy = adapters()["old"], manifests.adapter_in(tmp_path / "copy/old/target.yaml")
    assert copy.home == bundled.home
    (tmp_path / "copy/new/shared").write_text("changed")
    assert copy.home != bundled.home


def test_an_adapter_set_up_twice_in_parallel_is_built_once(two_adapters):
    built = "setup: [[sh, -c, 'echo built >> ../log; sleep 1']]"
    (two_adapters / "new/target.yaml").write_text(f"name: new\ncommand: [cat]\n{built}\n")
    new = adapters()["new"]
    with ThreadPoolExecutor(2) as pool:
        outputs = list(pool.map(lambda _: list(manifests.set_up(new)), range(2)))
    assert (new.home.parent / "log").read_text() == "built\n"
    assert sorted(steps[0].startswith("new was set up by another process") for steps in outputs) == [False, True]
    assert new.missing() == []


@pytest.mark.parametrize("wrong", ["base: nobody\nsetup: [['true']]", "base: new", "base: 7\nsetup: [['true']]"])
def test_an_invalid_base_is_an_error_with_the_file(two_adapters, wrong):
    (two_adapters / "old/target.yaml").write_text(f"name: old\ncommand: [cat]\n{wrong}\n")
    with pytest.raises(FileError, match=r"old/target\.yaml"):
        adapters()


SOURCES = (".go", ".java", ".mjs", ".py", ".rs")
PARTS_OF_A_DRIVER = ("driver", "output", "reader", "writer")
"""Names of a driver's sources in a folder that also contains an adapter."""


def sources(driver):
    """Return the programs of a driver without shared files."""
    programs = [path for path in driver.folder.rglob("*") if path.suffix in SOURCES]
    has_adapter = (driver.folder / "target.yaml").exists()
    return [path for path in programs if not has_adapter or path.stem.lower() in PARTS_OF_A_DRIVER]


@pytest.mark.parametrize("name", sorted(drivers()))
def test_no_file_of_a_driver_has_more_than_60_lines(name):
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in sources(drivers()[name])}
    assert {Path(file).stem.lower() for file in lines} & {"driver", "main"}
    assert {file: count for file, count in lines.items() if count > 60} == {}
