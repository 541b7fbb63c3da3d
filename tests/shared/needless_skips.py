"""The option --no-needless-skips: a skipped test fails the run, unless its reason names a program that is missing."""

from __future__ import annotations

import re
import shutil

PROGRAMS = ("cargo", "chromedriver", "chromium", "go", "java", "kcat", "mvn", "node", "npm")
"""Programs that a machine may lack."""


def is_needless(reason: str) -> bool:
    """Return True if a reason for a skip names no program that is missing."""
    return not any(shutil.which(name) is None for name in PROGRAMS if re.search(rf"\b{name}\b", reason))


class _Skips:
    """Collects the reasons for skips that no missing program explains."""

    def __init__(self):
        self.needless = []

    def pytest_runtest_logreport(self, report):
        self._add(report)

    def pytest_collectreport(self, report):
        self._add(report)

    def _add(self, report):
        if report.skipped and isinstance(report.longrepr, tuple) and is_needless(report.longrepr[2]):
            self.needless.append(f"{report.nodeid}: {report.longrepr[2]}")

    def pytest_sessionfinish(self, session):
        if self.needless and not session.exitstatus:
            session.exitstatus = 1

    def pytest_terminal_summary(self, terminalreporter):
        for one in self.needless:
            terminalreporter.write_line(f"needless skip: {one}", red=True)


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption("--no-needless-skips", action="store_true", help="fail if a test with all its programs is skipped")


def pytest_configure(config):
    """Watch the skips. With pytest-xdist only the main process does, which gets all reports."""
    if config.getoption("--no-needless-skips") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Skips())
