"""Folders of brokers that run: each is locked while its suite lives, and removed by it, or by the next that starts."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

_PREFIX = "conformance-broker-"
_LOCK = ".lock"


class Folder:
    """A fresh folder for a broker. `remove` it."""

    def __init__(self) -> None:
        """Make it, and remove those that a suite which was killed has left. Raises OSError."""
        for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
            _remove_if_left(left)
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        fresh = self.path / f"{_LOCK}.fresh"
        self._lock = os.open(fresh, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        fresh.rename(self.path / _LOCK)  # from now on others may look whether it is held

    def remove(self) -> None:
        """Remove it with what is in it."""
        try:
            _remove(self.path)
        finally:
            os.close(self._lock)


def _remove_if_left(folder: Path) -> None:
    """Remove a folder of ours whose lock nobody holds any more."""
    with suppress(OSError):
        if folder.is_symlink() or folder.stat().st_uid != os.getuid():
            return
        lock = os.open(folder / _LOCK, os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(folder)
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last: where this is interrupted, the next that starts goes on."""
    with suppress(OSError):
        for path in folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != _LOCK:
                path.unlink()
    shutil.rmtree(folder, ignore_errors=True)
