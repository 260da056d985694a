"""Monoids of users: operators whose function of two scalars is an expression."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache, partial
from threading import Lock
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from tensorel.algebra import ops
from tensorel.base.forks import renewed
from tensorel.errors import TypeError_
from tensorel.ir.analysis import apply
from tensorel.ir.nodes import Call, Const, Expr, Local, Node, postorder

T = TypeVar("T")
Steps = tuple[tuple[Any, ...], ...]


def pair(dtype: ops.DType) -> tuple[Local, Local]:
    """The two arguments of a monoid's function."""
    return Local("a", dtype), Local("b", dtype)


#: As long as they live, by names made from their content: equal operators are one.
_known: dict[str, ref[ops.Operator]] = {}
_guard = renewed(Lock())


@lru_cache(maxsize=1024)
def traced_operator(body: Expr, identity: Const, commutative: bool) -> ops.Operator:
    """The monoid of a traced body over a and b."""
    return user_operator(steps_of(body), identity.value.item(), commutative)


def user_operator(steps: Steps, identity: Any, commutative: bool) -> ops.Operator:
    """The monoid of a traced function of a and b. It is nothing but this content: equal functions
    are one operator, also where a pickle arrives, and its name is the same in every process, so
    that kernel caches never mistake it."""
    content = steps, identity, commutative
    name = "user_" + hashlib.sha256(repr(content).encode()).hexdigest()[:16]

    def expand(a: Expr, b: Expr) -> Expr:
        return _run(steps, a, b, lambda c: c, lambda op, args: Call(op, tuple(args)))

    def meaning(a: Any, b: Any) -> Any:
        return _run(steps, np.asarray(a), np.asarray(b), lambda c: c.value,
                    lambda op, args: apply(op, *args))

    with _guard:
        weak = _known.get(name)
        found = None if weak is None else weak()
        if found is None:
            found = ops.user_monoid(name, expand, meaning, identity, commutative=commutative,
                                    recipe=(user_operator, content))
            _known[name] = ref(found, partial(_known.pop, name))
    return found


def steps_of(body: Expr) -> Steps:
    """A traced function as a list, operands first: literals, arguments, and operators with the
    places of their operands. It is pickled without recursion."""
    found: list[tuple[Any, ...]] = []
    places: dict[Node, int] = {}
    for node in postorder(body):
        places[node] = len(found)
        match node:
            case Const():
                found.append((node.bits, node.dtype.str))
            case Local():
                found.append((node.name, node.dtype.str))
            case Call():
                found.append((node.op.name, *[places[a] for a in node.args]))
            case _:
                raise TypeError_(
                    "reduce: the function may use its two arguments and numbers only",
                    hint="it must not close over other traced values")
    return tuple(found)


def _run(steps: Steps, a: T, b: T, literal: Callable[[Const], T],
         call: Callable[[ops.Operator, list[T]], T]) -> T:
    """The function of these steps at a and b."""
    made: list[T] = []
    for step in steps:
        match step:
            case (bytes() as bits, dtype):
                made.append(literal(Const(bits, np.dtype(dtype))))
            case (name, str()):
                made.append(a if name == "a" else b)
            case (name, *args):
                made.append(call(ops.operator(name), [made[k] for k in args]))
    return made[-1]
