"""Canonical polynomials: equal expressions of a semiring become one expression.

An expression over the sum and the product of a semiring, with reductions by the sum, is a sum of
terms; a term is a coefficient, factors and bound indices. Terms are expanded, bound indices get
the names that make the factors' text least, like terms are added, and everything is sorted. By
Wang et al. (SPORES, 2020) two sum-product expressions are equal for all tensors exactly if these
forms are the same. What is no sum or product is a factor whose own arguments are canonical.

Floats: coefficients are exact fractions, so forms that differ by rounding only are one. A term
with coefficient zero stays (x - x is nan where x is inf).
Where + or * are idempotent, equal terms or factors are one, but no absorption takes place. Where
several semirings mix (max over sums of products), each cluster is read in the one that its own
operators show: that is sound, and may miss equalities across clusters.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import NamedTuple

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.ir.nodes import Axis, Call, Const, Expr, GivenConst, Index, Read, Reduce, const
from tensorel.ir.replacing import substitute
from tensorel.rewrite.labelling import MARK, best_order
from tensorel.rewrite.names import rename_bound
from tensorel.rewrite.semiring import Semiring, semiring_of
from tensorel.rewrite.spelling import spell

MAX_TERMS = 64
MAX_POWER = 8


class Term(NamedTuple):
    """``coefficient * product(factors)`` reduced over ``bound``."""

    coefficient: Fraction
    factors: tuple[Expr, ...]
    bound: tuple[Axis, ...]


class TooLarge(Exception):
    """More terms than the limit."""


ONE = Fraction(1)


def canonical(e: Expr, *, terms: int = MAX_TERMS) -> Expr:
    """The canonical form of ``e``. Past the limit of terms only arguments are sorted.

    >>> from tensorel.ir.parser import parse
    >>> a, b = parse("(i + 1) * (j - 2)"), parse("j*i - 2 + j - 2*i")
    >>> canonical(a) is canonical(b)
    True
    """
    found = _Canonical(terms).form(rename_bound(e, MARK * 2))
    return rename_bound(found)


class _Canonical:
    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.memo: dict[Expr, Expr] = {}
        self.opaques: dict[Expr, Expr] = {}
        self.count = 0

    # -- any expression ----------------------------------------------------------------------
    def form(self, e: Expr) -> Expr:
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._form(e)
        return found

    def _form(self, e: Expr) -> Expr:
        if isinstance(e, Read):
            return Read(e.tensor, tuple([self.form(i) for i in e.indices])) if any(
                not isinstance(i, (Index, Const)) for i in e.indices) else e
        s = semiring_of(e)
        if s is not None:
            try:
                return self._assemble(self.polynomial(e, s), s)
            except TooLarge:
                pass
        return self.opaque(e)

    def factor(self, e: Expr, s: Semiring) -> Expr:
        """The canonical form of what is no sum or product of ``s``."""
        return self.opaque(e) if semiring_of(e) == s else self.form(e)

    def opaque(self, e: Expr) -> Expr:
        found = self.opaques.get(e)
        if found is None:
            found = self.opaques[e] = self._opaque(e)
        return found

    def _opaque(self, e: Expr) -> Expr:
        """No sum or product: canonical arguments, sorted if the operator commutes."""
        match e:
            case Call():
                args = [self.form(a) for a in e.args]
                if e.op.commutative:
                    args.sort(key=spell)
                return Call(e.op, tuple(args))
            case Reduce():
                axes = tuple(sorted(e.axes, key=_extent)) if e.op.commutative else e.axes
                names, labels = best_order((e.body,), axes, self.form, e.op.commutative)
                new = tuple(Axis(labels[a.name], a.extent) for a in names)
                return Reduce(e.op, new, self.form(_renamed(e.body, labels)))
            case _:
                return e

    # -- expansion ---------------------------------------------------------------------------
    def polynomial(self, e: Expr, s: Semiring) -> list[Term]:
        """The terms of ``e``; what does not belong to the semiring is a factor."""
        match e:
            case Const():
                return self._literal(e, s)
            case Reduce() if e.op is s.plus and all(a.extent for a in e.axes):
                return [self._bind(t, e.axes, s) for t in self.polynomial(e.body, s)]
            case Call() if all(a.dtype == s.dtype for a in e.args) or e.op is ops.power:
                found = self._call(e, s)
                return self._factor(e, s) if found is None else found
            case _:
                return self._factor(e, s)

    def _factor(self, e: Expr, s: Semiring) -> list[Term]:
        """A factor in its own canonical form, which may belong to the semiring after all."""
        f = self.factor(e, s)
        if f is not e and (isinstance(f, Const) or (
                isinstance(f, (Call, Reduce)) and f.op is not getattr(e, "op", None)
                and f.op in (s.plus, s.times))):
            return self.polynomial(f, s)
        return [Term(ONE, (f,), ())]

    def _call(self, e: Call, s: Semiring) -> list[Term] | None:
        if e.op is s.plus:
            return self._check([t for a in e.args for t in self.polynomial(a, s)])
        if e.op is s.times:
            return self._product(*[self.polynomial(a, s) for a in e.args])
        if not s.is_ring:
            return None
        if e.op is ops.subtract:
            left, right = (self.polynomial(a, s) for a in e.args)
            return self._check(left + _scaled(right, -ONE))
        if e.op is ops.negative:
            return _scaled(self.polynomial(e.args[0], s), -ONE)
        if s.times is not None and e.op is ops.square:
            terms = self.polynomial(e.args[0], s)
            return self._product(terms, terms)
        if s.times is not None and e.op is ops.power:
            return self._power(e, s)
        if s.times is not None and e.op is ops.divide and s.dtype.kind == "f":
            return self._quotient(e, s)
        return None

    def _power(self, e: Call, s: Semiring) -> list[Term] | None:
        base, n = e.args
        if base.dtype != s.dtype or not isinstance(n, Const) or n.dtype.kind not in "iuf" \
                or n.value not in range(1, MAX_POWER + 1):
            return None
        terms = result = self.polynomial(base, s)
        for _ in range(int(n.value) - 1):
            result = self._product(result, terms)
        return result

    def _quotient(self, e: Call, s: Semiring) -> list[Term] | None:
        above, below = e.args
        value = _fraction(below)
        if value is not None and value != 0:
            return _scaled(self.polynomial(above, s), 1 / value)
        one = s.one
        if above is one:
            return None
        assert one is not None
        return self._product(self.polynomial(above, s),
                             self._factor(Call(ops.divide, (one, below)), s))

    def _literal(self, e: Const, s: Semiring) -> list[Term]:
        value = _fraction(e) if s.is_ring else None
        if value is not None:
            return [Term(value, (), ())]
        if e is s.one:
            return [Term(ONE, (), ())]
        if e is s.zero and s.dtype.kind in "biu":
            return []
        return [Term(ONE, (e,), ())]

    def _bind(self, t: Term, axes: tuple[Axis, ...], s: Semiring) -> Term:
        """The term under a reduction: an index that no factor has makes copies."""
        if not {a.name for a in t.bound}.isdisjoint(a.name for a in axes):
            t = self._apart(t)  # the inner index hid the outer one
        used = frozenset().union(*[f.free for f in t.factors])
        coefficient = t.coefficient
        bound = []
        for a in axes:
            if a.name in used:
                bound.append(a)
            elif not s.plus_idempotent:
                coefficient *= a.extent
        return Term(coefficient, t.factors, t.bound + tuple(bound))

    def _product(self, left: list[Term], right: list[Term]) -> list[Term]:
        if len(left) * len(right) > self.limit:
            raise TooLarge
        found = []
        for a in left:
            for b in right:
                if not _names(b).isdisjoint(x.name for x in a.bound):
                    a = self._apart(a)
                if not _names(a).isdisjoint(x.name for x in b.bound):
                    b = self._apart(b)
                found.append(Term(a.coefficient * b.coefficient, a.factors + b.factors,
                                  a.bound + b.bound))
        return found

    def _apart(self, t: Term) -> Term:
        """The term with bound indices of its own."""
        names = {}
        for a in t.bound:
            self.count += 1
            names[a.name] = f"{MARK}{MARK}'{self.count}"
        return Term(t.coefficient, tuple([_renamed(f, names) for f in t.factors]),
                    tuple(Axis(names[a.name], a.extent) for a in t.bound))

    def _check(self, terms: list[Term]) -> list[Term]:
        if len(terms) > self.limit:
            raise TooLarge
        return terms

    # -- assembly ----------------------------------------------------------------------------
    def _assemble(self, terms: list[Term], s: Semiring) -> Expr:
        total: dict[tuple[tuple[Expr, ...], tuple[Axis, ...]], Fraction] = {}
        for t in terms:
            axes, labels = best_order(t.factors, t.bound, partial(self.factor, s=s), True)
            factors = [self.factor(_renamed(f, labels), s) for f in t.factors]
            factors.sort(key=spell)
            if s.times_idempotent:
                factors = list(dict.fromkeys(factors))
            key = tuple(factors), tuple(Axis(labels[a.name], a.extent) for a in axes)
            total[key] = total.get(key, Fraction(0)) + t.coefficient
        exact = s.dtype.kind in "biu"
        found = []
        for (product, bound), n in total.items():
            n = _wrapped(n, s.dtype) if s.is_ring and exact else n
            if n == 0 and (exact or not product):
                continue
            found.extend([_term(product, bound, n, s)] * _copies(n, s))
        found.sort(key=spell)
        return _sum(found, s)


def _copies(n: Fraction, s: Semiring) -> int:
    return 1 if s.is_ring or s.plus_idempotent else int(n)


def _names(t: Term) -> frozenset[str]:
    """The indices that the factors of a term mention, and those that it binds."""
    return frozenset().union(*[f.free for f in t.factors], [x.name for x in t.bound])


def _term(factors: tuple[Expr, ...], bound: tuple[Axis, ...], n: Fraction, s: Semiring) -> Expr:
    parts = list(factors)
    if s.is_ring and (n != 1 or not parts):
        parts.insert(0, const(_number(n, s.dtype), s.dtype))
    if not parts:
        assert s.one is not None
        return s.one
    result = parts[0]
    for f in parts[1:]:
        assert s.times is not None
        result = Call(s.times, (result, f))
    return Reduce(s.plus, bound, result) if bound else result


def _sum(terms: list[Expr], s: Semiring) -> Expr:
    if not terms:
        assert s.zero is not None
        return s.zero
    result = terms[0]
    for t in terms[1:]:
        result = Call(s.plus, (result, t))
    return result


def _scaled(terms: list[Term], by: Fraction) -> list[Term]:
    return [Term(t.coefficient * by, t.factors, t.bound) for t in terms]


def _fraction(e: Expr) -> Fraction | None:
    """The exact value of a real, finite literal."""
    if not isinstance(e, Const) or isinstance(e, GivenConst) or e.dtype.kind not in "iuf":
        return None
    if e.dtype.kind == "f" and not float("-inf") < e.value < float("inf"):
        return None
    return Fraction(e.value.item())


def _wrapped(n: Fraction, dtype: DType) -> Fraction:
    """Integers are numbers modulo 2**bits."""
    bits = 8 * dtype.itemsize
    value = int(n) % 2**bits
    return Fraction(value - 2**bits if dtype.kind == "i" and value >= 2 ** (bits - 1) else value)


def _number(n: Fraction, dtype: DType) -> int | float:
    return int(n) if dtype.kind in "biu" else float(n)


def _renamed(e: Expr, names: dict[str, str]) -> Expr:
    return substitute(e, {old: Index(new) for old, new in names.items()})


def _extent(a: Axis) -> int:
    return a.extent


__all__ = ["canonical"]
