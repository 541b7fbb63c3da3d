"""What a fault of a target is called, and after how many of a kind the target is given up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from conformance.cases.model import Broke
from conformance.process.errors import Gone, Silent

PATIENCE = {
    **{"timeout": 12, "protocol": 10, "crash": 400, "memory": 25, "slow": 10, "closed output": 4},
    "silence": 12,  # one that does not happen again, and blames no request
}
"""How many faults of a kind end the conversation: a target that is broken throughout must not cost hours."""
PATIENCE_WITH_THE_MUTE = {"timeout": 3, "protocol": 3, "crash": 40, "memory": 5}
"""The same for a target that has not answered a single request."""
_IN_PROPORTION = 1000
"""A target may use up its memory over a request from one of so many bytes on that memory has: no codec but a bomb makes
more of a byte (gzip at its best makes 1032)."""


class Faults:
    """The faults of a target, counted until it is given up."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.mute = True
        """Whether it has not answered a request yet."""
        self.gave_up = ""
        """Why no further request is sent; empty while requests are sent."""

    def left(self, kind: str) -> int:
        """How many more faults of a kind it may have; with the last one it is given up."""
        patience = (PATIENCE_WITH_THE_MUTE if self.mute else PATIENCE).get(kind, PATIENCE[kind])
        return patience - self._counts[kind]

    def add(self, kind: str) -> None:
        """Count one for which no target is given up."""
        self._counts[kind] += 1

    def count(self, kind: str) -> None:
        """Count one."""
        self.add(kind)
        if self.left(kind) > 0:
            return
        count = self._counts[kind]
        self.gave_up = f"not asked: the target was given up after {count} faults ({kind})"
        if kind == "silence":
            self.gave_up = (
                f"not asked: the target fell silent {count} times over cases that it answered when they were asked "
                "again; no case is blamed, and the rest is not asked"
            )


def kind_of(fault: Exception, broke: Broke) -> str:
    """As what a fault is counted."""
    return "closed output" if isinstance(fault, Gone) and fault.lingers else broke.how


def outcome_of(fault: Exception, request: bytes, timeout: float, memory: int) -> Broke:
    """A fault as what a request came to, of a target that is allowed so many seconds and bytes."""
    match fault:
        case Gone(detail=detail, memory=True):
            small = len(request) * _IN_PROPORTION <= memory
            return Broke("memory", f"{detail}, for a request of {len(request)} bytes", unprovoked=small)
        case Gone(detail=detail):
            return Broke("crash", detail)
        case Silent():
            return Broke("timeout", f"no answer within {timeout:g} s")
        case _:
            return Broke("protocol", str(fault))


def unexplained(broke: Broke, *, again: bool) -> Broke:
    """A fault that no request causes alone, with a remark that says so; flaky unless it happened `again`."""
    remark = "and again when all were replayed" if again else "it did not happen again"
    detail = f"{broke.detail} (no question does this alone: blamed on the first one without an answer; {remark})"
    return replace(broke, detail=detail, flaky=not again)
