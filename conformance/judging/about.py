"""What a case is about, among all that an answer shows."""

from __future__ import annotations

import re

from conformance.cases.model import Case
from conformance.codec.log import STRUCTURED

_INDEX = re.compile(r"\[\d+\]")


def is_about(case: Case, path: str) -> bool:
    """Whether a case is about the field at a path; one of a type without fields is about all of it."""
    if case.type not in STRUCTURED:
        return True
    plain = _INDEX.sub("", path).removeprefix(".")
    return any(plain == about or plain.startswith(about + ".") for about in case.about)


def touches(path: str, unobserved: tuple[str, ...]) -> bool:
    """Whether a path, or something around it, was left out."""
    if path == "consumed":
        return "consumed" in unobserved
    return any(hidden in ("value", path) or path.startswith(hidden + ".") for hidden in unobserved)
