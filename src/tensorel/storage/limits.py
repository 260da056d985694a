"""The memory limit, kept by refusing before allocating."""

from __future__ import annotations

from tensorel import config
from tensorel.errors import MemoryLimitError


def show_bytes(count: int) -> str:
    """A size for people.

    >>> show_bytes(80_000_000_000)
    '80 GB'
    """
    size = float(count)
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} EB"


def require(needed: int, what: str, hint: str | None = None) -> None:
    """Refuse when ``what`` would take more bytes than the memory limit."""
    limit = config.current().memory
    if needed > limit:
        raise MemoryLimitError(
            f"{what} would take {show_bytes(needed)}; the memory limit is {show_bytes(limit)}",
            needed=needed, limit=limit, step=what,
            hint=hint or "keep the tensor in a sparse format such as 'coo' or 'csf', or raise "
            "the limit with tr.options(memory=...)",
        )
