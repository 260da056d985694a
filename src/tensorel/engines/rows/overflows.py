"""Whole numbers that do not fit 64 bits: a silent wrong number becomes an error.

A value that may overflow carries a mark, ``where(bad, mark, value)``, wherever expressions are
moved to. A pipeline takes marks out and computes beside its values which marks are met: only in
rows that get there, and where the branches above want the value. Bounds exclude nearly all.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

from tensorel.algebra import ops
from tensorel.errors import ArithmeticError_
from tensorel.ir.nodes import INT64, Call, Expr, Local, Read, const
from tensorel.ir.replacing import with_parts

_ZERO = const(0, INT64)
#: Marks are bits of one number; those of further expressions share the last one.
_BITS = 62


class Overflows:
    """The marks of one query."""

    def __init__(self) -> None:
        self.marks: dict[Expr, int] = {}
        self.texts: list[str] = []
        self._plain: dict[Expr, Expr] = {}
        self._wanted: dict[Expr, Expr | None] = {}

    def marked(self, value: Expr, bad: Expr, text: str) -> Expr:
        """``value``, which overflows where ``bad`` holds; ``text``: how it is written."""
        if text not in self.texts[:_BITS]:
            self.texts.append(text)
        number = min(self.texts.index(text), _BITS - 1)
        mark = Local(f"overflow{number}", INT64)
        self.marks[mark] = 1 << number
        return Call(ops.where, (bad, mark, value))

    def _is_mark(self, e: Expr) -> bool:
        return isinstance(e, Call) and e.op is ops.where and e.args[1] in self.marks

    def plain(self, e: Expr) -> Expr:
        """The expression without marks."""
        if not self.marks:
            return e
        self._visit(e)
        return self._plain[e]

    def _visit(self, e: Expr) -> None:
        """Both forms of an expression and all inside; expressions may be deep."""
        for x in parts_first(e, self._plain):
            self._plain[x] = self._plain[x.args[2]] if isinstance(x, Call) and (
                self._is_mark(x)) else with_parts(x, self._plain.__getitem__)
            self._wanted[x] = self._of(x)

    def only_where(self, there: Expr, e: Expr) -> Expr:
        """The expression at a place that need not be a row: its marks count where it is."""
        if not self.marks:
            return e
        memo: dict[Expr, Expr] = {}
        for x in parts_first(e, memo):
            new = with_parts(x, memo.__getitem__)
            if isinstance(new, Call) and self._is_mark(new):
                bad, *rest = new.args
                new = Call(ops.where, (Call(ops.bitwise_and, (there, bad)), *rest))
            memo[x] = new
        return memo[e]

    def wanted(self, *expressions: Expr) -> Expr | None:
        """The marks that computing the expressions meets, as bits of a number; None if none."""
        found: Expr | None = None
        for e in expressions if self.marks else ():
            self._visit(e)
            found = _together(found, self._wanted[e])
        return found

    def _of(self, e: Expr) -> Expr | None:
        if isinstance(e, Read):
            return self.wanted(*e.indices)
        if not isinstance(e, Call):
            return None
        if self._is_mark(e):
            bad, mark, value = e.args
            own = Call(ops.where, (self.plain(bad), const(self.marks[mark], INT64), _ZERO))
            return _together(self.wanted(value), own)
        if e.op not in (ops.where, ops.logical_and, ops.logical_or):
            return self.wanted(*e.args)
        test = e.args[0]
        yes, no = e.args[1], e.args[-1]
        first = None if e.op is ops.logical_or else self.wanted(yes)
        second = None if e.op is ops.logical_and else self.wanted(no)
        here = self.wanted(test)
        if first is None and second is None:
            return here
        branch = Call(ops.where, (self.plain(test), first or _ZERO, second or _ZERO))
        return _together(here, branch)

    def check(self, found: int) -> None:
        """The error of the first mark that was met."""
        if found:
            text = self.texts[(found & -found).bit_length() - 1]
            raise ArithmeticError_(f"sql: {text} has more than 64 bits",
                                   hint="compute it with CAST(x AS DOUBLE)")


def parts_first(e: Expr, known: Container[Expr]) -> Iterator[Expr]:
    """What is not known yet of an expression, parts first; what comes is known from then on."""
    stack = [e]
    while stack:
        x = stack[-1]
        parts = x.args if isinstance(x, Call) else x.indices if isinstance(x, Read) else ()
        below = [p for p in parts if p not in known]
        if x in known or not below:
            stack.pop()
            if x not in known:
                yield x
        else:
            stack += below


def sum_overflow() -> ArithmeticError_:
    """The error of a sum that does not fit."""
    return ArithmeticError_("sql: a sum of whole numbers has more than 64 bits",
                            hint="sum them as CAST(x AS DOUBLE)")


def _together(a: Expr | None, b: Expr | None) -> Expr | None:
    if a is None or b is None:
        return b if a is None else a
    return a if a is b else Call(ops.bitwise_or, (a, b))
