"""Symbols for whole numbers, and what is assumed of them."""

from __future__ import annotations

from tensorel.loops.analysis.affine import ONE, Bounds, Form

Span = tuple[int | None, int | None]


class Constraints:
    """What stands in ``constraints`` is at least 0."""

    def __init__(self) -> None:
        self.constraints: list[Form] = []
        self._bounds: Bounds | None = None
        self._symbols = 0

    def symbol(self, lower: Form | None = None, upper: Form | None = None) -> Form:
        """A new number between others."""
        self._symbols += 1
        found = Form(0, ((self._symbols, 1),))
        if lower is not None:
            self.assume(found.plus(lower, -1))
        if upper is not None:
            self.assume(upper.plus(found, -1))
        return found

    def assume(self, form: Form) -> None:
        """It is at least 0."""
        self.constraints.append(form)
        self._bounds = None

    def forget(self, height: int) -> None:
        del self.constraints[height:]
        self._bounds = None

    def span(self, form: Form) -> Span:
        if not form.terms:
            return form.constant, form.constant
        if self._bounds is None:
            self._bounds = Bounds(self.constraints)
        return self._bounds.lower(form), self._bounds.upper(form)

    def compare(self, symbol: str, a: Form, b: Form) -> None:
        """The comparison holds."""
        difference = b.plus(a, -1)
        if symbol in ("<", "<=", "=="):
            self.assume(difference.plus(ONE, -1) if symbol == "<" else difference)
        if symbol in (">", ">=", "=="):
            back = difference.times(-1)
            self.assume(back.plus(ONE, -1) if symbol == ">" else back)
        if symbol == "!=":  # at an end of its range, it is beyond
            low, high = self.span(difference)
            if low == 0:
                self.assume(difference.plus(ONE, -1))
            elif high == 0:
                self.assume(difference.times(-1).plus(ONE, -1))

    def most_turns(self, start: Form | None, stop: Form | None, step: Form | None) -> int | None:
        """At most so many turns a range has, if that is known."""
        if start is None or stop is None or step is None or step.terms or not step.constant:
            return None
        length = stop.plus(start, -1).times(1 if step.constant > 0 else -1)
        _, most = self.span(length)
        return None if most is None else max(-(-most // abs(step.constant)), 0)
