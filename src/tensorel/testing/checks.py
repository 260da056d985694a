"""The law "one answer for every storage", for authors of formats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tensorel.errors import TensorelError
from tensorel.storage import registry
from tensorel.testing.programs.leaves import random_leaf
from tensorel.testing.programs.program import Leaf, Program, Step
from tensorel.testing.programs.running import check

#: Expressions that touch every way into a tensor: whole, by row, by column, by entry.
BATTERY: tuple[str, ...] = (
    "xp.sum({0})", "xp.sum({0}, axis=0)", "xp.sum({0}, axis=-1)", "{0} * 2", "{0} + 1",
    "{0} * {0}", "{0} + {1}", "{0} * {1}", "xp.maximum({0}, {1})", "xp.where({0} != 0, {1}, {0})",
    "{0} @ {0}.T", "{0}.T @ {1}", "{0}[::-1]", "{0}[..., 1:]", "xp.permute_dims({0}, {axes})",
    "xp.count_nonzero({0})", "xp.reshape({0}, (-1,))", "xp.concat([{0}, {1}], axis=0)",
)


def check_format(name: str, *, count: int = 20, seed: int = 0) -> None:
    """Pack random tensors in the format ``name`` and compare a battery of expressions with the
    same on dense arrays; AssertionError with a runnable program at the first difference.

    >>> check_format("csr", count=1)
    """
    tried = 0
    for number in range(count * 20):
        leaf = _leaf(np.random.default_rng([seed, number]), name)
        if leaf is None:
            continue
        check_leaf(leaf)
        tried += 1
        if tried == count:
            return
    if not tried:
        raise AssertionError(f"no random tensor fits the format {name!r}")


def _leaf(rng: np.random.Generator, name: str) -> Leaf | None:
    drawn = random_leaf(rng, "A")
    leaf = replace(drawn, format=name, how="tensor")
    try:
        registry.resolve(name, leaf.array.shape, leaf.array.dtype)
        leaf.build()
    except TensorelError:
        return None
    return leaf


def check_leaf(leaf: Leaf) -> None:
    """The battery on one tensor, stored and beside a dense twin; and the tensor as a result beside
    another one."""
    twin = replace(leaf, name="B", format=None)
    axes = tuple(reversed(range(leaf.array.ndim)))
    _check(Program((leaf,), (), format=leaf.format))
    listed = replace(leaf, name="B", format="coo")
    _check(Program((leaf, listed), (Step("t1", "{0} + {0}", ("B",)),), also=(leaf.name,)))
    for template in BATTERY:
        text = template.replace("{axes}", str(axes))
        for right in (leaf.name, twin.name):
            _check(Program((leaf, twin), (Step("t1", text, (leaf.name, right)),)).pruned())


def _check(program: Program) -> None:
    try:
        wrong = check(program)
    except (ValueError, TypeError, IndexError):
        return  # NumPy itself refuses this expression for this shape or dtype
    if wrong is not None:
        raise AssertionError(f"{wrong}\n\n{program.text}")
