"""CREATE statements of a database: names that are declared, and tensors that follow from others.

    CREATE real ARRAY V(M*N)     db["V"] = x is checked against it, and stored as it says
    CREATE TENSOR C AS ...       db["C"] follows from the values that the definition names
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from tensorel.errors import ShapeError, TypeError_
from tensorel.front.base import from_stored
from tensorel.front.convert import asarray, stored_of
from tensorel.front.sdql import sdql
from tensorel.sdql.printer import show, show_statement
from tensorel.sdql.script import parse_script
from tensorel.sdql.syntax import (
    CreatePhysical,
    CreateTensor,
    Expr,
    Script,
    Statement,
    free,
)
from tensorel.storage.convert import to_format

if TYPE_CHECKING:
    from tensorel.front.array import Tensor

#: A tensor by name; None if there is none.
Lookup = Callable[[str], "Tensor | None"]
_FORMATS = {"HASHMAP": "dok", "TRIE": "trie", "ARRAY": "dense", "SCALAR": "dense"}
_DTYPES = {"int": "biu", "real": "biuf"}


def declarations(script: Script) -> dict[str, str]:
    """The text of a statement for each name that a script declares."""
    found: dict[str, str] = {}
    for s in script.statements:
        if isinstance(s, CreatePhysical):
            for d in s.declared:
                found[d.name] = show_statement(CreatePhysical(s.kind, s.form, (d,), s.at))
        else:
            assert isinstance(s, CreateTensor)
            found[s.name] = show_statement(s)
    return found


@lru_cache(maxsize=1024)
def statement(text: str) -> Statement:
    """The statement that ``declarations`` made a text of."""
    (found,) = parse_script(text).statements
    return found


def is_tensor(text: str) -> bool:
    """Whether the statement declares a tensor that follows from others."""
    return isinstance(statement(text), CreateTensor)


def wanted(script: Script) -> set[str]:
    """The names that a script takes from outside."""
    found = set() if script.result is None else free(script.result)
    for s in script.statements:
        found |= _names(s) | ({d.name for d in s.declared}
                              if isinstance(s, CreatePhysical) else set())
    return found - {s.name for s in script.statements if isinstance(s, CreateTensor)}


def _names(s: Statement) -> set[str]:
    """The names that a statement is made of."""
    if isinstance(s, CreateTensor):
        return free(s.definition).union(*map(free, s.extents or ()))
    assert isinstance(s, CreatePhysical)
    return set().union(*[free(e) for d in s.declared for e in d.extents])


# -- physical values ---------------------------------------------------------------------------
def fitted(name: str, text: str, x: object, lookup: Lookup) -> Tensor:
    """``x`` as the statement says: its kind, its extents as far as they are known, its storage."""
    s = statement(text)
    assert isinstance(s, CreatePhysical)
    t, extents = asarray(x), s.declared[0].extents
    if t.dtype.kind not in _DTYPES[s.kind]:
        raise TypeError_(f"{name!r} holds {s.kind} values; this tensor has dtype {t.dtype.name}",
                         hint=f"it was declared so: {text}")
    known = [_extent(e, lookup) for e in extents]
    if t.ndim != len(extents) or any(n not in (None, m) for n, m in zip(known, t.shape)):
        shown = ", ".join(show(e) if n is None else str(n) for e, n in zip(extents, known))
        raise ShapeError(f"{name!r} has shape ({shown}); this tensor has {t.shape}",
                         hint=f"it was declared so: {text}")
    if s.kind == "real" and t.dtype.kind != "f":
        t = asarray(t, np.float64)
    return from_stored(to_format(stored_of(t), _FORMATS[s.form]))


def _extent(e: Expr, lookup: Lookup) -> int | None:
    """The value of an extent; None while names in it have none."""
    given = {n: lookup(n) for n in sorted(free(e))}
    if any(t is None for t in given.values()):
        return None
    return int(sdql(show(e), **given).item())  # type: ignore[arg-type]


# -- tensors that follow -----------------------------------------------------------------------
def script_of(name: str, declared: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The statements that the tensor ``name`` follows from, it last; the names of the values that
    it is made of."""
    needed: dict[str, None] = {}
    values: dict[str, None] = {}

    def visit(n: str) -> None:
        text = declared.get(n)
        if n in needed or n in values:
            return
        if text is None:
            values[n] = None
            return
        s = statement(text)
        if isinstance(s, CreatePhysical):
            values[n] = None
        for inner in sorted(_names(s) - {n}):
            visit(inner)
        needed[n] = None

    visit(name)
    return ";\n".join(declared[n] for n in needed), tuple(values)


def derived(name: str, declared: Mapping[str, str], lookup: Lookup) -> Tensor | None:
    """The tensor that a CREATE TENSOR says; None while values that it is made of are missing."""
    script, values = script_of(name, declared)
    given = {n: lookup(n) for n in values}
    held = {n: t for n, t in given.items() if t is not None}
    if len(held) < len(given):
        return None
    return sdql(script, **held)
