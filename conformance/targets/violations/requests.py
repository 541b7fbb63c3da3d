"""Violations of the requirements on what a client sends."""

from __future__ import annotations

from conformance.cases.conversations import START
from conformance.codec.derivations import Values
from conformance.semantics.visibility import ISOLATIONS
from conformance.targets.lies import Lie
from conformance.targets.reference import answer as honest
from conformance.targets.violations.families import sends


def _begun(row: Values, *, size: int = 0, version: int = 0) -> Values:
    """A request with so much more in its size or version."""
    data = bytes.fromhex(row["hex"])
    stated, key, of, correlation = START.unpack_from(data)
    return {"hex": (START.pack(stated + size, key, of + version, correlation) + data[START.size :]).hex()}


def _isolated_otherwise(request: Values, answer: Values) -> Values:
    if request["op"] != "send":
        return answer
    other = next(level for level in ISOLATIONS if level != request["isolation"])
    return honest({**request, "isolation": other})


REQUESTS: dict[str, Lie] = {
    "request.size": sends(lambda row: _begun(row, size=4)),
    "request.version-offered": sends(lambda row: _begun(row, version=1)),
    "request.correlation-id": sends(lambda row: {"inFlight": [START.unpack_from(bytes.fromhex(row["hex"]))[-1]]}),
    "request.isolation-level": _isolated_otherwise,
}
