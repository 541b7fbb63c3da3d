"""What is made once for each version of the sources, and kept: in the wheel, or in the user's cache.

What is kept is named by the content of all that it is made from, so nothing stale is ever used; where the cache cannot
be written, it is made each time.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from platformdirs import user_cache_path

from conformance import __version__
from conformance.files.atomic import replacing

PACKAGE = Path(__file__).parent.parent
SOURCES = (
    *(f"{package}/**/*.py" for package in ("cases", "catalog", "codec", "definitions", "files", "semantics")),
    *("__init__.py", "errors.py", "definitions/**/*.json"),
    *(f"vectors/**/*.{kind}" for kind in ("yaml", "csv", "json")),
)
"""All files that cases are made from: the packages at and below `catalog`."""
_DIGEST = 32
"""Bytes of the digest before what is kept: a damaged file is not loaded."""
_OTHERS = 4
"""Files of other versions of the sources that are left in the cache."""


class CacheEntry(Struct, frozen=True):
    """One thing that is kept."""

    kind: str
    sources: tuple[str, ...] = SOURCES
    """Globs of the files that it is made from."""

    def load(self) -> bytes | None:
        """What is kept of these very sources, if the wheel or the cache has it."""
        name = self.name()
        return _read(PACKAGE / name) or _read(_cache() / name)

    def save(self, make: Callable[[], bytes]) -> None:
        """Keep for the next command what `make` gives; a cache that cannot be written is none."""
        with suppress(OSError):
            _cache().mkdir(parents=True, exist_ok=True)
            _write(make(), _cache() / self.name())
            others = sorted(_cache().glob(f"{self.kind}-*"), key=lambda one: one.stat().st_mtime, reverse=True)
            for old in others[_OTHERS:]:
                old.unlink(missing_ok=True)

    def write_to_package(self, content: bytes) -> None:
        """Put it into the package, which is built into a wheel. Raises OSError."""
        _write(content, PACKAGE / self.name())

    def name(self) -> str:
        """The name of its file."""
        digest = hashlib.sha256(__version__.encode())
        for pattern in self.sources:
            for path in sorted(PACKAGE.glob(pattern)):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(PACKAGE)} {len(content)}\n".encode() + content)
        return f"{self.kind}-{digest.hexdigest()[:16]}"


def _cache() -> Path:
    return user_cache_path("kafka-conformance", version=__version__)


def _read(path: Path) -> bytes | None:
    try:
        file = path.read_bytes()
    except OSError:
        return None
    digest, content = file[:_DIGEST], file[_DIGEST:]
    return content if hashlib.sha256(content).digest() == digest else None


def _write(content: bytes, path: Path) -> None:
    with replacing(path) as stream:
        stream.write(hashlib.sha256(content).digest() + content)
