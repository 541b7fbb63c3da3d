"""The sweep over the judge: whether the suite notices that what judges is damaged in one place.

    python benchmarks/judge_mutants.py                      # the whole sweep
    python benchmarks/judge_mutants.py --sample 60 --seed 0 # a sample of it
    python benchmarks/judge_mutants.py --only ID            # one, and what kills it

Every place of `conformance/judging/` is damaged as `mutants.py` does it, and requirement ids, names of types,
complaints about an answer and questions for the kind of a value besides. The damaged judge is put to answers of which
the intact one gave its verdict:

- to every vector case those that are right, what any target may do (refuse, crash, answer without a value …), and
  answers that differ from a right one in one place: an element is left out, is there twice or stands elsewhere, a
  number is one more or less, a value is null, also inside a request or a log that is written;
- of each seeded defect of `conformance selftest` the first answers that are not the reference's, wrong or not.

A mutant is put to those in which the intact judge runs the function that it lies in, or, where it lies in a table, a
function that the table may reach. It is killed by the first answer on which its verdict is another one: in kind, in
level, in the requirement that it charges, or in what it counts as not shown. It is *told apart* where only the path or
the words are others.

What is left alone:

- the words of a verdict, and its path: the arguments of `Verdict`, `failed` and `at` that give them, f-strings, local
  names that nothing but those use, and the functions that make nothing else (`_WORDS`). In judge.py a path is damaged,
  because the requirement of an open place is found by it;
- `strict` of zip: that both have one length is seen to before, and says so to who reads it;
- `causes.py`, `readings.py` and `codes.py`, which group and word what was judged, and what serves them alone.

The list in `judge_mutants.yaml` says of each survivor of the whole sweep why no answer shows it; a `gap` is what one
could show.
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
    sampled,
    shown,
    tell_survivors,
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
"""Of processor time that a mutant has."""

Judge = Callable[[Case, Outcome], Verdict]


# --- what is damaged ----------------------------------------------------------------------------------

_TEXT: Mapping[str, tuple[int, ...]] = {
    **{"Verdict": (1, 2), "failed": (0, 1), "at_request": (0,), "batches_in": (1,)},
    **{"_no_progress": (1,), "_as_sent": (3,)},
}
"""By what is called, the arguments that are words or a path."""
_WORDS = frozenset(
    (
        *("_apart", "_named", "request_name", "text", "producer_text", "_short", "_first_difference"),
        *("_SAID", "RECORDS"),
        *("difference_kind", "_about_null", "_about_number", "_WIDTHS", "_OTHER", "_NAMED"),
        *("matches", "failed_checks", "errors_in"),
        *("codes_of", "_of_frames", "_LONGEST"),
    )
)
"""Functions and constants that make words, or that serve what groups and words verdicts."""


class _Judging(Sites, ast.NodeVisitor):
    """Walks a file of the judge."""

    unseen, complains = _WORDS, False

    def __init__(self, file: str, source: bytes) -> None:
        by_path = file == "judging/judge.py"
        self.aside = frozenset(("detail", "flaky", "strict", *["path"] * (not by_path)))
        of_scenarios = file.startswith("judging/broker_scenario")  # there a failure has no path
        self._text = {**_TEXT, **({"Verdict": (1,)} if by_path else {"failed": (0,)} if of_scenarios else {})}
        self._worded: set[str] = set()
        super().__init__(file, source)

    def others(self, value: object) -> list[object]:
        """What a constant is changed to, ids and names too."""
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
        """The local names that are set there, and that nothing uses but words and paths."""
        found = {name.id for name in ast.walk(function) if isinstance(name, ast.Name) and _is_set(name)}
        while used := found & {name.id for name in self._beyond(function, found) if not _is_set(name)}:
            found -= used
        return found

    def _beyond(self, node: ast.AST, words: set[str]) -> Iterator[ast.Name]:
        """The names in what is neither words nor a path, nor sets these names."""
        if isinstance(node, ast.Name):
            yield node
        elif not (isinstance(node, ast.JoinedStr) or _sets(node, words)):
            parts = (node.func, *self._decisive(node)) if isinstance(node, ast.Call) else ast.iter_child_nodes(node)
            for part in parts:
                yield from self._beyond(part, words)

    def _decisive(self, node: ast.Call) -> list[ast.expr]:
        """The arguments that are neither words nor a path."""
        text = self._text.get(called(node), ())
        placed = [argument for index, argument in enumerate(node.args) if index not in text]
        return placed + [keyword.value for keyword in node.keywords if keyword.arg not in self.aside]


def _is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _sets(node: ast.AST, names: Container[str]) -> bool:
    """Whether a statement sets some of these names, and nothing else."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    parts = [part for target in targets for part in (target.elts if isinstance(target, ast.Tuple) else [target])]
    return bool(parts) and all(isinstance(part, ast.Name) and part.id in names for part in parts)


def judge_mutants() -> list[Mutant]:
    """Every mutant of what judges, in order."""
    return [one for one in mutants_of(PACKAGE, (FOLDER,), _Judging) if one.file not in EXEMPT]


# --- a damaged judge ----------------------------------------------------------------------------------


def damaged(mutant: Mutant, folder: Path) -> Judge:
    """The judge of a damaged copy of the package, which takes the place of the one that is imported."""
    package = f"conformance.{FOLDER}"
    copy = folder / FOLDER
    shutil.copytree(PACKAGE / FOLDER, copy)
    if mutant.file:  # of the undamaged one it is empty
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
    assert module.judge is not judge, "the damaged copy is not what is imported"
    return lambda case, outcome: module.judge(case, module.more_serious(case, outcome))


class Court:
    """Puts answers to damaged judges, each in a process of its own."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._usual: list[Verdict] = []
        self._reached: dict[tuple[str, int], list[int]] = {}
        """By file and first line of a function of the judge, the answers in which it runs."""
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
        """The fates of mutants, in their order."""
        # What the initializer is given is inherited, and pickled for no one.
        with get_context("fork").Pool(jobs, _sit, (self,), maxtasksperchild=1) as pool:
            yield from pool.imap(_fate, mutants)

    def fate(self, mutant: Mutant) -> Fate:
        """What becomes of a mutant, in this process."""
        with tempfile.TemporaryDirectory() as folder:
            try:
                judging = damaged(mutant, Path(folder))
            except Exception as error:  # noqa: BLE001 - whatever a mutant does
                return Fate(mutant, f"not imported: {error!r:.80}")
            killer, told = self._compared(judging, self._reaching(mutant))
        return Fate(mutant, killer, told="" if killer else told)

    def _reaching(self, mutant: Mutant) -> Iterable[int]:
        """The answers in which a function runs that a mutant may change; all for the undamaged one."""
        if not mutant.file:
            return range(len(self._pairs))
        places = [(str(PACKAGE / file), line) for file, lines in _functions_of(mutant) for line in lines]
        return sorted({index for place in places for index in self._reached.get(place, ())})

    def _compared(self, judging: Judge, places: Iterable[int]) -> tuple[str, str]:
        """The first answer that kills a judge, and the first that tells it apart."""
        told = ""
        for index in places:
            (who, case, outcome), known = self._pairs[index], self._usual[index]
            try:
                verdict = judging(case, outcome)
                weight = _weight(verdict)
            except Exception as error:  # noqa: BLE001 - whatever a mutant does
                return f"raises: {who}, {case.id}: {error!r:.80}", told
            if weight != _weight(known):
                return f"{known.kind} becomes {verdict.kind}: {who}, {case.id}", told
            if verdict != known and not told:
                told = f"{who}, {case.id}"
        return "", told


def _weight(verdict: Verdict) -> tuple[object, ...]:
    return verdict.kind, verdict.level, verdict.requirement, verdict.unobserved


def _functions_of(mutant: Mutant) -> Iterator[tuple[str, range]]:
    """The lines of the function that a mutant lies in; of one in a table, those of all functions that it may reach."""
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
        yield from ((file, _lines(one)) for one in _functions_in(tree) if _names_in(one) & names)


@cache
def _trees() -> dict[str, ast.Module]:
    """What judges, by file."""
    return {f"{FOLDER}/{path.name}": ast.parse(path.read_bytes()) for path in (PACKAGE / FOLDER).glob("*.py")}


def _functions_in(tree: ast.Module) -> list[ast.FunctionDef]:
    """The outermost functions, those of classes too."""
    bodies = [tree.body, *(part.body for part in tree.body if isinstance(part, ast.ClassDef))]
    return [part for part in chain.from_iterable(bodies) if isinstance(part, ast.FunctionDef)]


def _lines(part: ast.stmt) -> range:
    decorators = part.decorator_list if isinstance(part, ast.FunctionDef) else []
    return range(min((part.lineno, *(one.lineno for one in decorators))), (part.end_lineno or 0) + 1)


def _bound(part: ast.stmt) -> set[str]:
    """The names that a statement of a module sets."""
    if isinstance(part, ast.ClassDef | ast.FunctionDef):
        return {part.name}
    return {name.id for name in ast.walk(part) if isinstance(name, ast.Name) and _is_set(name)}


def _names_in(part: ast.AST) -> set[str]:
    names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)}
    return names | {node.attr for node in ast.walk(part) if isinstance(node, ast.Attribute)}


_SITTING: list[Court] = []


def _sit(court: Court) -> None:
    """Begin a process that judges with one mutant."""
    _SITTING.append(court)
    signal.signal(signal.SIGPROF, _end)
    signal.setitimer(signal.ITIMER_PROF, _SECONDS)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def _end(*_: object) -> None:
    raise TimeoutError("it takes too long")


def _fate(mutant: Mutant) -> Fate:
    return _SITTING[0].fate(mutant)


# --- the command --------------------------------------------------------------------------------------


def _table(tally: Tally) -> Iterator[str]:
    yield "file                               mutants  killed     rate  told apart  explained  others"
    files = sorted({fate.mutant.file for fate in tally.fates})
    parts = [(file, Tally([fate for fate in tally.fates if fate.mutant.file == file], tally.known)) for file in files]
    for name, part in (*parts, ("all", tally)):
        killed, told = (sum(1 for fate in part.fates if of(fate)) for of in (lambda it: it.killed, lambda it: it.told))
        explained = sum(1 for _, reason in part.survivors if reason)
        others = len(part.survivors) - explained
        yield f"{name:<34} {len(part.fates):>7} {killed:>7} {part.rate:>7.1f}% {told:>11} {explained:>10} {others:>7}"
    blamed = len(tally.fates) - tally.blameless
    killed = sum(1 for fate in tally.fates if fate.killed)
    share = f"{100 * killed / max(blamed, 1):.1f} %"
    yield f"\nNo answer may show {tally.blameless} of them. Of the other {blamed}, {killed} are killed: {share}"


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Damage the judge in one place at a time: is it noticed?")
    parser.add_argument("--sample", type=int, metavar="N", help="so many mutants only, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="for --sample [0]")
    parser.add_argument("--file", default="*", metavar="PATTERN", help="mutants of these files only")
    parser.add_argument("--only", action="append", metavar="ID", help="this mutant only, and say what kills it")
    parser.add_argument("--list", action="store_true", help="list the mutants and end")
    parser.add_argument("--list-survivors", action="store_true", help="list explained survivors too, with the reasons")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help=f"mutants at a time [{JOBS}]")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Run the sweep and print how it came out."""
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
    court = Court(pairs)
    gc.freeze()  # the processes share what there is by now
    for fate in court.fates(mutants, options.jobs):
        tally.fates.append(fate)
        print(f"\r{len(tally.fates)} of {len(mutants)}", end="", file=sys.stderr, flush=True)
    print(f"\n{len(tally.fates)} mutants, {len(pairs):,} answers, {time.perf_counter() - begin:.0f} s\n")
    print("\n".join(_table(tally)))
    if options.only:
        print("\n".join(f"{shown(fate.mutant)}\n    {fate.vectors}" for fate in tally.fates if fate.killed))
    tell_survivors(tally, options, KNOWN_SURVIVORS)
    return 0


if __name__ == "__main__":
    sys.exit(main())
