"""Frames that a broker is sent as they stand, on connections of their own, and what came of each."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress

import psutil

from conformance.cases.model import Request
from conformance.cases.raw_requests import TOPIC_ID, frame_bytes, request_version, size_exceeds_frame
from conformance.codec.json_notation import DASHED
from conformance.live_brokers.connection import BrokerConnection, ConnectionClosed, ResponseTimeout, VersionNotSupported
from conformance.live_brokers.topics import BrokerTopic

_WAITS = 0.5
"""Seconds for an answer to a frame that announces more bytes than it has."""
_GROWTH_TIMEOUT_S, _GROWTH_POLL_S, _STILL = 3.0, 0.1, 4 << 20
"""Seconds that the memory of a broker may go on growing, those between two looks, and bytes that are no growth."""
Connect = Callable[[], BrokerConnection]


def check_offered(frames: Iterable[Request], offered: Mapping[str, tuple[int, int]]) -> None:
    """Raise VersionNotSupported where a broker does not offer a request that is to be answered."""
    for name, version in filter(None, map(request_version, frames)):
        low, high = offered.get(name, (0, -1))
        if not low <= version <= high:
            raise VersionNotSupported(f"{name} {version} is not offered")


def names_of(topic: BrokerTopic, prefix: str) -> dict[str, str]:
    """What stands in frames for the names of a run, and what they are: groups and transactions begin with a prefix."""
    return {
        **{"{topic}": topic.name, DASHED.render(TOPIC_ID): DASHED.render(topic.id or bytes(16))},
        **{"{group}": f"{prefix}group", "{transaction}": f"{prefix}transaction"},
    }


def send_frames(parts: Request, called: Mapping[str, str], connect: Connect) -> list[Request]:
    """What came of each frame, in notation: sent one after the other, or all at once.

    Each frame names a group of its own: a broker that takes a member that it does not know waits for it, in the
    group that it has joined. Raises as BrokerConnection, NotationError or Unencodable.
    """
    group = f"{called['{group}']}-{secrets.token_hex(4)}"
    frames = [frame_bytes(one, at, {**called, "{group}": f"{group}-{at}"}) for at, one in enumerate(parts["frames"])]
    return _at_once(frames, connect) if parts.get("pipelined") else _one_by_one(frames, connect)


def _one_by_one(frames: Sequence[bytes], connect: Connect) -> list[Request]:
    """Each is sent when the one before it was answered; where a connection has ended, on a new one."""
    rows: list[Request] = []
    while len(rows) < len(frames):
        with closing(connect()) as connection:
            for frame in frames[len(rows) :]:
                rows.append(_came(connection, frame, frame))
                if "end" in rows[-1]:
                    break
    return rows


def _at_once(frames: Sequence[bytes], connect: Connect) -> list[Request]:
    with closing(connect()) as connection:
        return [_came(connection, frame, b"" if at else b"".join(frames)) for at, frame in enumerate(frames)]


def _came(connection: BrokerConnection, frame: bytes, sent: bytes) -> Request:
    """What comes of a frame, once some bytes were sent."""
    try:
        if sent:
            connection.send(sent)
        return {"hex": connection.receive(_WAITS if size_exceeds_frame(frame) else 0.0).hex()}
    except ConnectionClosed:
        return {"hex": None, "end": "closed"}
    except ResponseTimeout:
        return {"hex": None, "end": "silent"}


def memory_growth(before: int, pids: Sequence[int], frames: Iterable[Request]) -> int:
    """Bytes by which the memory of processes has grown.

    After frames that are given by their bytes it is waited for a while until it grows no more: what a broker sets
    aside for a size comes bit by bit.
    """
    held, deadline = memory_of(pids), time.monotonic() + _GROWTH_TIMEOUT_S
    while pids and any("hex" in frame for frame in frames) and time.monotonic() < deadline:
        time.sleep(_GROWTH_POLL_S)
        last, held = held, memory_of(pids)
        if held - last < _STILL:
            break
    return held - before


def memory_of(pids: Iterable[int]) -> int:
    """Bytes that processes hold in memory."""
    held = 0
    for pid in pids:
        with suppress(psutil.Error):
            held += psutil.Process(pid).memory_info().rss
    return held
