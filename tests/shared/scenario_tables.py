"""The tables of client scenarios and checks in docs/live.md. Run as a program, it writes them there."""

from collections import defaultdict
from pathlib import Path

from conformance.cases.client_checks import CHECKS
from conformance.cases.client_scenarios import SCENARIOS
from conformance.catalog.catalog_builder import read_catalog

PAGE = Path(__file__).parent.parent.parent / "docs" / "live.md"
BEGIN, END = (
    "<!-- client scenarios: written by tests/shared/scenario_tables.py -->\n",
    "<!-- end of client scenarios -->\n",
)


def subject(name, scenario):
    """Return the heading of the table that has a scenario."""
    if scenario.produces is not None:
        return "Transactions" if scenario.produces.transactional else "Producers"
    if name.startswith("telemetry"):
        return "Client metrics"
    if scenario.in_group:
        return "Consumer groups"
    if scenario.leader_change is not None or scenario.replica:
        return "Leaders and replicas"
    if name.startswith("fetch-session"):
        return "Fetch sessions"
    return "Topic names" if scenario.topic_name else "Consumers"


def row(name, scenario, cases):
    """Return the row of a scenario; `cases` are its ids, by level."""
    levels = "; ".join(f"{level}: {', '.join(ids)}" for level, ids in sorted(cases.items()))
    text = [scenario.description]
    text += ["The client may report an error."] * scenario.may_report_error
    text += [f"A client that still sends {scenario.may_poll_request} is skipped."] * bool(scenario.may_poll_request)
    return f"| `{name}` | {' '.join(text)} | {levels} |"


def tables():
    """Return the text of the tables: scenarios by subject, and checks."""
    cases = defaultdict(lambda: defaultdict(list))
    for case in read_catalog().cases.values():
        if case.op == "send":
            cases[case.request["scenario"]][case.level].append(f"`{case.id}`")
    rows = defaultdict(list)
    for name, scenario in SCENARIOS.items():
        rows[subject(name, scenario)].append(row(name, scenario, cases[name]))
    lines = []
    for heading, members in rows.items():
        lines += [f"### {heading}", "", "| scenario | mock broker | cases |", "|---|---|---|", *members, ""]
    lines += ["### Checks", "", "Each case names one of these checks:", "", "| check | requirement |", "|---|---|"]
    lines += [f"| `{name}` | {check.description} |" for name, check in CHECKS.items()]
    return "\n" + "\n".join(lines) + "\n\n"


def parts(text):
    """Return a page as the text before the tables, the tables, and the text after them."""
    before, _, rest = text.partition(BEGIN)
    table, _, after = rest.partition(END)
    return before, table, after


if __name__ == "__main__":
    before, _, after = parts(PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(before + BEGIN + tables() + END + after, encoding="utf-8")
