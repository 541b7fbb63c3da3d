"""A program that serves until it is ended: it has a supervisor, its output is drained, and it leaves no process."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO

import psutil

from conformance.process.launcher import LaunchSpec, exit_text, start

_CHUNK = 4096
_KEPT = 1 << 16
"""Bytes of its output that are kept, the last ones."""
_BEGINNING = 4096
"""Bytes that are kept from the beginning of standard output."""
_LAST_LINES, _LONGEST_LINE = 6, 300
"""Lines of its output in an error, and characters of each."""
_ENDING = 60.0
"""Seconds for the supervisor to end it and all its descendants."""


class Daemon:
    """A running program. `close` it in every case; its supervisor also ends it when this process is gone."""

    def __init__(self, name: str, command: tuple[str, ...], env: Mapping[str, str], folder: Path) -> None:
        """Start it in a folder. Raises OSError if its supervisor cannot be started."""
        self.beginning = b""
        """The beginning of standard output."""
        self._output = bytearray()
        self._output_lock = threading.Lock()
        self._report_text = b""
        self._report, reporting = os.pipe()
        try:
            self._keeper = start(LaunchSpec(name, command, env, str(folder)), name, reporting)
        except BaseException:
            os.close(self._report)
            raise
        finally:
            os.close(reporting)
        assert self._keeper.stdin and self._keeper.stdout and self._keeper.stderr  # noqa: PT018 - for the type checker
        self._keeper.stdin.close()
        pipes = (self._keeper.stdout, self._keeper.stderr)
        self._readers = [threading.Thread(target=self._drain, args=(pipe,), daemon=True) for pipe in pipes]
        for reader in self._readers:
            reader.start()

    @property
    def is_alive(self) -> bool:
        """True while it runs."""
        return self._keeper.poll() is None

    @property
    def pids(self) -> list[int]:
        """The process ids of the program; empty after its end."""
        with suppress(psutil.Error):
            return [process.pid for process in psutil.Process(self._keeper.pid).children()]
        return []

    @property
    def last_stderr_line(self) -> str:
        """The last lines of standard output and standard error, joined to one line; stack frames are left out."""
        lines = self._output.decode("utf-8", "replace").splitlines()
        informative = [line.strip() for line in lines if line.strip() and not line[0].isspace()]
        return " | ".join(line[:_LONGEST_LINE] for line in informative[-_LAST_LINES:])

    def wait(self, seconds: float) -> bool:
        """Wait for its end. Return True if it ended in time."""
        try:
            self._keeper.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        for reader in self._readers:
            reader.join(_ENDING)
        return True

    def ask_to_end(self) -> None:
        """Send SIGTERM: it shuts down as it does for its operator."""
        for pid in self.pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    @property
    def status(self) -> int | None:
        """Its exit status after its end; a negative number is a signal, None means unknown."""
        word, status = self._report_of_its_end()
        return int(status) if word == "ended" and status != "None" else None

    def how_it_ended(self) -> str:
        """Return how it ended, as text; call it after its end."""
        word, status = self._report_of_its_end()
        return f"could not be started: {os.strerror(int(status))}" if word == "failed" else exit_text(self.status)

    def _report_of_its_end(self) -> tuple[str, str]:
        """Return the last line of its supervisor: a word, and a status or the number of an error."""
        while chunk := os.read(self._report, _CHUNK):
            self._report_text += chunk
        word, _, status = self._report_text.decode().strip().rpartition("\n")[2].partition(" ")
        return word, status

    def close(self) -> None:
        """Kill it and all its descendants."""
        with suppress(ProcessLookupError):
            self._keeper.send_signal(signal.SIGTERM)
        if not self.wait(_ENDING):
            self._keeper.kill()
            self.wait(_ENDING)
        os.close(self._report)

    def _drain(self, pipe: IO[bytes]) -> None:
        """Read a pipe to its end, so that a full pipe never blocks the program."""
        with pipe:
            while chunk := os.read(pipe.fileno(), _CHUNK):
                with self._output_lock:
                    self._output += chunk
                    del self._output[:-_KEPT]
                if pipe is self._keeper.stdout:
                    self.beginning += chunk[: _BEGINNING - len(self.beginning)]
