"""Limits of a run: its time and its memory. They hold for everything that the user's files do, from
their import to the reference.

A limit raises an error where the program is, so that the message names the line. A program that
catches the error of the time limit and goes on is ended by force.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading

from .tracer import errors, location

# The part of this machine's memory that a kernel may take by default. Assumed: the rest serves other
# programs.
_DEFAULT_MEMORY_SHARE = 0.75
_SECONDS_UNTIL_FORCE = 2.0  # after the error of the time limit. Assumed.


@contextlib.contextmanager
def of_time(seconds: float):
    """Ends what runs inside the block after so many seconds."""
    raised = False

    def out_of_time(number, frame):
        nonlocal raised
        text = f"{_running_line(frame)}: limit: the kernel has run for {seconds:g} seconds, which is the limit (--max-seconds)"
        if raised:
            sys.stderr.write(f"error: {text}\n")
            sys.stderr.flush()
            os._exit(1)
        raised = True
        raise errors.LimitReached(text)

    signal.signal(signal.SIGALRM, out_of_time)
    signal.setitimer(signal.ITIMER_REAL, seconds, _SECONDS_UNTIL_FORCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _running_line(frame) -> str:
    """Returns the line that runs. The thread that handles the signal, whose frame is given, may wait for the
    thread of another core.
    """
    frames = [frame, *sys._current_frames().values()]
    running = (f for f in frames if f.f_code.co_filename != threading.__file__ and location.user_frame(f) is not None)
    return location.describe(next(running, frame))


def default_memory() -> int:
    """Returns the default limit on memory in bytes."""
    return int(_DEFAULT_MEMORY_SHARE * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))


@contextlib.contextmanager
def of_memory(size: int):
    """Limits the address space of this process to so many bytes more than it has. An allocation
    beyond raises MemoryError.
    """
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    before, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + size
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (before, hard))


def text_of(size: int) -> str:
    """Returns a number of bytes as messages show it."""
    unit = next(u for u in ("GiB", "MiB", "KiB") if size >= _UNITS[u] or u == "KiB")
    return f"{size / _UNITS[unit]:.4g} {unit}"


_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def bytes_of(text: str) -> int | None:
    """Returns the bytes of a size like 512MiB, 4GiB or 1000000, or None if it is none."""
    unit = next((u for u in _UNITS if text.endswith(u)), "")
    number = text.removesuffix(unit).strip()
    return int(number) * _UNITS.get(unit, 1) if number.isdigit() and int(number) else None
