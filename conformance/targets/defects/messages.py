"""Defects met in the field in how whole messages are written."""

from __future__ import annotations

from conformance.targets.defects.model import SeededDefect
from conformance.targets.violations.families import refuses

_FIRST_BUFFER = 1 << 16

MESSAGES = (
    SeededDefect(
        "message/longer-than-the-first-buffer",
        area="messages",
        says="a writer begins with a buffer of 64 KiB, and has no room for what comes behind it",
        source="https://github.com/dpkp/kafka-python/pull/3103",
        bend=refuses("MESSAGE", lambda _, answer: len(answer["hex"]) > 2 * _FIRST_BUFFER, op="encode"),
        first=("array.max-elements", "compact-array.layout", "records.layout"),
    ),
)
"""Defects of messages."""
