"""What an audit reports: one finding for each place in a file that breaks a requirement or deserves a note."""

from __future__ import annotations

from typing import NamedTuple

MUST, NOTE, UNREAD = "must", "note", "unread"
"""Levels of findings, beside should, may and informative. A note accuses nobody; what is unread was not judged."""


class AuditFinding(NamedTuple):
    """Something that was found at a byte of a file."""

    path: str
    position: int
    """The byte of the file where the batch, or the index entry, begins."""
    base_offset: int | None
    """The base offset of the batch that begins there; None where no batch does."""
    requirement: str
    level: str
    detail: str
    """What is wrong and what was expected, in one line."""


class Breach(NamedTuple):
    """A requirement that a batch breaks, and how; the place is known to the caller."""

    requirement: str
    detail: str
