"""Steps of operators that mix all entries of their operands: solutions, inverses, decompositions.

Their results have a value everywhere. LAPACK needs the whole matrix; systems of equations with
sparse matrices have methods that do not, and the cheapest is taken."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from tensorel.algebra import matrices
from tensorel.ir.given import about
from tensorel.ir.nodes import Bulk, Const
from tensorel.kernels.lowering.nest import Slot
from tensorel.plan.decisions import Option
from tensorel.plan.physical import BulkStep
from tensorel.plan.slot_facts import Known
from tensorel.storage.registry import resolve

if TYPE_CHECKING:
    from tensorel.plan.steps.build import StepBuilder

#: Work for an entry of a factor of a sparse matrix, and how factors grow: for the meshes and graphs
#: that are met most they hold about count * sqrt(order) ** _FILL_IN entries.
_FACTOR_ENTRY, _FILL_IN = 20.0, 0.7
#: How often an iteration reads the matrix, for an order of one; it grows with the square root.
_READINGS = 30.0


def mixing_step(build: StepBuilder, name: str, b: Bulk, args: Sequence[Known], fill: Const
                ) -> tuple[BulkStep, float]:
    """The step, and how many values it makes."""
    assert b.op.effort is not None
    costs, params = build.costs, b.params
    shapes = [a.source.shape for a in args]
    count = about(b.shape)
    cells = sum([about(s) for s in shapes])
    cost = cells * costs.convert_cell + 2 * b.op.effort(*shapes, *params) / costs.blas_speed
    size = b.dtype.itemsize
    if b.op is matrices.solve:
        options = _ways(build, args, cost)
        method = params[0] or build.program.decisions.decide("solve", name, options)
        params = (method,)
        if method != "lapack":
            cells = args[0].count + count
        cost = next((o.cost for o in options if o.value == method), cost)
    slot = Slot(name, resolve("dense", b.shape, b.dtype), ())
    return BulkStep(slot, b.shape, b.dtype, fill, count, count * size, 2 * (cells + count) * size,
                    cost, op=b.op, args=tuple([a.slot.name for a in args]), params=params), count


def _ways(build: StepBuilder, args: Sequence[Known], dense: float) -> list[Option[str]]:
    """The methods that there are for the operands."""
    matrix, right = args
    found = [Option(dense, "lapack", "LAPACK")]
    if len(matrix.source.shape) == 2 and not matrix.slot.format.is_dense:
        root, columns = math.sqrt(matrix.source.shape[0]), float(right.source.shape[-1])
        factor = matrix.count * root**_FILL_IN
        if has_scipy():
            found.append(Option(_FACTOR_ENTRY * factor * root**0.5 + 2 * factor * columns,
                                "superlu", "SuperLU"))
        else:
            found.append(Option(_READINGS * root * matrix.count * columns, "krylov",
                                "conjugate directions"))
    return found


@cache
def has_scipy() -> bool:
    """Whether SciPy can be imported."""
    return find_spec("scipy") is not None
