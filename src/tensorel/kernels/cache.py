"""Object code on disk, so that a second process starts warm: entries of ``tensorel.private``,
each named by the hash of everything that made it. Nothing here ever raises."""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
from functools import cache
from pathlib import Path

import llvmlite

from tensorel import private
from tensorel.kernels.compiler import host

_MAGIC = b"tensorel kernel 1\n"
LIMIT = 256 * 2**20
_SWEEP_EVERY = 64


def folder() -> Path | None:
    """The cache folder, made if need be; None if there is none that is the user's alone."""
    return private.folder("kernels")


def is_empty() -> bool:
    """Nothing has been kept yet."""
    place = private.folder("kernels", make=False)
    try:
        return place is None or not any(place.iterdir())
    except OSError:
        return True


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
    return None if place is None else private.load(place, name, _MAGIC)


def store(name: str, payload: bytes) -> None:
    """Write an entry whole or not at all; now and then drop the oldest."""
    place = folder()
    if place is not None and private.store(place, name, _MAGIC, payload) \
            and int(name[:8], 16) % _SWEEP_EVERY == 0:
        with contextlib.suppress(OSError):
            sweep(place)


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
