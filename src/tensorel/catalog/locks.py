"""Locks on files. The system holds them for an open file, so those of a process that dies are
released. The process that writes locks one file; those that read a generation of the catalog lock
it, shared.

Nothing is ever written into a file that is locked, because others may be able to give its name to
another file. A file of its own says which process writes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import time

from tensorel.base.directory import Directory
from tensorel.catalog import disk
from tensorel.errors import DatabaseError

LOCK, WRITER = "lock", "writer.json"
_PAUSE_SECONDS = 0.02


def lock_writer(root: Directory, wait: float) -> int:
    """The open file that holds the lock; an error that says who has it after ``wait`` seconds."""
    file = root.open(LOCK, os.O_RDWR | os.O_CREAT, 0o664)
    try:
        deadline = time.monotonic() + wait
        while not _try(file, fcntl.LOCK_EX):
            if time.monotonic() >= deadline:
                raise DatabaseError(
                    f"{root.path} is being written by {_holder(root)}",
                    hint="wait for it to end, or give it more time: tr.connect(path, wait=60)",
                )
            time.sleep(_PAUSE_SECONDS)
        return file
    except BaseException:
        os.close(file)
        raise


def share(root: Directory, name: str) -> int | None:
    """The open file with a shared lock; None if the file is being removed or gone."""
    try:
        file = root.open(name)
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


def remove_unshared(root: Directory, name: str) -> bool:
    """Remove the file unless a process shares it; whether it is gone.

    A process that opens it meanwhile and asks for the lock is refused, or finds that the file has
    no name."""
    try:
        file = root.open(name)
    except FileNotFoundError:
        return True
    try:
        free = _try(file, fcntl.LOCK_EX)
        if free:
            root.unlink(name)
        return free
    finally:
        os.close(file)


def _try(file: int, kind: int) -> bool:
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False


def sign(root: Directory, tag: str) -> None:
    """Note who holds the lock, for the error of a process that does not get it."""
    about = {"process": os.getpid(), "machine": os.uname().nodename, "program": sys.argv[0][:200],
             "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with contextlib.suppress(OSError):
        disk.write_new(root, WRITER, (json.dumps(about).encode(),), tag)


def _holder(root: Directory) -> str:
    try:
        about = json.loads(root.read(WRITER, most=4096))
        process, machine = about["process"], about["machine"]
        if (process, machine) == (os.getpid(), os.uname().nodename):
            return f"another connection of this process, since {about['since']}"
        return (f"process {process} on {machine} ({about['program'] or 'interactive'}), "
                f"since {about['since']}")
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return "another process"
