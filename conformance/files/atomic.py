"""Output files: replaced as a whole or left unchanged, and tested before the work that fills them."""

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
"""The identity of one state of a file; None if there is no file."""


def _state_of(path: Path) -> _State:
    """Return the state of a file. Raises OSError."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Open a new file, which replaces `path` if there is no error.

    Raises OSError; `path` is then unchanged. A path that is no regular file, such as /dev/stdout, is written directly.
    """
    if path.exists() and not path.is_file():
        with path.open("wb") as stream:
            yield stream
        return
    with _passing(path, _temporary_path(path)) as fresh:
        with fresh.open("xb") as stream:
            yield stream
            stream.flush()
            # Without this, a crash of the machine could leave an empty file under the name.
            os.fsync(stream.fileno())
        with suppress(FileNotFoundError):
            # The new file keeps the permissions of the old one.
            fresh.chmod(path.stat().st_mode & 0o7777)
        fresh.replace(os.path.realpath(path))


@contextmanager
def _passing(path: Path, fresh: Path) -> Iterator[Path]:
    """Yield a temporary file on its way to `path`; an OSError names `path`, and the temporary name is removed."""
    try:
        yield fresh
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        with suppress(OSError):
            fresh.unlink(missing_ok=True)


def _temporary_path(path: Path) -> Path:
    """Return a name for a new file in the folder of a file. A symbolic link is followed, and so it stays a link."""
    real = Path(os.path.realpath(path))
    return real.with_name(f".{real.name[:40]}.{secrets.token_hex(8)}")


def replace_text(path: Path, text: str) -> None:
    """Replace a file by a text in UTF-8. Raises OSError."""
    with replacing(path) as stream:
        stream.write(text.encode("utf-8"))


def check_writable(paths: Iterable[Path]) -> None:
    """Check before the work that files can be written, without any change. Raises OSError."""
    for path in paths:
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
        if path.is_file() and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, "no permission to write it", str(path))
        if path.is_file() or not path.exists():
            _try(path, _temporary_path(path))


def check_folder(folder: Path) -> None:
    """Make the folder for later files, and check that it can be written. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    _try(folder, _temporary_path(folder / "file"))


def _try(path: Path, fresh: Path) -> None:
    """Write a file and remove it. Raises OSError with `path`."""
    with _passing(path, fresh):
        fresh.write_bytes(b"tried")


class OutputFiles(Struct):
    """Writes the files of a run at its end; an error is stored in `problems` and does not stop the other files."""

    problems: list[str] = field(default_factory=list)
    _folder: Path | None = None
    _states: dict[Path, _State] = field(default_factory=dict)
    """The known state of each file that no other process may change."""

    @classmethod
    def watching(cls, files: Iterable[Path], folder: Path | None = None) -> Self:
        """Return a writer that does not replace a file of these, or of the folder, that another process changes."""
        inside = folder.iterdir() if folder is not None and folder.is_dir() else ()
        return cls([], folder, {path: _state_of(path) for path in (*files, *inside)})

    def write(self, path: Path, pieces: Iterable[str]) -> bool:
        """Replace a file by the pieces of a text. Return True on success."""
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
        """Write a file, unless another process changed it. Raises FileError or OSError."""
        watched = path in self._states or path.parent == self._folder
        if watched and _state_of(path) != self._states.get(path):
            raise FileError(path, "not written, because another process changed it during the run")
        with replacing(path) as stream:
            for piece in pieces:
                stream.write(piece.encode("utf-8", "backslashreplace"))
        if watched:
            self._states[path] = _state_of(path)
