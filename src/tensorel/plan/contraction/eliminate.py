"""The cheapest sequence of steps that eliminates indices from a product of factors.

A step joins factors and sums over indices that no other factor has. What is left after a set of
indices has gone does not depend on the order: each connected part C of the set has become one
factor, the sum over C of all factors that touch it. So the search goes over connected sets of
indices: the best way to eliminate C is the best choice of the indices S that go last, in one
multiway loop, and the best ways for the connected parts of C without S, each by itself. A sparse
factor that lies within the indices of a part may join its last step as a mask.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations

from tensorel.plan.contraction.join_sizes import Factor, Sizes, bits
from tensorel.plan.contraction.renaming import has_repeats, may_exchange, shape_of
from tensorel.plan.contraction.step_costs import Budget, Limits, Node, Steps
from tensorel.plan.size_memory import resized
from tensorel.stats.estimates.pointset import Relation

MAX_SUBSET_INDICES = 6  # up to so many indices, any of them may go last together
MAX_PAIR_INDICES = 12  # up to so many, any two or all of them
MAX_COSTED_STEPS = 3000  # so many steps are costed for a search, and no more


class Search:
    """Sequences of steps over some factors that eliminate the indices ``reduced``."""

    def __init__(self, sizes: Sizes, given: Sequence[Node], reduced: int, limits: Limits,
                 budget: Budget | None = None, below: float = math.inf, final: bool = False
                 ) -> None:
        """``final``: what is left in the end is the result, which stays sparse longer than what
        is made on the way."""
        self.sizes, self.given, self.limits, self.final = sizes, given, limits, final
        self.budget = Budget(MAX_COSTED_STEPS) if budget is None else budget
        self.below = below  # only ways that cost less are looked for
        self.touching: dict[int, int] = dict.fromkeys(bits(reduced), 0)
        self.near: dict[int, int] = dict.fromkeys(bits(reduced), 0)
        self.names = self.parts_given = 0
        for k, node in enumerate(given):
            free = node.factor.free
            self.names |= free
            self.parts_given |= node.factor.parts
            for b in bits(free & reduced):
                self.touching[b] |= 1 << k
                self.near[b] |= free & reduced
        self.reduced = reduced & self.names
        self.outputs = self.names & ~reduced
        self.loose = reduced & ~self.names  # in no factor: the last step repeats over them
        self.all = (1 << len(given)) - 1
        self.steps = Steps(sizes, limits, self.budget, self.outputs, self.loose)
        self._parts: dict[int, list[int]] = {}
        self._touched: dict[int, int] = {}
        self._free: dict[int, int] = {}
        self._factors: dict[tuple[int, int], Factor] = {}
        self._repeats = has_repeats([n.factor for n in given])
        self._shapes: dict[tuple[int, int], object] = {}
        self._alike: dict[object, Factor] = {}
        self._solved: dict[tuple[int, int], Node | None] = {}

    # -- structure -----------------------------------------------------------------------------

    def parts(self, indices: int) -> list[int]:
        """The connected parts of a set of indices."""
        found = self._parts.get(indices)
        if found is None:
            found, left = [], indices
            while left:
                part = fresh = left & -left
                while fresh:
                    low = fresh & -fresh
                    fresh = (fresh ^ low) | (self.near[low] & left & ~part)
                    part |= fresh
                found.append(part)
                left &= ~part
            self._parts[indices] = found
        return found

    def touched(self, indices: int) -> int:
        """The given factors that have one of the indices."""
        found = self._touched.get(indices)
        if found is None:
            found = 0
            for b in bits(indices):
                found |= self.touching[b]
            self._touched[indices] = found
        return found

    def members(self, chosen: int) -> list[Node]:
        return [self.given[b.bit_length() - 1] for b in bits(chosen)]

    def free(self, chosen: int) -> int:
        found = self._free.get(chosen)
        if found is None:
            found = 0
            for node in self.members(chosen):
                found |= node.factor.free
            self._free[chosen] = found
        return found

    # -- factors -------------------------------------------------------------------------------

    def factor(self, indices: int, masks: int, last: int | None = None) -> Factor:
        """The sum over ``indices`` of all factors that touch them and of ``masks``. Estimated
        one way whatever steps make it, so that all of them are compared by the same result:
        with the index ``last`` that leaves the narrowest factors before it."""
        key = (indices, masks)
        found = self._factors.get(key)
        if found is None:
            if last is None:
                last = min(bits(indices), key=lambda b: self._width(indices ^ b)) \
                    if len(self.parts(indices)) == 1 else 0
            found = self._factors[key] = self._factor(indices, masks, last)
        return found

    def _width(self, indices: int) -> int:
        """The most indices that a part of a set leaves."""
        return max([(self.free(self.touched(p)) & ~p).bit_count() for p in self.parts(indices)],
                   default=0)

    def _factor(self, indices: int, masks: int, last: int) -> Factor:
        sizes = self.sizes
        below = self.parts(indices ^ last)
        chosen = self.touched(indices) | masks
        direct = chosen & ~self.touched(indices ^ last)
        if masks and len(self.parts(indices)) == 1:
            below, direct = [indices], masks  # all indices of masks stay
        kept = self.free(chosen) & ~indices
        parts = 0
        for node in self.members(chosen):
            parts |= node.factor.parts
        if not kept:
            return Factor(parts, 0, None, True, True)  # one value, whatever it is made of

        def result() -> Relation | None:
            group = [self.factor(p, 0) for p in below] + [n.factor for n in self.members(direct)]
            return sizes.result(group, kept)

        count = sizes.actual(parts, kept) if sizes.actual is not None else None
        shape = self._shape(indices, masks) if count is None else None
        alike = None if shape is None else self._alike.get(shape)
        tail, sure = self._tail(chosen, kept), self._sure(chosen, kept)
        if alike is not None:
            return Factor(parts, kept, None if alike.where is None else result, alike.dense,
                          alike.plain, size=sizes.entries(alike), tail=tail, sure=sure)
        relation = result()
        if relation is not None:
            self.budget.left -= 3  # about as long as costing so many steps
        if count is not None and relation is not None:
            relation = resized(relation, count)
        last_of_all = self.final and indices == self.reduced and chosen == self.all
        full = relation is None or relation.estimate > self._full_from(kept, last_of_all)
        made = Factor(parts, kept, relation, full, full, tail=tail, sure=0 if full else sure)
        if shape is not None:
            self._alike[shape] = made
        return made

    def _full_from(self, kept: int, final: bool) -> float:
        """A sum of sparse factors with more entries is stored dense."""
        costs = self.sizes.costs
        share = costs.dense_matrix if final and kept & (kept - 1) else costs.dense_vector
        return share * self.sizes.room(kept)

    def _as_stored(self, made: Factor, group: Sequence[Factor]) -> Factor:
        """The result as this step stores it: where its own sparse factors leave most cells empty
        it is sparse, though other steps, over dense factors, would fill it."""
        if not self.final or not made.dense or not made.free & (made.free - 1) \
                or made.parts != self.parts_given \
                or all([f.dense or not f.free & made.free for f in group]):  # noqa: C419
            return made
        relation = self.sizes.result(group, made.free)
        if relation is None or relation.estimate > self._full_from(made.free, True):
            return made
        return Factor(made.parts, made.free, relation, False, False)

    def _sure(self, chosen: int, kept: int) -> int:
        """The index at which a result has all that others ask for, as its one sparse factor."""
        sparse = [n.factor for n in self.members(chosen) if not n.factor.dense]
        return sparse[0].sure & kept if len(sparse) == 1 else 0

    def _tail(self, chosen: int, kept: int) -> int:
        """The one index of a result that no factor restricts: rows that are there at all are
        there in full."""
        bound = sparse = 0
        for node in self.members(chosen):
            f = node.factor
            if not f.dense:
                bound |= f.free & ~f.tail
                sparse |= f.free
        found = kept & ~bound
        return found if sparse and found != kept and found.bit_count() == 1 else 0

    # -- the search ----------------------------------------------------------------------------

    def step(self, made: Factor, indices: int, inputs: Sequence[Node], below: float = math.inf
             ) -> Node | None:
        """The step that joins the inputs, as it stores its result; None where it does not cost
        less than ``below``."""
        made = self._as_stored(made, [n.factor for n in inputs])
        return self.steps.step(made, indices, inputs, below)

    def at_once(self) -> Node | None:
        """All indices in one loop."""
        untouched = self.all & ~self.touched(self.reduced)
        return self.step(self.factor(self.reduced, untouched), self.reduced | self.loose,
                         self.given, self.below)

    def best(self) -> Node | None:
        """The cheapest steps for all indices; None where all cost too much."""
        untouched = self.all & ~self.touched(self.reduced)
        if not untouched and not self.loose and len(self.parts(self.reduced)) == 1:
            return self.solve(self.reduced, 0)
        return self._cheapest(self.reduced, untouched, [0, *self.last_sets(self.reduced)],
                              self.loose)

    def solve(self, indices: int, masks: int) -> Node | None:
        """The cheapest way to eliminate a connected set of indices."""
        key = (indices, masks)
        if key not in self._solved:
            self._solved[key] = self._cheapest(indices, masks, self.last_sets(indices))
        return self._solved[key]

    def _cheapest(self, indices: int, masks: int, last_sets: Sequence[int], loose: int = 0
                  ) -> Node | None:
        """``loose``: indices in no factor that the last step repeats over."""
        options: list[tuple[float, int, list[Node]]] = []
        for last in last_sets:
            for inputs in self.ways(indices, last, masks):
                base = sum([n.cost for n in inputs])
                if base < self.below:
                    if len(options) > 1:
                        base += self.steps.least([n.factor for n in inputs])
                    options.append((base, last, inputs))
        options.sort(key=lambda o: o[0])
        best: Node | None = None
        made: Factor | None = None
        below = self.below
        alike = self._alike.get(self._shape(indices, masks)) if below < math.inf else None
        least_written = 0.0 if alike is None else self.steps.least_written(alike)
        for least, last, inputs in options:
            if least >= below and best is not None:
                break
            found: Node | None = None
            if len(inputs) == 1 and not last | loose:
                found = inputs[0]
            elif not self.steps.loses([n.factor for n in inputs],
                                 below - sum([n.cost for n in inputs]) - least_written):
                if made is None:  # estimating it takes as long as some steps
                    made = self.factor(indices, masks)
                    least_written = self.steps.least_written(made)
                    if least_written >= below:
                        break
                found = self.step(made, last | loose, inputs, below)
            if found is not None and found.cost < below:
                best, below = found, found.cost
        return best

    def _shape(self, indices: int, masks: int) -> object:
        """What a factor is made of, up to names of indices; None where it is not asked."""
        if not self._repeats:
            return None
        key = indices, masks
        if key not in self._shapes:
            self._shapes[key] = shape_of(
                [n.factor for n in self.members(self.touched(indices) | masks)], indices,
                self.sizes.extent)
        return self._shapes[key]

    def last_sets(self, indices: int) -> list[int]:
        """The sets of indices that may go last, in one loop."""
        singles = bits(indices)
        if self.budget.left <= 0:  # no more search: one index whose rest stays in one piece
            return [next((b for b in singles if len(self.parts(indices ^ b)) < 2), singles[0])]
        found = list(singles)
        if len(singles) <= MAX_SUBSET_INDICES:
            for size in range(2, len(singles) + 1):
                found += [sum(some) for some in combinations(singles, size)]
        elif len(singles) <= MAX_PAIR_INDICES:
            found += [a | b for a, b in combinations(singles, 2)]
            found.append(indices)
        if self._repeats and indices == self.reduced and len(singles) > 2:
            found = self._different(found)
        return [s for s in found if not self._dominated(indices, s)]

    def _different(self, last_sets: list[int]) -> list[int]:
        """Of sets that may go last in the whole product, those that differ by more than the names
        of indices: in a cycle any index may be the first."""
        factors, seen, found = [n.factor for n in self.given], set[object](), list[int]()
        if not may_exchange(factors):
            return last_sets
        for last in last_sets:
            shape = shape_of(factors, self.reduced, self.sizes.extent, last, stored=True)
            if shape is None:
                return last_sets
            if shape not in seen:
                seen.add(shape)
                found.append(last)
        return found

    def _dominated(self, indices: int, last: int) -> bool:
        """An index that a part below could have summed away in its own loops: not better apart,
        unless the part is a product for BLAS without it."""
        if indices.bit_count() > MAX_PAIR_INDICES:
            return False
        for part in self.parts(indices & ~last):
            if self._summed(last, self.touched(part)):
                return not self.limits.blas or (
                    self._is_whole(indices) and not self._may_be_product(part)) \
                    or not self.factor(part, 0).dense
        return False

    def _is_whole(self, indices: int, masks: int = 0) -> bool:
        """Nothing stays when a set goes: sums that are taken together scatter nothing, and any
        of them may be."""
        return indices.bit_count() <= MAX_SUBSET_INDICES \
            and not self.free(self.touched(indices) | masks) & ~indices

    def _summed(self, last: int, taken: int) -> bool:
        """One of the indices is in no other factors than these."""
        return any([not self.touching[b] & ~taken for b in bits(last)])  # noqa: C419

    def _may_be_product(self, part: int) -> bool:
        """The last step of a part may be one for BLAS: some of its indices touch dense factors
        and other parts alone."""
        touched = self.touched(part)
        return any([all([n.factor.plain for n in self.members(  # noqa: C419
            touched & ~self.touched(part ^ b))]) for b in bits(part)])

    def ways(self, indices: int, last: int, masks: int) -> Iterator[list[Node]]:
        """What the last step may join: the parts that went before, without masks or with those
        that one of them can take along, and the factors that no part has."""
        parts = self.parts(indices & ~last)
        direct = (self.touched(indices) | masks) & ~self.touched(indices & ~last)
        plain = [self.solve(p, 0) for p in parts]
        if None not in plain:
            yield [*plain, *self.members(direct)]  # type: ignore[list-item]
        whole = self._is_whole(indices, masks)
        taken, masked, several = 0, list(plain), 0
        for k, part in enumerate(parts):
            own = self.masks(part, direct)
            if own and not (whole and self._summed(last, self.touched(part) | own)):
                one = list(plain)
                one[k] = self.solve(part, own)
                if None not in one:
                    yield [*one, *self.members(direct & ~own)]  # type: ignore[list-item]
                if not own & taken:
                    several += 1
                    taken |= own
                    masked[k] = one[k]
        if several > 1 and None not in masked:
            yield [*masked, *self.members(direct & ~taken)]  # type: ignore[list-item]

    def masks(self, part: int, among: int) -> int:
        """The sparse factors whose indices all stay when a part goes."""
        room = self.free(self.touched(part))
        found = 0
        for b in bits(among):
            f = self.given[b.bit_length() - 1].factor
            if not f.dense and f.free and not f.free & ~room:
                found |= b
        return found
