"""What storing a tensor again costs, by how it is done."""

from __future__ import annotations

from tensorel.costs import Costs
from tensorel.ir.given import about
from tensorel.plan.slot_facts import Known
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
    shape = known.source.shape
    lines = about([shape[want.order[0]]]) if want.order else 1.0
    far = costs.convert_far if 16 * lines > costs.far_bytes else 0.0  # two words for a line
    if by_kernel(known, want, costs):
        return known.count * (costs.step + costs.bucket + far) + lines * costs.convert_cell \
            + costs.call
    if have.is_dense or want.is_dense:
        return about(shape) * costs.convert_cell + costs.convert_start
    if have.order == want.order:
        return known.count * costs.convert + costs.convert_start
    each = far + (costs.convert_sort if len(shape) < 3 else costs.convert_deep)
    return known.count * each + costs.convert_start
