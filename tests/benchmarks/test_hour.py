"""The hour of hostile input counts its inputs and reports each broken bound; `tox -e hostile` runs it completely."""

import json
import sys
from pathlib import Path

import pytest
from peak import run_alone

pytestmark = pytest.mark.integration

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def hour(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import hour

    monkeypatch.setattr(hour, "SLOWEST", 3600.0)  # a busy machine may take longer
    return hour


def alone(expression):
    """Return the value of an expression of hour.py in a fresh process, whose memory is only its own."""
    code = "import sys; sys.path.insert(0, '.')\n"  # needed under PYTHONSAFEPATH
    code += f"import hour, json; hour.SLOWEST = 3600.0; print(json.dumps({expression}))"
    done, _ = run_alone([sys.executable, "-c", code], cwd=BENCHMARKS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_hostile_requests_of_every_type_raise_no_exception(hour):
    kinds, _, _, memory, broken = alone("hour.judge_inputs((1500, 0))")
    assert broken == []
    assert sum(kinds.values()) == 1500
    assert set(kinds) >= {"accepted", "refused", "a line"}
    assert 0 < memory < hour.LARGEST
    identities = [identity for identity, _ in hour.requests(2 * 10 * len(hour.names()), 0)]
    assert len({identity.partition("(")[2] for identity in identities}) > len(hour.names()) // 2


def test_an_exception_is_reported_with_its_request(hour, monkeypatch):
    def planted(request):
        if request.get("op") == "convert":
            raise IndexError("planted")
        return {"ok": True}

    monkeypatch.setattr(hour, "answer", planted)
    broken = hour.judge_inputs((2000, 0))[-1]
    assert broken
    assert all(line.startswith("hour/0/") and "IndexError: planted" in line for line in broken)


@pytest.mark.usefixtures("hour")
def test_damaged_files_of_every_kind_return_an_exit_status(capsys):
    pytest.importorskip("pyarrow", reason="audits need the extra spark")
    from hour_files import KINDS, files

    assert files(2 * len(KINDS), 7) == []
    assert f"{2 * len(KINDS)} damaged files, seed 7" in capsys.readouterr().out


@pytest.mark.usefixtures("hour")
def test_a_hostile_target_does_not_change_the_results_of_the_reference():
    from hour_targets import targets

    assert targets(2, 2) == []


@pytest.mark.hostile
def test_a_million_hostile_requests_break_no_bound():
    assert alone("hour.inputs(1_000_000, 0, 2)") == []


@pytest.mark.usefixtures("hour")
@pytest.mark.hostile
def test_a_thousand_damaged_files_break_no_bound():
    from hour_files import files

    assert files(1000, 0) == []


@pytest.mark.usefixtures("hour")
@pytest.mark.hostile
def test_a_hundred_hostile_targets_break_no_bound():
    from hour_targets import targets

    assert targets(None, 2) == []
