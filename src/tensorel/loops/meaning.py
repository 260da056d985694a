"""What a program means: statements run one by one on NumPy arrays and Python's numbers.

The definition that compiled programs must meet. Entries that are read are NumPy's scalars, literals
and counters are Python's, so every rule about dtypes is NumPy's own.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import numpy as np

from tensorel.loops import functions
from tensorel.loops.syntax import (
    Allocate,
    Apply,
    Assign,
    Body,
    Break,
    Choice,
    Continue,
    Copy,
    Expr,
    Extent,
    For,
    If,
    Item,
    Name,
    Number,
    Return,
    Stmt,
    Store,
    While,
)

Env = MutableMapping[str, Any]


class Unknown(Exception):
    """A variable has no value here."""


class _Leave(Exception):
    """break, continue or return."""


class _Break(_Leave):
    pass


class _Continue(_Leave):
    pass


class _Return(_Leave):
    def __init__(self, values: tuple[Any, ...]) -> None:
        self.values = values


def run(body: Body, env: Env) -> tuple[Any, ...] | None:
    """What the program returns, None if it ends without; ``env`` holds the variables afterwards.

    >>> from tensorel.loops.syntax import Assign, Number
    >>> env = {}
    >>> run((Assign("x", Number(3, 1), 1),), env), env
    (None, {'x': 3})
    """
    with np.errstate(all="ignore"):
        try:
            _block(body, env)
        except _Return as found:
            return found.values
    return None


def _block(body: Sequence[Stmt], env: Env) -> None:
    for stmt in body:
        _statement(stmt, env)


def _statement(stmt: Stmt, env: Env) -> None:
    match stmt:
        case Assign():
            env[stmt.name] = evaluate(stmt.value, env)
        case Store():
            at = tuple([evaluate(i, env) for i in stmt.indices])
            env[stmt.array][at] = evaluate(stmt.value, env)
        case Allocate():
            env[stmt.name] = _allocated(stmt, env)
        case Copy():
            env[stmt.name] = env[stmt.source].copy()
        case For():
            counts = range(*[int(evaluate(e, env)) for e in (stmt.start, stmt.stop, stmt.step)])
            for k in counts:
                env[stmt.target] = k
                if _turn(stmt.body, env):
                    break
        case While():
            while evaluate(stmt.test, env):
                if _turn(stmt.body, env):
                    break
        case If():
            _block(stmt.then if evaluate(stmt.test, env) else stmt.other, env)
        case Break():
            raise _Break
        case Continue():
            raise _Continue
        case Return():
            raise _Return(tuple([evaluate(v, env) for v in stmt.values]))


def _turn(body: Body, env: Env) -> bool:
    """One turn of a loop; whether it was the last."""
    try:
        _block(body, env)
    except _Break:
        return True
    except _Continue:
        pass
    return False


def _allocated(stmt: Allocate, env: Env) -> Any:
    fill = evaluate(stmt.fill, env)
    shape = tuple([int(evaluate(e, env)) for e in stmt.extents]) if stmt.like is None \
        else env[stmt.like].shape
    dtype = stmt.dtype or (np.asarray(fill) if stmt.of is None else env[stmt.of]).dtype
    return np.full(shape, fill, dtype)


def evaluate(e: Expr, env: Mapping[str, Any]) -> Any:
    """The value of an expression; ``Unknown`` if it needs a variable that has none."""
    match e:
        case Number():
            return e.value
        case Name():
            return _named(e.name, env)
        case Item():
            return _named(e.array, env)[tuple([evaluate(i, env) for i in e.indices])]
        case Extent():
            return _named(e.array, env).shape[e.axis]
        case Choice():
            return evaluate(e.then if evaluate(e.test, env) else e.other, env)
        case Apply(function="and"):
            first = evaluate(e.args[0], env)
            return evaluate(e.args[1], env) if first else first
        case Apply(function="or"):
            first = evaluate(e.args[0], env)
            return first if first else evaluate(e.args[1], env)
        case Apply(function="size"):
            return int(np.prod(evaluate(e.args[0], env).shape, dtype=np.int64))
        case Apply():
            return functions.meaning(e.function)(*[evaluate(a, env) for a in e.args])
    raise AssertionError(e)


def _named(name: str, env: Mapping[str, Any]) -> Any:
    if name not in env:
        raise Unknown(name)
    return env[name]
