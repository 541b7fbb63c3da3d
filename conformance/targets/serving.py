"""Speaks the target protocol on a pair of streams, for whoever can answer a request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import BinaryIO

import msgspec

from conformance.cases.model import Answer, Request
from conformance.codec import BUILT_IN, Types
from conformance.files.bounded_json import read_json
from conformance.targets.reference import answer


def serve_reference(source: BinaryIO, sink: BinaryIO, types: Types = BUILT_IN) -> None:
    """Answer every line of `source` on `sink` with the reference codec, which knows `types`, until the input ends."""
    serve(iter(source.readline, b""), sink, lambda request: answer(request, types))


def serve(lines: Iterable[bytes], sink: BinaryIO, respond: Callable[[Request], Answer]) -> None:
    """Answer every line on `sink`; an answer takes the id of its request unless it brings one of its own."""
    encoder = msgspec.json.Encoder()
    for line in lines:
        if not line.strip():
            continue
        request = _request(line)
        sink.write(encoder.encode({"id": request.get("id"), **respond(request)}) + b"\n")
        sink.flush()


def _request(line: bytes) -> Request:
    """The request of a line; a line that is not a request becomes one that no target supports."""
    try:
        request = read_json(line)
    except ValueError as error:
        return {"op": f"of a line that is not JSON ({error})"}
    return request if isinstance(request, dict) else {"op": "of a line that is not an object"}
