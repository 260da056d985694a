"""Locks on files. The system holds them for an open file, so a process that dies lets go of its
own. One file is locked by the process that writes; each generation of the catalog is locked,
shared, by those who read it."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time

from tensorel.errors import DatabaseError

_PAUSE = 0.02


def lock_writer(path: str, wait: float) -> int:
    """The open file that holds the lock; an error that says who has it after ``wait`` seconds."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        deadline = time.monotonic() + wait
        while not _try(file, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise DatabaseError(
                    f"{os.path.dirname(path)} is being written by {_holder(file)}",
                    hint="wait for it to end, or give it more time: tr.connect(path, wait=60)",
                )
            time.sleep(_PAUSE)
        _sign(file)
        return file
    except BaseException:
        os.close(file)
        raise


def share(path: str) -> int | None:
    """The open file with a shared lock; None if the file is being removed or gone."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        if _try(file, fcntl.LOCK_SH) and os.fstat(file).st_nlink:
            return file
    except BaseException:
        os.close(file)
        raise
    os.close(file)
    return None


def remove_unshared(path: str) -> bool:
    """Remove the file unless somebody shares it; whether it is gone.

    Who opens it now and asks for the lock meets ours, or finds a file without a name."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        free = _try(file, fcntl.LOCK_EX)
        if free:
            os.unlink(path)
        return free
    finally:
        os.close(file)


def _try(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def _sign(file: int) -> None:
    """Say who holds the lock, for the error of those who do not get it."""
    about = {"process": os.getpid(), "machine": os.uname().nodename, "program": sys.argv[0][:200],
             "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    os.ftruncate(file, 0)
    os.pwrite(file, json.dumps(about).encode(), 0)


def _holder(file: int) -> str:
    try:
        about = json.loads(os.pread(file, 4096, 0))
        process, machine = about["process"], about["machine"]
        if (process, machine) == (os.getpid(), os.uname().nodename):
            return f"another connection of this process, since {about['since']}"
        return (f"process {process} on {machine} ({about['program'] or 'interactive'}), "
                f"since {about['since']}")
    except (ValueError, KeyError, TypeError):
        return "another process"
