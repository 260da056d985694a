"""Warns users, once a plan, of programs that multiply absent entries with nan or inf.

An entry that is not stored annihilates, also nan and inf (docs/design/annihilation.md), where NumPy
on dense arrays has nan. When a plan is made, its products are searched for one operand with entries
that may be absent beside another that holds nan or inf. Large operands are sampled.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass
from tensorel.errors import NonFiniteWarning
from tensorel.ir.analysis import fill_expr
from tensorel.ir.nodes import Call, Node, Reduce, Source, Tensor, children, postorder
from tensorel.storage.stored import Stored

MAX_SCANNED_VALUES = 2**18  # operands with more values are sampled
SAMPLED_VALUES = 2**14


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is known of a node: whether some cell of it may be an absent zero, and which stored
    tensor below it holds nan or inf."""

    absent: bool = False
    source: Stored | None = None


def warn_of_annihilated(nodes: Sequence[Tensor]) -> None:
    """Warn if NumPy may have nan where these programs have zero."""
    found = annihilated(nodes)
    if found is not None:
        kind = "nan" if _has_nan(found) else "inf"
        warnings.warn(
            f"an operand of shape {found.shape} holds {kind} and is multiplied with entries that "
            "are not stored: they annihilate it, where NumPy has nan; strict=True computes as "
            "NumPy does", NonFiniteWarning, stacklevel=2)


def annihilated(nodes: Sequence[Tensor]) -> Stored | None:
    """An operand with nan or inf that meets entries which are not stored."""
    sources = [n for n in postorder(*nodes) if isinstance(n, Source)]
    if all(_stored(s).format.is_dense for s in sources):
        return None
    kinds: dict[Node, _Kind] = {}
    for node in postorder(*nodes):
        if isinstance(node, Source):
            stored = _stored(node)
            absent = not stored.format.is_dense and bool(stored.fill == 0)
            kinds[node] = _Kind(absent, None if is_finite(stored) else stored)
            continue
        if isinstance(node, Call):
            met = _met(node, kinds)
            if met is not None:
                return met
        below = [kinds[b] for b in children(node)]
        kinds[node] = _Kind(_may_be_absent(node, below), next(
            (k.source for k in below if k.source is not None), None))
    return None


def _may_be_absent(node: Node, below: list[_Kind]) -> bool:
    """Whether some cell may be absent. Sums count as stored: few of them have no term."""
    if isinstance(node, Reduce) or not below:
        return False
    if isinstance(node, Call) and any(
            k.absent and z is not None for k, z in zip(below, node.op.annihilators)):
        return True
    if isinstance(node, Call):
        fill = fill_expr(node)
        return all(k.absent for k in below) and fill is not None and bool(fill.value == 0)
    return below[0].absent


def _met(call: Call, kinds: dict[Node, _Kind]) -> Stored | None:
    op = call.op
    if call.dtype.kind not in "fc" or op.exact_annihilators or not op.annihilators:
        return None
    for k, a in enumerate(call.args):
        if op.annihilators[k] is None or not kinds[a].absent:
            continue
        for b in call.args:
            met = kinds[b].source
            if b is not a and met is not None and (_has_nan(met) or _is_nan_at_inf(op, k)):
                return met
    return None


def _is_nan_at_inf(op: Operator, zero: int) -> bool:
    """Whether the operator makes nan of zero and infinity: 0 * inf does, 0 / inf does not."""
    with np.errstate(all="ignore"):
        at = op.meaning(*[0.0 if k == zero else np.inf for k in range(op.arity)])
        return bool(np.not_equal(at, at))  # type: ignore[call-overload]


def _has_nan(stored: Stored) -> bool:
    return bool(np.isnan(_sampled(stored)).any())


def _stored(source: Source) -> Stored:
    assert isinstance(source.data, Stored), "sources of programs hold stored tensors"
    return source.data


def _sampled(stored: Stored) -> np.ndarray:
    """Values of a tensor, all of them or some."""
    values = stored.arrays.get("val")
    if values is None or values.dtype.kind not in "fc":
        return np.empty(0)
    return values if values.size <= MAX_SCANNED_VALUES else values[:: values.size // SAMPLED_VALUES]


def is_finite(stored: Stored) -> bool:
    """Whether neither nan nor inf is seen. The sum of the values has one if a value has; if it has
    one because it overflows, all values are looked at."""
    values = _sampled(stored)
    with np.errstate(all="ignore"):
        return bool(np.isfinite(values.sum())) or bool(np.isfinite(values).all())
