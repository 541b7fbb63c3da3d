"""What is expected of a case, in value notation."""

from __future__ import annotations

from conformance import codec
from conformance.cases.model import (
    AnyOf,
    Appends,
    Case,
    Converts,
    Delivers,
    Exchanges,
    Expectation,
    Measures,
    Plays,
    Reads,
    Refuses,
    Sends,
    Sequences,
    WholeLog,
    Writes,
    WritesAs,
)
from conformance.codec.json_notation import UNSHOWN
from conformance.semantics.consumer_view import VIEW
from conformance.semantics.format_conversion import CONVERTED


def expected_json(case: Case) -> dict[str, object]:
    """The expectation in value notation, as the JSON report holds it."""
    return expectation_json(case, case.expect)


def expectation_json(case: Case, expect: Expectation) -> dict[str, object]:
    """The same of one of several expectations of a case."""
    if isinstance(expect, WholeLog):
        return _log_expectation(expect)
    render = case.wire.notation.render
    match expect:
        case Reads(value, consumed):
            shown = {} if value is UNSHOWN else {"value": render(value)}
            return shown if consumed is None else {**shown, "consumed": consumed}
        case Refuses(_, said):
            return {"reject": said}
        case AnyOf(readings):
            return {"either": [expectation_json(case, reading) for reading in readings] or "any"}
        case Writes(data):
            return {"hex": data.hex()}
        case WritesAs(value, name):
            return {"decodes-to": codec.wire(name or case.wire).notation.render(value)}
        case Measures(size):
            return {"size": size}


def _log_expectation(expect: WholeLog) -> dict[str, object]:
    match expect:
        case Delivers(view, _, is_open):
            shown = {"value": VIEW.render({"records": view.records, "nextOffset": view.next_offset})}
            shown |= {} if view.damage is None else {"then": "an error"}
            return {"either": ["reject", shown]} if is_open else shown
        case Converts(records):
            return {"decodes-to": CONVERTED.render(records)}
        case Appends(records):
            return {"decodes-to": CONVERTED.render(records)}
        case Sequences(answers):
            return {"value": [" or ".join(sorted(right)) for right in answers]}
        case Exchanges(due):
            return {"answers": [f"{one.name} {one.version}" if one.must_answer else "any" for one in due]}
        case Plays(_, due):
            return {"value": list(due)}
        case Sends(check, _, of):
            return {"requests": check, **({"of": of} if of else {})}
