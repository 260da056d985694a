"""Object code on disk, so that a second process starts warm: entries of ``base.cache_files``, each
named by the hash of everything that made it. Nothing here ever raises."""

from __future__ import annotations

import contextlib
import hashlib
import re
import sys
from functools import cache
from pathlib import Path

import llvmlite

from tensorel.base import cache_files
from tensorel.base.directory import Directory
from tensorel.kernels.runtime.compiler import host

_MAGIC = b"tensorel kernel 1\n"
_KIND = "kernels"
#: Entries, and what a process that was killed left of one. Other files are not ours to drop.
_OURS = re.compile(r"[0-9a-f]{64}|\.new-[0-9a-f-]+")
MAX_BYTES = 256 * 2**20
_SWEEP_EVERY = 64


def is_empty() -> bool:
    """Nothing has been kept yet."""
    with cache_files.folder(_KIND, make=False) as place:
        try:
            return place is None or not place.names()
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


@cache
def origin() -> bytes:
    """What code is made by, and for."""
    version = getattr(sys.modules[__name__.partition(".")[0]], "__version__", "")
    return "\0".join((str(version), llvmlite.__version__, _processor())).encode()


def key(text: str, effort: str = "full") -> str:
    """The name of the entry for a module."""
    made_from = b"\0\0".join((origin(), effort.encode(), text.encode()))
    return hashlib.sha256(made_from).hexdigest()


def load(name: str) -> bytes | None:
    """The object code of an entry, if it is there and whole."""
    with cache_files.folder(_KIND, make=False) as place:
        return None if place is None else cache_files.load(place, name, _MAGIC)


def store(name: str, payload: bytes) -> None:
    """Write an entry whole or not at all; now and then drop the oldest."""
    with cache_files.folder(_KIND) as place:
        if place is not None and cache_files.store(place, name, _MAGIC, payload) \
                and int(name[:8], 16) % _SWEEP_EVERY == 0:
            with contextlib.suppress(OSError):
                sweep(place)


def sweep(place: Directory) -> None:
    """Drop the oldest entries until the folder is below the limit."""
    entries = []
    for name in place.names():
        if _OURS.fullmatch(name):
            with contextlib.suppress(OSError):
                facts = place.stat(name)
                entries.append((facts.st_mtime, facts.st_size, name))
    total = sum(size for _, size, _ in entries)
    for _, size, name in sorted(entries):
        if total <= MAX_BYTES:
            return
        with contextlib.suppress(OSError):
            place.unlink(name)
            total -= size
