"""The JSON reports of tests: their places, and their violations of the shipped schema."""

import json
import os
from pathlib import Path

import jsonschema_rs

from conformance.definitions.loader import shipped_types
from conformance.reports.json_schema import schema_text

_BEGINS = b'{"suite": {"name":"kafka-conformance"'
VALIDATOR = jsonschema_rs.validator_for(json.loads(schema_text()))


def json_reports(folder):
    """Yield the JSON reports below a folder, with any file name."""
    for above, _, names in os.walk(folder):
        for name in names:
            path = Path(above, name)
            if path.is_file() and not path.is_symlink() and _begins(path):
                yield path


def _begins(path):
    try:
        with path.open("rb") as file:
            return file.read(len(_BEGINS)) == _BEGINS
    except OSError:
        return False


def broken_reports(folder):
    """Return a line for each JSON report below a folder that violates the schema: the file and the first problem."""
    lines = []
    for path in json_reports(folder):
        problem = next(iter(VALIDATOR.iter_errors(json.loads(path.read_bytes()))), None)
        if problem is not None:
            lines.append(f"{path}: {problem.message[:300]} at {list(problem.instance_path)}")
    return lines


def messages_judged(results):
    """Return the shipped messages with a judged generated case."""
    judged = [row for row in results if row["kind"] == "generated" and row["verdict"] not in ("skip", "protocol")]
    names = {row["type"].removeprefix("MESSAGE<").partition(",")[0] for row in judged}
    return names & set(shipped_types().messages)
