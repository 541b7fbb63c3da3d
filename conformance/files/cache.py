"""Results that are computed once for each version of the sources, and kept in the wheel or in the user's cache.

A file is named by the content of all its sources, so a stale one is never used. If the cache cannot be written, the
result is computed each time.
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
"""Bytes of the digest before the content; a damaged file is not loaded."""
_OTHERS = 4
"""Files of other versions of the sources that stay in the cache."""


class CacheEntry(Struct, frozen=True):
    """One kind of result that is kept."""

    kind: str
    sources: tuple[str, ...] = SOURCES
    """Globs of its source files."""

    def load(self) -> bytes | None:
        """Return the content for the current sources, if the wheel or the cache has it."""
        name = self.name()
        return _read(PACKAGE / name) or _read(_cache() / name)

    def save(self, make: Callable[[], bytes]) -> None:
        """Keep the result of `make` for the next command. A cache that cannot be written is ignored."""
        with suppress(OSError):
            _cache().mkdir(parents=True, exist_ok=True)
            _write(make(), _cache() / self.name())
            others = sorted(_cache().glob(f"{self.kind}-*"), key=lambda one: one.stat().st_mtime, reverse=True)
            for old in others[_OTHERS:]:
                old.unlink(missing_ok=True)

    def write_to_package(self, content: bytes) -> None:
        """Write it into the package, from which a wheel is built. Raises OSError."""
        _write(content, PACKAGE / self.name())

    def name(self) -> str:
        """Return the name of its file."""
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
