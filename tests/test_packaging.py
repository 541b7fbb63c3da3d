"""The wheel contains the package, the vectors and the adapters, and no other top-level names."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from conformance.catalog.catalog_builder import read_catalog
from conformance.definitions.loader import shipped_types
from conformance.strategies.seeded.cases import TYPES, message_types

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Return the wheel built from a copy of the checkout, with build packages on a path, as with pip."""
    source = tmp_path_factory.mktemp("source") / "tree"
    ignored = shutil.ignore_patterns(
        ".git", ".tox", ".venv", "build", "*.egg-info", "__pycache__", ".*_cache", "target"
    )
    shutil.copytree(ROOT, source, symlinks=True, ignore=ignored)
    out = tmp_path_factory.mktemp("wheel")
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(out)!r})"
    packages = os.pathsep.join(path for path in sys.path if "-packages" in path)
    apart = {**os.environ, "PYTHONPATH": packages}
    subprocess.run([sys._base_executable, "-P", "-c", build], cwd=source, env=apart, check=True, capture_output=True)
    return next(out.glob("*.whl"))


def names(wheel):
    with zipfile.ZipFile(wheel) as archive:
        return archive.namelist()


def test_every_file_of_the_wheel_is_in_the_package_or_its_metadata(wheel):
    tops = {name.split("/")[0] for name in names(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"conformance"}


def test_the_wheel_contains_every_module_vector_and_adapter(wheel):
    held = set(names(wheel))
    patterns = {"conformance": "*.py", "reports": "*.py", "strategies": "*.py", "vectors": "*.yaml", "adapters": "*.*"}
    for folder, pattern in patterns.items():
        for path in (ROOT / folder).rglob(pattern):
            relative = path.relative_to(ROOT)
            parts = relative.parts if folder == "conformance" else ("conformance", *relative.parts)
            if path.is_file() and not {"__pycache__", "target"} & set(parts) and path.suffix != ".pyc":
                assert "/".join(parts) in held, relative


def test_an_installed_package_does_not_build_the_cases(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    cache = tmp_path / "cache"
    here = {**os.environ, "PYTHONPATH": str(tmp_path / "installed"), "XDG_CACHE_HOME": str(cache)}
    program = "from conformance.catalog.catalog_builder import load_cached; print(*load_cached().cases)"
    done = subprocess.run([sys.executable, "-P", "-c", program], env=here, check=True, capture_output=True, text=True)
    assert done.stdout.split() == list(read_catalog().cases)
    program = "from conformance.runner.generated_cases import _cached; print(*_cached())"
    done = subprocess.run([sys.executable, "-P", "-c", program], env=here, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [*TYPES, *message_types(shipped_types().messages.values())]
    assert not cache.exists()


def test_relative_links_lead_to_the_four_folders():
    for name in ("adapters", "reports", "strategies", "vectors"):
        link = ROOT / "conformance" / name
        assert link.is_symlink()
        assert link.readlink() == Path("..") / name


def test_no_file_contains_a_registry_host_or_a_machine_path():
    tracked = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if tracked.returncode:
        pytest.skip("not a git checkout")
    wrong = ("registry" + ".npmjs", "pypi" + ".org", "repo.maven" + ".apache", "/" + "work/", "/" + "root/")
    for name in tracked.stdout.decode().split("\0"):
        path = ROOT / name
        if path.is_file() and not path.is_symlink():
            text = path.read_text(encoding="utf-8", errors="replace")
            assert not [word for word in wrong if word in text], name
