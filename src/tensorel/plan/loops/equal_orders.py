"""Orders of loops that differ by the names of their indices alone.

A product that reads one tensor several times (triangles, cycles, cliques) looks the same under many
orders of its loops, with some operands stored again or not: the same lists are walked at the same
depths. What the loops of one of these cost bounds the others, which are not walked again."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from tensorel.ir.nodes import Read
from tensorel.plan.loops.operands import Operand
from tensorel.plan.loops.simulate import Wanted

Key = tuple[object, ...]


class Alike:
    """``least``: what the loops of orders that look the same cost at least. ``wanted``: where
    each loop has to go; ``joined``: the reads that workspaces may hold."""

    def __init__(self, extents: Mapping[str, int], wanted: Mapping[str, Wanted],
                 joined: Collection[Read]) -> None:
        self.extents, self.joined = extents, joined
        self.least: dict[Key, float] = {}
        self._wanted = list(dict.fromkeys(wanted.values()))
        self._number = {n: self._wanted.index(w) for n, w in wanted.items()}
        self._kinds: dict[Operand, Key] = {}

    def key(self, order: tuple[str, ...], last: int, end: str | None,
            operands: Sequence[Operand]) -> Key:
        """Equal for orders that look the same; ``last``: the place of the last loop of the
        result, ``end``: its last index."""
        place = {n: k for k, n in enumerate(order)}
        seen = sorted([(self._kind(o), tuple([place[n] for n in o.names])) for o in operands])
        return (*seen, last, None if end is None else place[end],
                *[(self.extents[n], self._number[n]) for n in order])

    def _kind(self, o: Operand) -> Key:
        """An operand without the names of its indices."""
        found = self._kinds.get(o)
        if found is None:
            runs = o.runs if o.runs and max(o.runs) > 1.0 else ()
            found = self._kinds[o] = (
                id(o.read.tensor), o.full, o.segments, o.findable, o.count, o.sparse,
                o.whole_lookup, bool(o.edges), runs, o.read in self.joined,
                tuple([o.read in w.needed for w in self._wanted]))
        return found


def alike(extents: Mapping[str, int], wanted: Mapping[str, Wanted], operands: Sequence[Operand],
          joined: Collection[Read]) -> Alike | None:
    """Where orders may look the same: a tensor is read twice, all of them at indices of loops,
    and loops go where some operands have entries."""
    tensors = {o.read.tensor for o in operands}
    if len(tensors) == len(operands) or not all(n in extents for o in operands for n in o.names) \
            or not all([w.alone for w in wanted.values()]):  # noqa: C419
        return None
    return Alike(extents, wanted, joined)
