"""What the messages inside a wrapper are to a reader: their offsets and times follow from the wrapper's."""

from __future__ import annotations

from itertools import pairwise

from conformance.codec.cursor import Cursor, Openness
from conformance.codec.derivations import Values
from conformance.codec.record_batch import (
    wrapped,
)


def place_inner(cursor: Cursor, wrapper: Values, start: int) -> None:
    """Give inner messages the offset, timestamp and timestamp type that a reader sees."""
    inner = wrapper.get("messages")
    if inner is None:
        return
    if any(message["magic"] != wrapper["magic"] for message in inner):
        cursor.remark(
            "recursive.wrapper-holds-set",
            "inner messages of another magic than the wrapper's",
            at=start,
            openness=Openness.ANY_VALUE,
        )
    if any(later["offset"] <= earlier["offset"] for earlier, later in pairwise(inner)):
        cursor.remark("message-set.v1-relative-offsets", "inner offsets do not rise", at=start)
    _place_offsets(cursor, wrapper, inner, start)
    if "timestampType" in wrapper:
        _place_timestamps(cursor, wrapper, inner, start)


def _place_offsets(cursor: Cursor, wrapper: Values, inner: list[Values], start: int) -> None:
    outer, last = wrapper["offset"], inner[-1]["offset"]
    if wrapper["magic"] == 0:
        if outer != last:
            cursor.remark("recursive.wrapper-offset-is-last", f"offset {outer}, the last inner one is {last}", at=start)
        return
    if outer == 0:
        if last:
            # Sets of old producers: Apache Kafka leaves their inner offsets as they are.
            cursor.remark(
                "message-set.v1-relative-offsets",
                "a wrapper at offset 0 with further messages",
                at=start,
                openness=Openness.ANY_VALUE,
            )
        return
    if wrapped(outer - last) < 0:
        hint = f"wrapper offset {outer} does not fit the last inner offset {last}"
        cursor.fail("message-set.v1-relative-offsets", hint, at=start, open=True)
    for message in inner:
        offset = message["offset"] + outer - last
        message["offset"] = wrapped(offset)
        if message["offset"] != offset:
            cursor.remark(
                "message-set.v1-relative-offsets",
                "an absolute offset is not an INT64",
                at=start,
                openness=Openness.ANY_VALUE,
            )


def _place_timestamps(cursor: Cursor, wrapper: Values, inner: list[Values], start: int) -> None:
    """message-format#old-message-format: the broker writes time and type of log append on the wrapper alone."""
    for message in inner:
        if "timestamp" not in message:
            continue
        if wrapper["timestampType"]:
            message["timestamp"] = wrapper["timestamp"]
        elif message["timestampType"]:
            hint = "LogAppendTime inside a wrapper of CreateTime"
            cursor.remark("legacy.log-append-overwrites", hint, at=start, openness=Openness.ANY_VALUE)
        message["timestampType"] = wrapper["timestampType"]
