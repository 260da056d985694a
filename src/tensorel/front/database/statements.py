"""CREATE statements of a database: names that are declared, and tensors that follow from others.

    CREATE real ARRAY V(M*N)     db["V"] = x is checked against it, and stored as it says
    CREATE TENSOR C AS ...       db["C"] is read through the mapping, db["C"] = x packs into it

A CREATE TENSOR whose definition is no storage mapping is a view: it can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tensorel.errors import ShapeError, StorageError, TypeError_, UnsupportedError
from tensorel.front.array.base import from_stored
from tensorel.front.array.convert import asarray, stored_of
from tensorel.front.languages.sdql import sdql
from tensorel.sdql.printer import show, show_statement
from tensorel.sdql.script import parse_script
from tensorel.sdql.syntax import (
    Apply,
    CreatePhysical,
    CreateTensor,
    Expr,
    Name,
    Number,
    Script,
    Statement,
    free,
)
from tensorel.storage.convert import to_format
from tensorel.storage.mapped.mapping import StorageMapping, define
from tensorel.storage.mapped.pieces import Hashed

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

#: The tensor of a name, or None.
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
    """The statement in a text that ``declarations`` made."""
    (found,) = parse_script(text).statements
    return found


def is_tensor(text: str) -> bool:
    """Whether the statement declares a tensor that follows from others."""
    return isinstance(statement(text), CreateTensor)


@lru_cache(maxsize=1024)
def wanted(text: str) -> frozenset[str]:
    """The names that a script reads and does not define."""
    script = parse_script(text)
    found = set() if script.result is None else free(script.result)
    for s in script.statements:
        found |= _names(s) | ({d.name for d in s.declared}
                              if isinstance(s, CreatePhysical) else set())
    return frozenset(found - {s.name for s in script.statements if isinstance(s, CreateTensor)})


def _names(s: Statement) -> set[str]:
    """The names that a statement is made of."""
    if isinstance(s, CreateTensor):
        return set().union(free(s.definition), *map(free, s.extents or ()))
    assert isinstance(s, CreatePhysical)
    return set().union(*[free(e) for d in s.declared for e in d.extents])


# -- physical values ---------------------------------------------------------------------------
def fitted(name: str, text: str, x: object, lookup: Lookup) -> Tensor:
    """``x`` as the statement declares it: its kind, its extents if they are known, its storage."""
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
    """The value of an extent; None while a name in it has no value."""
    given = {n: lookup(n) for n in sorted(free(e))}
    if any(t is None for t in given.values()):
        return None
    return int(sdql(show(e), **given).item())  # type: ignore[arg-type]


# -- tensors that follow -----------------------------------------------------------------------
@lru_cache(maxsize=256)
def mapping_of(script: str) -> StorageMapping | None:
    """The storage mapping that the script's last statement is, if it is one."""
    try:
        return define(script)
    except (StorageError, UnsupportedError):
        return None


def script_of(name: str, declared: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """The statements that define the tensor ``name``, its own last, and the names of the values
    that it is made of."""
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
    """The tensor that a CREATE TENSOR declares; None while values of its parts are missing."""
    script, values = script_of(name, declared)
    given = {n: lookup(n) for n in values}
    held = {n: t for n, t in given.items() if t is not None}
    if len(held) < len(given):
        return None
    mapping = mapping_of(script)
    if mapping is None:
        return sdql(script, **held)
    if isinstance(mapping.found, Hashed):
        t = held[mapping.found.name]
        own = mapping.found.axes == tuple(range(t.ndim))
        return t if own else sdql(script, **held)
    arrays = {n: t.to_numpy() for n, t in held.items() if n in mapping.physical.forms}
    return from_stored(mapping.stored(arrays, None, 0))


def packed(name: str, declared: Mapping[str, str], x: object) -> dict[str, Tensor]:
    """The values from which the tensor ``name`` is ``x``, each as it is declared."""
    mapping = mapping_of(script_of(name, declared)[0])
    if mapping is None:
        raise UnsupportedError(
            f"{name!r} is a view, which cannot be assigned: {declared[name]}",
            hint="assign the tensors that it is made of, or write it as a storage mapping")
    t = stored_of(asarray(x))
    stored = to_format(t, mapping(t.shape, t.dtype))
    found: dict[str, object] = {}
    if isinstance(mapping.found, Hashed):
        found[mapping.found.name] = stored
    else:
        forms = mapping.physical.forms
        arrays = mapping.arrays(stored)
        found |= {n: a.reshape(() if forms[n] == "SCALAR" else -1)
                  for n, a in arrays.items() if n in forms}
        found |= {e.name: n for e, n in zip(mapping.found.layout.extents, t.shape)
                  if isinstance(e, Name)}
        lengths = {n: int(a.size) for n, a in arrays.items()}
        found |= {n: v for n, v in _sizes(lengths, declared).items() if n not in found}
    return {n: asarray(v) if n not in declared else fitted(n, declared[n], v, lambda _: None)
            for n, v in found.items()}


def _sizes(lengths: Mapping[str, int], declared: Mapping[str, str]
           ) -> dict[str, npt.NDArray[np.int64]]:
    """Values that only the declarations of a mapping's arrays read: in ARRAY A(n), n is the length
    of A, and in ARRAY A(p(1)), p(1) is. (DCSR in the STOREL paper has such a p.)"""
    found: dict[str, npt.NDArray[np.int64]] = {}
    for name, length in lengths.items():
        for e in _extents(name, declared):
            match e:
                case Name(name=n):
                    found[n] = np.asarray(length)
                case Apply(target=Name(name=n), keys=(Number(value=k),)):
                    for size in _extents(n, declared):
                        if isinstance(size, Number) and k < size.value:
                            empty = np.zeros(int(size.value), np.int64)
                            found.setdefault(n, empty)[int(k)] = length
    return found


def _extents(name: str, declared: Mapping[str, str]) -> tuple[Expr, ...]:
    s = statement(declared[name]) if name in declared else None
    return s.declared[0].extents if isinstance(s, CreatePhysical) else ()
