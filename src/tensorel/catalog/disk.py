"""The operations on files that a commit is made of, and their errors.

A file appears under its name whole, or not at all: it is written under a temporary name and
renamed. Files are created and renamed, never changed. Content and names survive a loss of power
once they are synchronized.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EACCES, EDQUOT, ELOOP, ENOSPC, EPERM, EROFS

from tensorel.base.directory import Directory
from tensorel.errors import DatabaseError

_TEMPORARY = re.compile(r"\.new-([0-9a-f]{32})-[0-9a-f]{16}")
_THREADS = 4
_PIECE_BYTES = 1 << 26
#: The folder and the umask decide who may write; everybody never may.
_MODE = 0o664
_HINTS = {
    ENOSPC: "the disk is full; the database is as it was before, free some room and try again",
    EDQUOT: "the quota of the disk is used up; the database is as it was before",
    EACCES: "the folder belongs to somebody else; it can be opened with read_only=True",
    EPERM: "the folder belongs to somebody else; it can be opened with read_only=True",
    EROFS: "the file system is read-only; the database can be opened with read_only=True",
    ELOOP: "inside a database there are plain files and folders only; put the whole folder "
           "elsewhere and link to that",
}


@contextmanager
def telling(doing: str) -> Iterator[None]:
    """Turn errors of the system into ours, which name the file and say what to do."""
    try:
        yield
    except DatabaseError:
        raise
    except OSError as error:
        raise failure(f"{doing}: {_reason(error)}", error) from error


def _reason(error: OSError) -> str:
    """What the system says; where a name is not of the wanted kind, also the name."""
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.errno == ELOOP and error.filename else reason


def failure(message: str, error: OSError) -> DatabaseError:
    """The error for what the system says, with its number, by which callers know a full disk."""
    found = DatabaseError(message, hint=_HINTS.get(error.errno or 0))
    found.errno, found.filename = error.errno, error.filename
    return found


def temporary(tag: str) -> str:
    """A name for a file that is being written to the database with that tag."""
    return f".new-{tag}-{os.urandom(8).hex()}"


def tag_of(name: str) -> str | None:
    """The tag in a temporary name; None if it is not one of ours."""
    found = _TEMPORARY.fullmatch(name)
    return found and found[1]


def write_new(
    folder: Directory, name: str, parts: Iterable[bytes | memoryview], tag: str,
    durable: bool = False,
) -> None:
    """The file ``name``, made of the parts, or no file. ``durable``: its content is synchronized
    before it gets the name."""
    unnamed = temporary(tag)
    try:
        write(folder, unnamed, parts, durable)
        folder.rename(unnamed, name)
    except BaseException:
        folder.remove(unnamed)
        raise


def write(
    folder: Directory, name: str, parts: Iterable[bytes | memoryview], durable: bool
) -> None:
    """Write the parts to a new file. If this fails, the file may hold some of them."""
    file = folder.create(name, _MODE)
    try:
        for part in parts:
            _write(file, memoryview(part))
        if durable:
            os.fsync(file)
    finally:
        os.close(file)


def _write(file: int, data: memoryview) -> None:
    done = 0
    while done < len(data):
        done += os.write(file, data[done : done + _PIECE_BYTES])


def sync_all(folder: Directory, names: Iterable[str]) -> None:
    """From here on the contents of the files and the names in the folder survive a loss of power.
    Files are synchronized at the same time, because file systems unite such requests."""
    left: deque[str | None] = deque([*names, None])
    failed = deque[OSError]()

    def work() -> None:
        while left and not failed:
            try:
                _sync(folder, left.popleft())
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


def _sync(folder: Directory, name: str | None) -> None:
    if name is None:
        folder.sync()
        return
    file = folder.open(name)
    try:
        os.fsync(file)
    finally:
        os.close(file)


# -- folders ------------------------------------------------------------------------------------
def make_folder(path: str) -> bool:
    """Make the folder if there is none; whether it was made."""
    if os.path.isdir(path):
        return False
    os.makedirs(path, mode=0o775, exist_ok=True)
    return True


def sync_parent(path: str) -> None:
    """From here on the name of a new folder survives a loss of power."""
    with Directory.at(os.path.dirname(path)) as parent:
        parent.sync()


def warn_if_open_to_all(*folders: Directory) -> None:
    """Say so where everybody may write."""
    for folder in folders:
        if folder.facts().st_mode & stat.S_IWOTH:
            warnings.warn(f"everybody on this machine can change the database {folder.path}; "
                          f"forbid it with chmod o-w", stacklevel=4)
