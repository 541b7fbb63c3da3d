"""The sweep over the judge: whether the suite notices that what judges is damaged in one place.

    python benchmarks/judge_mutants.py                      # the whole sweep
    python benchmarks/judge_mutants.py --sample 60 --seed 0 # a sample of it
    python benchmarks/judge_mutants.py --only ID            # one, and what kills it

Every place of `conformance/judging/` is damaged as `mutants.py` does it. The damaged judge is put to answers of which
the intact one gave its verdict: to every vector case that of the reference, a refusal, a corruption, an answer without
a value and a crash; and of each seeded defect of `conformance selftest` the first answers that are not the reference's,
whether they are wrong or not. A mutant is killed by the first answer on which its verdict is another one: in kind, in
level, or in the requirement that it charges. It is *told apart* where only the path, the words or what was not shown is
another.

What is left alone: `causes.py` and `readings.py`, which group and word what was judged, and f-strings. The list in
`judge_mutants.yaml` says of each survivor of the whole sweep why no answer shows it; a `gap` is what one could show.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from itertools import chain, islice
from multiprocessing import get_context
from pathlib import Path

from mutants import (
    NOBODY,
    PACKAGE,
    Fate,
    Mutant,
    Tally,
    in_killing_order,
    known_survivors,
    mutants_of,
    sampled,
    shown,
    tell_survivors,
)

from conformance.cases.catalog import Catalog, read_catalog
from conformance.cases.model import Accepted, Answer, Broke, Case, Outcome, Refused, Verdict
from conformance.judging.judge import judge
from conformance.targets.defects import DEFECTS
from conformance.targets.reference import answer as honest
from conformance.targets.violations import heard

FOLDER = "judging"
EXEMPT = ("judging/causes.py", "judging/readings.py")
KNOWN_SURVIVORS = Path(__file__).with_suffix(".yaml")
JOBS = 2
_OF_EACH = 8
"""Answers of a seeded defect that are judged, at most."""
_TRIED = 3_000
"""Cases that it is put to, beside those of its own requirements."""
_SECONDS = 60
"""Of processor time that a mutant has."""

Pair = tuple[str, Case, Outcome]
"""Whose answer it is, and to which case."""
Judge = Callable[[Case, Outcome], Verdict]


def judge_mutants() -> list[Mutant]:
    """Every mutant of what judges, in order."""
    return [one for one in mutants_of(PACKAGE, (FOLDER,)) if one.file not in EXEMPT]


# --- what is judged -----------------------------------------------------------------------------------


def pairs_of(catalog: Catalog) -> list[Pair]:
    """Answers to cases, those to the smallest case of each requirement first."""
    cases = in_killing_order(catalog.cases.values())
    right = {case.id: honest(case.request) for case in cases}
    bent: dict[str, list[Pair]] = {}
    for name in DEFECTS:
        for pair in islice(_bent(name, cases, right), _OF_EACH):
            bent.setdefault(pair[1].id, []).append(pair)
    return [pair for case in cases for pair in (*_plain(case, right[case.id]), *bent.get(case.id, ()))]


def _plain(case: Case, right: Answer) -> Iterator[Pair]:
    """What the reference answers, and what any target may."""
    yield "the reference", case, heard(right)
    yield "a refusal", case, Refused("other")
    yield "a corruption", case, Refused("corrupt")
    yield "an answer without a value", case, Accepted({})
    yield "a crash", case, Broke("crash", "it died")


def _bent(name: str, cases: Sequence[Case], right: dict[str, Answer]) -> Iterator[Pair]:
    """The answers of a seeded defect that differ, those to cases of the requirements that it names first."""
    defect = DEFECTS[name]
    own = [case for case in cases if case.requirement in defect.first]
    for case in chain(own, cases[:_TRIED]):
        answer = right[case.id]
        with suppress(Exception):  # a few defects are not made for each case
            answer = defect.bend(case.request, answer)
        if answer is not right[case.id] and answer != right[case.id]:
            yield name, case, heard(answer)


# --- a damaged judge ----------------------------------------------------------------------------------


def damaged(mutant: Mutant, folder: Path) -> Judge:
    """The judge of a damaged copy of the package, which takes the place of the one that is imported."""
    package = f"conformance.{FOLDER}"
    copy = folder / FOLDER
    shutil.copytree(PACKAGE / FOLDER, copy)
    if mutant is not NOBODY:
        path = copy / Path(mutant.file).name
        path.write_bytes(mutant.applied(path.read_bytes()))
        for stale in (copy / "__pycache__").glob(f"{path.stem}.*.pyc"):
            stale.unlink()
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]
    spec = importlib.util.spec_from_file_location(package, copy / "__init__.py", submodule_search_locations=[str(copy)])
    assert spec is not None
    sys.modules[package] = importlib.util.module_from_spec(spec)
    judging: Judge = importlib.import_module(f"{package}.judge").judge
    assert judging is not judge, "the damaged copy is not what is imported"
    return judging


class Court:
    """Puts answers to damaged judges, each in a process of its own."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._usual = [judge(case, outcome) for _, case, outcome in pairs]

    def fates(self, mutants: Sequence[Mutant], jobs: int = JOBS) -> Iterator[Fate]:
        """The fates of mutants, in their order."""
        gc.freeze()  # the processes share what there is by now
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
            killer, told = self._compared(judging)
        return Fate(mutant, killer, told="" if killer else told)

    def _compared(self, judging: Judge) -> tuple[str, str]:
        """The first answer that kills a judge, and the first that tells it apart."""
        told = ""
        for (who, case, outcome), known in zip(self._pairs, self._usual, strict=True):
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


def _weight(verdict: Verdict) -> tuple[str, ...]:
    return verdict.kind, verdict.level, verdict.requirement


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
    for fate in Court(pairs).fates(mutants, options.jobs):
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
