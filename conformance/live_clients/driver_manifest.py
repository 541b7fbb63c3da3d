"""The driver of a live client: how its program is started, and what its client can be asked."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from msgspec import Struct, field
from msgspec.structs import replace

from conformance.semantics.consumer_view import ISOLATIONS
from conformance.targets.manifests import adapter_in


class DriverManifest(Struct, frozen=True):
    """A driver.yaml, ready to be started."""

    name: str
    language: str
    command: tuple[str, ...]
    entry_point: str
    """The call that hands out records to an application."""
    codecs: tuple[str, ...]
    magics: tuple[int, ...]
    isolations: tuple[str, ...]
    concurrency: int = 1
    """How many topics its program consumes at once, each with a consumer of its own."""
    versions: str = "bare"
    """The name of the version profile of the mock broker."""
    env: dict[str, str] = field(default_factory=dict)
    producer_features: tuple[str, ...] = ()
    """What its producer can be told: codecs, and `idempotence`, `transactions`, `timestamps`; empty for none."""
    groups: bool = False
    """Whether it can be told to consume as a member of a group, and to commit."""
    writer: str = ""
    """The call that takes the records of an application."""

    def of_messages(self, newest: int) -> Self:
        """The same for a client that reads no batches, and no messages above the newest magic; it writes nothing."""
        magics = tuple(magic for magic in self.magics if magic <= newest)
        return replace(self, isolations=ISOLATIONS[:1], magics=magics, producer_features=(), writer="")


def read_driver(path: Path, python: str) -> DriverManifest:
    """The driver that a file describes; an interpreter runs its program in Python. Raises FileError."""
    adapter = adapter_in(path)
    program = (python, str(adapter.home / adapter.module)) if adapter.module else adapter.command
    command = tuple(part.replace("{dir}", str(adapter.home)) for part in program)
    live = adapter.live
    return DriverManifest(
        adapter.name,
        adapter.language,
        command,
        live["entry-point"],
        tuple(live["codecs"]),
        tuple(live["magics"]),
        tuple(live["isolations"]),
        live["concurrency"],
        live.get("versions", "bare"),
        adapter.env,
        tuple(live.get("producer-features", ())),
        live.get("groups", False),
        live.get("writer", ""),
    )
