"""What is said and saved of an error that nobody expected: a line with its place, and a file with its traceback."""

from __future__ import annotations

import platform
import sys
import traceback
from pathlib import Path

from conformance import __version__

_OURS = Path(__file__).parent.parent
_LONGEST = 200
"""Characters of an error's own text in the line."""


def report_of(error: BaseException) -> str:
    """The line for the user. The traceback is saved where the line says, or follows it where no file can be written."""
    text = "".join(traceback.format_exception(error))
    said = " ".join(f"{type(error).__name__}: {error}".split())[:_LONGEST]
    line = f"a defect of the suite, at {_place(error)}: {said}"
    try:
        return f"{line} (please report it with {_saved(text)})"
    except OSError:
        return f"{line} (please report it with what follows)\n{text}"


def _place(error: BaseException) -> str:
    """The last line of ours that the error came through."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if _OURS in Path(frame.filename).parents]
    last = (ours or frames)[-1:]
    return f"{Path(last[0].filename).name}:{last[0].lineno}" if last else "an unknown place"


def _saved(text: str) -> str:
    """The path of a new file with the text, in the folder for temporary files. Raises OSError."""
    import tempfile

    head = f"kafka-conformance {__version__}, Python {platform.python_version()}\n{' '.join(sys.argv)}\n\n"
    with tempfile.NamedTemporaryFile(prefix="conformance-", suffix=".txt", delete=False) as file:
        file.write((head + text).encode("utf-8", "backslashreplace"))
    return file.name
