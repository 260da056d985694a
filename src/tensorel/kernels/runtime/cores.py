"""Which core a thread runs on.

Systems put a thread that wakes on the core of who wakes it, if both are expected to sleep soon, or
to leave other cores asleep. Where the one that wakes goes on working, the other waits there for
some milliseconds, and a short job is over by then. So helpers are kept off the core of the caller,
and off no other: where else they run is for the system to say."""

from __future__ import annotations

import os
from contextlib import suppress
from functools import cache
from typing import Any

from tensorel.errors import EngineError
from tensorel.kernels.runtime.symbols import address, libc

NOWHERE = -1
#: What the C library must have for it.
CALLS = ("sched_getcpu", "sched_getaffinity", "sched_setaffinity", "gettid")


@cache
def can_place() -> bool:
    """Whether this system lets threads choose their cores."""
    try:
        for name in CALLS:
            address(name)
    except EngineError:
        return False
    return hasattr(os, "sched_setaffinity")


@cache
def _core() -> Any:
    return libc().sched_getcpu


def this_core() -> int:
    """The core that this thread runs on."""
    return int(_core()()) if can_place() else NOWHERE


def keep_off(thread: int, core: int) -> None:
    """From now on a thread, by the system's number, runs on other cores than this one; if there
    are none, where it likes."""
    if can_place():
        with suppress(OSError):  # it has ended, or may not
            allowed = os.sched_getaffinity(0)
            os.sched_setaffinity(thread, allowed - {core} or allowed)
