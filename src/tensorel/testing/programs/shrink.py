"""Smaller programs that still fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tensorel.testing.programs.program import Leaf, Program, Step, run_numpy

Array = npt.NDArray[Any]


def shrink(program: Program, fails: Callable[[Program], bool], tries: int = 400) -> Program:
    """The smallest program found for which ``fails`` still holds, by greedy steps."""
    current, left = program, tries
    improved = True
    while improved and left > 0:
        improved = False
        for candidate in _smaller(current):
            left -= 1
            if left <= 0:
                break
            if _runs(candidate) and fails(candidate):
                current, improved = candidate, True
                break
    return current


def _runs(program: Program) -> bool:
    try:
        run_numpy(program)
    except Exception:
        return False
    return True


def _smaller(program: Program) -> Iterator[Program]:
    """Candidates, the most drastic ones first."""
    for k in range(1, len(program.steps)):
        yield program.cut(k)
    for k, step in enumerate(program.steps):
        for arg in step.args:
            yield _without(program, k, arg)
    yield from _frozen(program)
    for k in range(len(program.history)):
        yield replace(program, history=program.history[:k] + program.history[k + 1 :])
    if program.also:
        yield replace(program, also=()).pruned()
    yield from _cropped(program)
    if program.settings or program.format is not None:
        yield replace(program, settings={}, format=None)
        yield replace(program, settings={})
        yield replace(program, format=None)
    for k, leaf in enumerate(program.leaves):
        for simpler in _simpler(leaf):
            leaves = (*program.leaves[:k], simpler, *program.leaves[k + 1 :])
            yield replace(program, leaves=leaves)


def _without(program: Program, k: int, arg: str) -> Program:
    """Step k replaced by one of its arguments."""
    name = program.steps[k].name
    later = [
        Step(s.name, s.template, tuple(arg if a == name else a for a in s.args))
        for s in program.steps[k + 1 :]
    ]
    return replace(program, steps=(*program.steps[:k], *later)).pruned()


def _frozen(program: Program) -> Iterator[Program]:
    """A step replaced by a stored tensor that holds its value."""
    if len(program.steps) < 2:
        return
    try:
        values = run_numpy(program).values
    except Exception:
        return
    for k, step in enumerate(program.steps[:-1]):
        leaf = Leaf(step.name, values[step.name], "coo" if values[step.name].ndim else None)
        rest = program.steps[:k] + program.steps[k + 1 :]
        also = tuple(n for n in program.also if n != step.name)
        yield replace(program, leaves=(*program.leaves, leaf), steps=rest, also=also).pruned()


def _cropped(program: Program) -> Iterator[Program]:
    """Half of every axis of some extent, in all leaves that have it."""
    for extent in sorted({n for leaf in program.leaves for n in leaf.array.shape if n > 1})[::-1]:
        for part in (slice(0, extent // 2), slice(extent // 2, None)):
            def crop(array: Array, part: slice = part, extent: int = extent) -> Array:
                return array[tuple(part if n == extent else slice(None) for n in array.shape)]

            leaves = tuple(replace(leaf, array=crop(leaf.array), source=None)
                           for leaf in program.leaves)
            history = tuple(e if e.array is None else replace(e, array=crop(e.array))
                            for e in program.history)
            yield replace(program, leaves=leaves, history=history)


def _simpler(leaf: Leaf) -> Iterator[Leaf]:
    if leaf.how == "alternatives":
        yield replace(leaf, format=None, how="tensor")
    elif leaf.format not in (None, "dense"):
        yield replace(leaf, format=None)
    if leaf.how != "tensor":
        yield replace(leaf, how="tensor")
    other = np.argwhere(leaf.array != np.asarray(leaf.fill))
    if len(other) > 1:
        for half in (other[: len(other) // 2], other[len(other) // 2 :]):
            array = leaf.array.copy()
            array[tuple(half.T)] = leaf.fill
            yield replace(leaf, array=array, source=None)
