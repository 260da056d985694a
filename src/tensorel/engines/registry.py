"""The engines that there are, by the names that users give them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from tensorel import engines
from tensorel.config import CHECKS
from tensorel.engines.in_process.local_engine import LocalEngine
from tensorel.engines.protocol import Engine, Placed
from tensorel.errors import EngineError, TypeError_
from tensorel.ir.nodes import Source, Tensor, postorder

DEFAULT = LocalEngine()


@cache
def known() -> dict[str, Engine]:
    """The local engine, and the ``ENGINE`` of every file of this package that has one."""
    files = [import_module(f"{engines.__name__}.{m.name}") for m in iter_modules(engines.__path__)]
    others: list[Engine] = [f.ENGINE for f in files if hasattr(f, "ENGINE")]
    return {e.name: e for e in (DEFAULT, *others)}


def engine_of(value: object) -> Engine:
    """The engine that is meant: by name, an engine itself, or None for the default.

    >>> engine_of("local") is engine_of(None)
    True
    """
    if value is None:
        return DEFAULT
    if isinstance(value, Engine):
        return value
    if isinstance(value, str) and value in known():
        return known()[value]
    raise (EngineError if isinstance(value, str) else TypeError_)(
        f"engine {value!r} is not known", hint=f"engines are {', '.join(map(repr, known()))}")


def engine_for(value: object, nodes: Sequence[Tensor]) -> Engine:
    """The engine that is meant; where none is named, the one that holds what the programs read."""
    found = engine_of(value)
    if value is None and Placed.any_made:
        for node in postorder(*nodes):
            if isinstance(node, Source) and isinstance(node.data, Placed):
                return node.data.engine
    return found


CHECKS["engine"] = engine_of
