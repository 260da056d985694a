"""The memory limit, kept by refusing before allocating.

Law: whoever makes arrays whose size depends on data or shapes asks ``require`` first, for all that
it will hold at once, working memory included. The settings in force say how much there is; what
is held meanwhile by those who called (``Holding``: operands and intermediates) is taken off."""

from __future__ import annotations

from contextvars import ContextVar, Token
from typing import Self

from tensorel import config
from tensorel.errors import MemoryLimitError

_held: ContextVar[int] = ContextVar("tensorel_held", default=0)


class Holding:
    """A block under ``settings`` in which ``held`` more bytes are taken.

    >>> with Holding(10, config.with_overrides(config.current(), memory=25)):
    ...     require(20, "this")
    Traceback (most recent call last):
        ...
    tensorel.errors.MemoryLimitError: this would take 20 bytes beside 10 bytes that are held; \
the memory limit is 25 bytes
      hint: keep the tensor in a sparse format such as 'coo' or 'csf', or raise the limit with \
tr.options(memory=...)
    """

    __slots__ = ("_held", "_settings", "_tokens")

    def __init__(self, held: int, settings: config.Config | None = None) -> None:
        self._held, self._settings = held, settings

    def __enter__(self) -> Self:
        self._tokens: tuple[Token[int], Token[config.Config | None] | None] = (
            _held.set(_held.get() + self._held),
            None if self._settings is None else config.enter(self._settings))
        return self

    def __exit__(self, *_: object) -> None:
        held, settings = self._tokens
        _held.reset(held)
        if settings is not None:
            config.leave(settings)


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


def require(needed: int, what: str) -> None:
    """Refuse when ``what`` would take more bytes than are left."""
    limit, held = config.current().memory, _held.get()
    if needed + held > limit:
        beside = f" beside {show_bytes(held)} that are held" if held else ""
        raise MemoryLimitError(
            f"{what} would take {show_bytes(needed)}{beside}; the memory limit is "
            f"{show_bytes(limit)}",
            needed=needed + held, limit=limit, step=what,
            hint="keep the tensor in a sparse format such as 'coo' or 'csf', or raise "
            "the limit with tr.options(memory=...)",
        )
