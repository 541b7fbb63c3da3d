"""Rules for changes since an older set of definitions: its messages, their structures and their fields."""

from __future__ import annotations

import struct

from conformance.codec.message_spec import FieldSpec, VersionRange
from conformance.definitions._compatibility import FieldChange, MessageChange, StructureChange
from conformance.definitions.findings import shown
from conformance.definitions.lint_rules import PLAIN, LintRule, Problems, has, over, versions_text, without


def _dropped_versions(change: MessageChange) -> Problems:
    for versions in without(change.released, change.new.valid):
        if not change.new.valid or versions.high < change.new.valid.low:
            yield "", f"validVersions {change.new.valid} no longer contains {versions_text(versions)}"


def _lost_versions(change: MessageChange) -> Problems:
    for versions in without(change.released, change.new.valid):
        if change.new.valid and versions.low > change.new.valid.high:
            yield "", f"validVersions {change.new.valid} no longer contains {versions_text(versions)}"


def _moved_message(change: MessageChange) -> Problems:
    if change.old.api_key != change.new.api_key and change.kept:
        yield "", f"apiKey was {change.old.api_key} and is {change.new.api_key} now"


def _flexibility(change: MessageChange) -> Problems:
    yield from _presence("flexible", change.old.flexible, change.new.flexible, change.kept)


def _presence(what: str, old: VersionRange, new: VersionRange, kept: VersionRange) -> Problems:
    """Yield the kept versions in which a property was removed or added."""
    for versions in without(over(old, kept), new):
        yield "", f"{versions_text(versions)}: it was {what}, and is not now"
    for versions in without(over(new, kept), old):
        yield "", f"{versions_text(versions)}: it was not {what}, and is now"


def _removed(change: StructureChange) -> Problems:
    taken = {member.tag for member in change.fresh}
    for member in change.gone:
        versions = over(member.versions, change.kept)
        if versions and (member.tag is None or member.tag not in taken):
            hint = f"the field was removed, but {versions_text(versions)} had it; give its versions an end instead"
            yield member.name, hint


def _renamed(change: StructureChange) -> Problems:
    for old, new in change.pairs:
        if old.name != new.name:
            yield new.name, f"the field was called {old.name}; the bytes are the same"


def _added(change: StructureChange) -> Problems:
    for member in change.fresh:
        for versions in without(over(member.versions, change.kept), member.tagged):
            yield member.name, f"the field is new in {versions_text(versions)}, released without it"


def _tag_reused(change: StructureChange) -> Problems:
    owners = {member.tag: member.name for member in change.old if member.tag is not None}
    for member in change.new:
        owner = owners.get(member.tag) if member.tag is not None else None
        if owner is not None and owner != member.name:
            yield member.name, f"tag {member.tag} belonged to {owner}"


def _reordered(change: StructureChange) -> Problems:
    before = [new.name for _, new in change.pairs]
    now = list(dict.fromkeys(member.name for member in change.new if member.name in set(before)))
    moved = [index for index, (one, other) in enumerate(zip(before, now, strict=True)) if one != other]
    if moved:
        window = slice(moved[0], moved[-1] + 1)
        yield "", f"the order was {_listed(before[window])} and is {_listed(now[window])} now"


def _listed(names: list[str]) -> str:
    return ", ".join([*names[:8], *["…"] * (len(names) > 8)])


def _reordered_on_the_wire(change: StructureChange) -> Problems:
    places = {new.name: index for index, (_, new) in enumerate(change.pairs)}
    mates = {new.name: old for old, new in change.pairs}
    now = [member for member in change.new if member.name in places]
    if [places[member.name] for member in now] == sorted(places.values()):
        return
    ends = {end for pair in change.pairs for one in pair for end in _ends(one)}
    for version in sorted(version for version in ends | {change.kept.low} if version in change.kept):
        written = [
            places[member.name]
            for member in now
            if _is_written(member, version) and _is_written(mates[member.name], version)
        ]
        if written != sorted(written):
            yield "", f"version {version} writes its fields in a different order"
            return


def _ends(member: FieldSpec) -> tuple[int, ...]:
    """Return the versions from which a field is written differently."""
    return (member.versions.low, member.versions.high + 1, member.tagged.low, member.tagged.high + 1)


def _is_written(member: FieldSpec, version: int) -> bool:
    """Return True if a version writes a field outside of the tagged fields."""
    return version in member.versions and version not in member.tagged


def _type(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    if _is_alike(old, new):
        return
    if not (old.is_array and new.is_array and new.type not in PLAIN):
        yield "", f"the type was {_type_name(old)} and is {_type_name(new)} now"
    elif not _is_boxed(change):
        hint = "the structures do not have the bytes of the plain values"
        yield "", f"the type was {_type_name(old)} and is {_type_name(new)} now: {hint}"


def _is_alike(old: FieldSpec, new: FieldSpec) -> bool:
    """Return True if two fields have the same type, apart from the names of structures."""
    same = old.type == new.type or PLAIN.isdisjoint((old.type, new.type))
    return same and old.is_array == new.is_array


def _is_boxed(change: FieldChange) -> bool:
    """Return True if the new structures have the same bytes as the old plain elements."""
    message, shared = change.message, change.shared
    inner = [one for one in message.new.structures[change.new.type] if one.versions.shared(shared)]
    flexible = over(shared, message.old.flexible) or over(shared, message.new.flexible)
    return not shared or (
        # In flexible versions every structure ends with its tagged fields.
        not flexible
        and len(inner) == 1
        and not inner[0].is_array
        and inner[0].type == change.old.type
        and not over(inner[0].nullable, shared)
        and shared.within(inner[0].versions)
    )


def _type_name(member: FieldSpec) -> str:
    return f"{'[]' * member.is_array}{member.type}"


def _default(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    # The fields of a structure report their own defaults.
    if _is_alike(old, new) and (old.null_default, old.default) != (new.null_default, new.default):
        yield "", f"the default was {_default_text(old)} and is {_default_text(new)} now"


def _default_text(member: FieldSpec) -> str:
    """Return the default of a field as text."""
    if member.null_default:
        return "null"
    if member.type == "float64" and not member.is_array:
        return str(struct.unpack(">d", member.default.to_bytes(8, "big"))[0])
    return "not null" if member.type not in PLAIN or member.is_array else shown(member.default)


def _existence(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    # A released version may gain a tagged field, and a tagged field may end.
    for versions in without(over(old.versions, change.kept), new.versions):
        for plain in without(versions, old.tagged):
            yield "", f"{versions_text(plain)} had it, and no longer {has(plain)} it"
    for versions in without(over(new.versions, change.kept), old.versions):
        for plain in without(versions, new.tagged):
            yield "", f"{versions_text(plain)} did not have it, and {has(plain)} now"


def _nullability(change: FieldChange) -> Problems:
    yield from _presence("nullable", change.old.nullable, change.new.nullable, change.shared)


def _tagging(change: FieldChange) -> Problems:
    old, new = change.old, change.new
    yield from _presence("tagged", old.tagged, new.tagged, change.shared)
    if old.tag != new.tag and over(over(old.tagged, new.tagged), change.shared):
        yield "", f"its tag was {old.tag} and is {new.tag} now"


def _compactness(change: FieldChange) -> Problems:
    if change.old.rigid != change.new.rigid and over(change.shared, change.message.new.flexible):
        forms = ("plain", "compact")
        yield "", f"in flexible versions it was {forms[not change.old.rigid]} and is {forms[not change.new.rigid]} now"


OF_A_MESSAGE: tuple[LintRule[MessageChange], ...] = (
    LintRule("definitions.no-version-dropped", _dropped_versions),
    LintRule("definitions.released-version-frozen", _lost_versions),
    LintRule("definitions.released-version-frozen", _moved_message),
    LintRule("definitions.released-version-frozen", _flexibility),
)
OF_A_STRUCTURE: tuple[LintRule[StructureChange], ...] = (
    LintRule("definitions.field-removed-closed-range", _removed),
    LintRule("definitions.released-version-frozen", _added),
    LintRule("definitions.released-version-frozen", _renamed, open=True),
    LintRule("definitions.tag-reuse-forbidden", _tag_reused),
    LintRule("definitions.fields-not-reordered", _reordered),
    LintRule("definitions.released-version-frozen", _reordered_on_the_wire),
)
OF_A_PAIR: tuple[LintRule[FieldChange], ...] = (
    LintRule("definitions.type-unchanged", _type),
    LintRule("definitions.default-unchanged", _default),
    LintRule("definitions.released-version-frozen", _existence),
    LintRule("definitions.released-version-frozen", _nullability),
    LintRule("definitions.released-version-frozen", _tagging),
    LintRule("definitions.released-version-frozen", _compactness),
)
