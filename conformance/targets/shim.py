"""Speaks the target protocol for a Python module, in the module's own interpreter (3.8 or newer, no packages).

Run as a script: `python shim.py dotted.name` or `python shim.py ./file.py`.
"""

import importlib
import importlib.util
import json
import os
import struct
import sys
import types
import uuid


class Reject(Exception):
    """The target refuses the input."""

    def __init__(self, error, message=""):
        super().__init__(message)
        self.error = error


class Unsupported(Exception):
    """The target cannot do this."""


def install_stub():
    """Put a module `conformance` with these two names only where the target will import it from."""
    stub = types.ModuleType("conformance")
    stub.Reject, stub.Unsupported = Reject, Unsupported
    sys.modules["conformance"] = stub


def load(name):
    """The target module: a file when the name ends in .py, else a dotted name looked up from the working directory."""
    # Our own folder stands first on the path of a script; the target must not find our modules there.
    sys.path[:] = [
        entry for entry in sys.path if os.path.abspath(entry or ".") != os.path.dirname(os.path.abspath(__file__))
    ]
    if not name.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(name)
    path = os.path.abspath(name)
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def plain(value):
    """A value as JSON can hold it; raises TypeError for what has no notation."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, float):
        return struct.pack(">d", value).hex()
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    raise TypeError("an object of class %s has no notation" % type(value).__name__)


def decoded(result):
    """What `decode` returned, as fields of an answer: a value, or the pair (value, consumed); `...` is left out."""
    answer = {"ok": True}
    if isinstance(result, dict) and "consumed" in result and set(result) <= {"value", "consumed"}:
        answer.update(result)
    elif isinstance(result, tuple) and len(result) == 2:
        answer["value"], answer["consumed"] = result
    else:
        answer["value"] = result
    if answer.get("value", ...) is ...:
        answer.pop("value", None)
    if answer.get("consumed", ...) is None:
        del answer["consumed"]
    return {name: plain(entry) for name, entry in answer.items()}


def encoded(op, result):
    """What `encode` or `convert` returned: bytes, or hex digits."""
    if not isinstance(result, (str, bytes, bytearray, memoryview)):
        raise TypeError("%s returned %s, not bytes" % (op, type(result).__name__))
    return {"ok": True, "hex": plain(result)}


def decode(function, request):
    """A value from bytes."""
    return decoded(function(request.pop("type", None), bytes.fromhex(request.pop("hex")), **request))


def encode(function, request):
    """Bytes from a value."""
    return encoded("encode", function(request.pop("type", None), request.pop("value"), **request))


def size(function, request):
    """The length of a value's bytes."""
    return {"ok": True, "size": plain(function(request.pop("type", None), request.pop("value"), **request))}


def read(function, request):
    """What an application sees of a log."""
    return {"ok": True, "value": plain(function(bytes.fromhex(request.pop("hex")), **request))}


def convert(function, request):
    """A log in another magic."""
    return encoded("convert", function(bytes.fromhex(request.pop("hex")), **request))


def sequence(function, request):
    """One verdict a batch."""
    return {"ok": True, "value": plain(function(request.pop("batches"), **request))}


CALLS = {"decode": decode, "encode": encode, "size": size, "read": read, "convert": convert, "sequence": sequence}


def dispatch(module, request):
    """Call the module's function of the operation's name."""
    op = request.pop("op", None)
    if op == "describe":
        return dict(plain(module.describe()), ok=True, protocol=1)
    function = getattr(module, op, None) if op in CALLS else None
    if function is None:
        raise Unsupported("no operation %s" % op)
    return CALLS[op](function, request)


def parsed(line):
    """The request of a line; a line that is not a request becomes one that no target supports."""
    try:
        request = json.loads(line.decode())
    except ValueError as error:
        return {"op": "of a line that is not JSON (%s)" % error}
    return request if isinstance(request, dict) else {"op": "of a line that is not an object"}


def answer(module, request):
    """The answer to one request, whatever the module does."""
    identity = request.pop("id", None)
    try:
        result = dispatch(module, request)
    except Unsupported as error:
        result = {"unsupported": str(error) or "unsupported"}
    except Reject as error:
        result = {"ok": False, "error": error.error, "message": str(error)}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit, RecursionError and MemoryError are crashes too
        name = type(error).__name__
        if isinstance(error, tuple(getattr(module, "REJECTIONS", ()))):
            result = {"ok": False, "error": "other", "message": "%s: %s" % (name, error)}
        else:
            result = {"crash": "%s: %s" % (name, error)}
    result["id"] = identity
    return result


def lines(descriptor):
    """Lines of any length from a file descriptor."""
    rest = b""
    while True:
        chunk = os.read(descriptor, 1 << 16)
        if not chunk:
            return
        head, newline, tail = chunk.rpartition(b"\n")
        if not newline:
            rest += chunk
            continue
        for line in (rest + head).split(b"\n"):
            if line.strip():
                yield line
        rest = tail


def write_all(descriptor, data):
    """Write everything, however much a pipe takes at once."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def main(name):
    """Load the module and answer until the input ends."""
    out = os.dup(1)
    os.dup2(2, 1)  # what the target or its libraries print goes to standard error
    sys.stdout = sys.stderr
    install_stub()
    try:
        module = load(name)
    except BaseException as error:
        sys.stderr.write("cannot import %s: %s: %s\n" % (name, type(error).__name__, error))
        return 3
    for line in lines(0):
        result = answer(module, parsed(line))
        write_all(out, json.dumps(result, separators=(",", ":")).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
