"""The mutant sweep over the judge: the suite should notice one change in the code that judges.

    python benchmarks/judge_mutants.py                      # the whole sweep
    python benchmarks/judge_mutants.py --sample 60 --seed 0 # a sample
    python benchmarks/judge_mutants.py --only ID            # one mutant, and the answer that kills it

It mutates `conformance/judging/` like `mutants.py`, and also requirement ids, names of types, errors about an answer
and type checks. The mutated judge gets answers with a verdict of the original:

- for each vector case: correct answers, outcomes of any target (rejection, crash, answer without a value …), and
  answers with one change: an element is missing, repeated or moved, a number is one more or less, a value is null,
  also inside a written request or log;
- for each seeded fault of `conformance selftest`: the first answers that differ from the reference's.

A mutant gets the answers for which the original runs the mutated function, or, for a mutated table, a function that
uses the table. The first answer with another verdict kills it: another kind, level, requirement or set of unobserved
fields. It is *distinguished* if only the path or the text differs.

The sweep does not mutate:

- the text and the path of a verdict: those arguments of `Verdict`, `failed` and `at`, f-strings, local names for only
  these, and functions that build only these (`_TEXT_NAMES`). In judge.py it mutates paths, because they lead to the
  requirement of unspecified bytes;
- `strict` of zip: the lengths are equal by earlier checks, and the option only informs the reader;
- `failure_causes.py` and `target_comparison.py`, which group and describe verdicts, and their helpers.

`judge_mutants.yaml` states for each survivor of the whole sweep why no answer shows it; an answer could show a `gap`.
"""

from __future__ import annotations

import argparse
import ast
import gc
import importlib.util
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from types import CodeType

from judge_answers import Pair, pairs_of
from mutants import (
    PACKAGE,
    Fate,
    Mutant,
    Sites,
    Tally,
    called,
    known_survivors,
    mutants_of,
    print_survivors,
    sampled,
    shown,
)

from conformance.cases.model import (
    Case,
    Outcome,
    Verdict,
)
from conformance.catalog.catalog_builder import read_catalog
from conformance.judging.judge import judge, more_serious

FOLDER = "judging"
EXEMPT = ("judging/failure_causes.py", "judging/target_comparison.py")
KNOWN_SURVIVORS = Path(__file__).with_suffix(".yaml")
JOBS = 2
_SECONDS = 60
"""CPU seconds of a mutant."""

Judge = Callable[[Case, Outcome], Verdict]


# --- mutants ------------------------------------------------------------------------------------------

_TEXT: Mapping[str, tuple[int, ...]] = {
    **{"Verdict": (1, 2), "failed": (0, 1), "at_request": (0,), "batches_in": (1,)},
    **{"_no_progress": (1,), "_as_sent": (3,)},
}
"""By called function, the arguments that are a text or a path."""
_TEXT_NAMES = frozenset(
    (
        *("_difference_text", "_named", "request_name", "text", "producer_text", "_shortened", "_first_difference"),
        *("_MAX_MESSAGE", "RECORDS"),
        *("difference_kind", "_about_null", "_about_number", "_WIDTHS", "_OTHER", "_NAMED"),
        *("matches", "failed_checks", "errors_in"),
        *("codes_of", "_of_frames", "_LONGEST"),
    )
)
"""Functions and constants that build texts, or that only group and describe verdicts."""


class _Judging(Sites, ast.NodeVisitor):
    """Visits a file of the judge."""

    exempt_names, complains = _TEXT_NAMES, False

    def __init__(self, file: str, source: bytes) -> None:
        by_path = file == "judging/judge.py"
        self.exempt_arguments = frozenset(("detail", "flaky", "strict", *["path"] * (not by_path)))
        of_scenarios = file.startswith("judging/broker_scenario")  # there a failure has no path
        self._text = {**_TEXT, **({"Verdict": (1,)} if by_path else {"failed": (0,)} if of_scenarios else {})}
        self._worded: set[str] = set()
        super().__init__(file, source)

    def others(self, value: object) -> list[object]:
        """Return the mutations of a constant, including ids and names."""
        return super().others(value) or ([f"{value}x"] if isinstance(value, str) else [])

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        around, self._worded = self._worded, self._words_in(node)
        super().visit_FunctionDef(node)
        self._worded = around

    def visit_Call(self, node: ast.Call) -> None:
        self.visit(node.func)
        for part in self._decisive(node):
            self.visit(part)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not _sets(node, self._worded):
            super().visit_Assign(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if not _sets(node, self._worded):
            super().visit_AugAssign(node)

    def _words_in(self, function: ast.FunctionDef) -> set[str]:
        """Return the local names that only texts and paths use."""
        found = {name.id for name in ast.walk(function) if isinstance(name, ast.Name) and _is_set(name)}
        while used := found & {name.id for name in self._beyond(function, found) if not _is_set(name)}:
            found -= used
        return found

    def _beyond(self, node: ast.AST, words: set[str]) -> Iterator[ast.Name]:
        """Yield the names outside texts, paths and assignments to `words`."""
        if isinstance(node, ast.Name):
            yield node
        elif not (isinstance(node, ast.JoinedStr) or _sets(node, words)):
            parts = (node.func, *self._decisive(node)) if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
            for part in parts:
                yield from self._beyond(part, words)

    def _decisive(self, node: ast.Call) -> list[ast.expr]:
        """Return the arguments that are neither a text nor a path."""
        text = self._text.get(called(node), ())
        placed = [argument for index, argument in enumerate(node.args) if index not in text]
        return placed + [keyword.value for keyword in node.keywords if keyword.arg not in self.exempt_arguments]


def _is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _sets(node: ast.AST, names: Container[str]) -> bool:
    """Return True if a statement assigns only to these names."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return bool(parts) and all(isinstance(part, ast.Name) and part.id in names for part in parts)


def judge_mutants() -> list[Mutant]:
    """Return every mutant of the judge, in order."""
    return [mutant for mutant in mutants_of(PACKAGE, (FOLDER,), _Judging) if mutant.file not in EXEMPT]


# --- a mutated judge ----------------------------------------------------------------------------------


def damaged(mutant: Mutant, folder: Path) -> Judge:
    """Return the judge of a mutated copy of the package, which replaces the imported one."""
    package = f"conformance.{FOLDER}"
    copy = folder / FOLDER
    shutil.copytree(PACKAGE / FOLDER, copy)
    if mutant.file:  # empty for the original
        path = copy / Path(mutant.file).name
        path.write_bytes(mutant.applied(path.read_bytes()))
        for stale in (copy / "__pycache__").glob(f"{path.stem}.*.pyc"):
            stale.unlink()
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(package, copy / "__init__.py", submodule_search_locations=[str(copy)])
    assert spec is not None
    sys.modules[package] = importlib.util.module_from_spec(spec)
    module = importlib.import_module(f"{package}.judge")
    assert module.judge is not judge, "the mutated copy is not imported"
    return lambda case, outcome: module.judge(case, module.more_serious(case, outcome))


class JudgeSweep:
    """Runs mutated judges on answers, each in a separate process."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._usual: list[Verdict] = []
        self._reached: dict[tuple[str, int], list[int]] = {}
        """By file and first line of a function of the judge, the answers that run it."""
        run: set[CodeType] = set()
        before = sys.gettrace()
        sys.settrace(lambda frame, *_: run.add(frame.f_code))
        try:
            for index, (_, case, outcome) in enumerate(pairs):
                run.clear()
                self._usual.append(judge(case, more_serious(case, outcome)))
                for code in run:
                    self._reached.setdefault((code.co_filename, code.co_firstlineno), []).append(index)
        finally:
            sys.settrace(before)

    def fates(self, mutants: Sequence[Mutant], jobs: int = JOBS) -> Iterator[Fate]:
        """Yield the fates of mutants, in order."""
        # The arguments of the initializer are inherited by fork, without pickling.
        with get_context("fork").Pool(jobs, _initialize, (self,), maxtasksperchild=1) as pool:
            yield from pool.imap(_fate, mutants)
            # `terminate` alone sometimes hangs: the pool may start one more process meanwhile.
            pool.close()
            pool.join()

    def fate(self, mutant: Mutant) -> Fate:
        """Return the fate of a mutant, judged in this process."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                judging = damaged(mutant, Path(folder))
            except Exception as error:  # noqa: BLE001 - a mutant may raise anything
                return Fate(mutant, f"not imported: {error!r:.80}")
            killer, difference = self._compared(judging, self._reaching(mutant))
        return Fate(mutant, killer, distinguished_by="" if killer else difference)

    def _reaching(self, mutant: Mutant) -> Iterable[int]:
        """Return the answers that run a function affected by a mutant; all answers for the original."""
        if not mutant.file:
            return range(len(self._pairs))
        places = [(str(PACKAGE / file), line) for file, lines in _functions_of(mutant) for line in lines]
        return sorted({index for place in places for index in self._reached.get(place, ())})

    def _compared(self, judging: Judge, places: Iterable[int]) -> tuple[str, str]:
        """Return the first answer that kills a judge, and the first that distinguishes it."""
        difference = ""
        for index in places:
            (source, case, outcome), known = self._pairs[index], self._usual[index]
            try:
                verdict = judging(case, outcome)
                weight = _weight(verdict)
            except Exception as error:  # noqa: BLE001 - a mutant may raise anything
                return f"raises: {source}, {case.id}: {error!r:.80}", difference
            if weight != _weight(known):
                return f"{known.kind} becomes {verdict.kind}: {source}, {case.id}", difference
            if verdict != known and not difference:
                difference = f"{source}, {case.id}"
        return "", difference


def _weight(verdict: Verdict) -> tuple[object, ...]:
    return verdict.kind, verdict.level, verdict.requirement, verdict.unobserved


def _functions_of(mutant: Mutant) -> Iterator[tuple[str, range]]:
    """Yield the lines of the mutated function; for a mutated table, those of all functions that may use it."""
    for function in _functions_in(_trees()[mutant.file]):
        lines = _lines(function)
        if mutant.line in lines:
            yield mutant.file, lines
            return
    (part,) = [part for part in _trees()[mutant.file].body if mutant.line in _lines(part)]
    names = _bound(part)
    while more := {
        name
        for tree in _trees().values()
        for part in tree.body
        if not isinstance(part, ast.FunctionDef) and _names_in(part) & names
        for name in _bound(part) - names
    }:
        names |= more
    for file, tree in _trees().items():
        yield from ((file, _lines(function)) for function in _functions_in(tree) if _names_in(function) & names)


@cache
def _trees() -> dict[str, ast.Module]:
    """Return the syntax trees of the judge, by file."""
    return {f"{FOLDER}/{path.name}": ast.parse(path.read_bytes()) for path in (PACKAGE / FOLDER).glob("*.py")}


def _functions_in(tree: ast.Module) -> list[ast.FunctionDef]:
    """Return the outermost functions and methods."""
    bodies = [tree.body, *(part.body for part in tree.body if isinstance(part, ast.ClassDef))]
    return [part for part in chain.from_iterable(bodies) if isinstance(part, ast.FunctionDef)]


def _lines(part: ast.stmt) -> range:
    decorators = part.decorator_list if isinstance(part, ast.FunctionDef) else []
    return range(min((part.lineno, *(decorator.lineno for decorator in decorators))), (part.end_lineno or 0) + 1)


def _bound(part: ast.stmt) -> set[str]:
    """Return the names that a statement of a module binds."""
    if isinstance(part, ast.ClassDef | ast.FunctionDef):
        return {part.name}
    return {name.id for name in ast.walk(part) if isinstance(name, ast.Name) and _is_set(name)}


def _names_in(part: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(part) if isinstance(node, ast.Attribute)}


_SWEEPS: list[JudgeSweep] = []


def _initialize(sweep: JudgeSweep) -> None:
    """Initialize a process that judges with one mutant."""
    _SWEEPS.append(sweep)
    signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def _end(*_: object) -> None:
    raise TimeoutError("it takes too long")


def _fate(mutant: Mutant) -> Fate:
    return _SWEEPS[0].fate(mutant)


# --- the command --------------------------------------------------------------------------------------


def _table(tally: Tally) -> Iterator[str]:
    yield "file                               mutants  killed     rate  distinguished  explained  others"
    files = sorted({fate.mutant.file for fate in tally.fates})
    parts = [(file, Tally([fate for fate in tally.fates if fate.mutant.file == file], tally.known)) for file in files]
    for name, part in (*parts, ("all", tally)):
        killed = sum(1 for fate in part.fates if fate.killed)
        distinguished = sum(1 for fate in part.fates if fate.distinguished_by)
        explained = sum(1 for _, reason in part.survivors if reason)
        others = len(part.survivors) - explained
        counts = f"{distinguished:>14} {explained:>10} {others:>7}"
        yield f"{name:<34} {len(part.fates):>7} {killed:>7} {part.rate:>7.1f}% {counts}"
    visible = len(tally.fates) - tally.equivalent
    killed = sum(1 for fate in tally.fates if fate.killed)
    share = f"{100 * killed / max(visible, 1):.1f} %"
    yield f"\nNo answer may show {tally.equivalent} of them. Of the other {visible}, {killed} are killed: {share}"


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mutate the judge in one place at a time: does the suite notice?")
    parser.add_argument("--sample", type=int, metavar="N", help="only this number of mutants, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="for --sample [0]")
    parser.add_argument("--file", default="*", metavar="PATTERN", help="only mutants of these files")
    parser.add_argument("--only", action="append", metavar="ID", help="only this mutant; show the answer that kills it")
    parser.add_argument("--list", action="store_true", help="list the mutants and end")
    parser.add_argument("--list-survivors", action="store_true", help="also list explained survivors, with reasons")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help=f"mutants in parallel [{JOBS}]")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the sweep and print its results."""
    options = _arguments(given)
    mutants = [mutant for mutant in judge_mutants() if fnmatchcase(mutant.file, options.file)]
    if options.only:
        mutants = [mutant for mutant in mutants if mutant.id in options.only]
    if options.sample is not None:
        mutants = sampled(mutants, options.sample, options.seed)
    if options.list:
        print("\n".join(map(shown, mutants)))
        return 0
    if not mutants:
        print("no such mutant (see --list)", file=sys.stderr)
        return 2
    begin = time.perf_counter()
    pairs = pairs_of(read_catalog())
    tally = Tally([], known_survivors(KNOWN_SURVIVORS))
    sweep = JudgeSweep(pairs)
    gc.freeze()  # the child processes share all existing objects
    for fate in sweep.fates(mutants, options.jobs):
        tally.fates.append(fate)
        print(f"\r{len(tally.fates)} of {len(mutants)}", end="", file=sys.stderr, flush=True)
    print(f"\n{len(tally.fates)} mutants, {len(pairs):,} answers, {time.perf_counter() - begin:.0f} s\n")
    print("\n".join(_table(tally)))
    if options.only:
        print("\n".join(f"{shown(fate.mutant)}\n    {fate.vectors}" for fate in tally.fates if fate.killed))
    print_survivors(tally, options, KNOWN_SURVIVORS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
