"""The steps of a program that runs in blocks: definitions by the passes that also plan for one
machine, up to the order of contractions. Each is a formula over earlier ones, with at most one
reduction at its root (an aggregated join tree over blocks), or an operator on whole tensors."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tensorel.config import Config
from tensorel.ir.nodes import Lambda, Tensor
from tensorel.plan.definitions import (
    Definition,
    Program,
    inner_reductions,
    product_of,
    sources_of,
)
from tensorel.plan.logical.inlining import written_out
from tensorel.plan.pipeline import PASSES, written
from tensorel.plan.slot_facts import Known

#: Those that say what is computed; the others say how loops on one machine go about it.
_PASSES = frozenset((
    "flatten_reductions", "lift_reductions", "share_definitions", "order_contractions",
    "store_factors", "share_factors"))
_ON_ONE_MACHINE = frozenset(("split_pieces",))
#: Terms of a sum whose cost is that of sending its result.
MAX_TERMS = 320


def steps_of(roots: Sequence[Tensor], known: Sequence[Known], config: Config) -> Program:
    """The definitions of a program over slots, in order of evaluation."""
    quiet = replace(config, disabled=config.disabled | _ON_ONE_MACHINE)
    driver, program = written(
        list(roots), [None] * len(roots), list(known), quiet, config.verify, None)
    for p in PASSES:
        if p.name in _PASSES and p.is_on(quiet):
            driver.apply(p, program)
    return _sums_at_their_readers(program)


def _sums_at_their_readers(program: Program) -> Program:
    """A sum that has one reader and is larger than what it is made of is made by the cells that
    read it. Sending the result costs more than sending the operands, however cells are cut: a cut
    of its own reduction would save less of the operands than its partial results cost."""
    readers = Counter(s.data for d in program.definitions for s in sources_of(d.tensor))

    def worth(program: Program, d: Definition) -> bool:
        if not isinstance(d.tensor, Lambda) or readers[d.ref] != 1:
            return False
        terms = [product_of(r.axes) for r in inner_reductions(d.tensor.body)]
        return bool(terms) and max(terms) <= MAX_TERMS and (
            _bytes(program, d.ref, d.tensor) >= sum(
                [_bytes(program, s.data, s) for s in sources_of(d.tensor)]))

    return written_out(program, worth) or program


def _bytes(program: Program, name: object, tensor: Tensor) -> float:
    stats = program.stats.get(name)
    size = math.prod(tensor.shape) if stats is None else stats.density * stats.size
    return float(size * tensor.dtype.itemsize)
