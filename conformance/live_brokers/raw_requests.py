"""Sends raw frames to a broker on separate connections, and collects the responses."""

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
"""The timeout for a frame whose size is larger than the frame."""
_GROWTH_TIMEOUT_S, _GROWTH_POLL_S, _STILL = 3.0, 0.1, 4 << 20
"""Seconds of memory growth, seconds between two measurements, and bytes that do not count as growth."""
Connect = Callable[[], BrokerConnection]


def check_offered(frames: Iterable[Request], offered: Mapping[str, tuple[int, int]]) -> None:
    """Raise VersionNotSupported if the broker does not offer the version of a request."""
    for name, version in filter(None, map(request_version, frames)):
        low, high = offered.get(name, (0, -1))
        if not low <= version <= high:
            raise VersionNotSupported(f"{name} {version} is not offered")


def names_of(topic: BrokerTopic, prefix: str) -> dict[str, str]:
    """Return the placeholders in frames and their values; groups and transactions begin with the prefix of the run."""
    return {
        **{"{topic}": topic.name, DASHED.render(TOPIC_ID): DASHED.render(topic.id or bytes(16))},
        **{"{group}": f"{prefix}group", "{transaction}": f"{prefix}transaction"},
    }


def send_frames(parts: Request, called: Mapping[str, str], connect: Connect) -> list[Request]:
    """Send frames one after the other or all at once, and return the results in notation.

    Each frame has its own group, because a broker waits for the members that joined the same group. Raises the errors
    of BrokerConnection, NotationError or Unencodable.
    """
    group = f"{called['{group}']}-{secrets.token_hex(4)}"
    frames = [frame_bytes(one, at, {**called, "{group}": f"{group}-{at}"}) for at, one in enumerate(parts["frames"])]
    return _at_once(frames, connect) if parts.get("pipelined") else _one_by_one(frames, connect)


def _one_by_one(frames: Sequence[bytes], connect: Connect) -> list[Request]:
    """Send each frame after the response to the previous one; use a new connection after the end of one."""
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
    """Send bytes, and return the result of a frame."""
    try:
        if sent:
            connection.send(sent)
        return {"hex": connection.receive(_WAITS if size_exceeds_frame(frame) else 0.0).hex()}
    except ConnectionClosed:
        return {"hex": None, "end": "closed"}
    except ResponseTimeout:
        return {"hex": None, "end": "silent"}


def memory_growth(before: int, pids: Sequence[int], frames: Iterable[Request]) -> int:
    """Return the memory growth of processes, in bytes.

    After frames in hex, wait until the memory stops growing: a broker may allocate a buffer step by step.
    """
    held, deadline = memory_of(pids), time.monotonic() + _GROWTH_TIMEOUT_S
    while pids and any("hex" in frame for frame in frames) and time.monotonic() < deadline:
        time.sleep(_GROWTH_POLL_S)
        last, held = held, memory_of(pids)
        if held - last < _STILL:
            break
    return held - before


def memory_of(pids: Iterable[int]) -> int:
    """Return the resident memory of processes, in bytes."""
    held = 0
    for pid in pids:
        with suppress(psutil.Error):
            held += psutil.Process(pid).memory_info().rss
    return held
