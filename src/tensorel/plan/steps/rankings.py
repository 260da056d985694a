"""Rankings of what is too large to be stored: some fibres at a time.

``topk(U @ V.T, 10)`` needs one row of its operand at a time and keeps ten entries of it. Where the
operand would be large, it is made for a block of rows, ranked and dropped. Making it by blocks
makes anew what all rows share: it must cost little, or there is no room for the whole."""

from __future__ import annotations

import math
from dataclasses import replace

from tensorel.algebra.ops import DType
from tensorel.config import Config
from tensorel.ir.nodes import Axis, Bulk, Index, Lambda, Read, Source, Tensor, postorder
from tensorel.plan.physical import BulkStep, Plan, Step

BLOCK_BYTES = 2.0**25  # bytes of a block: it stays in the cache until it is ranked
RANKED_ELEMENTS = 2.0**20  # elements of a dense operand that are ranked at a time
MAX_SHARED_COST = 0.5  # what all rows share may cost so much of the whole, for all blocks together

#: By shape, dtype and cut axis of an operand: how many coordinates of the axis a block has.
Blocked = dict[tuple[tuple[int, ...], DType, int], int]


def is_ranking(b: Bulk) -> bool:
    """It keeps few of the entries that it looks at."""
    axis, whole = b.op.axis(b.params), b.args[0].shape
    return b.op.ranks and (
        axis is None or len(b.shape) < len(whole) or 4 * b.shape[axis] < whole[axis])


def block_axis(rank: int, axis: int | None) -> int | None:
    """The axis that is cut: the first that is not ranked along."""
    return None if axis is None else next((k for k in range(rank) if k != axis), None)


def in_blocks(plan: Plan, config: Config) -> Plan:
    """The plan with large operands of rankings made and ranked in blocks."""
    found: Blocked = {}
    block = min(BLOCK_BYTES, config.memory / 8)
    blocks: dict[str, int] = {}
    made = {s.target.name: s for s in plan.steps}
    for step in plan.steps:
        if not isinstance(step, BulkStep) or not step.op.ranks:
            continue
        operand = made.get(step.args[0])
        if operand is None or operand.bytes_ <= 2 * block or operand.target.name in plan.results:
            continue
        axis = block_axis(len(operand.shape), step.op.axis(step.params))
        rank_only = all(isinstance(s, BulkStep) and s.op.ranks for s in plan.steps
                        if operand.target.name in s.inputs)
        if axis is None or not rank_only:
            continue
        rows = max(int(operand.shape[axis] * block / operand.bytes_), 1)
        count = math.ceil(operand.shape[axis] / rows)
        fits = operand.bytes_ <= min(config.memory, config.densify) / 2
        below = _below(operand, made)
        own = [s for s in below if s.shape[axis : axis + 1] == operand.shape[axis : axis + 1]
               and all(t is operand or t in below for t in plan.steps if s.target.name in t.inputs)]
        shared = sum(s.cost for s in below if s not in own)
        if fits and shared * count > MAX_SHARED_COST * (operand.cost + sum(s.cost for s in own)):
            continue
        found[operand.shape, operand.dtype, axis] = rows
        blocks.update(dict.fromkeys((operand.target.name, *[s.target.name for s in own]), count))
    if not found:
        return plan
    steps = [replace(s, blocks=n, bytes_=s.bytes_ / n, bound=s.bound / n)
             for s in plan.steps for n in [blocks.get(s.target.name, 1)]]
    return replace(plan, steps=tuple(steps), blocked=tuple(found.items()))


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
        if isinstance(node, Bulk) and node.op.ranks and not isinstance(node.args[0], Source):
            operand = node.args[0]
            axis = block_axis(len(operand.shape), node.op.axis(node.params))
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
    ranked = ranking.op.axis(ranking.params)
    left_out = len(ranking.shape) < len(ranking.args[0].shape)
    return axis - (left_out and ranked is not None and ranked < axis)
