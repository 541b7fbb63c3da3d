"""The claims of a target: they select its cases, and adapt their requests."""

from __future__ import annotations

from collections.abc import Iterable

from conformance import codec
from conformance.cases.model import CaseSummary, request_json
from conformance.targets.probes import Claim, claim_key
from conformance.targets.protocol import RequestBody, TargetDescription

_DEFINITION_KEY = b'"definition":'
"""The field of a request that contains the message definition; no field of a message has that name."""


class Claims:
    """The claims in a target's description, without those that were disproved."""

    def __init__(self, description: TargetDescription, disproved: Iterable[Claim] = ()) -> None:
        self.description = description
        self.disproved = set(disproved)
        """Claims that are false: cases that need one are not sent."""
        self._missing_types: dict[Claim, str] = {}
        self._entry_points: dict[Claim, str] = {}
        self._definitions: dict[str, bytes] = {}
        """The end of a request with the definition of its message, by type."""

    def why_not(self, case: CaseSummary) -> str:
        """Return the reason why a case is not sent to the target; empty when it is sent."""
        if self.disproved and claim_key(case) in self.disproved:
            return f"the claim to {case.op} {case.type} is false, as a probe shows"
        key = case.op, case.type
        if key not in self._missing_types:
            self._missing_types[key] = self.description.lacks_type(case)
        return self._missing_types[key] or self.description.lacks_content(case)

    def request_for(self, case: CaseSummary) -> RequestBody:
        """Return the request of a case; it has a definition if the target has no messages of its own."""
        return RequestBody(self._json(case), case.timeout_group, case.measured_bytes)

    def entry_point(self, case: CaseSummary) -> str:
        """Return the tested call, with its kind; empty if the description does not contain it."""
        key = case.op, case.type
        if key not in self._entry_points:
            self._entry_points[key] = str(self.description.entry_point(*key) or "")
        return self._entry_points[key]

    def _json(self, case: CaseSummary) -> bytes:
        request = case.request_json()
        if not case.type.startswith("MESSAGE<") or self.description.messages is not None or _DEFINITION_KEY in request:
            return request
        if case.type not in self._definitions:
            wire = case.wire
            assert isinstance(wire, codec.MessageType)
            self._definitions[case.type] = b"," + _DEFINITION_KEY + request_json({**wire.message.source}) + b"}"
        return request[:-1] + self._definitions[case.type]
