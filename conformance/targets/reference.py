"""The reference codec as a target: answers requests of the protocol, in process or behind `conformance serve`."""

from __future__ import annotations

from typing import Any

from conformance import __version__, codec
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.notation import NUMBER, Names, NotationError
from conformance.codec.primitives import ARRAYS
from conformance.targets.protocol import PROTOCOL

_NO_ENCODING = ("LOG",)
CODEC = Names(CODEC_NAMES)


def describe() -> dict[str, Any]:
    """What the reference supports: every type, every codec."""
    types = [*codec.TYPES, *ARRAYS]
    written = [name for name in types if name not in _NO_ENCODING]
    return {
        "ok": True,
        "protocol": PROTOCOL,
        "name": "reference",
        "version": __version__,
        "language": "python",
        "supports": {
            "decode": types,
            "encode": written,
            "size": written,
            "read": False,
            "convert": False,
            "sequence": False,
        },
        "codecs": list(CODEC_NAMES),
    }


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer to a request, without its id. Never raises, whatever the request holds."""
    op, name = request.get("op"), request.get("type")
    if op == "describe":
        return describe()
    if not isinstance(op, str) or op not in _OPS:
        return {"unsupported": f"no operation {op!r}"}
    if not isinstance(name, str):
        return {"unsupported": "a request names a type"}
    try:
        return _OPS[op](name, request)
    except codec.UnknownType as error:
        return {"unsupported": str(error)}
    except (codec.Unencodable, NotationError) as error:
        return {"ok": False, "error": "invalid-value", "message": str(error)}


def _decode(name: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        data = bytes.fromhex(request.get("hex", ""))
    except (TypeError, ValueError):
        return {"ok": False, "error": "other", "message": "hex: expected hex digits"}
    wire = codec.wire(name)
    read = codec.decode(name, data)
    if read.ok:
        return {"ok": True, "value": wire.notation.render(read.value), "consumed": read.consumed}
    first = read.violations[0]
    return {"ok": False, "error": _class(first), "message": str(first)}


def _class(violation: codec.Violation) -> str:
    if violation.requirement in ("crc.mismatch-corrupt", "legacy.crc-checked"):
        return "corrupt"
    return "unsupported-codec" if violation.requirement == "codec.unassigned-values" else "malformed"


def _written(name: str, request: dict[str, Any]) -> bytes:
    if name in _NO_ENCODING:
        raise codec.UnknownType(f"{name} is not encoded")
    if "value" not in request:
        raise NotationError("value is missing")
    value = codec.wire(name).notation.parse(request["value"])
    if name != "MESSAGE_SET":
        return codec.encode(name, value)
    magic, compression = NUMBER.parse(request.get("magic")), CODEC.parse(request.get("compression", "none"))
    return codec.encode(name, value, magic=magic, compression=compression)


def _encode(name: str, request: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "hex": _written(name, request).hex()}


def _size(name: str, request: dict[str, Any]) -> dict[str, Any]:
    return {"ok": True, "size": len(_written(name, request))}


_OPS = {"decode": _decode, "encode": _encode, "size": _size}
