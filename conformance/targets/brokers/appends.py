"""What became of a batch that a broker was sent, as the answer to an `append` request."""

from __future__ import annotations

from dataclasses import dataclass

from conformance.cases.model import Answer
from conformance.targets.brokers.partition import UNSURE, Refusal, error_class
from conformance.targets.brokers.segments import Stored

ITS_AFFAIR = {
    **{10: "the limit of a batch", 32: "the limits of timestamps", 44: "a policy of the broker"},
    **dict.fromkeys((45, 46, 47, 49, 59, 90), "what it knows of this producer from elsewhere"),
}
"""Errors by which a broker keeps to its settings, which no document gives, or to what it knows from other topics."""


@dataclass(frozen=True, slots=True)
class Appended:
    """What a broker made of a batch."""

    end: int
    """Where the log ended before."""
    told: int | None
    """The offset that it told; None where it refused the batch."""
    refusal: Refusal | None
    served: bytes
    trouble: str
    """How a fetch was refused; empty where it was not."""
    stored: Stored | None
    """What its segments have of it; None where they are not known."""

    def answer(self) -> Answer:
        """The answer."""
        refusal, stored = self.refusal, self.stored
        if refusal is not None and refusal.code in UNSURE:
            return {"unsupported": f"whether it is stored is not told: {refusal}"}
        if refusal is None or self.served or (stored and stored.data):
            return self._taken()
        if refusal.code in ITS_AFFAIR:
            return {"unsupported": f"{ITS_AFFAIR[refusal.code]}: {refusal}"}
        return {"ok": False, "error": error_class(refusal.code), "message": str(refusal), "codes": refusal.told}

    def _taken(self) -> Answer:
        """The answer where there is something of it; what is stored is told where that is not what is served."""
        # A batch that is there although it was refused is neither: no offset was told.
        value = {"logEnd": str(self.end), "baseOffset": str(-1 if self.told is None else self.told)}
        if self.stored and self.stored.data != self.served:
            value |= {"stored": self.stored.data.hex(), "segment": self.stored.place}
        how = "served" if self.served else "stored"
        message = f"it is {how}, although refused: {self.refusal}" if self.refusal else self.trouble
        return {"ok": True, "hex": self.served.hex(), "value": value, **({"message": message} if message else {})}
