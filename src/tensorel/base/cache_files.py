"""Files in the user's cache folder: each is whole and unchanged, or counts as absent.

They may hold machine code, so nobody else may be able to change them:

- the path is walked from the root by descriptors, without following links; every folder on the way
  belongs to the user or to root, and nobody else can rename what is in it;
- the last folder belongs to the user, who alone can write to it (it is made with mode 0700);
- an entry is a plain file of the user's, opened in that folder, which nobody else can write to;
- an entry carries the hash of its name and payload: what is damaged is ignored and written anew.

All of this is checked on what was opened, never on a name. If a check fails the cache is not used.
Nothing here raises an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tensorel.base.directory import Directory

_HEADER = struct.Struct("<18s32sQ")
#: A kernel has some ten thousand bytes.
_MAX_ENTRY_BYTES = 64 << 20
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


@contextmanager
def folder(kind: str, make: bool = True) -> Iterator[Directory | None]:
    """The cache folder for entries of a kind; None if there is none that is the user's alone."""
    try:
        found = _walked(_path(kind), make)
    except (OSError, RuntimeError, ValueError):
        found = None
    try:
        yield found
    finally:
        if found is not None:
            found.close()


def _path(kind: str) -> str:
    """Where the folder is to be. Links on the way are resolved here, and the path that they lead to
    has to keep the same rules."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    root = base if os.path.isabs(base) else str(Path.home() / ".cache")
    return os.path.join(os.path.realpath(root), "tensorel", kind)


def _walked(path: str, make: bool) -> Directory | None:
    """The folder at the end of the path, if all folders on the way keep the rules."""
    *passed, last = path.strip(os.sep).split(os.sep)
    here = Directory.root()
    for name in passed:
        with here:
            if not is_safe_to_pass(here.facts()):
                return None
            if make:
                _make(here, name)
            there = here.folder(name, passing=True)
        here = there
    with here:
        if not is_safe_to_pass(here.facts()):
            return None
        if make:
            _make(here, last)
        found = here.folder(last)
    if _is_users_alone(found.facts()):
        return found
    found.close()
    return None


def _make(here: Directory, name: str) -> None:
    """Make the folder, if it is not there."""
    try:
        here.stat(name)
    except FileNotFoundError:
        here.make_folder(name, 0o700)


def is_safe_to_pass(facts: os.stat_result) -> bool:
    """Whether nobody but the user and root can rename what is in the folder. A group of the same
    number as its owner is taken for the owner's own, as many systems set it up."""
    if facts.st_uid not in (0, os.geteuid()):
        return False
    if facts.st_mode & stat.S_ISVTX or not facts.st_mode & _OTHERS:
        return True
    return not facts.st_mode & stat.S_IWOTH and facts.st_gid == facts.st_uid


def _is_users_alone(facts: os.stat_result) -> bool:
    return facts.st_uid == os.geteuid() and not facts.st_mode & _OTHERS


def load(place: Directory, name: str, magic: bytes) -> bytes | None:
    """The payload of an entry, if it is there and whole."""
    try:
        data = _content(place, name)
    except OSError:
        return None
    if data is None or len(data) < _HEADER.size:
        return None
    found, digest, length = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    whole = found == magic and length == len(payload)
    return payload if whole and hashlib.sha256(name.encode() + payload).digest() == digest else None


def _content(place: Directory, name: str) -> bytes | None:
    file = place.open(name)
    facts = os.fstat(file)
    with open(file, "rb") as stream:
        trusted = _is_users_alone(facts) and facts.st_size <= _MAX_ENTRY_BYTES
        return stream.read(facts.st_size) if trusted else None


def store(place: Directory, name: str, magic: bytes, payload: bytes) -> bool:
    """Write an entry whole or not at all; ``magic`` is 18 bytes."""
    digest = hashlib.sha256(name.encode() + payload).digest()
    temporary = f".new-{os.urandom(8).hex()}"
    try:
        with open(place.create(temporary, 0o600), "wb") as file:
            file.write(_HEADER.pack(magic, digest, len(payload)) + payload)
        place.rename(temporary, name)
        return True
    except OSError:
        with contextlib.suppress(OSError):
            place.unlink(temporary)
        return False
