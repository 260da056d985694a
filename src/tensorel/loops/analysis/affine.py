"""Whole numbers as sums of symbols, and bounds of them under constraints."""

from __future__ import annotations

from collections.abc import Sequence

from tensorel.base.records import dataclass

#: Steps of elimination that one question may take; a question that takes more is not answered.
MAX_STEPS = 400


@dataclass(frozen=True, slots=True)
class Form:
    """``constant + sum of coefficient * symbol``; symbols are numbered as they came up."""

    constant: int
    terms: tuple[tuple[int, int], ...] = ()

    def coefficient(self, symbol: int) -> int:
        return next((c for s, c in self.terms if s == symbol), 0)

    def plus(self, other: Form, times: int = 1) -> Form:
        """This + times * other."""
        found = dict(self.terms)
        for s, c in other.terms:
            found[s] = found.get(s, 0) + times * c
        return Form(self.constant + times * other.constant,
                    tuple(sorted((s, c) for s, c in found.items() if c)))

    def times(self, factor: int) -> Form:
        return ZERO.plus(self, factor) if factor != 1 else self

    @property
    def symbols(self) -> tuple[int, ...]:
        return tuple([s for s, _ in self.terms])


ZERO, ONE = Form(0), Form(1)


class Bounds:
    """Lower bounds of forms, by elimination of the youngest symbol: what stands in ``constraints``
    is at least 0."""

    def __init__(self, constraints: Sequence[Form]) -> None:
        self.by_symbol: dict[int, list[tuple[int, Form]]] = {}
        for k in constraints:
            for s, c in k.terms:
                self.by_symbol.setdefault(s, []).append((c, k))
        self.steps = 0

    def lower(self, form: Form) -> int | None:
        """The largest lower bound that was found."""
        self.steps = 0
        return self._lower(form, 12)

    def upper(self, form: Form) -> int | None:
        found = self.lower(form.times(-1))
        return None if found is None else -found

    def _lower(self, form: Form, depth: int) -> int | None:
        if not form.terms:
            return form.constant
        self.steps += 1
        if depth == 0 or self.steps > MAX_STEPS:
            return None
        symbol, c = form.terms[-1]
        best: int | None = None
        for a, constraint in self.by_symbol.get(symbol, ()):
            if (a > 0) == (c > 0):
                scale = abs(a)
                rest = form.times(scale).plus(constraint, -abs(c))
                found = self._lower(rest, depth - 1)
                if found is not None:
                    found = -(-found // scale)
                    best = found if best is None else max(best, found)
        return best
