"""Files that are written: replaced as a whole or left as they are, and tried before the work that fills them."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Self

from msgspec import Struct, field

from conformance.errors import FileError

_State = tuple[int, int, int] | None
"""What tells one state of a file from another; None: there is no file."""


def _state_of(path: Path) -> _State:
    """The state of a file, or that there is none. Raises OSError."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A new file to write, which takes the place of `path` when all went well.

    Raises OSError; `path` is then as it was. What is not a regular file, such as /dev/stdout, is written as it is.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    with _passing(path, _beside(path)) as fresh:
        with fresh.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            fresh.chmod(path.stat().st_mode & 0o7777)
        fresh.replace(os.path.realpath(path))


@contextmanager
def _passing(path: Path, fresh: Path) -> Iterator[Path]:
    """A file that does not stay under its name, on the way to `path`: an OSError is about that one."""
    try:
        yield fresh
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    """A name for a new file in the folder of a file, or of what a symbolic link leads to, which stays a link."""
    real = Path(os.path.realpath(path))
    return real.with_name(f".{real.name[:40]}.{secrets.token_hex(8)}")


def replace_text(path: Path, text: str) -> None:
    """Put a text in UTF-8 in the place of a file. Raises OSError."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def check_writable(paths: Iterable[Path]) -> None:
    """Find out before the work whether files can be written; nothing stays of it. Raises OSError."""
    for path in paths:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if path.is_file() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "it must not be written", str(path))
        if path.is_file() or not path.exists():
            _try(path, _beside(path))


def check_folder(folder: Path) -> None:
    """Make the folder that files are written into later, and find out whether they can be. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    _try(folder, _beside(folder / "file"))


def _try(path: Path, fresh: Path) -> None:
    """Write a file and remove it. Raises OSError, about `path`."""
    with _passing(path, fresh):
        fresh.write_bytes(b"tried")


class OutputFiles(Struct):
    """Writes the files of a run at its end: what goes wrong with one is kept in `problems`, and stops no other."""

    problems: list[str] = field(default_factory=list)
    _folder: Path | None = None
    _states: dict[Path, _State] = field(default_factory=dict)
    """Of each file that nobody else may change until then."""

    @classmethod
    def watching(cls, files: Iterable[Path], folder: Path | None = None) -> Self:
        """One of these files, or one in the folder, that someone changes from now on is not written."""
        inside = folder.iterdir() if folder is not None and folder.is_dir() else ()
        return cls([], folder, {path: _state_of(path) for path in (*files, *inside)})

    def write(self, path: Path, pieces: Iterable[str]) -> bool:
        """Put the pieces of a text in the place of a file; whether it went well."""
        try:
            self._write(path, pieces)
        except OSError as error:
            self.problems.append(f"{error.filename or path}: {error.strerror or error}")
        except FileError as error:
            self.problems.append(str(error))
        else:
            return True
        return False

    def _write(self, path: Path, pieces: Iterable[str]) -> None:
        """Write a file, unless someone else did. Raises FileError or OSError."""
        watched = path in self._states or path.parent == self._folder
        if watched and _state_of(path) != self._states.get(path):
            raise FileError(path, "someone changed it during the run, so it is left as it is")
        with replacing(path) as stream:
            for piece in pieces:
                stream.write(piece.encode("utf-8", "backslashreplace"))
        if watched:
            self._states[path] = _state_of(path)
