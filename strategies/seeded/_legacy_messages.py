"""Entries of magic 0 and 1 from seeded choices: plain messages, and wrappers with a stored payload.

An entry has the fields of a top-level message in a LOG, and its layout: the origin of the inner offsets in a wrapper
of magic 1, and the time of each message. The bytes do not depend on a compressor.
"""

from __future__ import annotations

from conformance.codec.builders import message_bytes, wrapper_bytes
from conformance.codec.compression import CODECS
from conformance.codec.derived_fields import Values
from conformance.codec.legacy_message import LAYOUTS
from conformance.strategies.seeded._random_choices import RandomChoices

Entry = Values

_LENGTHS = (0, 1, 2, 7, 63, 300)
_EPOCH_MS = 1_700_000_000_000
CODECS_BY_MAGIC = {magic: [number for number, codec in enumerate(CODECS) if magic in codec.magics] for magic in LAYOUTS}
"""The codecs that the documents define for each magic."""


def entry(choices: RandomChoices, first: int, *, magic: int | None = None, compression: int | None = None) -> Entry:
    """Return a top-level entry whose first message has the offset `first`."""
    magic = choices.below(2) if magic is None else magic
    compression = choices.pick(CODECS_BY_MAGIC[magic]) if compression is None else compression
    # Some contents repeat so much that every compressor makes them smaller: encode cases need that.
    alike = choices.octets(1) * 250 if compression and choices.chance(20) else None
    count = choices.pick((5, 20) if alike else (1, 1, 2, 3, 5, 20)) if compression else 1
    messages = []
    for _ in range(count):
        messages.append(_message(choices, first, magic, alike))
        first = messages[-1]["offset"] + 1 + choices.pick((0, 0, 0, 1, 5))
    return _laid_out(choices, tuple(messages), magic, compression)


def _message(choices: RandomChoices, offset: int, magic: int, alike: bytes | None) -> Values:
    stamp = choices.pick((-1, 0, _EPOCH_MS, _EPOCH_MS + choices.below(100_000), choices.below(1 << 44), (1 << 63) - 2))
    timed = {"timestamp": stamp, "timestampType": int(choices.chance(15))} if magic else {}
    contents = {"key": None, "value": alike} if alike else {"key": _content(choices), "value": _content(choices)}
    return {"offset": offset, "magic": magic, **timed, **contents}


def _content(choices: RandomChoices) -> bytes | None:
    return None if choices.chance(25) else choices.octets(choices.pick(_LENGTHS))


def _laid_out(choices: RandomChoices, messages: tuple[Values, ...], magic: int, compression: int) -> Entry:
    """Return the entry of some messages; if a wrapper has a time for all of them, they are shown with that time."""
    entry: Entry = {"magic": magic, "offset": messages[-1]["offset"], "compression": compression}
    entry["messages"] = entry["underneath"] = messages
    if not compression:
        return entry
    if magic == 0:
        return {**entry, "origin": 0}
    first = messages[0]["offset"]
    # Relative from 0, as first written; relative from above 0, after compaction; absolute, as in magic 0.
    entry["origin"] = choices.pick((first, first, max(0, first - choices.below(4)), 0))
    kind = int(choices.chance(30))
    entry["timestampType"] = kind
    entry["timestamp"] = _EPOCH_MS + choices.below(100_000) if kind else max(one["timestamp"] for one in messages)
    over = {"timestampType": kind, **({"timestamp": entry["timestamp"]} if kind else {})}
    entry["messages"] = tuple({**one, **over} for one in messages)
    return entry


def entry_bytes(entry: Entry) -> bytes:
    """Return the bytes of an entry, with its payload stored in the framing of its codec."""
    if not entry["compression"]:
        return message_bytes(entry["messages"][0])
    inner = [{**one, "offset": one["offset"] - entry["origin"], "timestampType": 0} for one in entry["underneath"]]
    return wrapper_bytes(inner, entry, entry["compression"])


def message_set(choices: RandomChoices) -> Values:
    """Return entries with increasing offsets, of one magic or of both; in some cases the last one is truncated."""
    magic = choices.pick((0, 1, 1, None))
    # A producer sends plain messages or one wrapper; a log contains entries of all kinds.
    compression = choices.pick((0, 0, None))
    at = choices.pick((0, 0, 1, 1000, 1 << 31, (1 << 53) + 1, (1 << 62)))
    entries: list[Entry] = []
    for _ in range(choices.pick((0, 1, 1, 1, 2, 3, 6))):
        entries.append(entry(choices, at, magic=magic, compression=compression))
        at = entries[-1]["offset"] + 1 + choices.pick((0, 0, 0, 3))
    whole = entry_bytes(entry(choices, at, magic=magic))
    return {"entries": entries, "tail": cut(whole, choices) if choices.chance(30) else b""}


def cut(whole: bytes, choices: RandomChoices) -> bytes:
    """Return the beginning of an entry, as at the end of a fetch: from one byte up to all but one."""
    places = (1, 8, 11, 12, 16, 17, 18, 21, 22, 26, 60, 61, len(whole) - 1)
    at = choices.pick(places) if choices.chance(70) else 1 + choices.below(len(whole) - 1)
    return whole[: min(at, len(whole) - 1)]


def set_bytes(values: Values) -> bytes:
    """Return the bytes of a message set."""
    return b"".join(map(entry_bytes, values["entries"])) + bytes(values["tail"])
