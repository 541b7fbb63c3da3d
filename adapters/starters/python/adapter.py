"""A starter adapter for kafka-conformance.

    conformance doctor module:./adapter.py    checks the adapter
    conformance run module:./adapter.py       judges the code behind it

Replace the sample code in the rows of the table TYPES by calls of YOUR LIBRARY, and add a row for each further type.
Types without a row are skipped and counted as skipped. docs/adapters.md has the types and their notation.
"""

import struct

from conformance import Reject, Unsupported

# --- YOUR LIBRARY: replace this sample code -----------------------------------------------------------

REJECTIONS = ()
"""The exceptions of your library that are rejections: those that it documents, or that an application should catch.
Every other exception is a crash."""


def decode_int32(data):
    """Return the value at the start of the bytes, and the number of consumed bytes."""
    if len(data) < 4:
        raise Reject("malformed", "the bytes end inside the number")
    return struct.unpack_from(">i", data)[0], 4


def encode_int32(value):
    """Return the bytes of a value."""
    return struct.pack(">i", _int32(value))


def decode_varint(data):
    """Return the value at the start of the bytes, and the number of consumed bytes."""
    bits = 0
    for at in range(5):
        if at == len(data):
            raise Reject("malformed", "the bytes end inside the varint")
        bits |= (data[at] & 0x7F) << 7 * at
        if data[at] < 0x80:
            bits &= 0xFFFF_FFFF
            return bits >> 1 ^ -(bits & 1), at + 1
    raise Reject("malformed", "the varint is longer than 5 bytes")


def encode_varint(value):
    """Return the bytes of a value."""
    bits = _int32(value) << 1 ^ value >> 31
    out = bytearray()
    while bits > 0x7F:
        out.append(bits & 0x7F | 0x80)
        bits >>= 7
    return bytes([*out, bits])


def decode_string(data):
    """Return the value at the start of the bytes, and the number of consumed bytes."""
    if len(data) < 2:
        raise Reject("malformed", "the bytes end inside the length")
    length = struct.unpack_from(">h", data)[0]
    if not 0 <= length <= len(data) - 2:
        raise Reject("malformed", f"length {length}, {len(data) - 2} bytes are left")
    return data[2 : 2 + length].decode("utf-8", "replace"), 2 + length


def encode_string(value):
    """Return the bytes of a value."""
    if not isinstance(value, str):
        raise Reject("invalid-value", "not a string")
    text = value.encode("utf-8")
    if len(text) > 32767:
        raise Reject("invalid-value", "a string has at most 32767 bytes")
    return struct.pack(">h", len(text)) + text


def _int32(value):
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise Reject("invalid-value", "not a 32-bit number")
    return value


TYPES = {
    "INT32": (decode_int32, encode_int32),
    "VARINT": (decode_varint, encode_varint),
    "STRING": (decode_string, encode_string),
}
"""The functions that read and write each type. `decode` may return `(value, None)` if your library does not report the
number of consumed bytes."""

# --- the adapter --------------------------------------------------------------------------------------


def describe():
    """Return the supported operations.

    `via` names the judged call of your library: `public: ` for a call of applications, `internal: ` for one on the
    library's own path to the wire.
    """
    return {
        "name": "my-library",
        "version": "0.1",
        "language": "python",
        "supports": {"decode": list(TYPES), "encode": list(TYPES)},
        "via": {"decode": "public: adapter.decode", "encode": "public: adapter.encode"},
    }


def decode(type, data, **parameters):
    """Return the value in the bytes, and the number of consumed bytes."""
    if type not in TYPES:
        raise Unsupported(f"no decode of {type}")
    return TYPES[type][0](data)


def encode(type, value, **parameters):
    """Return the bytes of a value."""
    if type not in TYPES:
        raise Unsupported(f"no encode of {type}")
    return TYPES[type][1](value)
