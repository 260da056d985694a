"""Other ways to write a program, tried to the end and compared by the cost of their plans.

A sum of products costs what its dearest product costs: (A - U @ V.T)**2 summed is dense as it
stands, and three sparse or narrow sums when expanded. Whether expansion pays depends on what is
sparse, so both ways are planned. Expanded sums may cancel: the plan must be cheaper by
``Costs.expand``."""

from __future__ import annotations

from dataclasses import replace

from tensorel.algebra import ops
from tensorel.ir.nodes import Call, Expr, Lambda, Read, Reduce, postorder
from tensorel.plan.definitions import Definition, Program
from tensorel.rewrite.polynomial import canonical

TERMS = 8
_SUMS = frozenset({ops.add, ops.subtract})
_POWERS = frozenset({ops.square, ops.power})


def expanded(program: Program) -> Program | None:
    """The program with products of sums written as sums of products below its reductions; None
    where there are none."""
    changed: list[Definition] = []
    for d in program.definitions:
        if isinstance(d.tensor, Lambda) and d.tensor.dtype.kind in "fc" and any(
                isinstance(e, Reduce) and e.op is ops.add and _has_sum(e.body)
                for e in postorder(d.tensor.body)):
            body = canonical(d.tensor.body, terms=TERMS)
            if body is not d.tensor.body and body.dtype == d.tensor.dtype:
                fill = d.source().fill
                changed.append(replace(d, tensor=Lambda(d.tensor.axes, body), fill=fill,
                                       whole=d.ref.whole))
                continue
        changed.append(d)
    if all(a is b for a, b in zip(changed, program.definitions)):
        return None
    other = program.copy()
    other.definitions = changed
    other.fire("expand: (a + b)*c -> a*c + b*c")
    return other


def _has_sum(e: Expr) -> bool:
    """A sum, or a power of one, of reads stands in a product."""
    stack, inside = [e], False
    while stack:
        x = stack.pop()
        if isinstance(x, Reduce):
            stack.append(x.body)
        elif isinstance(x, Call):
            if x.op in _SUMS and sum(
                    any(isinstance(n, Read) for n in postorder(a)) for a in x.args) > 1:
                inside = True
            elif x.op in _SUMS or x.op is ops.multiply or x.op in _POWERS or x.op is ops.negative:
                stack.extend(x.args)
    return inside
