"""The findings on live clients, and the verdicts of a run on their cases."""

import re

import pytest
from finding_pages import findings

NAMED = sorted({name for one in findings("live") for name in one.versions})


def verdicts(name):
    """Return the verdict of each case that the findings on a client cover."""
    return {case: one.fields["verdict"] for one in findings("live", name) for case in one.cases}


def shown(name, run):
    """Return the verdicts on these cases in the run of a client; skip another version of the client."""
    described, found = run(name)
    librdkafka = re.search(r"librdkafka ([\d.]+)", described)
    version = librdkafka[1] if librdkafka else described
    if any(version not in one.versions[name] for one in findings("live", name)):
        pytest.skip(f"the findings are about another version than {name} {version}")
    return {case: found[case]["verdict"] for case in verdicts(name)}
