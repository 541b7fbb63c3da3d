"""Writes distinct generated failures as vector files, which `--vectors` reads."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import yaml

from conformance.cases.model import (
    Case,
    CaseOrigin,
    ExpectAnyOf,
    Expectation,
    ExpectBytes,
    ExpectConsumerView,
    ExpectConvertedRecords,
    ExpectRejection,
    ExpectSequenceResults,
    ExpectValue,
)
from conformance.cases.operations import parts_of
from conformance.catalog.case_builder import ad_hoc_id
from conformance.codec.json_notation import UNSHOWN
from conformance.codec.log import CHECKSUM_RULES
from conformance.errors import SuiteBug
from conformance.files.atomic import OutputFiles
from conformance.files.bounded_json import is_text
from conformance.files.yaml_loader import JSON_TAG
from conformance.runner.results import ShrunkFailure, TargetRun
from conformance.semantics.consumer_view import VIEW_NOTATION
from conformance.semantics.format_conversion import CONVERTED

_MAX_TYPE_CHARS = 100
"""The maximum length of a type in a file name, in characters; nested arrays have names of any length."""


class _VectorDumper(yaml.SafeDumper):
    """Writes strings that YAML cannot represent as JSON text."""


def _write_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    if is_text(text):
        return dumper.represent_str(text)
    return dumper.represent_scalar(JSON_TAG, json.dumps(text), style="'")


_VectorDumper.add_representer(str, _write_text)


def save_all(runs: Sequence[TargetRun], folder: Path, outputs: OutputFiles) -> list[Path]:
    """Write one vector file for each distinct failure; return the paths of the written files.

    `outputs` collects the errors.
    """
    paths = []
    for run in runs:
        for shrunk in run.shrunk:
            vector = as_vector(shrunk)
            if vector is not None:
                path = folder / _file_name(shrunk.result.case)
                if outputs.write(path, [_text(vector, shrunk, run.name)]):
                    paths.append(path)
    return paths


def _file_name(case: Case) -> str:
    """Return the file name: type, operation and the digest in the vector's id, with letters, digits and dashes."""
    parts = (case.type[:_MAX_TYPE_CHARS], case.op, _vector_id(case).rpartition("/")[2])
    return re.sub(r"[^A-Za-z0-9]+", "-", "-".join(parts)) + ".yaml"


def _text(vector: dict[str, object], shrunk: ShrunkFailure, target: str) -> str:
    """Return the text of a file. The target's name is escaped, so it cannot end the comment."""
    name = ascii(target)[1:-1]
    comment = f"# {shrunk.count} generated cases fail like this for {name}; from {shrunk.origin}\n"
    return comment + yaml.dump([vector], Dumper=_VectorDumper, sort_keys=False, allow_unicode=False, width=1000)


def as_vector(shrunk: ShrunkFailure) -> dict[str, object] | None:
    """Return the vector of a shrunk failure; None if a vector cannot state its expectation."""
    case = shrunk.result.case
    vector: dict[str, object] = {"id": _vector_id(case), "type": case.type, "requirement": case.requirement}
    match case.op:
        case "encode":
            stated = _encode_result(case)
        case "decode":
            assert case.data is not None
            stated = {"hex": case.data.hex(), **_decode_result(case, shrunk.result.verdict.path)}
        case _:
            stated = {"op": case.op, **parts_of(case), **_log_result(case.expect)}
    if not stated:
        return None
    return {**vector, **stated, "note": shrunk.result.verdict.detail, "source": f"derived: {shrunk.origin}"}


def _vector_id(case: Case) -> str:
    """Return the id of the vector: the id of a shrunk case, or a new one for a case that was not shrunk."""
    return ad_hoc_id(case.op, case.type, parts_of(case)) if case.kind is CaseOrigin.GENERATED else case.id


def _encode_result(case: Case) -> dict[str, object]:
    """Return the value and the expected bytes; empty if the bytes of a batch depend on a compressor."""
    value = {"value": case.request["value"]}
    if isinstance(case.expect, ExpectRejection) or (isinstance(case.expect, ExpectAnyOf) and case.expect.readings):
        return {**value, "reject": "invalid-value"}
    if isinstance(case.expect, ExpectBytes):
        return {**value, "hex": case.expect.data.hex()}
    # The bytes of a message set state its magic and codec; those of a message are one possible encoding. An encoder may
    # write other bytes.
    return {} if case.type == "RECORD_BATCH" or not case.data else {**value, "hex": case.data.hex()}


def _log_result(expect: Expectation) -> dict[str, object]:
    """Return the expected result of a whole-log operation in the notation of vectors."""
    match expect:
        case ExpectConsumerView(view, _, is_open):
            value = VIEW_NOTATION.render({"records": view.records, "nextOffset": view.next_offset})
            if is_open:
                return {"either": ["reject", {"value": value}]}
            if view.damage is not None:
                return {"reject": "corrupt" if view.damage.requirement in CHECKSUM_RULES else "malformed"}
            return {"value": value}
        case ExpectConvertedRecords(records):
            return {"value": CONVERTED.render(records)}
        case ExpectSequenceResults(answers):
            return {"value": ["either" if len(right) > 1 else next(iter(right)) for right in answers]}
        case ExpectRejection(_, error_class):
            return {"reject": error_class}
        case _:
            return {"either": "any"}


def _decode_result(case: Case, path: str) -> dict[str, object]:
    match case.expect:
        case ExpectRejection(_, error_class):
            return {"reject": error_class}
        case ExpectValue(value, consumed):
            checked = [re.sub(r"\[\d+\]", "", path)] if path and path not in ("value", "consumed") else []
            stated = {"value": case.wire.notation.render(value), "canonical": False, "checked-fields": checked}
            assert case.data is not None
            return stated if consumed == len(case.data) else {**stated, "consumed": consumed}
        case ExpectAnyOf(readings):
            return {"either": [_reading(case, reading) for reading in readings] or "any"}
        case _:
            raise SuiteBug("a decode case expects a value or a rejection")


def _reading(case: Case, reading: Expectation) -> object:
    if not isinstance(reading, ExpectValue):
        return "reject"
    shown = {} if reading.value is UNSHOWN else {"value": case.wire.notation.render(reading.value)}
    return shown if reading.consumed is None else {**shown, "consumed": reading.consumed}
