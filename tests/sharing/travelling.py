"""What runs in the other process: it must be importable there."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

import tensorel as tr
from tensorel.stats.collected.collect import collect
from tensorel.testing import sample_program
from tensorel.testing.programs.program import Program


def usual(t: Any) -> list[Any]:
    """Programs that everybody writes, which are found again by numbers of tensors and kernels."""
    return [t + t, t * 2, (t * t).sum(), t.sum(), t * t]


def use(t: Any, rng: np.random.Generator) -> None:
    """Programs over the tensor, so that it knows much."""
    for _ in range(rng.integers(0, 4)):
        for made in usual(t):
            made.compute(strict=bool(rng.random() < 0.3), effort="quick")
        assert t.nnz <= t.size and tr.einsum("...->...", t).explain()
        collect(t.stored)


def with_alternatives(t: Any, rng: np.random.Generator) -> Any:
    """The same tensor in several storages, sometimes."""
    if t.ndim == 2 and rng.random() < 0.4:
        return tr.alternatives(t, t.to_format("csc"), t.to_format("dense"))
    return t


def leaves_of(program: Program, rng: np.random.Generator) -> dict[str, Any]:
    """Random tensors in all formats, used or not."""
    made = {leaf.name: with_alternatives(leaf.build(), rng) for leaf in program.leaves}
    for t in made.values():
        use(t, rng)
    return made


def lazily(program: Program, tensors: dict[str, Any]) -> Any:
    scope: dict[str, Any] = {"xp": tr, "np": np, **tensors}
    for step in program.steps:
        scope[step.name] = eval(step.code, scope)
    return scope[program.root]


def program_of(number: int) -> Program:
    return sample_program(17, number, operators=4)


def have_a_past() -> None:
    """Compute other things, so that numbers of tensors and kernels mean something else here."""
    rng = np.random.default_rng(0)
    for number in range(500, 520):
        for t in leaves_of(program_of(number), rng).values():
            for made in usual(t):
                made.compute(effort="quick")


def send(number: int) -> bytes:
    """The tensors of a program, and the program over them."""
    rng = np.random.default_rng([3, number])
    program = program_of(number)
    tensors = leaves_of(program, rng)
    lazy = lazily(program, tensors)
    if rng.random() < 0.5:
        assert lazy.format
    return pickle.dumps((tensors, lazy))


def receive(number: int, sent: bytes) -> Any:
    """What is computed of them here: by the program, by the one that was sent, and the usual."""
    tensors, lazy = pickle.loads(sent)
    made = [lazily(program_of(number), tensors), lazy]
    for t in tensors.values():
        made += usual(t)
    return [t.compute(effort="quick").to_numpy() for t in made]


def product(t: Any) -> Any:
    return (t @ t.T).to_numpy()


def doubled(t: Any) -> Any:
    return t + t


def either(t: Any) -> Any:
    """A reduction by a user's function: that one of two independent events happens."""
    return tr.reduce(lambda a, b: a + b - a * b, t, axis=1, identity=0.0)


def scaled(t: Any, factor: float) -> Any:
    return tr.map(lambda x: tr.where(x > 0.5, x * factor, 1.0), t)


def operator_of(t: Any) -> Any:
    return t.node.body.op


def met_again(message: bytes) -> tuple[Any, Any, bool, bool]:
    """What a program that was sent computes, its operator, and whether that is the one that the
    same function gives here."""
    lazy, op = pickle.loads(message)
    here = operator_of(either(tr.asarray(np.eye(2))))
    same = {op, here, operator_of(lazy), pickle.loads(pickle.dumps(op))}
    return lazy.to_numpy(), op, len(same) == 1, hash(op) == hash(here)


def token(t: Any) -> str:
    from dask.base import tokenize

    return str(tokenize(t))


def hashed(t: Any) -> str:
    import joblib

    return str(joblib.hash(t))
