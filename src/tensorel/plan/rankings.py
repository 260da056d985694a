"""Rankings of what is too large to be stored: some fibres at a time.

``topk(U @ V.T, 10)`` needs one row of its operand at a time and keeps ten entries of it. Where the
operand would be large, it is made for a block of rows, ranked and dropped. Making it by blocks
makes anew what all rows share: it must cost little, or there is no room for the whole."""

from __future__ import annotations

import math

from tensorel.config import Config
from tensorel.ir.nodes import Axis, Bulk, Index, Lambda, Read, Source, Tensor, postorder
from tensorel.plan.physical import BulkStep, Plan, Step

#: Operators that keep little of each fibre, with the place of the axis among their parameters.
RANKINGS = {"topk_values": 1, "topk_indices": 1, "argmin": 0, "argmax": 0}
BLOCK = 2.0**25  # bytes of a block: it stays in the cache until it is ranked
RANKED = 2.0**20  # elements of a dense operand that are ranked at a time
SHARED = 0.5  # what all rows share may cost so much of the whole, for all blocks together

Blocked = dict[tuple[tuple[int, ...], object, int], int]


def ranked_axis(b: Bulk | BulkStep) -> int | None:
    """None: all entries are ranked together."""
    axis = b.params[RANKINGS[b.op]]
    assert axis is None or isinstance(axis, int)
    return axis


def is_ranking(b: Bulk) -> bool:
    """It keeps few of the entries that it looks at."""
    if b.op not in RANKINGS:
        return False
    axis = ranked_axis(b)
    return axis is None or b.op.startswith("arg") or 4 * b.shape[axis] < b.args[0].shape[axis]


def block_axis(rank: int, axis: int | None) -> int | None:
    """The axis that is cut: the first that is not ranked along."""
    return None if axis is None else next((k for k in range(rank) if k != axis), None)


def mark_rankings(plan: Plan, config: Config) -> Blocked:
    """Marks the steps whose results are made and ranked in blocks; by shape, dtype and axis of
    the operands: how many coordinates of the axis a block has."""
    found: Blocked = {}
    block = min(BLOCK, config.memory / 8)
    made = {s.target.name: s for s in plan.steps}
    for step in plan.steps:
        if not isinstance(step, BulkStep) or step.op not in RANKINGS:
            continue
        operand = made.get(step.args[0])
        if operand is None or operand.bytes_ <= 2 * block or operand.target.name in plan.results:
            continue
        axis = block_axis(len(operand.shape), ranked_axis(step))
        rank_only = all(isinstance(s, BulkStep) and s.op in RANKINGS for s in plan.steps
                        if operand.target.name in s.inputs)
        if axis is None or not rank_only:
            continue
        rows = max(int(operand.shape[axis] * block / operand.bytes_), 1)
        blocks = math.ceil(operand.shape[axis] / rows)
        fits = operand.bytes_ <= min(config.memory, config.densify) / 2
        below = _below(operand, made)
        own = [s for s in below if s.shape[axis : axis + 1] == operand.shape[axis : axis + 1]
               and all(t is operand or t in below for t in plan.steps if s.target.name in t.inputs)]
        shared = sum(s.cost for s in below if s not in own)
        if fits and shared * blocks > SHARED * (operand.cost + sum(s.cost for s in own)):
            continue
        found[operand.shape, operand.dtype, axis] = rows
        for s in (operand, *own):
            s.blocks = blocks
    for step in made.values():
        step.bytes_, step.bound = step.bytes_ / step.blocks, step.bound / step.blocks
    return found


def _below(step: Step, made: dict[str, Step]) -> list[Step]:
    """All steps before a step that it needs."""
    needed: dict[str, Step] = {}
    stack = list(step.inputs)
    while stack:
        name = stack.pop()
        if name in made and name not in needed:
            needed[name] = made[name]
            stack.extend(made[name].inputs)
    return list(needed.values())


def blocked_rankings(roots: list[Tensor], blocked: Blocked) -> dict[tuple[Tensor, int], list[Bulk]]:
    """The rankings in a program that run in blocks, by operand and the axis that is cut."""
    found: dict[tuple[Tensor, int], list[Bulk]] = {}
    for node in postorder(*roots):
        if isinstance(node, Bulk) and node.op in RANKINGS and not isinstance(node.args[0], Source):
            (operand,) = node.args
            axis = block_axis(len(operand.shape), ranked_axis(node))
            if axis is not None and (operand.shape, operand.dtype, axis) in blocked:
                found.setdefault((operand, axis), []).append(node)
    return found


def of_block(operand: Tensor, axis: int, rows: Source) -> Lambda:
    """Some coordinates of an axis of a tensor."""
    names = [f"i{k}" for k in range(len(operand.shape))]
    axes = tuple(Axis(n, rows.shape[0] if k == axis else operand.shape[k])
                 for k, n in enumerate(names))
    indices = tuple(Read(rows, (Index(n),)) if k == axis else Index(n)
                    for k, n in enumerate(names))
    return Lambda(axes, Read(operand, indices))


def kept_axis(ranking: Bulk, axis: int) -> int:
    """Where the result has an axis of the operand: argmax leaves the one that it ranks out."""
    ranked = ranked_axis(ranking)
    left_out = len(ranking.shape) < len(ranking.args[0].shape)
    return axis - (left_out and ranked is not None and ranked < axis)
