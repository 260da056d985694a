"""What makes a folder a database of ours: the file ``tensorel-database``, a line of text and a
random number, the database's tag.

The marker is the first file of a new database, and only an empty folder gets one. Every file that
is written afterwards has the tag in its name. So a file that carries the tag is ours even where no
catalog names it, as after a crash, and all others are the user's: they are never touched.

Databases of earlier versions have no marker. They are known by their catalog, which has a name and
a checksum as ours have; the first transaction marks them.
"""

from __future__ import annotations

import contextlib
import os
import re

from tensorel.base.directory import Directory
from tensorel.catalog import disk
from tensorel.errors import DatabaseError

NAME = "tensorel-database"
VERSION = 1
_TEXT = re.compile(rb"tensorel database ([0-9]{1,9})\n([0-9a-f]{32})\n")
_MAX_ATTEMPTS = 100


def read(root: Directory) -> str | None:
    """The tag of the database; None if the folder has no marker."""
    try:
        text = root.read(NAME, most=4096)
    except FileNotFoundError:
        return None
    found = _TEXT.fullmatch(text)
    if found is None:
        raise DatabaseError(f"{root.place(NAME)} does not say that this is a database of tensorel",
                            hint="restore the folder from a copy, or give the path of a new one")
    if int(found[1]) != VERSION:
        raise DatabaseError(
            f"{root.path} has version {int(found[1])} of the folder; this tensorel reads {VERSION}",
            hint="update tensorel")
    return found[2].decode()


def claim(root: Directory) -> str:
    """Mark an empty folder; another process may do the same at this moment. A folder that holds
    anything is refused, and nothing is written into it."""
    for _ in range(_MAX_ATTEMPTS):
        found = read(root)
        if found is not None:
            return found
        left = root.names()
        strange = sorted(n for n in left if not _is_unfinished(root, n))
        if not strange:
            mark(root)
            for name in left:
                root.remove(name)
        elif NAME not in strange:
            raise DatabaseError(
                f"{root.path} is not a database, and not empty: it holds {strange[0]!r}",
                hint="give the path of a new folder")
    raise DatabaseError(f"{root.path} cannot be marked as a database",
                        hint="another process keeps changing the folder")


def mark(root: Directory) -> str:
    """Write the marker, unless there is one; the tag of the database from here on."""
    tag = os.urandom(16).hex()
    temporary = disk.temporary(tag)
    with contextlib.suppress(FileExistsError, FileNotFoundError):  # another process was quicker
        try:
            disk.write(root, temporary, (_text(tag),), durable=True)
            root.name_first(temporary, NAME)
        finally:
            root.remove(temporary)
    return read(root) or tag


def _text(tag: str) -> bytes:
    return f"tensorel database {VERSION}\n{tag}\n".encode()


def _is_unfinished(root: Directory, name: str) -> bool:
    """A marker whose writer was killed: it holds a part of what its name says that it was to hold,
    so nothing is lost with it."""
    tag = disk.tag_of(name)
    if tag is None:
        return False
    try:
        return _text(tag).startswith(root.read(name, most=4096))
    except FileNotFoundError:
        return True
    except OSError:
        return False
