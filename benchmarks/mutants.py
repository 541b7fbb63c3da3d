"""The mutant sweep over the codec: the suite should notice one change in its code.

    python benchmarks/mutants.py                      # the whole sweep, on the vectors
    python benchmarks/mutants.py --sample 60 --seed 0 # a sample
    python benchmarks/mutants.py --generated 200      # then generated cases on the survivors of the vectors
    python benchmarks/mutants.py --generated 200 --alone --sample 200  # generated cases on all mutants

The sweep mutates one place of the code at a time: a comparison, constant, operator or raise of `conformance/codec/` or
`conformance/semantics/`. The mutated copy of the package is the target (`serve reference` with the copy first on
PYTHONPATH, and only the interpreter of the tables); the installed suite is the judge. A mutant is killed by the first
failure at must or should, including disputed ones (the reference meets requirements that Apache Kafka does not), by a
crash, a timeout, a protocol fault, or a failed start: by each failure of `run --fail-on should --strict`. A survivor
may still be *distinguished*: its report differs from that of the original, because it chose another accepted
interpretation, failed a may, or showed fewer fields. These are no failures of a target, so they do not count as killed.

The mutations:

- comparisons: `<` and `<=`, `>` and `>=`, `==` and `!=`, `in` and `not in`, `is` and `is not` are swapped;
- numbers (an expression of only numbers is one): plus one and minus one; 0 becomes 1; bytes: the last bit is flipped,
  empty ones become a zero byte; true and false are swapped; strings: one more letter, or the other byte order,
  encoding or error handler;
- operators: `+` and `-`, `*` and `//`, `<<` and `>>`, `&` and `|` are swapped, `%` becomes `//`, `^` becomes `|`;
  `and` and `or` are swapped; a `-` or `not` before a value is removed;
- `raise`, and the calls that raise for the codec (`fail`, `violation`), become `pass`.

Not mutated, because it is not part of the wire format, or because an answer of a target cannot show it:

- the compiled readers and writers (`compiled/`, `dispatch.py`, `shape`, the letters of `struct`): the interpreter would
  hide a fault in them. tests/codec/test_quick.py compares both on damaged inputs;
- `hex_dump.py`, trails (spans, paths, code that runs only while tracing), and the places, hints and requirement ids of
  findings;
- remarks (`cursor.remark`, `remarks`, `rests_on`) and the marks of unspecified rejections (`open=`, `negative_open=`),
  with the conditions, functions and constants only for them: the protocol does not transmit them, only the suite uses
  them;
- functions that write bytes for the generator (`_stored_frames.py`, `builders.py`, `compact_batch` …), and those that
  write a LOG or a message set of both magics: targets get no such requests;
- errors about a request instead of a value: JSON outside the notation (`NotationError`), a value of another type
  (`isinstance`), a batch without a field or without records, an unknown type, magic, codec or version, a definition
  that contradicts an earlier one, inconsistent steps of a scenario. Requests are complete and in the notation
  (docs/adapters.md#the-protocol-version-1), so no case has these;
- our limits of memory and time (`Limits` and its counters, the steps in which bytes are fed): beyond them any outcome
  except a crash is allowed, and no case is that large;
- free choices of writers that no reader checks: the size of snappy blocks, xerial's version fields, a time in gzip,
  the content size in lz4, the leader epoch in a converted batch; and free choices of brokers: ids, times, the text of
  an error, the value of a marker;
- the judge's part of the notation (`same`, `mismatches`, `observed`, `compare.py`, `further` names …), of logs
  (`hidden`, `legacy`, `before_damage`, `partial`, `is_wrapper`) and of scenarios (`outcomes`, `parsed_results`,
  `has_written` …), and the edges of types: the judging codec is not mutated, and a target runs none of these. The same
  applies to the mock broker's part (`abort_markers`);
- the linter's part of definitions (overlapping and nested version ranges), and the header version of a message, because
  targets get no requests about headers;
- names of types, codecs and fields: a target that does not claim or show one is not judged on it;
- f-strings, docstrings, annotations and the names given to types, decorators, imports, `__all__`, `__slots__`.

`mutants.yaml` states for each survivor of the whole sweep why no case kills it. All of them count in the table. The
line below it excludes survivors that no case may fail: the documents leave the behaviour unspecified, or no answer of
a target shows the change. A survivor that a case could kill is a `gap`.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import contextlib
import copy
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, zip_longest
from pathlib import Path
from unittest.mock import patch

import yaml

import conformance
from conformance import codec
from conformance.cases.model import Case, VerdictKind
from conformance.catalog.catalog import Catalog
from conformance.catalog.catalog_builder import read_catalog
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.primitives import ARRAYS
from conformance.errors import CannotStart
from conformance.process.launcher import LaunchSpec
from conformance.runner.policy import FailurePolicy
from conformance.runner.target_runner import TargetRunner
from conformance.strategies.seeded.cases import TYPES, generated_cases
from conformance.targets.limits import FAULT_LIMITS, ResourceLimits
from conformance.targets.target import TargetSpec

PACKAGE = Path(conformance.__file__).parent
FOLDERS = ("codec", "semantics")
EXEMPT_FILES = (
    *("codec/hex_dump.py", "codec/compare.py", "codec/_stored_frames.py", "codec/error_codes.py"),
    "codec/builders.py",
    *(
        "codec/compiled/source_builder.py",
        "codec/dispatch.py",
        "codec/compiled/readers.py",
        "codec/compiled/writers.py",
    ),
)
KNOWN_SURVIVORS = Path(__file__).with_suffix(".yaml")

LIMITS = ResourceLimits(timeout=6.0, startup=20.0, memory=512 * 2**20)
JOBS = 2
_FIRST = 400
"""Cases that a mutant gets before the others."""

# --- mutants ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Mutant:
    """A replacement at one place of one file."""

    file: str
    """Relative to the package."""
    line: int
    number: int
    """Number among the mutants of the line, from 1."""
    damage: str
    """The original, an arrow, the replacement."""
    text: str
    """The source line, stripped."""
    span: tuple[int, int]
    """The replaced bytes of the file."""
    replacement: str
    above: str = ""
    """The previous source line, stripped: it distinguishes equal lines."""

    @property
    def id(self) -> str:
        """File, line and number."""
        return f"{self.file}:{self.line}.{self.number}"

    def applied(self, source: bytes) -> bytes:
        """Return the mutated file."""
        start, stop = self.span
        return source[:start] + self.replacement.encode() + source[stop:]


_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv},
    **{ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr},
}
_SIGNS: dict[type[ast.AST], str] = {
    **{ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="},
    **{ast.In: "in", ast.NotIn: "not in", ast.Is: "is", ast.IsNot: "is not", ast.And: "and", ast.Or: "or"},
    **{ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**"},
    **{ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"},
    **{ast.USub: "-", ast.Not: "not", ast.Invert: "~"},
}
_TWINS = {
    **{"big": "little", "little": "big", "utf-8": "latin-1"},
    **{"surrogateescape": "replace", "replace": "surrogateescape"},
}
_TURNED = str.maketrans("<>", "><")
"""The byte order at the start of a `struct` format."""

_RAISERS = ("fail", "violation")
_FINDINGS = (*_RAISERS, "remark", "span", "refusing", "_doubt", "requires")
"""Calls with places, hints and ids as arguments."""
_REQUIREMENT = re.compile(r"[a-z0-9-]+\.[a-z0-9.-]+")
_UNCLAIMED = frozenset((*codec.TYPES, *ARRAYS, *CODEC_NAMES))
_NAMED = {
    **dict.fromkeys(("integer", "fixed", "zigzag", "sized", "array", "WireType", "Layout", "Field", "BitField"), 0),
    **dict.fromkeys(("Checksum", "Codec", "Notation"), 0),
    "take": 2,
}
"""Calls with a name as argument (of a type, of a field or for messages), and its position."""


def _names(*lines: str) -> frozenset[str]:
    return frozenset(name for line in lines for name in line.split())


_EXEMPT_ARGUMENTS = _names(
    "__all__ __slots__ describes known edges steps empty further",
    "stem upper rule null_rule negative_rule long_rule least_rule path layer kind trail",
    "open negative_open is_inner magics others shape expression writing",
    "mtime store_size hash compare origin digest source refused",
)
"""Exempt arguments and attributes: names, ids, descriptions, edges for strategies, free choices."""
_EXEMPT_NAMES = _names(
    # findings, trails, and code only for remarks and the choice of requirements
    "Violation Span Findings Cursor.tracing Cursor.remark Cursor.span Cursor._violation BoundedStream._violation hint",
    "rule_of _RULES MESSAGE_RULES Layout.rules_by_name _is_append_time _around _unordered",
    "CODEC_AT count_at after_key _high_bits codec/record_batch.py:_at",
    "codec/layout.py:_traced_fields codec/layout.py:_checked codec/layout.py:_split_bits",
    "_FIT CONTROL_KEYS _BATCH _MAGICS remarks _doubt _doubts _doubt_sizes matters",
    "rescued _rescue self.fed _doubt_part _beyond _MUCH _traced_numbers _LETTERS",
    "semantics/consumer_view.py:_INT64_MAX codec/record_batch.py:_INT64_MAX",
    "ExpectedRange NumberShape.code _may_overflow self.explaining self.hurried inner.hurried",
    # marks of unspecified rejections
    "_OPEN_GZIP _lacks_trailer _SNAPPY_FRAMING _LZ4_LEGACY _OPEN_LZ4 _is_open_lz4 _is_skippable _ZSTD_MAGIC _OPEN_ZSTD",
    "_is_open_zstd _ends_between_blocks _RLE _has_zlib_header is_zlib",
    # the judge's part
    "_refuse _same_float _same_text _REPLACED unshown_paths _collect_unshown unknown_fields",
    "compare ValueComparison parse_known codec/compare.py:_MOST allowed_results semantics/producer_state.py:_answers",
    "semantics/producer_state.py:_merge_states codecs_and_magics _OF_ENTRIES",
    "ListOf.nullable ObjectOf.nullable ObjectOf.with_parts",
    *(
        f"{kind}.{part}"
        for kind in ("Notation", "NamedNumber", "ListOf", "ObjectOf")
        for part in ("same", "mismatches")
    ),
    *(f"{kind}.observed" for kind in ("Notation", "NamedNumber", "ListOf", "ObjectOf")),
    "CONVERTED ANSWERS ANY_RESULT ConsumerView.partial semantics/consumer_view.py:partial",
    "semantics/consumer_view.py:_BATCHES",
    "is_wrapper",
    "semantics/consumer_view.py:position semantics/consumer_view.py:before_damage _NO_SIZE",
    "self.hidden.update self.legacy.update seen.remarks _ConsumerViewBuilder.remark_the_first_entry",
    "seen.remark_the_first_entry",
    "_AbortedTransactionFilter.is_aborted_header _may_be_skipped _is_passed_over _whole_records",
    "outcomes _outcome _label parsed_results FILLER_VALUE ProducerIdentity.in_transaction",
    "ProducerIdentity.has_written self.has_written",
    # the mock broker's part
    "abort_markers",
    # errors about a scenario, and names of types
    "semantics/broker_steps.py:_problem _problem_of_batch _DAY Step StepResult Number _Index _State",
    # code that runs scenarios on brokers, and code that distinguishes definitions
    "listed_in Produce.needs_response MessageSpec.is_shipped",
    # the generator's and the linter's part, and code that no request reaches
    "semantics/partition_log.py:_DERIVED compact_batch _emptied _lasting with_checksums",
    "message_with_checksums Layout.with_field",
    "Layout.with_checksums BitField.mask",
    "PACKED_BATCH _whole encode_entry",
    "codec/log.py:_encode codec/message_set.py:_encode",
    "LAST VersionRange.__iter__ VersionRange.__bool__ VersionRange.__str__ VersionRange.within",
    "VersionRange.shared header_version",
    # bounds, and free choices
    "Limits Cursor.count cursor.count inner.count Cursor.count_in cursor.count_in RECORD_COST OFFLINE_LIMITS",
    "BoundedStream.make_room self.room self.findings.plain _STEP _DENSEST_STREAM",
    "codec/compression_formats.py:step _FOLLOWED",
    "_XERIAL_BLOCK _XERIAL_VERSIONS _FIRST_IDENTITY _NOW _FENCED BASE_TIME_MS",
)
"""Exempt classes, functions, tables, constants and calls."""
EXEMPT = sorted(_EXEMPT_ARGUMENTS | _EXEMPT_NAMES)
_COMPLAINTS = ("NotationError", "_refuse", "UnknownType", "ValueError")
_UNTESTABLE_RULES = frozenset(
    (
        "general.exact-encoding",
        "batch.one-or-more-records",
        "recursive.wrapper-holds-set",
        "codec.unassigned-values",
        "format.magic-versions",
        "definitions.valid-versions",
        "convert.up-to-v2",
    )
)
"""Exceptions about a request, and the requirements of errors about a missing part, an unknown magic, codec, version or
conversion, or nothing to write."""


def mutants_of(
    package: Path, folders: Sequence[str] = FOLDERS, sites: Callable[[str, bytes], Sites] | None = None
) -> list[Mutant]:
    """Return every mutant of the files in these folders of a package, in order."""
    sites = sites or Sites
    found: list[Mutant] = []
    for path in (path for folder in folders for path in sorted((package / folder).glob("*.py"))):
        file = path.relative_to(package).as_posix()
        if file not in EXEMPT_FILES:
            found += sites(file, path.read_bytes()).found
    return found


class Sites(ast.NodeVisitor):
    """Visits a file and collects its mutants."""

    exempt_arguments, exempt_names = _EXEMPT_ARGUMENTS, _EXEMPT_NAMES
    complains = True
    """True if errors about a request and type checks are exempt."""

    def __init__(self, file: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._file = file
        self._lines = source.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._names: list[str] = []
        self.visit(ast.parse(source))

    # --- collecting a mutant ------------------------------------------------------------------------

    def _add(self, node: ast.expr | ast.stmt, damage: str, replacement: str) -> None:
        """Replace a node by text; keep the number of lines."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        stop = self._starts[node.end_lineno - 1] + node.end_col_offset
        breaks = "\n" * (node.end_lineno - node.lineno)
        text = f"({replacement}{breaks})" if isinstance(node, ast.expr) else replacement + breaks
        line = self._lines[node.lineno - 1].decode().strip()
        above = self._lines[node.lineno - 2].decode().strip() if node.lineno > 1 else ""
        number = sum(1 for mutant in self.found if mutant.line == node.lineno) + 1
        self.found.append(Mutant(self._file, node.lineno, number, damage, line, (start, stop), text, above))

    def _swap(self, node: ast.expr | ast.stmt, change: Callable[[ast.AST], None], damage: str) -> None:
        """Replace a node by a changed copy."""
        changed = copy.deepcopy(node)
        change(changed)
        self._add(node, damage, ast.unparse(changed))

    # --- sites --------------------------------------------------------------------------------------

    def visit_Compare(self, node: ast.Compare) -> None:
        for index, was in enumerate(node.ops):
            now = _COMPARISONS[type(was)]

            def change(it: ast.AST, index: int = index, now: type[ast.cmpop] = now) -> None:
                assert isinstance(it, ast.Compare)
                it.ops[index] = now()

            self._swap(node, change, f"{_SIGNS[type(was)]} -> {_SIGNS[now]}")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if (number := _number(node)) is not None:
            self._constant(node, number)
            return
        if not (_is_sequence(node.left) or _is_sequence(node.right)):
            self._operator(node)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if ast.unparse(node.target).partition("[")[0] in self.exempt_names:
            return
        if not _is_sequence(node.value):
            self._operator(node)
        self.generic_visit(node)

    def _operator(self, node: ast.BinOp | ast.AugAssign) -> None:
        now = _OPERATORS[type(node.op)]

        def change(it: ast.AST) -> None:
            assert isinstance(it, ast.BinOp | ast.AugAssign)
            it.op = now()

        self._swap(node, change, f"{_SIGNS[type(node.op)]} -> {_SIGNS[now]}")

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        now = ast.Or if isinstance(node.op, ast.And) else ast.And

        def change(it: ast.AST) -> None:
            assert isinstance(it, ast.BoolOp)
            it.op = now()

        parts = [part for part in node.values if not (self.complains and _asks_for_kind(part))]
        if parts == node.values:
            self._swap(node, change, f"{_SIGNS[type(node.op)]} -> {_SIGNS[now]}")
        for part in parts:
            self.visit(part)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if (number := _number(node)) is not None:
            self._constant(node, number)
            return
        self._add(node, f"{_SIGNS[type(node.op)]} removed", ast.unparse(node.operand))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        self._constant(node, node.value)

    def _constant(self, node: ast.expr, value: object) -> None:
        for now in self.others(value):
            self._add(node, f"{ast.unparse(node)} -> {now!r}", repr(now))

    def others(self, value: object) -> list[object]:
        """Return the mutations of a constant."""
        return _others(value)

    def visit_Raise(self, node: ast.Raise) -> None:
        if not (self.complains and _is_complaint(node)):
            self._add(node, "raise -> pass", "pass")

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant):
            return
        if called(node.value) in _RAISERS and not _is_open(node.value):
            self._add(node, f"{called(node.value)} -> pass", "pass")
        self.visit(node.value)

    # --- exemptions ---------------------------------------------------------------------------------

    def visit_Import(self, node: ast.Import) -> None:
        """Skip: nothing to mutate."""

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Skip: nothing to mutate."""

    def visit_Assert(self, node: ast.Assert) -> None:
        """Skip asserts, which are for the type checker."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Skip: nothing to mutate."""

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        if _only_remarks(node):
            return
        named = [*node.args.args[len(node.args.args) - len(node.args.defaults) :], *node.args.kwonlyargs]
        defaults = zip(named, [*node.args.defaults, *node.args.kw_defaults], strict=True)
        kept = [default for name, default in defaults if default is not None and name.arg not in self.exempt_arguments]
        self._inside(node.name, [*kept, *node.body])

    def visit_Dict(self, node: ast.Dict) -> None:
        """Visit the values, and keys that are no names."""
        for key in node.keys:
            if key is not None and not (isinstance(key, ast.Constant) and isinstance(key.value, str)):
                self.visit(key)
        for value in node.values:
            self.visit(value)

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self.visit(node.body)

    def _inside(self, name: str, parts: Sequence[ast.AST]) -> None:
        self._names.append(name)
        path = ".".join(self._names)
        if path not in self.exempt_names and f"{self._file}:{path}" not in self.exempt_names:
            for part in _untraced(parts):
                self.visit(part)
        self._names.pop()

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {ast.unparse(target).strip("()").partition("[")[0].partition(",")[0] for target in node.targets}
        if not any(
            name in self.exempt_arguments | self.exempt_names or f"{self._file}:{name}" in self.exempt_names
            for name in names
        ):
            self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        name = ast.unparse(node.target)
        if (
            node.value is not None
            and name not in self.exempt_arguments
            and ".".join((*self._names, name)) not in self.exempt_names
        ):
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if _is_remark(node) or (self.complains and _only_complains(node)):
            return
        if _asks_for_trail(node.test) is None:
            self.visit(node.test)
        for part in (*([] if _asks_for_trail(node.test) else node.body), *node.orelse):
            self.visit(part)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        """Visit the parts that are not about the trail."""
        asks = _asks_for_trail(node.test)
        parts = {None: (node.test, node.body, node.orelse), True: (node.orelse,), False: (node.body,)}
        for part in parts[asks]:
            self.visit(part)

    def visit_Call(self, node: ast.Call) -> None:
        name = called(node)
        if name in _FINDINGS or ast.unparse(node.func) in self.exempt_names:
            return
        self.visit(node.func)
        for index, argument in enumerate(node.args):
            named, edges = _NAMED.get(name) == index, index == 5 and name == "WireType"
            if not (named or edges):
                self.visit(argument)
        for keyword in node.keywords:
            null_in_notation = name == "ListOf" and keyword.arg == "nullable"
            if keyword.arg not in self.exempt_arguments and not null_in_notation:
                self.visit(keyword.value)


def _others(value: object) -> list[object]:
    """Return the mutations of a constant."""
    match value:
        case bool():
            return [not value]
        case int():
            return [value - 1, value + 1] if value else [1]
        case bytes():
            return [value[:-1] + bytes([value[-1] ^ 1]) if value else b"\0"]
        case str() if not (_REQUIREMENT.fullmatch(value) or value in _UNCLAIMED):
            turned = value[:1].translate(_TURNED) + value[1:]
            return [turned if turned != value else _TWINS.get(value, value + "x")]
        case _:
            return []


def _number(node: ast.expr) -> int | None:
    """Return the value of an expression of only numbers."""
    if any(not isinstance(part, _ARITHMETIC) or type(getattr(part, "value", 0)) is not int for part in ast.walk(node)):
        return None
    return int(eval(ast.unparse(node)))  # noqa: S307 - numbers and operators, as was just seen


_ARITHMETIC = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.USub)


def called(node: ast.AST) -> str:
    """Return the unqualified name of a called function, or "" for no call."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _is_open(node: ast.AST) -> bool:
    """Return True if a call always makes an unspecified rejection."""
    assert isinstance(node, ast.Call)
    return any(word.arg == "open" and ast.unparse(word.value) == "True" for word in node.keywords)


def _is_sequence(node: ast.AST) -> bool:
    """Return True for text, bytes and other sequences: another operator on them is only a type error."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str | bytes)
    return isinstance(node, _SEQUENCES) or called(node) in (
        *("encode", "write", "join", "tuple", "bytes", "to_bytes", "pack"),
    )


_SEQUENCES = (ast.JoinedStr, ast.Tuple, ast.List, ast.Dict, ast.IfExp, ast.GeneratorExp, ast.ListComp)


def _asks_for_trail(test: ast.expr) -> bool | None:
    """Return True for a condition that a trail is kept, False for its negation, None for others."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = _asks_for_trail(test.operand)
        return None if inner is None else not inner
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And):
        return _asks_for_trail(test.values[0])
    return True if ast.unparse(test).rpartition(".")[2] in ("tracing", "trail") else None


def _untraced(parts: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Return the parts of a body before `if not tracing: return …`; the rest is about the trail."""
    for part in parts:
        yield part
        if isinstance(part, ast.If) and _asks_for_trail(part.test) is False and isinstance(part.body[-1], ast.Return):
            return


def _is_remark(node: ast.stmt) -> bool:
    """Return True for a remark or an additional basis of a value, or an `if` with only those."""
    match node:
        case ast.If():
            return all(map(_is_remark, (*node.body, *node.orelse)))
        case ast.Assign(targets=[ast.Name(id="hint")]):
            return True
        case _:
            return isinstance(node, ast.Expr) and _makes_remark(node.value)


def _makes_remark(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and _REMARKING.search(ast.unparse(node.func)) is not None


_REMARKING = re.compile(r"\bremark$|\bremarks\.append$|\brests_on\b|\brequires$")


def _asks_for_kind(test: ast.expr) -> bool:
    """Return True if a condition is about the Python type of a value."""
    inner = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    return called(inner) == "isinstance" or (isinstance(inner, ast.Compare) and called(inner.left) == "type")


def _is_complaint(node: ast.stmt) -> bool:
    """Return True for a raise about the request instead of its value."""
    if not isinstance(node, ast.Raise) or not isinstance(node.exc, ast.Call):
        return False
    first = node.exc.args[0] if node.exc.args else None
    return called(node.exc) in _COMPLAINTS or (isinstance(first, ast.Constant) and first.value in _UNTESTABLE_RULES)


def _only_complains(node: ast.If) -> bool:
    """Return True for an `if` that only raises about the request, or rejects a value of another type."""
    raises = all(isinstance(part, ast.Raise) for part in node.body) and not node.orelse
    return raises and (_asks_for_kind(node.test) or all(map(_is_complaint, node.body)))


def _only_remarks(node: ast.FunctionDef) -> bool:
    """Return True if a function only adds remarks: it may bind local names and return early."""

    def harmless(part: ast.stmt) -> bool:
        match part:
            case ast.Return(value=value):
                return value is None
            case ast.Assign(targets=targets):
                return all(isinstance(target, ast.Name) for target in targets)
            case ast.If(body=body, orelse=[]):
                return all(map(harmless, body))
            case ast.Expr(value=ast.Constant()) | ast.Delete():
                return True
            case _:
                return _is_remark(part)

    return all(map(harmless, node.body)) and any(map(_makes_remark, ast.walk(node)))


# --- the judge ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fate:
    """The fate of a mutant: the cases that killed or distinguished it, "" if there is none."""

    mutant: Mutant
    vectors: str = ""
    """The first vector that killed it, with verdict and requirement, or another reason."""
    generated: str = ""
    """The same for generated cases: on survivors of the vectors, or on all mutants."""
    distinguished_by: str = ""
    """The first case with another report than for the original, if no case killed it."""

    @property
    def killed(self) -> bool:
        """True if a case failed."""
        return bool(self.vectors or self.generated)


Sight = tuple[object, ...]
"""The report on a case."""


_SERVE = "from conformance.codec import dispatch; dispatch.COMPILED = False; from conformance.cli import main; main()"
"""Serves the possibly mutated package without compiled code."""


class Workshop:
    """Makes mutated copies of the package and judges them."""

    def __init__(self, folder: Path, catalog: Catalog, generated: Sequence[Case] = (), *, alone: bool = False) -> None:
        self._folder = folder
        self._alone = alone
        self._catalog = catalog
        self._vectors = in_killing_order(catalog.cases.values())
        self._generated = in_killing_order(generated)
        self._whole = folder / "whole" / "conformance"
        shutil.copytree(PACKAGE, self._whole, ignore=shutil.ignore_patterns("vectors", "adapters"))
        # the target also serves the shipped messages
        shutil.copytree(PACKAGE / "vectors" / "definitions", self._whole / "vectors" / "definitions")
        compileall.compile_dir(self._whole, quiet=2)
        (folder / "elsewhere").mkdir()
        self._check_import()
        launch = self._launch(self._whole.parent)
        killer, self._usual = self._judged(ORIGINAL, launch, [*self._vectors, *self._generated])
        if killer:
            raise SystemExit(f"the unmutated codec is killed by {killer}")

    def _launch(self, root: Path) -> LaunchSpec:
        env = {"PYTHONPATH": str(root), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"}
        command = (sys.executable, "-c", _SERVE, "serve", "reference")
        return LaunchSpec("mutant", command, env, str(self._folder / "elsewhere"))

    def _check_import(self) -> None:
        """Check that a target imports the copy and not the installed package."""
        launch = self._launch(self._whole.parent)
        found = subprocess.run(
            [sys.executable, "-c", "import conformance.codec; print(conformance.codec.__file__)"],
            env={**os.environ, **launch.env},
            cwd=launch.cwd,
            check=True,
            capture_output=True,
            text=True,
        )
        assert Path(found.stdout.strip()).is_relative_to(self._whole), f"the target imports {found.stdout.strip()}"

    def fate(self, mutant: Mutant) -> Fate:
        """Judge a mutant with the vectors and, if it survives or with --alone, with the generated cases."""
        root = Path(tempfile.mkdtemp(dir=self._folder))
        try:
            shutil.copytree(self._whole, root / "conformance", copy_function=os.link)
            if mutant is not ORIGINAL:
                self._damage(mutant, root / "conformance")
            vectors, sights = self._judged(mutant, self._launch(root), self._vectors)
            generated = ""
            if self._alone or not vectors:
                generated, more = self._judged(mutant, self._launch(root), self._generated)
                sights |= more
            other = (name for name, sight in sights.items() if sight != self._usual[name])
            return Fate(mutant, vectors, generated, "" if vectors or generated else next(other, ""))
        finally:
            shutil.rmtree(root)

    @staticmethod
    def _damage(mutant: Mutant, package: Path) -> None:
        path = package / mutant.file
        damaged = mutant.applied(path.read_bytes())
        path.unlink()  # it is a hard link to the original
        path.write_bytes(damaged)
        for stale in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            stale.unlink()

    def _judged(self, mutant: Mutant, launch: LaunchSpec, cases: Sequence[Case]) -> tuple[str, dict[str, Sight]]:
        """Return the killer of a mutant, and the report on each case up to it."""
        sights: dict[str, Sight] = {}
        # Most mutants die early, so the large rest is not even serialized for them.
        for share in (cases[:_FIRST], cases[_FIRST:]):
            killer = self._put(mutant, launch, share, sights) if share else ""
            if killer:
                return killer, sights
        return "", sights

    def _put(self, mutant: Mutant, launch: LaunchSpec, cases: Sequence[Case], sights: dict[str, Sight]) -> str:
        spec, policy = TargetSpec(mutant.id, launch, LIMITS), FailurePolicy("should", strict=True)
        judged = False
        target_runner = TargetRunner(spec, self._catalog.requirements, policy)
        with contextlib.closing(target_runner.target):
            try:
                for result in chain(target_runner.disprove_claims(cases), target_runner.results(cases)):
                    verdict = result.verdict
                    sights[result.case.id] = (verdict.kind, verdict.detail, verdict.path, verdict.unobserved)
                    if result.counts or verdict.kind is VerdictKind.PROTOCOL:
                        return f"{verdict.kind}: {result.case.id} {result.requirement}"
                    judged |= verdict.kind is not VerdictKind.SKIP
            except CannotStart as error:
                return f"not started: {error}"
        return "" if judged else "not started: no case was judged"


ORIGINAL = Mutant("", 0, 0, "undamaged", "", (0, 0), "")
"""The unmutated codec."""


def in_killing_order(cases: Iterable[Case]) -> list[Case]:
    """Return the cases in a fixed order, the smallest of each requirement first, so that most mutants die early."""
    groups: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        groups[case.requirement].append(case)
    for group in groups.values():
        group.sort(key=lambda case: len(case.data or b""))
    return [case for row in zip_longest(*groups.values()) for case in row if case is not None]


@contextlib.contextmanager
def one_fault_limit() -> Iterator[None]:
    """Stop a target after one fault, because it is enough to kill it; slowness alone does not kill."""
    with patch.dict(FAULT_LIMITS, {**dict.fromkeys(FAULT_LIMITS, 1), "slow": 0}):
        yield


@contextlib.contextmanager
def opened(catalog: Catalog, generated: Sequence[Case] = (), *, alone: bool = False) -> Iterator[Workshop]:
    """Yield a workshop in a temporary folder, with a limit of one fault per target."""
    with tempfile.TemporaryDirectory() as folder, one_fault_limit():
        yield Workshop(Path(folder), catalog, generated, alone=alone)


def sweep(mutants: Sequence[Mutant], workshop: Workshop, *, jobs: int = JOBS) -> Iterator[Fate]:
    """Yield the fates of mutants, in order."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(workshop.fate, mutants)


def sampled(mutants: Sequence[Mutant], count: int, seed: int) -> list[Mutant]:
    """Return a number of the mutants, drawn by a seed, in order."""
    drawn = random.Random(seed).sample(range(len(mutants)), min(count, len(mutants)))  # noqa: S311 - no secret
    return [mutants[index] for index in sorted(drawn)]


# --- known survivors ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Known:
    """Mutants of a line that survive for a reason: those with `damages`, or all; `above` is the previous line."""

    file: str
    text: str
    damages: tuple[str, ...]
    reason: str
    above: str = ""
    is_gap: bool = False
    """True if a case could kill it, but none does."""
    numbers: tuple[int, ...] = ()
    """The numbers of the mutants, if others with the same damages die; otherwise all."""

    def covers(self, mutant: Mutant) -> bool:
        """Return True if it is about a mutant."""
        here = (mutant.file, mutant.text) == (self.file, self.text)
        here &= self.above in ("", mutant.above) and (not self.numbers or mutant.number in self.numbers)
        return here and (not self.damages or mutant.damage in self.damages)


def known_survivors(path: Path = KNOWN_SURVIVORS) -> list[Known]:
    """Return the list next to this file: reasons, each with its places."""
    groups = yaml.safe_load(path.read_text()) if path.exists() else []
    return [
        Known(
            *(place["file"], place["line"], tuple(place.get("damages", ())), group["reason"], place.get("above", "")),
            is_gap=group.get("gap", False),
            numbers=tuple(place.get("numbers", ())),
        )
        for group in groups
        for place in group["places"]
    ]


# --- the command --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """The results of a sweep."""

    fates: list[Fate]
    known: list[Known]

    @property
    def survivors(self) -> list[tuple[Fate, str]]:
        """The survivors, each with its reason, if known."""
        alive = [fate for fate in self.fates if not fate.killed]
        return [(fate, next((entry.reason for entry in self.known if entry.covers(fate.mutant)), "")) for fate in alive]

    def share(self, of: Callable[[Fate], object]) -> float:
        """Return the percentage of mutants with a property."""
        return 100 * sum(1 for fate in self.fates if of(fate)) / max(len(self.fates), 1)

    @property
    def rate(self) -> float:
        """The percentage of killed mutants."""
        return self.share(lambda fate: fate.killed)

    @property
    def equivalent(self) -> int:
        """The number of survivors that no case may fail: their answers are correct or do not show the change."""
        beyond = [entry for entry in self.known if not entry.is_gap]
        return sum(1 for fate, _ in self.survivors if any(entry.covers(fate.mutant) for entry in beyond))

    def stale(self) -> list[Known]:
        """Return the entries without a survivor."""
        alive = [fate.mutant for fate in self.fates if not fate.killed]
        return [entry for entry in self.known if not any(map(entry.covers, alive))]

    def table(self) -> Iterator[str]:
        """Yield the lines of a table of kills by file and in total."""
        yield "                                    killed by                           distin-    survivors"
        yield "file                      mutants  vectors  generated  either       rate guished  explained  others"
        files = sorted({fate.mutant.file for fate in self.fates})
        parts = [(file, Tally([fate for fate in self.fates if fate.mutant.file == file], self.known)) for file in files]
        for name, part in (*parts, ("all", self)):
            explained = sum(1 for _, reason in part.survivors if reason)
            vectors, generated, killed, distinguished = (
                sum(1 for fate in part.fates if of(fate)) for of in (*_COLUMNS, lambda fate: fate.distinguished_by)
            )
            yield (
                f"{name:<25} {len(part.fates):>7} {vectors:>8} {generated:>10} {killed:>7} {part.rate:>9.1f}% "
                f"{distinguished:>7} {explained:>10} {len(part.survivors) - explained:>7}"
            )
        yield "in percent                         " + " ".join(f"{self.share(of):>{width}.1f}" for of, width in _WIDTHS)
        killed, visible = sum(1 for fate in self.fates if fate.killed), len(self.fates) - self.equivalent
        yield (
            f"\nNo case may hold {self.equivalent} of them against a target. "
            f"Of the other {visible}, {killed} are killed: {100 * killed / max(visible, 1):.1f} %"
        )


_COLUMNS: tuple[Callable[[Fate], object], ...] = (
    lambda fate: fate.vectors,
    lambda fate: fate.generated,
    lambda fate: fate.killed,
)
_WIDTHS = tuple(zip(_COLUMNS, (7, 10, 7), strict=True))


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Mutate the codec in one place at a time: does the suite notice?")
    parser.add_argument("--sample", type=int, metavar="N", help="only this number of mutants, drawn by --seed")
    parser.add_argument("--seed", type=int, default=0, help="for --sample and --generated [0]")
    parser.add_argument("--generated", type=int, default=0, metavar="N", help="additional generated cases per type [0]")
    parser.add_argument("--alone", action="store_true", help="run these on all mutants, as if there were no vectors")
    parser.add_argument("--vectors", action="append", default=[], type=Path, metavar="DIR", help="further vectors")
    parser.add_argument("--file", default="*", metavar="PATTERN", help="only mutants of these files")
    parser.add_argument("--only", action="append", metavar="ID", help="only this mutant; show the case that kills it")
    parser.add_argument("--list", action="store_true", help="list the mutants and end")
    parser.add_argument("--list-survivors", action="store_true", help="also list explained survivors, with reasons")
    parser.add_argument("--kills", action="store_true", help="list the killer of each killed mutant")
    parser.add_argument("--jobs", type=int, default=JOBS, metavar="N", help=f"mutants in parallel [{JOBS}]")
    parser.add_argument(
        "--at-least", type=float, default=0, metavar="PERCENT", help="fail if a smaller percentage is killed"
    )
    return parser.parse_args(given)


def _chosen(options: argparse.Namespace) -> list[Mutant]:
    found = [mutant for mutant in mutants_of(PACKAGE) if fnmatchcase(mutant.file, options.file)]
    if options.only:
        found = [mutant for mutant in found if mutant.id in options.only]
    return found if options.sample is None else sampled(found, options.sample, options.seed)


def _types(catalog: Catalog) -> list[str]:
    """Return every type with generated cases, and the messages defined in vectors."""
    return [*TYPES, *sorted({case.type for case in catalog.cases.values() if case.type.startswith("MESSAGE<")})]


def main(given: Sequence[str] | None = None) -> int:
    """Run the sweep and print its results."""
    options = _arguments(given)
    mutants = _chosen(options)
    if options.list:
        for mutant in mutants:
            print(shown(mutant))
        return 0
    if not mutants:
        print("no such mutant (see --list)", file=sys.stderr)
        return 2
    catalog = read_catalog(options.vectors)
    generated = list(generated_cases(_types(catalog), options.generated, options.seed, catalog))
    begin = time.perf_counter()
    tally = Tally([], known_survivors())
    with opened(catalog, generated, alone=options.alone) as workshop:
        for fate in sweep(mutants, workshop, jobs=options.jobs):
            tally.fates.append(fate)
            print(f"\r{len(tally.fates)} of {len(mutants)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    cases = f"{len(catalog.cases)} cases of vectors, {len(generated)} generated"
    print(f"{len(tally.fates)} mutants, {cases}, {time.perf_counter() - begin:.0f} s\n")
    _report(tally, options)
    return 1 if tally.rate < options.at_least else 0


def _report(tally: Tally, options: argparse.Namespace) -> None:
    print("\n".join(tally.table()))
    ways = Counter(by.partition(":")[0] for fate in tally.fates if (by := fate.vectors or fate.generated))
    print("\nkilled by " + ", ".join(f"{way} {count}" for way, count in ways.most_common()))
    if options.kills or options.only:
        for fate in tally.fates:
            if fate.killed:
                print(f"{shown(fate.mutant)}\n    {fate.vectors or '-'}\n    {fate.generated or '-'}")
    print_survivors(tally, options, KNOWN_SURVIVORS)


def print_survivors(tally: Tally, options: argparse.Namespace, known: Path) -> None:
    """Print the survivors, and after a whole sweep the entries of the list without a survivor."""
    for fate, reason in tally.survivors:
        if not reason or options.list_survivors or options.only:
            by = f"\n    distinguished by {fate.distinguished_by}" if fate.distinguished_by else ""
            print(f"\n{shown(fate.mutant)}\n    " + (f"explained: {reason}" if reason else "SURVIVES") + by)
    if options.sample is None and options.file == "*" and not options.only:
        for entry in tally.stale():
            print(f"\n{known.name}: no survivor in {entry.file} {entry.text!r} {', '.join(entry.damages)}")


def shown(mutant: Mutant) -> str:
    """Return the listing of a mutant: its place, its damage and its line."""
    return f"{mutant.id}  {mutant.damage}\n    {mutant.text}"


if __name__ == "__main__":
    sys.exit(main())
