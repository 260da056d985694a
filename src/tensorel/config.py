"""One frozen Config, passed as an argument; one ContextVar for ``with tr.options(...)``."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import fields, replace

from tensorel.base.records import dataclass
from tensorel.costs import SHIPPED, Costs, load
from tensorel.errors import TypeError_

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}
_UNITS |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}


def parse_bytes(value: object) -> int:
    """Bytes from a number or a text such as ``"4GB"``.

    >>> parse_bytes("64MB")
    64000000
    """
    if isinstance(value, str):
        match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([a-zA-Z]*)\s*", value)
        if match is None or match[2].lower() not in _UNITS:
            raise TypeError_(
                f"memory limit {value!r} is not a size", hint="write e.g. '4GB', '512MiB' or bytes"
            )
        return int(float(match[1]) * _UNITS[match[2].lower()])
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError_(
            f"memory limit {value!r} is not a size", hint="write e.g. '4GB', '512MiB' or bytes"
        )
    if not math.isfinite(value) or value < 0:
        raise TypeError_(
            f"memory limit {value!r} is not a finite, non-negative size", hint="write e.g. '4GB'"
        )
    return int(value)


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 8 * 2**30


@dataclass(frozen=True, slots=True)
class Config:
    """Settings of one computation.

    memory: bytes that a plan may hold at its peak, inputs included.
    densify: a dense result made from sparse operands above this size is refused.
    threads: number of threads; None means all cores.
    optimize: False runs the program as written, step by step.
    strict: to the last bit as NumPy on dense arrays: sums in order, 0 * inf is nan.
    engine: where programs run; None: on threads of this process.
    disabled: names of passes that are switched off.
    verify: check the form of the program before and after each pass, and the arrays of every stored
        tensor that is packed or that a step makes.
    check: run other plans on a sample of the result and compare.
    bounds: kernels compare every position with the length of its array, and stop at the first
        outside with an error that names it; for finding bugs, at two to four times the time.
    disk_cache: kernels are kept in the user's cache folder for later processes.
    effort: "full" optimizes kernels for long runs; "quick" compiles them in a sixth of the time,
        for small data: results are the same up to the rounding of sums.
    costs: what work costs, by which plans are chosen; "shipped" ignores ``tr.calibrate()``.
    """

    memory: int = _physical_memory() * 8 // 10
    densify: int = 256 * 10**6
    threads: int | None = None
    optimize: bool = True
    strict: bool = False
    engine: object = None
    disabled: frozenset[str] = frozenset()
    verify: bool = False
    check: bool = False
    bounds: bool = False
    disk_cache: bool = True
    effort: str = "full"
    costs: Costs = SHIPPED

    @property
    def workers(self) -> int:
        return self.threads or _cores()


def _cores() -> int:
    """Cores that this process may use; it may be told otherwise while it runs."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


EFFORTS = ("full", "quick")
#: Checks of settings whose kinds belong to packages above, by name: each gives what is meant.
CHECKS: dict[str, Callable[[object], object]] = {}
_NAMES = frozenset(f.name for f in fields(Config))
_current: ContextVar[Config | None] = ContextVar("tensorel_config", default=None)
_default: Config | None = None


def current() -> Config:
    """The settings in force here."""
    return _current.get() or _default or set_default()


def set_default(**overrides: object) -> Config:
    """From here on the process has these settings, unless a block says otherwise."""
    global _default
    _default = with_overrides(_default or Config(costs=load()), **overrides)
    return _default


def with_overrides(config: Config, **overrides: object) -> Config:
    """``config`` with the given settings, checked."""
    for name in overrides:
        if name not in _NAMES:
            raise TypeError_(
                f"unknown option {name!r}", hint=f"options are {', '.join(sorted(_NAMES))}"
            )
    checked = dict(overrides)
    for name in ("memory", "densify"):
        if name in checked:
            checked[name] = parse_bytes(checked[name])
    threads = checked.get("threads")
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int)):
        raise TypeError_(f"threads must be a whole number or None, not {threads!r}")
    if isinstance(threads, int) and threads < 1:
        raise TypeError_(f"threads must be at least 1, not {threads}")
    if checked.get("effort", "full") not in EFFORTS:
        raise TypeError_(f"effort {checked['effort']!r} is not known",
                         hint=f"efforts are {' and '.join(map(repr, EFFORTS))}")
    if "costs" in checked:
        checked["costs"] = SHIPPED if checked["costs"] == "shipped" else checked["costs"]
        if not isinstance(checked["costs"], Costs):
            raise TypeError_(f"costs must be 'shipped' or a Costs record, not {checked['costs']!r}",
                             hint="tr.calibrate(save=False).costs is one")
    if "disabled" in checked:
        checked["disabled"] = frozenset(checked["disabled"])  # type: ignore[call-overload]
    for name in CHECKS.keys() & checked.keys():
        checked[name] = CHECKS[name](checked[name])
    return replace(config, **checked)  # type: ignore[arg-type]


def enter(config: Config) -> Token[Config | None]:
    """From here on these settings are in force, until ``leave`` is given the token."""
    return _current.set(config)


def leave(token: Token[Config | None]) -> None:
    _current.reset(token)


@contextmanager
def options(**overrides: object) -> Iterator[Config]:
    """Settings for a block.

    >>> with options(memory="4GB", threads=2) as config:
    ...     config.memory
    4000000000
    """
    config = with_overrides(current(), **overrides)
    token = enter(config)
    try:
        yield config
    finally:
        leave(token)
