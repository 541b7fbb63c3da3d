"""Files in the working folder that no process may import: each one writes its name to a file when it runs."""

from __future__ import annotations

import os

MODULES = ("msgspec", "psutil", "select", "signal", "socket", "threading", "traceback", "yaml")
PACKAGES = ("conformance", "multiprocessing", "pyspark")


class Traps:
    """Modules in a folder with names that Python, the suite or a library imports."""

    def __init__(self, folder, names=(*MODULES, *PACKAGES)):
        self._mark = folder / "imported"
        for name in names:
            path = folder / name / "__init__.py" if name in PACKAGES else folder / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"with open({str(self._mark)!r}, 'a') as file:\n    file.write('{name}\\n')\n")

    @property
    def imported(self):
        """The imported names, each once."""
        return sorted(set(self._mark.read_text().split())) if self._mark.exists() else []


def without_safe_path():
    """Return our environment without the variable of tox that disables all traps."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
