"""What the numbers were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_PACKAGES = ("tensorel", "numpy", "llvmlite", "scipy", "sparse", "numba")


def _cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def _caches() -> str:
    found = []
    for entry in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        level, kind, size = ((entry / n).read_text().strip() for n in ("level", "type", "size"))
        found.append(f"L{level}{'' if kind == 'Unified' else kind[0].lower()} {size}")
    return ", ".join(found)


def _memory() -> str:
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{total / 2**30:.1f} GiB"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "from the source tree"


def _commit() -> str:
    here = Path(__file__).parent
    git = ["git", "-C", str(here)]
    try:
        head, dirty = (
            subprocess.run([*git, *words], capture_output=True, text=True)
            for words in (("rev-parse", "--short", "HEAD"), ("status", "--porcelain", "../../src"))
        )
    except OSError:
        return "unknown"
    changed = " with uncommitted changes in src" if dirty.stdout.strip() else ""
    return (head.stdout.strip() or "unknown") + changed


def cores() -> int:
    return len(os.sched_getaffinity(0))


def describe() -> dict[str, str]:
    """The machine and the versions, as label and text."""
    load = ", ".join(f"{x:.1f}" for x in os.getloadavg())
    versions = ", ".join(f"{p} {_version(p)}" for p in _PACKAGES)
    return {
        "CPU": f"{_cpu()}, {cores()} cores",
        "caches": _caches(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "versions": versions,
        "commit": _commit(),
        "load average at the start": load,
    }
