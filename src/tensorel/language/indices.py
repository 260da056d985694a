"""The indices of a program, their ranges, and what guards and data say of whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count

from tensorel.algebra import ops
from tensorel.ir.build import (
    as_expr,
    compare,
    floordiv,
    int_value,
    minus,
    modulo,
    plus,
    times,
)
from tensorel.ir.nodes import BOOL, INT64, Call, Const, Expr, Index, Read
from tensorel.ir.ranges import COMPARED, Range, index_range, is_affine
from tensorel.ir.replacing import substitute, with_parts
from tensorel.language.data_joins import Data


class Indices:
    """The indices of a program with their ranges, and what is known of its data."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.bounds: dict[str, Range] = {}
        self.fresh_names = (f"r{k}" for k in count())
        self.facts: dict[Expr, Range | None] = {}
        self.opened: dict[Expr, tuple[Index, int]] = {}
        self.axes: dict[str, str] = {}  # indices that run over a whole axis of a tensor, and which
        self.unequal: dict[tuple[str, str], tuple[int, int]] = {}  # joined axes of two extents

    def fresh(self, low: int, high: int) -> Index:
        """A new index with low <= i <= high."""
        name = next(self.fresh_names)
        self.bounds[name] = low, high
        return Index(name)

    def axis(self, about: str, extent: int) -> Index:
        """A new index over a whole axis of a tensor, which errors call ``about``."""
        made = self.fresh(0, extent - 1)
        self.axes[made.name] = about
        return made

    def copy(self, name: str) -> Index:
        """A new index in place of another."""
        made = self.fresh(*self.bounds[name])
        if name in self.axes:
            self.axes[made.name] = self.axes[name]
        return made

    # -- ranges ------------------------------------------------------------------------------
    def range_of(self, e: Expr, guards: Iterable[Expr] = ()) -> Range | None:
        """Bounds of a whole number where the guards hold, None if there are none to be seen."""
        if isinstance(e, Const):
            return (int(e.value),) * 2 if e.dtype.kind in "biu" else None
        narrow = {n: self.bounds[n] for n in e.free}
        for g in guards:
            for name, found in self.narrowed(g).items():
                if name in narrow:
                    low, high = narrow[name]
                    narrow[name] = max(low, found[0]), min(high, found[1])
        if any(low > high for low, high in narrow.values()):
            return 0, -1
        return narrow[e.name] if isinstance(e, Index) else self._range(e, narrow)

    def _range(self, e: Expr, bounds: dict[str, Range]) -> Range | None:
        opened = self._opened(e)
        extents = {n: high - low + 1 for n, (low, high) in bounds.items()}
        moved: dict[str, Expr] = {
            n: plus(Index(n), low) for n, (low, _) in bounds.items() if low}
        for index, extent in self.opened.values():
            extents[index.name] = extent
        return index_range(substitute(opened, moved), extents)

    def _opened(self, e: Expr) -> Expr:
        """``e`` with what has known bounds, as integer data has, replaced by indices."""
        if isinstance(e, Read) and e.dtype.kind in "iu" and e not in self.facts:
            self.facts[e] = self.data.entries(e.tensor)
        known = self.facts.get(e)
        if known is not None:
            if e not in self.opened:
                self.opened[e] = Index(f"known{len(self.opened)}"), known[1] - known[0] + 1
            return plus(self.opened[e][0], known[0])
        return with_parts(e, self._opened) if isinstance(e, Call) else e

    def narrowed(self, guard: Expr) -> dict[str, Range]:
        """What a comparison of affine expressions says about each index of it."""
        if not isinstance(guard, Call) or guard.op not in COMPARED:
            return {}
        form = is_affine(Call(ops.subtract, guard.args)) if all(
            a.dtype.kind in "iu" for a in guard.args) else None
        if form is None:
            return {}
        found: dict[str, Range] = {}
        for name, c in form.coefficients.items():
            rest = [self.bounds[n] if k > 0 else self.bounds[n][::-1]
                    for n, k in form.coefficients.items() if n != name]
            factors = [k for n, k in form.coefficients.items() if n != name]
            low = form.constant + sum(k * b[0] for k, b in zip(factors, rest))
            high = form.constant + sum(k * b[1] for k, b in zip(factors, rest))
            found[name] = _solved(c, low, high, COMPARED[guard.op], self.bounds[name])
        return found

    def tidied(self, e: Expr) -> Expr:
        """A whole number with its indices collected: ``i - (1 + k) - 1 + k`` is ``i - 2``. What is
        divided is cut: ``(6*i + k) // 6`` is i, and the rest k, for k from 0 to 5."""
        return self._tidied(e, {})

    def _tidied(self, e: Expr, done: dict[Expr, Expr]) -> Expr:
        if e in done or isinstance(e, (Const, Index)) or not e.free:
            return done.get(e, e)
        found = with_parts(e, lambda x: self._tidied(x, done) if isinstance(x, Expr) else x) \
            if isinstance(e, (Call, Read)) else e
        if isinstance(found, Call) and found.dtype == INT64:
            found = self._divided(found) or found
            form = is_affine(found)
            if form is not None:
                found = affine(form.coefficients, form.constant)
        elif isinstance(found, Call) and found.op in COMPARED:
            found = self._compared(found)
        done[e] = found
        return found

    def _compared(self, e: Call) -> Expr:
        """A comparison of an index with what is known: ``i < 3`` for ``i - 1 < 2``."""
        form = is_affine(Call(ops.subtract, e.args)) if all(
            a.dtype == INT64 for a in e.args) else None
        if form is None:
            return e
        if len(form.coefficients) == 1:
            ((name, c),) = form.coefficients.items()
            if c == 1:
                return compare(e.op, Index(name), -form.constant)
            if c == -1:
                return compare(_FLIPPED[e.op], Index(name), form.constant)
        left = {n: c for n, c in form.coefficients.items() if c > 0}
        right = {n: -c for n, c in form.coefficients.items() if c < 0}
        if not left:
            return compare(e.op, form.constant, affine(right, 0))
        return compare(e.op, affine(left, 0), affine(right, -form.constant))

    def _divided(self, e: Call) -> Expr | None:
        """A quotient or a rest by a number without what the number divides."""
        if e.op not in (ops.floor_divide, ops.remainder):
            return None
        c, form = int_value(e.args[1]), is_affine(e.args[0])
        if c is None or c < 1 or form is None:
            return None
        whole = {n: k // c for n, k in form.coefficients.items() if k % c == 0}
        rest = {n: k for n, k in form.coefficients.items() if k % c}
        left = affine(rest, form.constant % c)
        bounds = self.range_of(left)
        inside = bounds is not None and bounds[0] >= 0 and bounds[1] < c
        if not inside and not whole and 0 <= form.constant < c:
            return None
        if e.op is ops.remainder:
            return left if inside else modulo(left, c)
        quotient = affine(whole, form.constant // c)
        return quotient if inside else plus(quotient, floordiv(left, c))

    def known(self, guard: Expr) -> bool | None:
        """Whether a guard always or never holds."""
        if isinstance(guard, Const):
            return bool(guard.value)
        found = self.range_of(guard) if guard.dtype == BOOL else None
        return None if found is None or found[0] != found[1] else bool(found[0])

    def inside(self, e: Expr, low: int, high: int) -> tuple[Expr, ...]:
        """The guards that say low <= e <= high, as far as that is not known."""
        found = self.range_of(e)
        index, offset = shifted(e)
        guards: list[Expr] = []
        if found is None or found[0] < low:
            guards.append(compare(ops.greater_equal, index, low - offset))
        if found is None or found[1] > high:
            guards.append(compare(ops.less, index, high + 1 - offset))
        return tuple(guards)

    def join_axes(self, a: str, b: str) -> str | None:
        """The shorter of two axes of tensors that are joined; unequal ones are remembered."""
        if a not in self.axes or b not in self.axes:
            return None
        first, second = self.bounds[a][1] + 1, self.bounds[b][1] + 1
        if first != second:
            self.unequal.setdefault((self.axes[a], self.axes[b]), (first, second))
        return self.axes[a if first <= second else b]


def affine(coefficients: Mapping[str, int], constant: int) -> Expr:
    """The sum of indices, each times its factor, and a number."""
    found: Expr | None = None
    for sign in (1, -1):
        for name, c in coefficients.items():
            if c * sign > 0:
                one = times(abs(c), Index(name))
                found = plus(found, one) if sign > 0 and found is not None else (
                    one if sign > 0 else minus(as_expr(0) if found is None else found, one))
    return as_expr(constant) if found is None else plus(found, constant)


def shifted(e: Expr) -> tuple[Expr, int]:
    """An index and what is added to it, or the expression and 0."""
    form = is_affine(e)
    if form is not None and list(form.coefficients.values()) == [1]:
        return Index(*form.coefficients), form.constant
    return e, 0


def extent(bounds: Range) -> int:
    """How many values there are."""
    return max(bounds[1] - bounds[0] + 1, 0)


_FLIPPED = {ops.less: ops.greater, ops.less_equal: ops.greater_equal, ops.greater: ops.less,
            ops.greater_equal: ops.less_equal, ops.equal: ops.equal}
def _solved(c: int, low: int, high: int, side: tuple[int | None, int | None],
            known: Range) -> Range:
    """Bounds of i from side[0] <= c*i + rest <= side[1], with low <= rest <= high."""
    first, last = known
    most = None if side[1] is None else side[1] - low  # c*i <= most
    least = None if side[0] is None else side[0] - high
    if c < 0:
        c, most, least = -c, (None if least is None else -least), (
            None if most is None else -most)
    if most is not None:
        last = min(last, most // c)
    if least is not None:
        first = max(first, -(-least // c))
    return first, last
