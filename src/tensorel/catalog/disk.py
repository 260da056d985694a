"""The operations on files that a commit is made of, and how their failures are told.

A file appears under its name whole, or not at all: it is written under a temporary name and
renamed. Content and names survive a loss of power once they are synchronized.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, ENOSPC, EPERM, EROFS

from tensorel.errors import DatabaseError

TEMPORARY = ".new-"
_THREADS = 4
_PIECE = 1 << 26
_numbers = itertools.count()
_HINTS = {
    ENOSPC: "the disk is full; the database is as it was before, free some room and try again",
    EDQUOT: "the quota of the disk is used up; the database is as it was before",
    EACCES: "the folder belongs to somebody else; it can be opened with read_only=True",
    EPERM: "the folder belongs to somebody else; it can be opened with read_only=True",
    EROFS: "the file system is read-only; the database can be opened with read_only=True",
}


@contextmanager
def telling(doing: str) -> Iterator[None]:
    """Failures of the system as errors that say which file and what to do."""
    try:
        yield
    except DatabaseError:
        raise
    except OSError as error:
        raise failure(f"{doing}: {error.strerror or error}", error) from error


def failure(message: str, error: OSError) -> DatabaseError:
    """What the system says, with its number, so that callers can tell a full disk."""
    found = DatabaseError(message, hint=_HINTS.get(error.errno or 0))
    found.errno, found.filename = error.errno, error.filename
    return found


def write_new(
    folder: str, name: str, parts: Iterable[bytes | memoryview], durable: bool = False
) -> None:
    """The file ``name``, made of the parts, or no file. ``durable``: its content is synchronized
    before it gets the name."""
    temporary = os.path.join(folder, f"{TEMPORARY}{os.getpid()}-{next(_numbers)}")
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        file = os.open(temporary, flags, 0o666)
        try:
            for part in parts:
                _write(file, memoryview(part))
            if durable:
                os.fsync(file)
        finally:
            os.close(file)
        os.replace(temporary, os.path.join(folder, name))
    except BaseException:
        remove(temporary)
        raise


def _write(file: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.write(file, data[done : done + _PIECE])


def sync(path: str) -> None:
    """The content of a file, or the names in a folder, survive from here on."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def sync_all(paths: Iterable[str]) -> None:
    """As ``sync`` one by one. File systems unite what is asked for at the same time: 40 files
    take 8 ms so, and 150 one after another."""
    left, failed = deque(paths), deque[OSError]()

    def work() -> None:
        while left and not failed:
            try:
                sync(left.popleft())
            except IndexError:
                return
            except OSError as error:
                failed.append(error)

    helpers = [threading.Thread(target=work, daemon=True)
               for _ in range(min(len(left), _THREADS) - 1)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    if failed:
        raise failed[0]


def remove(path: str) -> None:
    """Remove a file that may be gone already, or that may have to stay."""
    with contextlib.suppress(OSError):
        os.unlink(path)
