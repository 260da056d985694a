"""What a step costs that joins factors and sums over indices.

A step is loops over the join, or, over dense factors, a product for BLAS: of two factors, each
multiplied together before. Results that would not fit into the memory cost more than anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

from tensorel.base.records import dataclass
from tensorel.plan.contraction.join_costs import MAX_PERMUTED_INDICES, cheapest_loops, least_loops
from tensorel.plan.contraction.join_sizes import Factor, Sizes

TOO_LARGE = 1e30  # steps: an intermediate above the limit of memory, if there is no other way
MAX_HALVED_FACTORS = 5  # up to so many dense factors are multiplied in two halves for BLAS


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """A factor that is given, or the step that makes it: ``inputs`` joined, ``indices`` summed.
    ``own`` is the cost of the step, ``cost`` that of all steps below as well."""

    factor: Factor
    indices: int = 0
    inputs: tuple[Node, ...] = ()
    own: float = 0.0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What intermediates may be: ``memory`` in bytes of ``item`` bytes each, read by ``blas``."""

    memory: float
    item: int
    blas: bool


@dataclass(slots=True, eq=False)
class Budget:
    """How many more steps are costed; past that the first way found is taken."""

    left: int


class Steps:
    """Steps of one search: ``outputs`` are the indices of its result, ``loose`` those that are
    summed though no factor has them."""

    def __init__(self, sizes: Sizes, limits: Limits, budget: Budget, outputs: int, loose: int
                 ) -> None:
        self.sizes, self.limits, self.budget = sizes, limits, budget
        self.outputs, self.loose = outputs, loose

    def written(self, f: Factor) -> float:
        """What storing a result costs."""
        cells = self.sizes.entries(f)
        costs = self.sizes.costs
        write = cells * (costs.write_dense if f.dense or f.tail else costs.write_sparse)
        if f.tail and not f.dense:
            write += cells / max(self.sizes.room(f.tail), 1.0) * costs.write_sparse
        if cells * self.limits.item > self.limits.memory and f.free & ~self.outputs:
            write += TOO_LARGE
        return write

    def least_written(self, f: Factor) -> float:
        """No step stores a result for less: a product for BLAS, values beside others' indices."""
        costs = self.sizes.costs
        return min(self.written(f), self.sizes.entries(f) * min(
            costs.reuse, self.limits.item * costs.memory))

    def step(self, made: Factor, indices: int, inputs: Sequence[Node], below: float = math.inf
             ) -> Node | None:
        """The step that joins the inputs, as a product for BLAS or as loops; None where it does
        not cost less than ``below``."""
        sizes, group = self.sizes, [n.factor for n in inputs]
        base = sum([n.cost for n in inputs])
        fixed = sizes.costs.call + (
            sizes.entries(made) * sizes.costs.reuse if not indices and _has_pattern(made, group)
            else self.written(made))
        best: Node | None = None
        plain = self.limits.blas and indices and len(inputs) > 1 \
            and all([f.plain for f in group])  # noqa: C419
        if plain and len(inputs) == 2 and made.free and not indices & ~(
                group[0].free & group[1].free):
            own = self._product(made, inputs)
            return Node(made, indices, tuple(inputs), own, base + own) \
                if base + own < below else None
        if indices and self._by_rows(group) and indices == group[0].free & group[1].free:
            own = fixed + self._rows_product(made, group)
            return Node(made, indices, tuple(inputs), own, base + own) \
                if base + own < below else None
        room = below - base - fixed
        if room > 0 and self.least(group) < room:
            self.budget.left -= 1
            own = fixed + cheapest_loops(sizes, group, made, room)
            if base + own < below:
                best = Node(made, indices, tuple(inputs), own, base + own)
                below = best.cost
        if plain and len(inputs) <= MAX_HALVED_FACTORS:
            best = self._halves(made, indices, inputs, below) or best
        return best

    def _product(self, made: Factor, inputs: Sequence[Node]) -> float:
        """Two dense factors by BLAS: its arithmetic, all of both read, and the result written."""
        sizes, costs, names = self.sizes, self.sizes.costs, 0
        cells = sizes.room(made.free)
        too_large = self.written(made) - cells * costs.write_dense
        for n in inputs:
            names |= n.factor.free
            cells += sizes.room(n.factor.free)
        return costs.call + max(too_large, 0.0) + sizes.room(names) / costs.blas_speed \
            + cells * self.limits.item * costs.memory

    def _by_rows(self, group: Sequence[Factor]) -> bool:
        """Some rows as a whole times a dense matrix: a product for BLAS of the rows alone."""
        if len(group) != 2 or not self.limits.blas:
            return False
        rows, matrix = group if group[0].tail else group[::-1]
        return bool(rows.tail) and not rows.dense and matrix.plain \
            and rows.free & matrix.free == rows.tail

    def _rows_product(self, made: Factor, group: Sequence[Factor]) -> float:
        sizes = self.sizes
        rows, matrix = group if group[0].tail else group[::-1]
        cells = sizes.entries(rows)
        wide = sizes.room(matrix.free) / sizes.room(rows.tail)
        return cells * wide / sizes.costs.blas_speed + (
            cells + sizes.room(matrix.free) + sizes.entries(made)
        ) * self.limits.item * sizes.costs.memory

    def least(self, group: Sequence[Factor]) -> float:
        """Any loops visit at least the points of the join; BLAS does so at its own speed."""
        costs, joined = self.sizes.costs, self.sizes.group(group)
        if not joined.sparse:
            return self.sizes.room(joined.names) * min(costs.vector_step, 1.0 / costs.blas_speed)
        if self._by_rows(group):
            return joined.all_points * min(costs.vector_step, 1.0 / costs.blas_speed)
        return joined.all_points * costs.vector_step

    def loses(self, group: Sequence[Factor], room: float) -> bool:
        """Whether all loops over the join cost more than ``room``, whatever they make."""
        room -= self.sizes.costs.call
        if self.least(group) >= room:
            return True
        if self._by_rows(group):
            return False
        joined = self.sizes.group(group)
        return bool(joined.sparse) and joined.is_large \
            and len(joined.singles) <= MAX_PERMUTED_INDICES \
            and least_loops(joined, room)[0] == math.inf

    def _halves(self, made: Factor, indices: int, inputs: Sequence[Node], below: float
                ) -> Node | None:
        """Dense factors in two groups, each multiplied together first: a product of two for
        BLAS. At least one group needs a step of its own."""
        base = sum([n.cost for n in inputs])
        names = made.free | indices & ~self.loose
        best: Node | None = None
        if base + self.sizes.room(names) / self.sizes.costs.blas_speed \
                + 2 * self.sizes.costs.call >= below:
            return None
        first, rest = inputs[0], inputs[1:]
        for size in range(len(rest)):
            for some in combinations(rest, size):
                left = self._together((first, *some))
                right = self._together([n for n in rest if n not in some])
                if not made.free or indices & ~(left.factor.free & right.factor.free):
                    continue
                last = self._product(made, (left, right))
                cost = left.cost + right.cost + last
                if cost < below:
                    best, below = Node(made, indices, (left, right), last, cost), cost
        return best

    def _together(self, inputs: Sequence[Node]) -> Node:
        """Dense factors multiplied, nothing summed."""
        if len(inputs) == 1:
            return inputs[0]
        parts = free = 0
        for n in inputs:
            parts |= n.factor.parts
            free |= n.factor.free
        made = Factor(parts, free, None, True, True)
        own = cheapest_loops(self.sizes, [n.factor for n in inputs], made) \
            + self.written(made) + self.sizes.costs.call
        return Node(made, 0, tuple(inputs), own, own + sum([n.cost for n in inputs]))


def _has_pattern(made: Factor, group: Sequence[Factor]) -> bool:
    """A product has the entries of its one sparse factor: values go beside its index arrays."""
    sparse = [f for f in group if not f.dense]
    return not made.dense and len(sparse) == 1 and sparse[0].free == made.free
