"""What storing a tensor again costs, by how it is done."""

from __future__ import annotations

import math

from tensorel.costs import Costs
from tensorel.plan.known import Known
from tensorel.storage.format import Format
from tensorel.storage.levels import Compressed, Dense
from tensorel.storage.stack import Stack


def by_kernel(known: Known, want: Format, costs: Costs) -> bool:
    """A long list of entries that is put under its second index: counted, placed and written by a
    kernel. Shorter ones are sorted by NumPy before a kernel could be loaded."""
    have = known.slot.format
    if known.count < costs.convert_kernel or want in known.alternatives or have.is_dense:
        return False
    return type(have) is Stack and type(want) is Stack and len(want.levels) == 2 \
        and isinstance(want.levels[0], Dense) and isinstance(want.levels[1], Compressed) \
        and want.order != have.order


def conversion_cost(known: Known, want: Format, costs: Costs) -> float:
    """Of storing a tensor in a format that it is not in."""
    have = known.slot.format
    if want in known.alternatives or want.covers(have):
        return 0.0
    if by_kernel(known, want, costs):
        return known.count * (costs.step + costs.bucket) + costs.call
    if have.is_dense or want.is_dense:
        cells = math.prod(float(n) for n in known.source.shape)
        return cells * costs.convert_cell + costs.convert_start
    each = costs.convert if have.order == want.order else costs.convert_sort
    return known.count * each + costs.convert_start
