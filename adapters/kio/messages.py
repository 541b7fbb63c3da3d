"""The messages of kio: a dataclass for each message, version and structure, listed in its index and imported lazily.

Field names are the words of the definition, without the "Ms" of a duration or an instant.
"""

import types
import uuid
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, fields
from datetime import UTC, datetime, timedelta
from functools import cache
from pkgutil import resolve_name
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import uuid_zero
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i32Timedelta, i64, i64Timedelta, u16
from notation import float_bits, float_from_bits

from conformance import Unsupported

# Message -> version -> path of its class, as `package.module:MessageName`.
PLACES: dict[str, dict[int, str]] = {}
for versions in schema_name_map.values():
    for number, places in sorted(versions.items()):
        for place in places.values():
            PLACES.setdefault(place.partition(":")[2], {})[number] = place
VERSIONS = {name: f"{min(places)}-{max(places)}" for name, places in PLACES.items()}

# Names with another spelling of words, or with older words than the definition.
NAMES = {
    ("CreateTopicsRequest", "timeout"): "timeoutMs",
    ("CreateTopicsRequest", "validate_only"): "validateOnly",
    ("UpdateFeaturesRequest", "timeout"): "timeoutMs",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "AcceptableRecoveryLagLegacy",
    ("TxnOffsetCommitRequest", "generation_id"): "GenerationIdOrMemberEpoch",
}
# Arrays with the default null; in the library, the application must give the value of an array.
NULL_BY_DEFAULT = {
    "ConsumerGroupHeartbeatRequest": ("topic_partitions",),
    "ListPartitionReassignmentsRequest": ("topics",),
    "StreamsGroupHeartbeatRequest": (
        *("active_tasks", "standby_tasks", "warmup_tasks"),
        *("client_tags", "task_offsets", "task_end_offsets"),
    ),
    "StreamsGroupHeartbeatResponse": ("active_tasks", "standby_tasks", "warmup_tasks", "partitions_by_user_endpoint"),
    "Topology": ("subtopologies",),
}
TIMES = ("timedelta_i32", "timedelta_i64", "datetime_i64")
UNKNOWN = "_unknownTaggedFields"

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND = timedelta(milliseconds=1)


def reader(message: str, version: int) -> Callable[[bytes, int], tuple[Any, int]]:
    """Return the library's reader. Raises Unsupported for a missing message or version."""
    return entity_reader(_class(message, version))


def writer(message: str, version: int) -> Callable[..., None]:
    """Return the library's writer. Raises Unsupported for a missing message or version."""
    return entity_writer(_class(message, version))


@cache
def _class(message: str, version: int) -> Any:
    if version not in PLACES.get(message, {}):
        raise Unsupported(f"no {message} {version}")
    return resolve_name(PLACES[message][version])


@dataclass(frozen=True)
class _Slot:
    """A field of a class: its kind in the metadata, its class, and if it is an array or nullable."""

    attribute: str
    kind: str
    inner: Any
    is_array: bool
    is_optional: bool
    is_stated: bool
    """True if the application must give its value."""


@cache
def _slots(owner: Any) -> dict[str, _Slot]:
    """Return the fields of a class by definition name; cached, because a message may have 100,000 structures."""
    return {_name(owner, field): _slot(field) for field in fields(owner)}


def _name(owner: type, field: Field[Any]) -> str:
    words = "".join(word[:1].upper() + word[1:] for word in field.name.split("_"))
    usual = words + "Ms" if field.metadata.get("kafka_type") in TIMES else words
    return NAMES.get((owner.__name__, field.name), usual)


def _slot(field: Field[Any]) -> _Slot:
    options = _options(field.type)
    is_array = get_origin(options[0]) is tuple
    # An array of UUIDs contains None for zero UUIDs.
    inner = _options(get_args(options[0])[0])[0] if is_array else options[0]
    kind = field.metadata.get("kafka_type", "")
    return _Slot(field.name, kind, inner, is_array, len(options) > 1, field.default is MISSING)


def _options(kind: Any) -> list[Any]:
    """Return the alternatives of a type, with None last."""
    options = get_args(kind) if get_origin(kind) is types.UnionType else (kind,)
    return sorted(options, key=lambda option: option is types.NoneType)


# --- decode -------------------------------------------------------------------------------------------


def shown(entity: Any) -> dict[str, Any]:
    """Return a message or structure of the library in notation."""
    return {name: _shown_field(slot, getattr(entity, slot.attribute)) for name, slot in _slots(type(entity)).items()}


def _shown_field(slot: _Slot, value: Any) -> Any:
    if not slot.is_array:
        return _shown(slot, value)
    return None if value is None else [_shown(slot, item) for item in value]


def _shown(slot: _Slot, value: Any) -> Any:
    if value is None:
        return NULLS.get(slot.kind)
    if slot.kind in SHOWN:
        return SHOWN[slot.kind](value)
    return value if slot.kind else shown(value)


NULLS = {"uuid": str(uuid_zero), "datetime_i64": "-1"}
"""Values that the library represents as None."""
SHOWN: dict[str, Callable[[Any], Any]] = {
    "error_code": int,
    "float64": float_bits,
    "timedelta_i32": lambda value: value // MILLISECOND,
    "timedelta_i64": lambda value: value // MILLISECOND,
    "datetime_i64": lambda value: round((value - EPOCH) / MILLISECOND),  # as the library writes it
}

# --- encode -------------------------------------------------------------------------------------------


def given(message: str, version: int, value: dict[str, Any]) -> Any:
    """Return the object for an application. Raises Unsupported for values that its class cannot represent."""
    return _entity(_class(message, version), value)


def _entity(owner: Any, value: dict[str, Any]) -> Any:
    if value.get(UNKNOWN):
        raise Unsupported("tagged fields that the definition does not know are not written")
    slots = _slots(owner)
    for name in value:
        if name not in slots and name != UNKNOWN:
            raise Unsupported(f"{owner.__module__}.{owner.__name__} has no field {name}")
    return owner(
        **{
            slot.attribute: _given_field(slot, value[name] if name in value else _default(owner, slot))
            for name, slot in slots.items()
            if slot.is_stated or name in value
        }
    )


def _default(owner: type, slot: _Slot) -> Any:
    """Return the default of a field without one in the library, in the notation of a request."""
    if slot.is_array:
        return None if slot.is_optional and slot.attribute in NULL_BY_DEFAULT.get(owner.__name__, ()) else ()
    return DEFAULTS.get(slot.kind, {})


def _given_field(slot: _Slot, value: Any) -> Any:
    if value is None:
        return None
    if slot.is_array:
        return tuple(_given(slot, item) for item in value)
    return None if slot.is_optional and NULLS.get(slot.kind) == str(value) else _given(slot, value)


def _given(slot: _Slot, value: Any) -> Any:
    return GIVEN[slot.kind](value) if slot.kind else _entity(slot.inner, value)


def _error_code(value: int) -> ErrorCode:
    try:
        return ErrorCode(value)
    except ValueError as error:
        raise Unsupported(f"an error code is one of an enumeration: {error}") from error


def _duration(value: int) -> timedelta:
    try:
        return timedelta(milliseconds=value)
    except OverflowError as error:
        raise Unsupported(f"a duration is a timedelta: {error}") from error


def _instant(value: int) -> TZAwareMicros:
    """Return an instant in milliseconds, like the reader, although the annotation TZAware means whole seconds."""
    try:
        return TZAwareMicros.parse(EPOCH + value * MILLISECOND)
    except (OverflowError, TypeError) as error:
        raise Unsupported(f"a timestamp is a datetime from 1970 on: {error}") from error


GIVEN: dict[str, Callable[[Any], Any]] = {
    "int8": i8,
    "int16": i16,
    "int32": i32,
    "int64": lambda value: i64(int(value)),
    "uint16": u16,
    "float64": float_from_bits,
    "bool": bool,
    "string": str,
    "bytes": bytes.fromhex,
    "records": bytes.fromhex,
    "uuid": uuid.UUID,
    "error_code": _error_code,
    "timedelta_i32": lambda value: i32Timedelta.parse(_duration(value)),
    "timedelta_i64": lambda value: i64Timedelta.parse(_duration(int(value))),
    "datetime_i64": lambda value: _instant(int(value)),
}
DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64", "uint16", "error_code"), 0),
    **dict.fromkeys(("timedelta_i32", "timedelta_i64", "datetime_i64"), 0),
    **{"float64": "00" * 8, "bool": False, "string": "", "bytes": "", "records": None, "uuid": str(uuid_zero)},
}
