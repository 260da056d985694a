"""Threads that run ranges of short kernels without Python: no lock, no interpreter, no objects.

A helper waits at its slot: it spins for a moment, then sleeps on a semaphore. The caller puts
the job in the slots, works too, takes the job back out of the slots of those that have not
begun, and waits for the others; so it never waits for a thread that the system has not woken.
Ranges are numbered by one atomic counter. A signal that comes meanwhile is heard when the job is
over, or at the end of a turn (some hundredths of a second), when everybody stops for a moment.
"""

from __future__ import annotations

import ctypes
import os
import signal
import struct
import threading
from collections.abc import Sequence

from tensorel.errors import EngineError
from tensorel.kernels.loopir.statements import Status
from tensorel.kernels.runtime.compiled import (
    Call,
    CompiledKernel,
    Control,
    bytes_address,
    load_text,
)
from tensorel.kernels.runtime.pool_text import SLOT_BYTES, pool_text
from tensorel.kernels.runtime.symbols import address, libc

TICKS_PER_SIGNAL_CHECK = 200_000_000  # after so many the caller looks whether a signal came
MAX_HELPERS = 255
JOBS_BEFORE_POOL = 4  # short ones, before a pool is made: its code takes milliseconds to compile
CALLS = ("sem_init", "sem_wait", "sem_post", "pthread_create", "pthread_detach", "calloc",
          "memset")
_JOB = struct.Struct("11q")  # words 1 to 11
_ARGUMENT_WORDS = 1024  # words for the arguments of a launch
_UNLIMITED = 2**62


class NativePool:
    """Helpers, made when first needed. Their memory and their code are never given back: they
    may look at them until the process ends."""

    def __init__(self, disk: bool) -> None:
        for name in CALLS:
            address(name)
        self.code = load_text(pool_text(TICKS_PER_SIGNAL_CHECK), disk, "quick")
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.code))
        self.enter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.code.address)
        calloc = libc().calloc
        calloc.restype, calloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t, ctypes.c_size_t)
        raw = calloc(MAX_HELPERS + 2 + _ARGUMENT_WORDS * 8 // SLOT_BYTES, SLOT_BYTES)
        if not raw:
            raise EngineError("no memory for threads")
        self.job = -(-raw // SLOT_BYTES) * SLOT_BYTES
        self.words = (ctypes.c_longlong * 32).from_address(self.job)
        self.words[0] = 1
        self.place = self.job + (MAX_HELPERS + 1) * SLOT_BYTES
        self.room = (ctypes.c_longlong * _ARGUMENT_WORDS).from_address(self.place)
        self.helpers = 0
        self.full = False
        self.busy = threading.Lock()
        self._semaphore(self.job + 24 * 8)

    def _semaphore(self, at: int) -> None:
        if libc().sem_init(ctypes.c_void_p(at), 0, 0):
            raise EngineError("the system has no semaphores")

    def grow(self, helpers: int) -> int:
        """At most that many helpers; fewer if the system refuses threads."""
        helpers = min(helpers, MAX_HELPERS)
        if self.helpers < helpers and not self.full:
            masked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
            try:
                while self.helpers < helpers and not self.full:
                    self.full = not self._start_helper(self.helpers + 1)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        return min(helpers, self.helpers)

    def _start_helper(self, number: int) -> bool:
        """A thread for the worker of that number; signals are for others to hear."""
        slot = self.job + number * SLOT_BYTES
        (ctypes.c_longlong * 4).from_address(slot)[3] = number
        self._semaphore(slot + 8 * 8)
        self.helpers = number
        thread = ctypes.c_void_p()
        start = ctypes.c_void_p(self.code.address)
        if libc().pthread_create(ctypes.byref(thread), None, start, ctypes.c_void_p(slot)):
            self.helpers = number - 1
            return False
        libc().pthread_detach(thread)
        return True

    def run(self, calls: Sequence[Call], ranges: bytes, helpers: int,
            control: Control) -> Status:
        """All ranges, each by the call of its worker (one call: by that). ``busy`` is held."""
        arguments = struct.pack(f"{3 * len(calls)}q", *[a for c in calls for a in c.addresses])
        count = len(ranges) // 16
        ctypes.memmove(self.job + 8, _JOB.pack(
            calls[0].kernel.code.address, bytes_address(ranges), count, control.address,
            bytes_address(arguments), 3 if len(calls) > 1 else 0, helpers, 0, 0, 0, 0),
            _JOB.size)
        return self._until_done(count, helpers)

    def launch(self, entry: int, ranges: bytes, tables: Sequence[Sequence[int]], scalars: bytes,
               helpers: int, cleared: int, own: int) -> Status:
        """All ranges of a kernel without buffers, each with the array addresses of its worker (one
        table: with those). ``busy`` is held."""
        at, several = self.place, len(tables) > 1
        room: list[ctypes.c_longlong | int] = [0, _UNLIMITED]  # control: not cancelled
        behind = at + (2 + 3 * len(tables)) * 8
        for table in tables:
            room += (behind, 0, bytes_address(scalars))
            behind += len(table) * 8
        for table in tables:
            room += table
        room += [0] * len(tables)
        count = len(ranges) // 16
        self.room[: len(room)] = room
        self.words[1:14] = [entry, bytes_address(ranges), count, at, at + 16, 3 * several, helpers,
                            0, 0, 0, cleared, own, behind]
        return self._until_done(count, helpers)

    def _until_done(self, count: int, helpers: int) -> Status:
        words = self.words
        while True:
            words[10], words[16] = 0, helpers
            self.enter(self.job)
            if words[9]:
                return Status(words[9])
            if words[8] >= count:
                return Status.DONE


_pool: NativePool | None = None
_refused = False
_asked = 0
_making = threading.Lock()


def _reset() -> None:
    """A forked child has none of the threads."""
    global _pool, _making
    _pool, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_reset)


def the_pool(disk: bool, eager: bool) -> NativePool | None:
    """The pool of this process, if there is one, or there may be one now."""
    global _pool, _refused, _asked
    if _pool is None and not _refused:
        with _making:
            _asked += 1
            if _pool is None and (eager or _asked >= JOBS_BEFORE_POOL):
                try:
                    _pool = NativePool(disk)
                except (EngineError, AttributeError, OSError):
                    _refused = True
    return _pool


def run_calls(calls: Sequence[Call], ranges: bytes, workers: int, control: Control,
              disk: bool = True, eager: bool = True) -> Status | None:
    """Run a kernel on all ranges (pairs of int64), at most ``workers`` at a time, and give the
    first status that is not DONE; None if there is no pool for it now. Unless ``eager`` a process
    that has no pool yet gets one when it has asked a few times.

    With several calls, worker k uses call k: there are as many as workers. After a failure no
    further range is begun and ``control`` is cancelled.
    """
    pool = the_pool(disk, eager)
    wanted = min(workers, len(ranges) // 16) - 1
    if pool is None or wanted < 1 or not pool.busy.acquire(blocking=False):
        return None
    try:
        helpers = pool.grow(wanted)
        if not helpers:
            return None
        return calls[0].kernel.verdict(pool.run(calls, ranges, helpers, control))
    finally:
        pool.busy.release()


def launch(kernel: CompiledKernel, ranges: bytes, tables: Sequence[Sequence[int]], scalars: bytes,
           workers: int, cleared: int = 0, own: int = 0) -> tuple[Status, list[int]] | None:
    """Run a kernel without buffers on all ranges, its arrays given by their addresses, which the
    caller keeps alive; else as ``run_calls``.

    With ``cleared`` each worker first fills so many bytes of array number ``own`` of its table with
    zeros, in the cache where it will use them; given back are the status, and which workers did."""
    pool, wanted = _pool, min(workers, len(ranges) // 16) - 1
    room = 2 + len(tables) * (4 + len(tables[0]))
    if pool is None or pool.helpers < wanted or room > _ARGUMENT_WORDS \
            or not pool.busy.acquire(blocking=False):
        return None
    try:
        status = pool.launch(
            kernel.code.address, ranges, tables, scalars, wanted, cleared, own)
        return kernel.verdict(status), pool.room[room - len(tables) : room]
    finally:
        pool.busy.release()
