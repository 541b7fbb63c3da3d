"""The part of hour.py that judges hostile targets, each next to the reference."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import uuid
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from hostile_targets import command, written

from conformance.process.launcher import own_python

LARGEST = 500 << 20
_TIMEOUT_S = 300
_OPTIONS = ("--select", "varint/m*", "--generated", "0", "--jobs", "1")


def targets(count: int | None, jobs: int) -> list[str]:
    """Judge the first `count` hostile targets, print the results, and return the broken bounds."""
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        alone, *_ = _run(folder, "alone", [])
        all_targets = list(written(folder))[:count]
        with ThreadPoolExecutor(jobs) as pool:
            finished = list(pool.map(lambda one: (one[0], *_judged(folder, one[1], alone)), all_targets))
    for name, _, seconds, memory, status in sorted(finished, key=lambda one: -one[2])[:5]:
        print(f"{name}: {seconds:.0f} s, {memory >> 20} MiB, status {status}")
    statuses = Counter(status for *_, status in finished)
    print(f"{len(finished)} hostile targets in {time.perf_counter() - started:.0f} s")
    print(f"exit statuses: {dict(sorted(statuses.items()))}")
    print(f"conform: {', '.join(name for name, *_, status in finished if status == 0) or 'none of them'}")
    print(f"most memory of the suite: {max(memory for _, _, _, memory, _ in finished) >> 20} MiB")
    return [f"{name}: {problem}" for name, problems, *_ in finished for problem in problems]


def _judged(folder: Path, path: Path, alone: object) -> tuple[list[str], float, int, int]:
    """Return the problems, the seconds, the suite's memory and the exit status of a run with one hostile target."""
    sample, status, output, seconds, memory, left = _run(folder, path.stem, [command(path)])
    problems = []
    if sample != alone:
        problems.append("the reference has other results than in a run alone")
    if "conformance/" in output.partition("Traceback (most recent call last)")[2] and str(path) not in output:
        problems.append(f"a traceback: {output[-600:]}")
    if status not in (0, 1, 3):
        problems.append(f"status {status}: {output[-600:]}")
    problems += [f"left running: {one}" for one in left]
    if memory > LARGEST:
        problems.append(f"the suite took {memory >> 20} MiB")
    return problems, seconds, memory, status


def _run(folder: Path, name: str, further: list[str]) -> tuple[object, int, str, float, int, list[str]]:
    mark = uuid.uuid4().hex
    report = folder / f"{name}.json"
    line = [*own_python("conformance", "run", "reference"), *further, *_OPTIONS]
    line += ["--timeout", "0.5", "--memory", "300", "--json", str(report)]
    env = {**os.environ, "HOUR_MARK": mark, "PYTHONDONTWRITEBYTECODE": "1"}
    started = time.perf_counter()
    with (folder / f"{name}.out").open("w+", errors="replace") as out:
        process = subprocess.Popen(line, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        memory = _watched(process)
        seconds = time.perf_counter() - started
        out.seek(0)
        output = out.read()
    left = _left(mark, str(folder / f"{name}.py"))
    results = None
    if report.exists():
        rows = json.loads(report.read_text())["results"]
        results = [(row["id"], row["verdict"]) for row in rows if row["target"] == "reference"]
    return results, process.returncode, output, seconds, memory, left


def _watched(process: subprocess.Popen[bytes]) -> int:
    """Wait for a run, and return the largest observed memory of its process, in bytes."""
    most, until = 0, time.monotonic() + _TIMEOUT_S
    while process.poll() is None:
        try:
            most = max(most, psutil.Process(process.pid).memory_info().rss)
        except psutil.Error:
            break
        if time.monotonic() > until:
            process.kill()
        time.sleep(0.05)
    process.wait()
    return most


def _left(mark: str, script: str) -> list[str]:
    """Return the processes, after two seconds, with the mark in their environment or the program in their command."""
    until = time.monotonic() + 2
    while (left := [*_marked(mark, script)]) and time.monotonic() < until:
        time.sleep(0.1)
    for one in left:
        one.kill()
    return [f"{one.pid} {one.name()}" for one in left]


def _marked(mark: str, script: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and (
                script in process.cmdline() or process.environ().get("HOUR_MARK") == mark
            ):
                found.append(process)
        except psutil.Error:
            continue
    return found
