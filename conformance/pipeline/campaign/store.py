"""The folder of a campaign: its manifest, the files of finished slices, its tables. Needs pyarrow."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from conformance.errors import FileError
from conformance.files.bounded_json import read_json
from conformance.pipeline.campaign.slices import Campaign
from conformance.pipeline.campaign.tables import is_sound, merge_slices

_SLICE_FILE = re.compile(r"(\d{8})\.parquet\Z")


class CampaignFolder(Struct, frozen=True):
    """The folder with the results of a campaign; on a cluster, driver and executors share it."""

    folder: Path

    @property
    def manifest(self) -> Path:
        """Return the path of the manifest, which identifies the campaign."""
        return self.folder / "campaign.json"

    @property
    def slices(self) -> Path:
        """Return the folder with a file for each finished slice, until the tables are made."""
        return self.folder / "slices"

    @property
    def counts(self) -> Path:
        """Return the path of the table of counts, which is made last."""
        return self.folder / "counts.parquet"

    @property
    def failures(self) -> Path:
        """Return the path of the table of failures."""
        return self.folder / "failures.parquet"

    @property
    def clusters(self) -> Path:
        """Return the path of the table of clusters."""
        return self.folder / "clusters.parquet"

    @property
    def vectors(self) -> Path:
        """Return the folder of the shrunk failures, one vector each."""
        return self.folder / "vectors"

    @contextmanager
    def opened(self, campaign: Campaign) -> Iterator[None]:
        """Reserve the folder for this campaign and this process. Raises FileError or OSError."""
        if self.folder.is_dir() and not self.manifest.is_file() and any(self.folder.iterdir()):
            raise FileError(
                self.folder,
                "expected a new or empty folder or a campaign, found other files",
            )
        self.slices.mkdir(parents=True, exist_ok=True)
        with self.manifest.open("a+", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise FileError(self.folder, "another process runs a campaign in this folder") from None
            self._check_identity(campaign)
            for left in self.folder.glob(".*.parquet.*"):
                left.unlink()  # from a process that was killed while it wrote a table
            yield

    def _check_identity(self, campaign: Campaign) -> None:
        """Write the identity of the campaign into a new manifest, or compare it with the manifest. Raises FileError."""
        wanted = campaign.identity()
        text = self.manifest.read_text(encoding="utf-8", errors="replace")
        if not text:
            self._write_manifest(json.dumps(wanted, indent=1) + "\n")
            return
        try:
            written = read_json(text.encode())
        except ValueError:
            written = None
        if not isinstance(written, dict):
            raise FileError(self.manifest, "expected the JSON manifest of a campaign")
        for name, value in wanted.items():
            if written.get(name) != value:
                was, now = (json.dumps(entry)[:60] for entry in (written.get(name), value))
                raise FileError(self.folder, f"the folder has another campaign: expected {name} {was}, found {now}")

    def _write_manifest(self, text: str) -> None:
        """Write the manifest completely, or leave it empty. Raises OSError.

        A new file cannot replace it, because this file is locked.
        """
        try:
            self.manifest.write_text(text, encoding="utf-8")
        except OSError:
            os.truncate(self.manifest, 0)
            raise

    def path_of(self, number: int) -> Path:
        """Return the file of a slice."""
        return self.slices / f"{number:08}.parquet"

    def done(self) -> set[int]:
        """Return the numbers of the finished slices, until the tables are made."""
        names = (_SLICE_FILE.match(path.name) for path in self.slices.iterdir())
        return {int(name[1]) for name in names if name}

    def remove_damaged(self) -> list[int]:
        """Remove unreadable files of slices, so that these are judged again; return their numbers."""
        damaged = [number for number in sorted(self.done()) if not is_sound(self.path_of(number))]
        for number in damaged:
            path = self.path_of(number)
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        return damaged

    @property
    def complete(self) -> bool:
        """Return whether the tables exist."""
        return self.counts.exists()

    def finish(self) -> None:
        """Make the tables and remove the files of the slices. Raises OSError."""
        if not self.complete:
            merge_slices(map(self.path_of, sorted(self.done())), self.counts, self.failures)
        shutil.rmtree(self.slices)

    @contextmanager
    def so_far(self) -> Iterator[CampaignFolder]:
        """Make the tables of the finished slices, in a folder that is removed at the end. Raises OSError."""
        part = CampaignFolder(self.folder / "so-far")
        part.folder.mkdir(exist_ok=True)
        try:
            merge_slices(map(self.path_of, sorted(self.done())), part.counts, part.failures)
            yield part
        finally:
            shutil.rmtree(part.folder, ignore_errors=True)
