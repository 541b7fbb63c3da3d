"""Records in notation, for kafka-python and aiokafka, which took its record code from kafka-python with its names."""

from typing import Any

from notation import CODECS, TIMESTAMP_TYPES, from_hex, named

from conformance import Unsupported

BATCH_FIELDS = {
    "baseOffset": "base_offset",
    "magic": "magic",
    "crc": "crc",
    "attributes": "attributes",
    "lastOffsetDelta": "last_offset_delta",
    "baseTimestamp": "first_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "isTransactional": "is_transactional",
    "isControlBatch": "is_control_batch",
}


def shown_header(batch: Any) -> dict[str, Any]:
    """Return the header of a batch in notation."""
    value = {name: getattr(batch, attribute) for name, attribute in BATCH_FIELDS.items()}
    value["compression"] = named(CODECS, batch.compression_type)
    value["timestampType"] = named(TIMESTAMP_TYPES, batch.timestamp_type)
    return value


def shown_record(record: Any) -> dict[str, Any]:
    """Return a record of a batch or of a consumer in notation."""
    headers = [{"key": key, "value": value} for key, value in record.headers]
    return {**_content(record), "timestamp": str(record.timestamp), "headers": headers}


def shown_message(record: Any) -> dict[str, Any]:
    """Return a message of magic 0 or 1 in notation; magic 0 has no timestamp type."""
    value = _content(record)
    if record.timestamp_type is not None:
        value |= {"timestamp": str(record.timestamp), "timestampType": named(TIMESTAMP_TYPES, record.timestamp_type)}
    return value


def _content(record: Any) -> dict[str, Any]:
    return {"offset": str(record.offset), "key": record.key, "value": record.value}


def write_batch(builder_class: Any, value: dict[str, Any]) -> bytes:
    """Write a batch with the library's builder. Raises Unsupported for fields that the builder does not accept."""
    if int(value["baseOffset"]) != 0 or value["isControlBatch"] or value["timestampType"] != "CreateTime":
        raise Unsupported("the builder takes no base offset, control batch or timestamp type")
    builder = builder_class(
        magic=2,
        compression_type=CODECS.index(value["compression"]),
        is_transactional=int(value["isTransactional"]),
        producer_id=int(value["producerId"]),
        producer_epoch=value["producerEpoch"],
        base_sequence=value["baseSequence"],
        batch_size=2**31 - 1,
    )
    for record in value["records"]:
        builder.append(int(record["offset"]), int(record["timestamp"]), *given_content(record))
    return bytes(builder.build())


def given_content(record: dict[str, Any]) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Return key, value and headers of a record, as arguments of the builders."""
    if any(header["key"] is None for header in record["headers"]):
        raise Unsupported("a header key is a str")
    headers = [(header["key"], from_hex(header["value"])) for header in record["headers"]]
    return from_hex(record["key"]), from_hex(record["value"]), headers


def write_messages(builder_class: Any, value: list[dict[str, Any]], magic: int, compression: str) -> bytes:
    """Write messages of magic 0 or 1 with the library's builder."""
    builder = _legacy_builder(builder_class, magic, compression)
    for message in value:
        builder.append(*_given_message(message))
    return bytes(builder.build())


def size_of_messages(builder_class: Any, value: list[dict[str, Any]], magic: int, compression: str) -> int:
    """Add up the sizes of messages of magic 0 or 1. Raises Unsupported for a compressed set."""
    if compression != "none":
        raise Unsupported("the size of a compressed set is not known before it is built")
    builder = _legacy_builder(builder_class, magic, compression)
    return sum(builder.size_in_bytes(*_given_message(message)) for message in value)


def _legacy_builder(builder_class: Any, magic: int, compression: str) -> Any:
    return builder_class(magic, CODECS.index(compression), 2**31 - 1)


def _given_message(message: dict[str, Any]) -> tuple[int, int | None, bytes | None, bytes | None]:
    if message.get("timestampType", "CreateTime") != "CreateTime":
        raise Unsupported("the builder takes no timestamp type")
    timestamp = int(message["timestamp"]) if "timestamp" in message else None
    return int(message["offset"]), timestamp, from_hex(message["key"]), from_hex(message["value"])
