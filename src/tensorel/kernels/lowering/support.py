"""Where an expression can differ from its background.

The *background* of an expression is its value where every sparse operand is absent (reads its
fill). The *support* is a formula over the operands' stored sets outside of which the expression
equals its background: ``*`` with fill 0 intersects, ``+`` unites, a dense operand is everywhere.

Laws, for op(e1..en) with backgrounds b1..bn:
- if bk annihilates op at argument k, then outside support(ek) the result is the annihilator
  whatever the others are: support = AND of support(ek) over all such k;
- otherwise support = OR of support(ek).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from functools import reduce

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.analysis import apply, repeat, stands
from tensorel.ir.nodes import (
    Call,
    Const,
    Expr,
    Index,
    Local,
    Read,
    Reduce,
    Source,
    const,
    is_same_literal,
)
from tensorel.kernels.lowering.magnitude import Magnitudes


@dataclass(frozen=True, slots=True)
class Formula:
    """A monotone boolean formula: ``kind`` is "true", "false", "has" (one read), "and", "or"."""

    kind: str
    read: Read | None = None
    parts: tuple[Formula, ...] = ()

    def __repr__(self) -> str:
        if self.kind in ("and", "or"):
            return "(" + f" {self.kind} ".join(map(repr, self.parts)) + ")"
        return self.kind


TRUE, FALSE = Formula("true"), Formula("false")


def has(read: Read) -> Formula:
    return Formula("has", read)


def conjunction(parts: list[Formula]) -> Formula:
    flat: list[Formula] = []
    for p in parts:
        if p.kind == "false":
            return FALSE
        for q in p.parts if p.kind == "and" else (p,):
            if q.kind != "true" and q not in flat:
                flat.append(q)
    if not flat:
        return TRUE
    if len(flat) > 1:
        flat = _absorbed(flat)
    return flat[0] if len(flat) == 1 else Formula("and", None, tuple(flat))


def _absorbed(parts: list[Formula]) -> list[Formula]:
    """A conjunction without the disjunctions that another part implies: a and (a or b) is a."""
    ways = [frozenset(p.parts) if p.kind == "or" else frozenset((p,)) for p in parts]
    return [p for k, p in enumerate(parts) if not any(
        w < ways[k] or (w == ways[k] and j < k) for j, w in enumerate(ways) if j != k)]


def disjunction(parts: list[Formula]) -> Formula:
    flat: list[Formula] = []
    for p in parts:
        if p.kind == "true":
            return TRUE
        for q in p.parts if p.kind == "or" else (p,):
            if q.kind != "false" and q not in flat:
                flat.append(q)
    if not flat:
        return FALSE
    return flat[0] if len(flat) == 1 else Formula("or", None, tuple(flat))


def restrict(f: Formula, known: Callable[[Read], Formula]) -> Formula:
    """``f`` with each ``has(read)`` replaced."""
    if f.kind == "has":
        assert f.read is not None
        return known(f.read)
    if f.kind == "and":
        return conjunction([restrict(p, known) for p in f.parts])
    if f.kind == "or":
        return disjunction([restrict(p, known) for p in f.parts])
    return f


def reads_of(f: Formula) -> list[Read]:
    if f.kind == "has":
        assert f.read is not None
        return [f.read]
    return [r for p in f.parts for r in reads_of(p)]


def leads_alone(read: Read, ahead: Mapping[str, Formula],
                may_lead: Callable[[Read, str, frozenset[str]], bool]) -> bool:
    """Whether a loop ahead, in their order, runs through all of its axis unless ``read`` leads it:
    its levels must be followed one by one then, though all of them together could be found at
    once. ``may_lead``: another read can lead a loop when the loops of some names stand outside."""
    outside: frozenset[str] = frozenset()
    for name, formula in ahead.items():
        if name in read.free:
            others = restrict(formula, lambda r, n=name, o=outside: (  # type: ignore[misc]
                has(r) if r is not read and may_lead(r, n, o) else TRUE))
            if others.kind == "true" and restrict(
                    formula, lambda r: has(r) if r is read else TRUE).kind != "true":
                return True
        outside |= {name}
    return False


def reaches(levels: Iterable[tuple[Expr, bool]], name: str, bound: Container[str]) -> bool:
    """Levels, by their index and whether they are full, are followed down to one that the loop of
    a name can go through."""
    for index, full in levels:
        if name in index.free:
            return not full and all(n == name or n in bound for n in index.free)
        if not all(n in bound for n in index.free):
            return False
    return False


def is_sparse(read: Read) -> bool:
    tensor = read.tensor
    return isinstance(tensor, Source) and not tensor.data.format.is_dense  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Cover:
    """Background (None: not a constant) and support of an expression."""

    background: Const | None
    support: Formula


def rounds(op: ops.Operator, dtype: ops.DType) -> bool:
    """The order in which values are combined can be seen in the last bit."""
    return dtype.kind in "fc" and not op.idempotent


def wide(op: ops.Operator, dtype: ops.DType) -> ops.DType:
    """In which dtype values of ``dtype`` are combined: sums of float32 in double precision, to be
    rounded once at their end."""
    if dtype.itemsize > _SINGLE.get(dtype.kind, 0) or not rounds(op, dtype) or op.repeat is None:
        return dtype
    return ops.COMPLEX128 if dtype.kind == "c" else ops.FLOAT64


_SINGLE = {"f": 4, "c": 8}  # bytes in single precision


def evaluate_constant(op: ops.Operator, args: tuple[Const, ...]) -> Const | None:
    """op on literals as NumPy computes it, or None where it cannot (users' operators)."""
    if op.expand is not None:
        return None
    try:
        return const(apply(op, *(a.value for a in args)))
    except (ValueError, TypeError, ZeroDivisionError):
        return None


def repeat_constant(op: ops.Operator, c: Const, n: int) -> Const:
    """c combined with itself n times."""
    return const(repeat(op, c.value, n), c.dtype)


#: Zeros of either sign in, zeros of either sign out; all else is the same.
_SIGNLESS = frozenset({ops.add, ops.subtract, ops.multiply, ops.negative, ops.positive, ops.where})


class Analysis:
    """Covers of all subexpressions of one body. A read for which ``fixed`` holds keeps its own
    value: it is a constant of the loops in question and never "absent".

    ``strict``: annihilation must be exact. 0 * x is +0 or -0 for every finite x, and a sum that
    starts with +0 is the same, to the last bit, with or without zeros of either sign: x + 0 = x,
    and +0 + -0 = +0, so it is never -0. So a product inside a sum (``summed``: the body is the
    term of one) is skipped where a factor is absent and the others are finite for sure."""

    def __init__(
        self, strict: bool = False, fixed: Callable[[Read], bool] = lambda r: False,
        sparse: Callable[[Read], bool] = is_sparse, summed: bool = False,
    ) -> None:
        self.strict = strict
        self.fixed = fixed
        self.sparse = sparse
        self.summed = summed and strict
        self.magnitudes = Magnitudes()
        self.memo: dict[tuple[Expr, bool], Cover] = {}

    def cover(self, e: Expr, summed: bool = False) -> Cover:
        """``summed``: as if the analysis were of the term of a sum."""
        return self._known(e, self.summed or (summed and self.strict))

    def _known(self, e: Expr, summed: bool) -> Cover:
        found = self.memo.get((e, summed))
        if found is None:
            found = self.memo[e, summed] = self._cover(e, summed)
        return found

    def _cover(self, e: Expr, summed: bool) -> Cover:
        match e:
            case Const():
                return Cover(e, FALSE)
            case Index() | Local():
                return Cover(None, TRUE)
            case Read():
                assert isinstance(e.tensor, Source)
                if self.fixed(e):
                    return Cover(None, FALSE)
                everywhere = not e.free or not self.sparse(e)  # one entry for all points, or all
                return Cover(e.tensor.fill, TRUE if everywhere else has(e))
            case Reduce():
                inner = self._known(e.body, self.strict and e.op is ops.add)
                count = reduce(lambda a, x: a * x.extent, e.axes, 1)
                b = inner.background
                done = None if b is None else repeat_constant(e.op, b, count)
                return Cover(done, inner.support)
            case Call():
                return self._call(e, summed)
            case _:
                raise AssertionError(e)

    def _call(self, e: Call, summed: bool) -> Cover:
        inside = summed and e.op in _SIGNLESS
        covers = [self._known(a, inside) for a in e.args]
        if e.op is ops.where:
            return self._where(covers)
        deciding = [(c, result) for k, c in enumerate(covers)
                    if (result := self._decided(e, k, c, covers, summed)) is not None]
        if len({result for _, result in deciding}) == 1:  # inf and -inf decide nothing together
            where = conjunction([c.support for c, _ in deciding])
            return Cover(const(deciding[0][1], e.dtype), where)
        backgrounds = [c.background for c in covers]
        background = None
        if all(b is not None for b in backgrounds):
            background = evaluate_constant(e.op, tuple(backgrounds))  # type: ignore[arg-type]
        return Cover(background, disjunction([c.support for c in covers]))

    def _decided(self, e: Call, k: int, c: Cover, covers: list[Cover], summed: bool
                 ) -> ops.Scalar | None:
        """What argument k, where it is absent, makes the result whatever the others are.

        A literal never decides: only entries that are not stored annihilate inf and nan."""
        if c.background is None or (isinstance(e.args[k], Const) and e.dtype.kind in "fc"):
            return None
        result = e.op.decided(k, c.background.value, e.dtype)
        if result is None or (
                self.strict and e.dtype.kind in "fc" and not e.op.exact_annihilators
                and not (summed and result == 0 and self._vanishes(e, k))):
            return None
        if None in e.op.annihilators and not any(
            stands(a, e) or covers[j].background is None for j, a in enumerate(e.args) if j != k
        ):
            return None  # 0/0 of two fills is nan, as the fill of the result says
        return result

    def _vanishes(self, e: Call, k: int) -> bool:
        """Where argument k is zero, so is the result: the others are finite."""
        return None not in e.op.annihilators and all(
            self.magnitudes.finite(a) for j, a in enumerate(e.args) if j != k)

    def _where(self, covers: list[Cover]) -> Cover:
        """Two bounds on the support, each valid by itself: outside p (with its background
        choosing a branch) and outside both branches (when their backgrounds agree)."""
        p, a, b = covers
        background: Const | None = None
        bounds: list[Formula] = []
        if p.background is not None:
            chosen = a if bool(p.background.value) else b
            background = chosen.background
            bounds.append(disjunction([p.support, chosen.support]))
        if is_same_literal(a.background, b.background):
            background = a.background
            bounds.append(disjunction([a.support, b.support]))
        return Cover(background, conjunction(bounds) if bounds else TRUE)


def absent(e: Expr, gone: Callable[[Read], bool]) -> Expr:
    """``e`` where the sparse reads that ``gone`` picks are not stored: they read their fill."""
    match e:
        case Read():
            assert isinstance(e.tensor, Source)
            sparse = not e.tensor.data.format.is_dense  # type: ignore[attr-defined]
            return e.tensor.fill if sparse and gone(e) else e
        case Call():
            return Call(e.op, tuple(absent(a, gone) for a in e.args))
        case _:
            return e
