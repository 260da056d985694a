"""What sites do: load, cut, compute, add up. All of it are functions that can be sent.

A block that holds nothing but its fill is ``None``: it is neither stored nor sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tensorel import config as settings
from tensorel.algebra.ops import DType, Operator
from tensorel.base.records import dataclass
from tensorel.blocks.steps.layout import Box
from tensorel.config import Config
from tensorel.engines.evaluation import evaluate
from tensorel.engines.skeletons import program_like
from tensorel.errors import ShapeError
from tensorel.ir.build import plus
from tensorel.ir.nodes import Axis, Call, Const, Index, Lambda, Read, Source, Tensor, children
from tensorel.ir.replacing import replaced
from tensorel.storage import convert
from tensorel.storage.stored import Stored

Block = Stored | None
MAX_SPARSE_DENSITY = 0.4  # of a box that is put together; above it is dense


@dataclass(frozen=True, slots=True)
class Operand:
    """A box of an operand, put together of pieces: where each begins in it."""

    shape: tuple[int, ...]
    dtype: DType
    fill: Const
    offsets: tuple[tuple[int, ...], ...]


def under(config: Config, call: Callable[..., Block], *results: Any) -> Block:
    """A call under the settings of who asked for it."""
    token = settings.enter(config)
    try:
        return call(*results)
    finally:
        settings.leave(token)


def after(call: Callable[..., Any], *results: Any) -> Any:
    """A call that waits for one more result than it needs."""
    return call(*results[:-1])


def given(block: Block) -> Block:
    """A block that the driver sent."""
    return block


def made(key: tuple[int, ...], shape: tuple[int, ...], dtype: DType, fill: Const,
         f: Callable[..., Any]) -> Block:
    """The block that a user's function gives for a key."""
    found = f(key)
    stored = getattr(found, "stored", found)
    block = stored if isinstance(stored, Stored) else convert.from_dense(
        np.asarray(found, dtype), fill.value)
    if block.shape != shape:
        raise ShapeError(f"from_blocks: the block {key} has shape {block.shape}, not {shape}",
                         hint="blocks at the ends of axes are smaller")
    if block.dtype != dtype:
        coo = convert.to_coo(block)
        block = convert.from_coo(coo.coords, coo.values.astype(dtype), shape, fill=fill.value,
                                 format=block.format)
    return with_fill(block, fill)


def made_together(operand: Operand, blocks: Sequence[tuple[tuple[int, ...], tuple[int, ...]]],
                  f: Callable[..., Any]) -> Block:
    """The blocks that a user's function gives for some keys, as one. ``blocks``: their keys and
    shapes, by the offsets of the operand."""
    found = []
    for key, shape in blocks:
        try:
            found.append(made(key, shape, operand.dtype, operand.fill, f))
        except BaseException as problem:
            problem.add_note(f"in block {key}")
            raise
    if all(b is None for b in found):
        return None
    return with_fill(together(operand, found), operand.fill)


def part_of(box: Box, dtype: DType, fill: Const, f: Callable[..., Any]) -> Block:
    """A part of a tensor over mapped files."""
    whole = f(())
    assert isinstance(whole, Stored) and whole.dtype == dtype
    if all(hi - lo == n for (lo, hi), n in zip(box, whole.shape)):
        return with_fill(whole, fill)
    return cut(box, with_fill(whole, fill))


def put(writer: Callable[..., Any], fill: Const, key: tuple[int, ...], operand: Operand,
        *pieces: Block) -> Any:
    """Hand a block of a result to who writes it, with the fill that the whole is to have."""
    if operand.fill.bits == fill.bits and all(p is None for p in pieces):
        return writer(key, None)
    return writer(key, with_fill(together(operand, pieces), fill))


def cut(box: Box, block: Block) -> Block:
    """A part of a block."""
    return None if block is None else with_fill(_boxed(box, block), block.fill_const)


def cut_partial(box: Box, block: Block) -> Block:
    """A part of a partial result. The fill of one need not be the identity of what adds it up,
    which None stands for."""
    return None if block is None else _boxed(box, block)


def _boxed(box: Box, block: Stored) -> Stored:
    at = tuple([plus(Index(f"i{k}"), lo) for k, (lo, _) in enumerate(box)])
    axes = tuple([Axis(f"i{k}", hi - lo) for k, (lo, hi) in enumerate(box)])
    found = run(Lambda(axes, Read(source_of(block), at)))
    if not found.format.is_dense:  # a view would be sent with all that it is a view of
        coo = convert.to_coo(found)
        found = convert.from_coo(coo.coords, coo.values, found.shape, fill=found.fill,
                                 format=found.format)
    return found


def compute(step: Tensor, operands: tuple[Operand, ...], fill: Const, final: bool, *pieces: Block
            ) -> Block:
    """A step over a cell: its sources are numbered, and stand for the operands. ``fill``: of the
    result; of a partial result (not ``final``) the identity of what adds it up."""
    rest = iter(pieces)
    found = [together(x, [next(rest) for _ in x.offsets]) for x in operands]
    below = step.body.reads if isinstance(step, Lambda) else children(step)
    sources: dict[Tensor, Tensor] = {}
    for s in below:
        assert isinstance(s, Source) and isinstance(s.data, int)
        sources[s] = source_of(found[s.data])
    return _filled(run(replaced([step], sources)[0]), fill, final)


def _filled(block: Stored, fill: Const, final: bool) -> Block:
    """Partial results keep their own fill: with others it adds up to that of the result."""
    return with_fill(block, fill) if final or block.fill_const.bits == fill.bits else block


def add(op: Operator, fill: Const, a: Block, b: Block) -> Block:
    """Two partial results as one; one that is not there is all identity."""
    if a is None or b is None:
        return a if b is None else b
    at = tuple([Index(f"i{k}") for k in range(len(a.shape))])
    axes = tuple([Axis(f"i{k}", n) for k, n in enumerate(a.shape)])
    both = tuple([Read(source_of(x), at) for x in (a, b)])
    return _filled(run(Lambda(axes, Call(op, both))), fill, False)


def finish(fill: Const, shape: tuple[int, ...], identity: Const, block: Block) -> Block:
    """What was added up, as a block of the result."""
    if block is None:
        if identity.bits == fill.bits:
            return None
        block = convert.from_dense(np.full(shape, identity.value), fill.value)
    return with_fill(block, fill)


def with_fill(block: Stored, fill: Const) -> Block:
    """The block with the fill that its tensor has; None if it holds nothing else."""
    if block.fill_const.bits != fill.bits:
        dense = convert.from_dense(convert.to_dense(block), fill.value)
        block = dense if block.format.is_dense else convert.to_format(dense, block.format)
    empty = not block.format.is_dense and block.shape and not block.count
    return None if empty else block


def together(operand: Operand, pieces: Sequence[Block]) -> Stored:
    """One stored tensor of the pieces of a box."""
    there = [(at, p) for at, p in zip(operand.offsets, pieces) if p is not None]
    if len(there) == 1 and there[0][1].shape == operand.shape:
        return there[0][1]
    size = float(np.prod(operand.shape, dtype=np.float64))
    stored = sum([p.count for _, p in there])
    fill = operand.fill.value
    if not operand.shape or stored > MAX_SPARSE_DENSITY * size:
        array = np.full(operand.shape, fill, operand.dtype)
        for at, p in there:
            array[tuple([slice(a, a + n) for a, n in zip(at, p.shape)])] = convert.to_dense(p)
        return convert.from_dense(array, fill)
    coords: list[list[Any]] = [[] for _ in operand.shape]
    values: list[Any] = [np.empty(0, operand.dtype)]
    for at, p in there:
        coo = convert.to_coo(p)
        values.append(coo.values)
        for mine, c, a in zip(coords, coo.coords, at):
            mine.append(c.astype(np.int64) + a)
    joined = [np.concatenate(c) if c else np.empty(0, np.int64) for c in coords]
    formats = [p.format for _, p in there if not p.format.is_dense]
    return convert.from_coo(joined, np.concatenate(values), operand.shape, fill=fill,
                            format=formats[0] if formats else None)


def source_of(block: Stored) -> Source:
    """A block as an operand of a program."""
    return Source(block, block.shape, block.dtype, block.fill_const)


def run(node: Tensor) -> Stored:
    """The result of a program over blocks."""
    return evaluate([program_like(node)], settings.current(), [None])[0]
