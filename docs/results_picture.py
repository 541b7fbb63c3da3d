"""Take docs/assets/results.png, the picture of the results page, by `python docs/results_picture.py`.

The command needs the extra `clients`, and Chromium on the PATH.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PICTURE = Path(__file__).parent / "assets" / "results.png"
LIBRARIES = ("kafka-python", "aiokafka", "kio")
FAILURES_FOUND = 1
"""The exit status of `conformance run` for these libraries."""
WIDTH, HEIGHT = 1200, 860


def main() -> None:
    """Test the libraries, and take a picture of their results page. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "results.html"
        run = ["-m", "conformance", "run", *LIBRARIES, "--generated", "0", "--quiet", "--html", str(page)]
        done = subprocess.run([sys.executable, *run], check=False)
        if done.returncode != FAILURES_FOUND:
            raise subprocess.CalledProcessError(done.returncode, run)
        chromium = [str(shutil.which("chromium")), "--headless=new", "--no-sandbox", "--hide-scrollbars"]
        size = f"--window-size={WIDTH},{HEIGHT}"
        subprocess.run([*chromium, size, f"--screenshot={PICTURE}", page.as_uri()], check=True)


if __name__ == "__main__":
    main()
