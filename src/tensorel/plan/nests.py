"""The cheapest loop order, output and conversions for one aggregate."""

from __future__ import annotations

import math

from tensorel.ir.nodes import Read
from tensorel.kernels.flat import flat_read
from tensorel.kernels.support import Formula, has
from tensorel.plan.decide import Option
from tensorel.plan.loops import (
    Operand,
    Simulation,
    converted,
    is_plain,
    orders,
    simulate,
)
from tensorel.plan.outputs import Choice, Outputs


class NestSearch(Outputs):
    """Tries loop orders, with and without converting operands that do not follow them."""

    def _orders(self) -> list[tuple[str, ...]]:
        """Loop orders; the reduced indices of sums whose order shows stay as they were written."""
        found = orders(list(self.extents), self.operands)
        if not self.sequential:
            return found
        wanted = [n for n in self.extents if n in self.reduced]
        return [o for o in found if [n for n in o if n in self.reduced] == wanted]

    def best(self, name: str) -> Choice:
        supports = self.supports()
        decisions = self.chooser.program.decisions
        if decisions.listing:
            return decisions.decide_among("loops", name, lambda: [
                Option(c.cost, c, _words(c)) for order in self._orders()
                for converts in self._conversions(order)
                for c in self._choices(order, converts, supports, math.inf)])
        best: Choice | None = None
        second: Choice | None = None
        for order in self._orders():
            for converts in self._conversions(order):
                limit = math.inf if second is None else second.cost
                for choice in self._choices(order, converts, supports, limit):
                    if best is None or choice.cost < best.cost:
                        best, second = choice, best
                    elif second is None or choice.cost < second.cost:
                        second = choice
        assert best is not None
        if second is not None:
            ratio = second.cost / max(best.cost, 1e-9)
            best.runner_up = f"{_words(second)}, estimated {ratio:.2f} times the cost"
        return best

    def _conversions(self, order: tuple[str, ...]) -> list[list[Operand]]:
        """No conversion, or all sparse operands whose levels do not follow the loops."""
        if self.op is None and isinstance(self.body, Read):
            return [[]]  # that is the conversion
        wrong = [o for o in self.operands if o.sparse and is_plain(o.read)
                 and all(e.name in order for e in o.axes)  # type: ignore[attr-defined]
                 and not _follows(o, order)]
        return [[], wrong] if wrong else [[]]

    def _choices(self, order: tuple[str, ...], converts: list[Operand],
                 supports: dict[str, Formula], limit: float) -> list[Choice]:
        """The ways to assemble the result under an order, if some may cost less than
        ``limit``."""
        ops_ = [converted(o, order, self.extents) if o in converts else o for o in self.operands]
        first = sum(self.chooser.conversion_cost(o, order) for o in converts)
        if first >= limit:
            return []
        last = max((k for k, n in enumerate(order) if n not in self.reduced), default=-1)
        sim = self._flat(order, supports) if last < 0 and not converts else None
        if sim is None:
            sim = simulate(order, ops_, supports, self.extents, last,
                           self.names[-1] if self.names else None, self.costs, limit - first)
        cost = sim.cost + first
        if cost >= limit:
            return []
        return [Choice(order, sim, output, cost + extra, converts, axes_order, first)
                for output, axes_order, extra in self._outputs(order, last, sim)]

    def _flat(self, order: tuple[str, ...], supports: dict[str, Formula]) -> Simulation | None:
        """The work of one loop over the values of an operand, where that is all."""
        read = flat_read(self.body, order, self.extents)
        if read is None or any(supports[n] != has(read) for n in order):
            return None
        count = next(o.count for o in self.operands if o.read is read)
        return Simulation(count * self.costs.vector_step, 1.0, iterations=count)


def _words(c: Choice) -> str:
    names = [o.read.tensor.data.name for o in c.converts]  # type: ignore[attr-defined]
    first = f"{', '.join(names)} converted, " if names else ""
    return f"{first}loops {' > '.join(c.order) or 'none'} to {c.output.assembly.value}"


def _follows(o: Operand, order: tuple[str, ...]) -> bool:
    """The levels are in loop order, so the operand can lead."""
    places = [order.index(e.name) for e in o.axes]  # type: ignore[attr-defined]
    sparse_from = next((k for k, f in enumerate(o.full) if not f), len(places))
    return all(a < b for a, b in zip(places[sparse_from:], places[sparse_from + 1:])) and all(
        p < q for p in places[:sparse_from] for q in places[sparse_from:])
