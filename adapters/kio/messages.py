"""The messages of kio: a dataclass for each message, version and structure, named in its index and imported when asked.

A class names its fields by the words of the definition, without the "Ms" of a duration or an instant.
"""

import types
import uuid
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from pkgutil import resolve_name
from typing import Any, get_args, get_origin

from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_reader, entity_writer
from kio.static.constants import uuid_zero
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i32Timedelta, i64, i64Timedelta, u16
from notation import float_bits, float_from_bits

from conformance import Unsupported

# Message -> version -> where its class is, as `package.module:MessageName`.
PLACES: dict[str, dict[int, str]] = {}
for versions in schema_name_map.values():
    for number, places in sorted(versions.items()):
        for place in places.values():
            PLACES.setdefault(place.partition(":")[2], {})[number] = place
VERSIONS = {name: f"{min(places)}-{max(places)}" for name, places in PLACES.items()}

# Where the words of a name are not written as everywhere else, or are no longer those of the definition.
NAMES = {
    ("CreateTopicsRequest", "timeout"): "timeoutMs",
    ("CreateTopicsRequest", "validate_only"): "validateOnly",
    ("UpdateFeaturesRequest", "timeout"): "timeoutMs",
    ("StreamsGroupHeartbeatResponse", "acceptable_recovery_lag"): "AcceptableRecoveryLagLegacy",
    ("TxnOffsetCommitRequest", "generation_id"): "GenerationIdOrMemberEpoch",
}
# Arrays whose default is null; the library leaves the default of an array to the application.
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
    """Find the library's reader. Raises Unsupported for a message or version that it does not have."""
    return entity_reader(_class(message, version))


def writer(message: str, version: int) -> Callable[..., None]:
    """Find the library's writer. Raises Unsupported for a message or version that it does not have."""
    return entity_writer(_class(message, version))


def _class(message: str, version: int) -> Any:
    if version not in PLACES.get(message, {}):
        raise Unsupported(f"no {message} {version}")
    return resolve_name(PLACES[message][version])


def _name(owner: type, field: Field[Any]) -> str:
    words = "".join(word[:1].upper() + word[1:] for word in field.name.split("_"))
    usual = words + "Ms" if field.metadata.get("kafka_type") in TIMES else words
    return NAMES.get((owner.__name__, field.name), usual)


def _type(field: Field[Any]) -> tuple[str, Any, bool, bool]:
    """Take a field's type apart: its kind in the metadata, its class, whether an array, whether nullable."""
    options = _options(field.type)
    is_array = get_origin(options[0]) is tuple
    # An array of UUIDs has None for those of zeros.
    element = _options(get_args(options[0])[0])[0] if is_array else options[0]
    return field.metadata.get("kafka_type", ""), element, is_array, len(options) > 1


def _options(kind: Any) -> list[Any]:
    """List what a type may be, None last."""
    options = get_args(kind) if get_origin(kind) is types.UnionType else (kind,)
    return sorted(options, key=lambda option: option is types.NoneType)


# --- decode -------------------------------------------------------------------------------------------


def shown(entity: Any) -> dict[str, Any]:
    """Show a message or structure that the library has read."""
    owner = type(entity)
    return {_name(owner, field): _shown_field(field, getattr(entity, field.name)) for field in fields(owner)}


def _shown_field(field: Field[Any], value: Any) -> Any:
    kind, _, is_array, _ = _type(field)
    if is_array:
        return None if value is None else [_shown(kind, item) for item in value]
    return _shown(kind, value)


def _shown(kind: str, value: Any) -> Any:
    if is_dataclass(value):
        return shown(value)
    if value is None:
        return NULLS.get(kind)
    return SHOWN[kind](value) if kind in SHOWN else value


NULLS = {"uuid": str(uuid_zero), "datetime_i64": "-1"}
"""What the library has None for."""
SHOWN: dict[str, Callable[[Any], Any]] = {
    "error_code": int,
    "float64": float_bits,
    "timedelta_i32": lambda value: value // MILLISECOND,
    "timedelta_i64": lambda value: value // MILLISECOND,
    "datetime_i64": lambda value: round((value - EPOCH) / MILLISECOND),  # as the library writes it
}

# --- encode -------------------------------------------------------------------------------------------


def given(message: str, version: int, value: dict[str, Any]) -> Any:
    """Make the object that an application would hand over. Raises Unsupported for what its class cannot hold."""
    return _entity(_class(message, version), value)


def _entity(owner: Any, value: dict[str, Any]) -> Any:
    if value.get(UNKNOWN):
        raise Unsupported("tagged fields that the definition does not know are not written")
    known = {_name(owner, field): field for field in fields(owner)}
    for name in value:
        if name not in known and name != UNKNOWN:
            raise Unsupported(f"{owner.__module__}.{owner.__name__} has no field {name}")
    stated = {name: field for name, field in known.items() if name in value or field.default is MISSING}
    return owner(
        **{
            field.name: _given_field(field, value[name] if name in value else _default(owner, field))
            for name, field in stated.items()
        }
    )


def _default(owner: type, field: Field[Any]) -> Any:
    """Give the default, in the notation of a request, of a field that has none in the library."""
    kind, _, is_array, optional = _type(field)
    if is_array:
        return None if optional and field.name in NULL_BY_DEFAULT.get(owner.__name__, ()) else ()
    return DEFAULTS.get(kind, {})


def _given_field(field: Field[Any], value: Any) -> Any:
    kind, inner, is_array, optional = _type(field)
    if value is None:
        return None
    if is_array:
        return tuple(_given(kind, inner, item) for item in value)
    return None if optional and NULLS.get(kind) == str(value) else _given(kind, inner, value)


def _given(kind: str, inner: Any, value: Any) -> Any:
    if is_dataclass(inner):
        return _entity(inner, value)
    return GIVEN[kind](value)


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
    """Make an instant, of milliseconds as the reader makes it, though the annotation says TZAware: whole seconds."""
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
