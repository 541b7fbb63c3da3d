"""Runs of unmodified clients, shared by several tests."""

import json

import pytest
from live_runs import judged, lacking

from conformance.targets.resolve import adapters, drivers


@pytest.fixture(scope="module")
def runs():
    """Return the finished runs, by client."""
    return {}


@pytest.fixture
def run(request, runs, live_client, tmp_path_factory, traces):
    """Return the version and the rows of a client's only run, on the cases that the test module selects."""

    def rows(name):
        if drivers()[name].setup and name not in adapters():
            live_client(name)
        if missing := lacking(name):
            pytest.skip(f"live:{name} lacks {', '.join(missing)}")
        if name not in runs:
            folder = tmp_path_factory.mktemp(name)
            status = 0 if name == "kafka-clients" else None
            found = judged(
                f"live:{name}", folder, traces.env, *request.module.selected_cases(name), status=status, op=""
            )
            runs[name] = json.loads((folder / "r.json").read_text())["targets"][0]["describe"]["version"], found
            assert traces.left() == []
        return runs[name]

    return rows
