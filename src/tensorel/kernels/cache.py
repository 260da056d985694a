"""Object code on disk, so that a second process starts warm.

The folder belongs to the user alone (mode 0700); a folder that others own or can write is not
used, without an error. An entry is named by the hash of everything that made it and carries the
hash of its payload: what does not match is ignored and written anew. Nothing here ever raises.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import stat
import struct
import sys
import threading
from functools import cache
from pathlib import Path

import llvmlite

from tensorel.kernels.compiler import host

_MAGIC = b"tensorel kernel 1\n"
_HEADER = struct.Struct(f"<{len(_MAGIC)}s32sQ")
LIMIT = 256 * 2**20
_SWEEP_EVERY = 64
_numbers = itertools.count()


def folder() -> Path | None:
    """The cache folder, made if need be; None if there is none that is the user's alone."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    try:
        root = Path(base) if os.path.isabs(base) else Path.home() / ".cache"
        path = root / "tensorel" / "kernels"
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


@cache
def _processor() -> str:
    """The processor with its features; read from the system where that is quicker than LLVM."""
    try:
        text = Path("/proc/cpuinfo").read_text().split("\n\n", 1)[0]
    except OSError:
        return host()
    wanted = ("vendor_id", "cpu family", "model", "stepping", "flags", "Features", "CPU ")
    lines = [line for line in text.splitlines() if line.startswith(wanted)]
    return "\n".join(lines) if any("lags" in x or "Features" in x for x in lines) else host()


def _version() -> str:
    package = sys.modules[__name__.partition(".")[0]]
    return str(getattr(package, "__version__", ""))


@cache
def _origin() -> bytes:
    return "\0".join((_version(), llvmlite.__version__, _processor())).encode()


def key(text: str, effort: str = "full") -> str:
    """The name of the entry for a module."""
    made_from = b"\0\0".join((_origin(), effort.encode(), text.encode()))
    return hashlib.sha256(made_from).hexdigest()


def load(name: str) -> bytes | None:
    """The object code of an entry, if it is there and whole."""
    place = folder()
    if place is None:
        return None
    try:
        data = (place / name).read_bytes()
    except OSError:
        return None
    if len(data) < _HEADER.size:
        return None
    magic, digest, length = _HEADER.unpack_from(data)
    payload = data[_HEADER.size :]
    whole = magic == _MAGIC and length == len(payload)
    return payload if whole and hashlib.sha256(name.encode() + payload).digest() == digest else None


def store(name: str, payload: bytes) -> None:
    """Write an entry whole or not at all; now and then drop the oldest."""
    place = folder()
    if place is None:
        return
    digest = hashlib.sha256(name.encode() + payload).digest()
    temporary = place / f".new-{os.getpid()}-{threading.get_ident()}-{next(_numbers)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, 0o600), "wb") as file:
            file.write(_HEADER.pack(_MAGIC, digest, len(payload)) + payload)
        os.replace(temporary, place / name)
        if int(name[:8], 16) % _SWEEP_EVERY == 0:
            sweep(place)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)


def sweep(place: Path, limit: int = LIMIT) -> None:
    """Drop the oldest entries until the folder is below the limit."""
    entries = []
    with os.scandir(place) as found:
        for entry in found:
            with contextlib.suppress(OSError):
                facts = entry.stat(follow_symlinks=False)
                entries.append((facts.st_mtime, facts.st_size, entry.path))
    total = sum(size for _, size, _ in entries)
    for _, size, path in sorted(entries):
        if total <= limit:
            return
        with contextlib.suppress(OSError):
            os.unlink(path)
            total -= size
