"""Loops that tests narrow: random formulas against the reference, and what kernels look like."""

from functools import reduce

import numpy as np
import pytest

import tensorel as tr
from tensorel.algebra import ops
from tensorel.front.array.base import wrap
from tensorel.ir import nodes as ir
from tensorel.ir.build import as_expr, both, compare, floordiv, minus, modulo, plus, times
from tensorel.language.scalars import call
from tensorel.reference import interpret
from tensorel.storage.convert import to_dense

Rng = np.random.Generator
OPS = (ops.add, ops.minimum, ops.maximum, ops.multiply)
SIGNS = (ops.equal, ops.equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal)
FORMATS = {1: ("dense", "coo"), 2: ("dense", "csr", "csc", "coo", "dense_f")}


def affine(rng: Rng, names: list[str]) -> ir.Expr:
    parts: list[ir.Expr] = [as_expr(int(rng.integers(-3, 4)))]
    for name in names:
        c = int(rng.choice([0, 0, 1, 1, -1, 2, -2]))
        if c:
            parts.append(times(c, ir.Index(name)))
    return reduce(plus, parts)


def condition(rng: Rng, names: list[str], data: ir.Tensor) -> ir.Expr:
    left, right = affine(rng, names), affine(rng, names)
    kind = rng.integers(6)
    if kind == 0:
        left = modulo(left, int(rng.integers(2, 5)))
    elif kind == 1:
        left = floordiv(left, int(rng.integers(2, 4)))
    elif kind == 2:
        left = ir.Read(data, (ir.Index(names[-1]),))
    return compare(SIGNS[int(rng.integers(len(SIGNS)))], left, right)


def formula(rng: Rng) -> ir.Lambda:
    """A reduction, or none, of entries where tests hold."""
    extents = [int(rng.integers(1, 7)) for _ in range(4)]
    rank, count = int(rng.integers(1, 3)), int(rng.integers(0, 3))
    names = [f"i{k}" for k in range(rank)] + [f"r{k}" for k in range(count)]
    size = dict(zip(names, extents))
    own = list(rng.permutation(names))[: int(rng.integers(1, 3))]
    values = rng.integers(-4, 5, [size[n] for n in own]) / 2 * (
        rng.random([size[n] for n in own]) < 0.6)
    format = FORMATS[len(own)][int(rng.integers(len(FORMATS[len(own)])))]
    fill = 0.0
    entry: ir.Expr = ir.Read(tr.tensor(values, format=format, fill=fill).node,
                             tuple(map(ir.Index, own)))
    if rng.random() < 0.3:
        entry = call(ops.add, entry, ir.const(1.0))
    data = tr.asarray(rng.integers(0, 6, size[names[-1]])).node
    tests = [condition(rng, names, data) for _ in range(int(rng.integers(1, 4)))]
    op = OPS[int(rng.integers(len(OPS)))] if count else None
    none = 0.0 if op is None else op.identity(ir.const(1.0).dtype)
    body: ir.Expr = call(ops.where, both(*tests), entry, ir.const(float(none)))
    if op is not None:
        body = ir.Reduce(op, tuple(ir.Axis(n, size[n]) for n in names[rank:]), body)
    return ir.Lambda(tuple(ir.Axis(n, size[n]) for n in names[:rank]), body)


@pytest.mark.parametrize("seed", range(40))
def test_random_formulas(seed: int) -> None:
    lam = formula(np.random.default_rng(seed))
    wanted = interpret.evaluate(lam, lambda source: to_dense(source.data))
    for options in ({}, {"strict": True}, {"threads": 2}):
        found = wrap(lam).compute(**options).to_numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-12, err_msg=str(options))


def code(body: ir.Expr, *extents: int) -> str:
    axes = tuple(ir.Axis(f"i{k}", n) for k, n in enumerate(extents))
    return str(wrap(ir.Lambda(axes, body)).explain("code"))


def test_what_is_left_of_a_scatter() -> None:
    """One step for each entry, without a test of the key."""
    v = tr.asarray(np.arange(50.0)).node
    r, i = ir.Index("r0"), ir.Index("i0")
    key = modulo(times(r, r), 7)
    text = code(ir.Reduce(ops.add, (ir.Axis("r0", 50),), call(
        ops.where, compare(ops.equal, key, i), ir.Read(v, (r,)), ir.const(0.0))), 100)
    assert text.count("for ") == 1 and "==" not in text.split("def nest")[1].split("peak")[0]


def test_windows_ask_nothing_inside() -> None:
    v = tr.asarray(np.arange(50.0)).node
    r, i = ir.Index("r0"), ir.Index("i0")
    near = both(compare(ops.greater_equal, i, minus(r, 1)), compare(ops.less, i, plus(r, 49)))
    text = code(ir.Reduce(ops.add, (ir.Axis("r0", 3),), call(
        ops.where, near, ir.Read(v, (plus(minus(i, r), 1),)), ir.const(0.0))), 50)
    assert " if " not in text.split("def nest")[1].split("peak")[0]
