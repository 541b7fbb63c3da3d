"""The wheel holds the cases of a run without options: whoever installs it does not wait until they are made.

All else about the package stands in pyproject.toml.
"""

import os
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

_COMPILE = """
from conformance.catalog import catalog_builder
catalog_builder.write_to_wheel(catalog_builder.build())
from conformance.runner import generated_cases
generated_cases.ship()
"""


class BuildWithCases(build_py):
    """Copies the package and makes the copy's cases; an editable install does that at the first command."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            # Whoever builds in isolation has what cases are made by on a path of its own.
            path = os.pathsep.join((str(Path(self.build_lib).resolve()), *filter(None, sys.path)))
            copy = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
            subprocess.run([sys.executable, "-P", "-c", _COMPILE], env=copy, check=True)  # noqa: S603 - ours


setup(cmdclass={"build_py": BuildWithCases})
