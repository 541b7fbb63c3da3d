"""Serves the target protocol for a Python module, in the module's own interpreter (3.8 or newer, without packages).

Run as a script: `python module_shim.py dotted.name` or `python module_shim.py ./file.py`. A third argument is the
descriptor of a socket: the process then loads the module, but answers no requests. Each message on the socket contains
the pipes of a new target, for which it forks a process with the loaded module.
"""

import gc
import importlib
import importlib.util
import json
import os
import struct
import sys
import types
import uuid

HERE = os.path.dirname(os.path.abspath(__file__))
# Python puts our folder first on the path of a script; the target must not import our modules from there.
PATH = [entry for entry in sys.path if os.path.abspath(entry or ".") != HERE]


class Reject(Exception):
    """The target rejects the input."""

    def __init__(self, error, message=""):
        super().__init__(message)
        self.error = error


class Unsupported(Exception):
    """The target cannot do this."""


def install_stub():
    """Provide a module `conformance` with these two names, for targets that import it."""
    stub = types.ModuleType("conformance")
    stub.Reject, stub.Unsupported = Reject, Unsupported
    sys.modules["conformance"] = stub


def load(name):
    """Return the target module: a file if the name ends in .py, else a dotted name below the working directory."""
    sys.path[:] = PATH
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


LEAVES = {int, str, bool, type(None)}
ENCODER = json.JSONEncoder(separators=(",", ":"), check_circular=False)  # `plain` has already visited all values


def plain(value):
    """Return a value in the form of JSON. Raises TypeError for a value without notation."""
    kind = type(value)  # answers can have 100,000 values: exact types are faster than isinstance
    if kind in LEAVES:
        return value
    if kind is bytes:
        return value.hex()
    if kind is dict:
        return {
            key if type(key) is str else str(key): entry if type(entry) in LEAVES else plain(entry)
            for key, entry in value.items()
        }
    if kind is list:
        return [entry if type(entry) in LEAVES else plain(entry) for entry in value]
    return plain_of_other(value)


def plain_of_other(value):
    """Return the same for values of rare or derived classes."""
    if isinstance(value, (int, str)):
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
    """Return the answer for a result of `decode`: a value, or a pair (value, consumed); `...` is left out."""
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
    """Return the answer for a result of `encode` or `convert`: bytes, or hex digits."""
    if not isinstance(result, (str, bytes, bytearray, memoryview)):
        raise TypeError("%s returned %s, not bytes" % (op, type(result).__name__))
    return {"ok": True, "hex": plain(result)}


def decode(function, request):
    """Decode bytes to a value."""
    return decoded(function(request.pop("type", None), bytes.fromhex(request.pop("hex")), **request))


def encode(function, request):
    """Encode a value to bytes."""
    return encoded("encode", function(request.pop("type", None), request.pop("value"), **request))


def size(function, request):
    """Return the length of a value's bytes."""
    return {"ok": True, "size": plain(function(request.pop("type", None), request.pop("value"), **request))}


def read(function, request):
    """Read the records of a log as an application gets them."""
    return {"ok": True, "value": plain(function(bytes.fromhex(request.pop("hex")), **request))}


def convert(function, request):
    """Convert a log to another magic."""
    return encoded("convert", function(bytes.fromhex(request.pop("hex")), **request))


def sequence(function, request):
    """Return a result for each batch of a producer."""
    return {"ok": True, "value": plain(function(request.pop("batches"), **request))}


CALLS = {"decode": decode, "encode": encode, "size": size, "read": read, "convert": convert, "sequence": sequence}


def dispatch(module, request):
    """Call the module's function with the name of the operation."""
    op = request.pop("op", None)
    if op == "describe":
        if not hasattr(module, "describe"):
            raise TypeError("the module %s is not an adapter: it has no function describe" % module.__name__)
        return dict(plain(module.describe()), ok=True, protocol=1)
    function = getattr(module, op, None) if op in CALLS else None
    if function is None:
        raise Unsupported("no operation %s" % op)
    return CALLS[op](function, request)


def parsed(line):
    """Return the request in a line. A line without a request becomes an unknown operation."""
    try:
        request = json.loads(line.decode())
    except ValueError as error:
        return {"op": "of a line that is not JSON (%s)" % error}
    return request if isinstance(request, dict) else {"op": "of a line that is not an object"}


def answer(module, request):
    """Return the answer to one request; an error of the module becomes a rejection or a crash."""
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
    """Yield lines of any length from a file descriptor."""
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
    """Write all data: a pipe accepts only a part at a time."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def serve(module, out):
    """Answer requests until the input ends."""
    for line in lines(0):
        result = answer(module, parsed(line))
        write_all(out, ENCODER.encode(result).encode() + b"\n")


def main(name, control=None):
    """Load the module, then answer requests until the input ends; with a socket, fork processes that answer them."""
    del sys.argv[2:]  # the module gets the same arguments in both modes
    out = os.dup(1)
    os.dup2(2, 1)  # standard output is for answers; other output goes to standard error
    sys.stdout = sys.stderr
    install_stub()
    before = descriptors()
    try:
        module = load(name)
    except BaseException as error:
        sys.stderr.write("cannot import %s: %s: %s\n" % (name, type(error).__name__, error))
        return 3
    if hasattr(gc, "freeze"):  # PyPy has none
        gc.freeze()  # the collector skips existing objects: no time is lost, and forked processes share their memory
    if control is None:
        serve(module, out)
    elif can_fork(before):
        fork_on_request(module, out, int(control))
    return 0


# --- forking ------------------------------------------------------------------------------------------


def descriptors():
    """Return the open file descriptors; empty if the system does not list them."""
    opened = set()
    for name in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the descriptor of the listing itself
        opened.add(int(name))
    return opened


def can_fork(before):
    """Return whether a fork is safe: no threads, children or new descriptors, and no shared writable memory."""
    if sys.platform != "linux" or sys.version_info < (3, 9) or descriptors() != before:
        return False
    threads = os.listdir("/proc/self/task")
    with open("/proc/self/task/%s/children" % threads[0]) as children, open("/proc/self/maps") as maps:
        shares = any(line.split()[1][1::2] == "ws" for line in maps)
        return len(threads) == 1 and not children.read() and not shares


def fork_on_request(module, out, control):
    """Fork a supervisor and its target for each message on the socket, on the received pipes, and write its process
    id."""
    target_path, sys.path[:] = sys.path[:], PATH  # the target's folder may contain modules of these names
    import signal
    import socket

    path = os.path.join(os.path.dirname(HERE), "process", "supervisor.py")
    spec = importlib.util.spec_from_file_location("supervisor", path)
    supervisor = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(supervisor)
    sys.path[:] = target_path
    handlers = {number: signal.getsignal(number) for number in supervisor.RESET_SIGNALS}
    wakeup = signal.set_wakeup_fd(-1)
    if wakeup != -1 or None in handlers.values():
        return  # the handlers of the module cannot be restored in the children
    channel, parent = socket.socket(fileno=control), os.getpid()
    write_all(out, b"ready\n")
    while True:
        message, pipes, _, _ = socket.recv_fds(channel, 1, 4)
        if not message:
            return
        reap()
        child = os.fork()
        if child == 0:
            channel.close()
            run_supervisor(supervisor, parent, pipes, out, lambda: begin(module, out, pipes, handlers))
        for descriptor in pipes:
            os.close(descriptor)
        write_all(out, b"%d\n" % child)


def reap():
    """Collect the exit status of ended supervisors; the suite identifies them by other means than process ids."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def run_supervisor(supervisor, parent, pipes, out, become):
    """Run as the supervisor of a target; never returns."""
    try:
        os.setsid()
        supervisor.supervise(pipes[3], parent, become, (*pipes[:3], out))
    finally:
        os._exit(1)


def begin(module, out, pipes, handlers):
    """Run as the target on its pipes, without the state of its supervisor; never returns."""
    import signal

    status = 1
    try:
        for descriptor, place in zip(pipes, (0, out, 2)):
            os.dup2(descriptor, place, inheritable=place != out)
        os.dup2(2, 1)
        for descriptor in descriptors() - {0, 1, 2, out}:
            os.close(descriptor)
        signal.set_wakeup_fd(-1)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        serve(module, out)
        status = 0
    except BaseException as error:
        sys.path[:] = PATH  # the target imports nothing after this
        import traceback

        traceback.print_exc()
        if isinstance(error, KeyboardInterrupt):  # end by the signal, as Python does
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    finally:
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
