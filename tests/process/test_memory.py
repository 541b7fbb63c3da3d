"""Memory that one thread frees is available to other threads."""

import platform
import subprocess
import sys

import pytest

THREADS = 4
SIZE = f"""
import re, threading
from conformance.process.memory import share_one_heap
if {{shared}}:
    share_one_heap()
taken, done = threading.Barrier({THREADS} + 1), threading.Event()
def work():
    held = bytes(2000)
    taken.wait()
    done.wait()
threads = [threading.Thread(target=work) for _ in range({THREADS})]
for thread in threads:
    thread.start()
taken.wait()
print(int(re.search(r"VmSize:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10)
done.set()
"""
HEAP = 64
"""MiB that glibc reserves for one more heap."""


def reserved(*, shared):
    """Return the MiB that a process with several threads reserves."""
    done = subprocess.run(
        [sys.executable, "-c", SIZE.format(shared=shared)], capture_output=True, text=True, check=True
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is about glibc")
def test_threads_share_one_heap():
    assert reserved(shared=True) + HEAP <= reserved(shared=False)
