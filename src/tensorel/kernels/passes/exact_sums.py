"""Sums that keep what rounding loses.

A long sum is made of parts: of the innermost loops inside others, and of blocks of long loops
(``reassociate.py``, where loops run over ranges). Parts are added with the error of each addition
kept beside the sum, so ten million terms are as exact as one part. Bounds of the error: u is half a
unit in the last place, a part of n terms has at most n*u of the sum of its magnitudes, and the
parts together add 2*u to that (Higham, Accuracy and Stability, 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import compare, convert, plus
from tensorel.ir.nodes import INT64, Call, Const, Expr, Local, const, postorder
from tensorel.ir.replacing import with_parts
from tensorel.kernels.loopir.queries import expressions, is_short, statements
from tensorel.kernels.loopir.statements import (
    Assign,
    For,
    If,
    Lanes,
    Prefetch,
    Stmt,
    Store,
    While,
)

BLOCK_TERMS = 16  # terms that are added one after another
FEW_TERMS = 256  # nested loops that have no more terms together are one part
FEW_PARTS = 16  # so many of these are added as they are

Fresh = Callable[[str, Local], Local]  # a local of its own, of the same dtype
Extents = Mapping[Expr, int]  # ends of loops that are known
NO_EXTENTS: Extents = {}


def is_sum(stmt: Stmt, acc: Local) -> bool:
    """Whether a statement is ``acc = acc + term``."""
    return isinstance(stmt, Assign) and stmt.target is acc and isinstance(stmt.value, Call) \
        and stmt.value.op is ops.add and stmt.value.args[0] is acc


def zero(local: Local) -> Assign:
    return Assign(local, const(0, local.dtype))


def _add(a: Expr, b: Expr) -> Expr:
    return Call(ops.add, (a, b))


def _less(a: Expr, b: Expr) -> Expr:
    return Call(ops.subtract, (a, b))


def added(acc: Local, low: Local, term: Expr, fresh: Fresh) -> tuple[Stmt, ...]:
    """``acc = acc + term``; what the addition loses is added to ``low``, which joins the sum at
    its end. The next addition waits for one of these (Knuth, TAOCP 2, 4.2.2, theorem B). What is
    lost adds up to n*u of the sum for n terms: ``low`` is in double precision, or its own errors
    would be seen from some thousand terms of float32 on."""
    x, s, b, lost = (fresh(n, acc) for n in ("x", "s", "b", "lost"))
    return (Assign(x, term), Assign(s, _add(acc, x)), Assign(b, _less(s, acc)),
            Assign(lost, _add(_less(acc, _less(s, b)), _less(x, b))),
            Assign(low, _add(low, convert(lost, low.dtype))), Assign(acc, s))


def carried(acc: Local, low: Local, term: Expr, fresh: Fresh) -> tuple[Stmt, ...]:
    """``acc = acc + term + low``; ``low`` becomes what the addition loses: less than the last
    place of ``acc``, which needs nothing at its end. The next addition waits for all of these
    (Kahan). Of infinite sums nothing is lost."""
    x, s, lost = (fresh(n, acc) for n in ("x", "s", "lost"))
    return (Assign(x, _add(term, low)), Assign(s, _add(acc, x)),
            Assign(lost, _less(x, _less(s, acc))),
            Assign(low, Call(ops.where, (
                Call(ops.isnan, (lost,)), const(0, low.dtype), lost))), Assign(acc, s))


def joined(acc: Local, low: Local) -> Assign:
    """The sum with what it lost; nan: the sum is infinite."""
    both = convert(_add(convert(acc, low.dtype), low), acc.dtype)
    return Assign(acc, Call(ops.where, (Call(ops.isnan, (low,)), acc, both)))


def wide(acc: Local) -> Local:
    """The like of a float in double precision."""
    return Local(acc.name, np.dtype(np.complex128 if acc.dtype.kind == "c" else np.float64))


def kept(body: tuple[Stmt, ...], acc: Local, fresh: Fresh, extents: Extents = NO_EXTENTS
         ) -> tuple[Stmt, ...]:
    """The loops of a sum, with the errors kept where it has many parts. One loop over a range, or
    over blocks of known width, is left as it is, and so are nested loops of few terms."""
    if not any(_sums((s,), acc) and _is_nested(s) and not _has_few_terms(s, extents)
               for s in body):
        return tuple(x for s in body for x in _counted(s, acc, fresh))
    if all(_has_few_terms(s, extents, FEW_PARTS) for s in body if _sums((s,), acc)):
        return _Keeping(acc, None, fresh, extents).block(body, False)
    low = fresh("low", wide(acc))
    made = _Keeping(acc, low, fresh, extents).block(body, False)
    return zero(low), *made, joined(acc, low)


def _has_few_terms(stmt: Stmt, extents: Extents, parts: int = 1) -> bool:
    terms = _terms(stmt, extents)
    return terms is not None and terms <= FEW_TERMS * parts


def _terms(stmt: Stmt, extents: Extents) -> int | None:
    """How often what a statement does is done; None where that is not known."""
    match stmt:
        case For(lo=Const(), hi=hi, body=body) if hi in extents:
            inner = [_terms(s, extents) for s in body if not isinstance(s, Assign)]
            most = [n for n in inner if n is not None]
            return extents[hi] * max(most, default=1) if len(most) == len(inner) else None
        case _:
            return None


@dataclass(frozen=True, slots=True)
class _Keeping:
    """Statements whose parts are added up, with what additions lose kept in ``low`` if there is
    one."""

    acc: Local
    low: Local | None
    fresh: Fresh
    extents: Extents

    def block(self, body: tuple[Stmt, ...], inside: bool) -> tuple[Stmt, ...]:
        return tuple(x for s in body for x in self._kept(s, inside))

    def _added(self, term: Expr) -> tuple[Stmt, ...]:
        if self.low is None:
            return (Assign(self.acc, _add(self.acc, term)),)
        return added(self.acc, self.low, term, self.fresh)

    def _kept(self, stmt: Stmt, inside: bool) -> tuple[Stmt, ...]:
        acc, fresh = self.acc, self.fresh
        match stmt:
            case Assign() if inside and is_sum(stmt, acc):
                assert isinstance(stmt.value, Call)
                return self._added(stmt.value.args[1])
            case For() | While() if inside and _sums(stmt.body, acc) and (
                    not _is_nested(stmt) or _has_few_terms(stmt, self.extents)):
                part = fresh("part", acc)
                loop = renamed(stmt, {acc: part})
                return zero(part), *_counted(loop, part, fresh), *self._added(part)
            case For():
                return (For(stmt.target, stmt.lo, stmt.hi, self.block(stmt.body, True),
                            stmt.checked),)
            case While():
                return (While(stmt.condition, self.block(stmt.body, True), stmt.checked),)
            case If():
                return (If(stmt.condition, self.block(stmt.then, inside),
                           self.block(stmt.otherwise, inside)),)
            case _:
                return (stmt,)


def _counted(loop: Stmt, acc: Local, fresh: Fresh) -> tuple[Stmt, ...]:
    """A loop of sums whose number of turns is not known: each ``BLOCK_TERMS`` are a part. Others
    stay as they are."""
    if not isinstance(loop, While) or not _sums(loop.body, acc):
        return (loop,)
    mid, low, turns = fresh("mid", acc), fresh("low", acc), _counter(loop)
    body = tuple(renamed(s, {acc: mid}) for s in loop.body)
    before: tuple[Stmt, ...] = (zero(mid), zero(low))
    if turns is None:
        turns = fresh("turns", Local("turns", INT64))
        before += (zero(turns),)
        body += (Assign(turns, plus(turns, 1)),)
    full = compare(ops.equal, Call(ops.bitwise_and, (turns, const(BLOCK_TERMS - 1, INT64))), 0)
    body += (If(full, (*carried(acc, low, mid, fresh), zero(mid))),)
    return (*before, While(loop.condition, body, loop.checked), Assign(acc, _add(acc, mid)))


def in_blocks(body: tuple[Stmt, ...], fresh: Fresh) -> tuple[Stmt, ...]:
    """The same for all sums of floats in the loops of a body."""
    return tuple(x for s in body for x in _all_counted(s, fresh))


def _all_counted(loop: Stmt, fresh: Fresh) -> tuple[Stmt, ...]:
    if not isinstance(loop, While) or _is_nested(loop):
        return (loop,)
    made: tuple[Stmt, ...] = (loop,)
    for s in loop.body:
        if isinstance(s, Assign) and s.target.dtype.kind in "fc" and _only_sums(loop, s.target):
            made = tuple(x for m in made for x in _counted(m, s.target, fresh))
    return made


def _only_sums(loop: While, acc: Local) -> bool:
    """Whether a loop does nothing with a local but add to it, once a turn."""
    uses = [s for s in statements(loop.body) if getattr(s, "target", None) is acc
            or any(e is acc for e in postorder(*expressions(s)))]
    return len(uses) == 1 and is_sum(uses[0], acc) \
        and not any(e is acc for e in postorder(loop.condition))


def _counter(loop: While) -> Local | None:
    """A local that grows by one with each turn."""
    return next((s.target for s in loop.body if isinstance(s, Assign)
                 and s.value is plus(s.target, 1)), None)


def _sums(body: tuple[Stmt, ...], acc: Local) -> bool:
    return any(is_sum(s, acc) for s in statements(body))


def _is_nested(stmt: Stmt) -> bool:
    """Whether a loop has loops inside that are not written out."""
    body = stmt.body if isinstance(stmt, For | While) else ()
    return any(isinstance(s, While) or (isinstance(s, For) and not is_short(s))
               for s in statements(body))


def renamed(stmt: Stmt, table: Mapping[Any, Expr]) -> Stmt:
    """The statement, and those in it, with other locals or other expressions."""
    def block(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(renamed(s, table) for s in body)

    def there(e: Expr) -> Expr:
        return replaced(e, table)

    match stmt:
        case Assign():
            target = table.get(stmt.target, stmt.target)
            assert isinstance(target, Local)
            return Assign(target, there(stmt.value))
        case Store():
            return Store(stmt.array, there(stmt.position), there(stmt.value))
        case Prefetch():
            return Prefetch(stmt.array, there(stmt.position))
        case If():
            return If(there(stmt.condition), block(stmt.then), block(stmt.otherwise))
        case For():
            return For(stmt.target, there(stmt.lo), there(stmt.hi), block(stmt.body), stmt.checked)
        case Lanes():
            return Lanes(stmt.target, there(stmt.start), stmt.count, block(stmt.body))
        case While():
            return While(there(stmt.condition), block(stmt.body), stmt.checked)
        case _:
            return stmt


def replaced(root: Expr, table: Mapping[Any, Expr]) -> Expr:
    """The expression with other locals."""
    done: dict[Expr, Expr] = dict(table)
    for e in postorder(root):
        if isinstance(e, Expr) and e not in done:
            done[e] = with_parts(e, done.__getitem__)
    return done[root]
