"""Speaks the target protocol for the reference on a pair of streams."""

from __future__ import annotations

from typing import BinaryIO

import msgspec

from conformance.targets.reference import answer


def serve_reference(source: BinaryIO, sink: BinaryIO) -> None:
    """Answer every line of `source` on `sink` until the input ends."""
    encoder = msgspec.json.Encoder()
    for line in iter(source.readline, b""):
        if not line.strip():
            continue
        try:
            request = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            request = {"op": f"of a line that is no JSON ({error})"}
        if not isinstance(request, dict):
            request = {"op": "of a line that is no object"}
        found = {"id": request.get("id"), **answer(request)}
        sink.write(encoder.encode(found) + b"\n")
        sink.flush()
