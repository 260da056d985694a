"""Files in the user's cache folder, whole and unchanged or not there at all.

The folder belongs to the user alone (mode 0700); a folder that others own or can write is not
used, without an error. An entry carries the hash of its name and payload: what does not match is
ignored and written anew. Nothing here ever raises.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import struct
import threading
from pathlib import Path

_HEADER = struct.Struct("<18s32sQ")
_numbers = itertools.count()


def folder(kind: str, make: bool = True) -> Path | None:
    """The cache folder for entries of a kind; None if there is none that is the user's alone."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        path = root / "tensorel" / kind
        if make:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path if _is_private(path) else None
    except (OSError, RuntimeError):
        return None


def _is_private(path: Path) -> bool:
    facts = os.lstat(path)
    others = stat.S_IWGRP | stat.S_IWOTH
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not (
        facts.st_mode & others
    )


def load(place: Path, name: str, magic: bytes) -> bytes | None:
    """The payload of an entry, if it is there and whole."""
    try:
        data = (place / name).read_bytes()
    except OSError:
        return None
    if len(data) < _HEADER.size:
        return None
    found, digest, length = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    whole = found == magic and length == len(payload)
    return payload if whole and hashlib.sha256(name.encode() + payload).digest() == digest else None


def store(place: Path, name: str, magic: bytes, payload: bytes) -> bool:
    """Write an entry whole or not at all; ``magic`` is 18 bytes."""
    digest = hashlib.sha256(name.encode() + payload).digest()
    temporary = place / f".new-{os.getpid()}-{threading.get_ident()}-{next(_numbers)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(_HEADER.pack(magic, digest, len(payload)) + payload)
        os.replace(temporary, place / name)
        return True
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        return False
