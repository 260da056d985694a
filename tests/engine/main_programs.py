"""The main programs: one of each kind of step that plans have, on small data, with NumPy's answer.

Values are whole numbers, so that reassociation changes nothing and results are the same to the
last bit under every setting. ``tests/engine/test_settings.py`` runs them under all settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

import tensorel as tr

Array = np.ndarray[Any, np.dtype[Any]]


def integers(shape: tuple[int, ...], seed: int, density: float = 0.1) -> Array:
    rng = np.random.default_rng(seed)
    return np.where(rng.random(shape) < density, rng.integers(-4, 5, shape), 0).astype(float)


@dataclass(frozen=True)
class Operands:
    """Arrays, or tensors of the same values. ``x``, ``y``: sparse matrices, ``z``, ``s``: square
    ones, ``d``: a dense one, ``f``: one that is 2 where nothing is stored, ``t``: of three axes,
    ``n``: whole numbers that wrap around, ``b``: truth values, ``c``: complex numbers, ``v`` and
    ``w``: a dense and a sparse vector, ``i``: places."""

    x: Any
    y: Any
    z: Any
    s: Any
    d: Any
    f: Any
    t: Any
    n: Any
    b: Any
    c: Any
    v: Any
    w: Any
    i: Any


ARRAYS = Operands(
    x=integers((40, 30), 1), y=integers((30, 40), 2), z=integers((40, 40), 3),
    s=integers((40, 40), 6, 0.03), d=integers((30, 8), 4, 1.0),
    f=np.where(integers((40, 30), 7) != 0, 5.0, 2.0), t=integers((12, 9, 10), 8, 0.15),
    n=integers((40, 30), 9, 0.3).astype(np.int8) * 30, b=integers((40, 40), 10, 0.08) != 0,
    c=integers((40, 30), 11) + 1j * integers((40, 30), 12),
    v=integers((40,), 5, 1.0), w=integers((40,), 13, 0.3), i=np.array([5, 1, 39, 5, 17]))
FORMATS = Operands(x="csr", y="csr", z="csc", s="csr", d="dense", f="coo", t="csf", n="csr",
                   b="coo", c="csr", v="dense", w="coo", i="dense")


def tensors() -> Operands:
    """The operands, stored anew."""
    return Operands(*(
        tr.tensor(getattr(ARRAYS, o.name), format=getattr(FORMATS, o.name),
                  fill=2.0 if o.name == "f" else None) for o in fields(Operands)))


@dataclass(frozen=True)
class Main:
    """``ours`` of tensors gives what ``theirs`` gives of arrays; in ``format``, if one is asked
    for."""

    ours: Callable[[Operands], Any]
    theirs: Callable[[Operands], Any]
    format: str | None = None


def _both(program: Callable[[Operands], Any], format: str | None = None) -> Main:
    return Main(program, program, format)


def _scattered(o: Operands) -> Array:
    found = np.zeros(o.i.max() + 1)
    np.add.at(found, o.i, 1.0)
    return found


PROGRAMS: dict[str, Main] = {
    # -- products
    "product": _both(lambda o: o.x @ o.y),
    "product to csr": _both(lambda o: o.x @ o.y, "csr"),
    "product to a list": _both(lambda o: o.z @ o.s, "coo"),
    "chain": _both(lambda o: o.x @ o.y @ o.z),
    "matrix and vector": _both(lambda o: o.z @ o.v),
    "vector and matrix": _both(lambda o: o.v @ o.z),
    "sparse vector": _both(lambda o: o.s @ o.w),
    "dense factor": _both(lambda o: o.x @ o.d),
    "dense product": _both(lambda o: o.d @ o.d.T),
    "gram": _both(lambda o: o.x.T @ (o.x @ (o.y @ o.v))),
    "distributed": _both(lambda o: (2 * o.z + o.x @ o.y) @ o.v),
    "outer": _both(lambda o: o.w[:, None] * o.w[None, :]),
    "complex": _both(lambda o: o.c.T @ o.x),
    # -- sums of products
    "sum of a product": _both(lambda o: (o.x @ o.y).sum()),
    "rows of a product": _both(lambda o: (o.x @ o.y).sum(axis=1)),
    "masked product": _both(lambda o: o.z * (o.x @ o.y)),
    "sampled product": _both(
        lambda o: np.einsum("ij,ik,jk->ij", o.x, o.v[:, None] * o.d[0], o.d)),
    "trace": _both(lambda o: np.trace(o.x @ o.y)),
    "three": _both(lambda o: np.einsum("ij,jk,k->i", o.x, o.y, o.v)),
    "triangles": _both(lambda o: np.einsum("ij,jk,ki->", o.z, o.z, o.z)),
    "paths": _both(lambda o: np.einsum("ij,jk,ik->i", o.s, o.z, o.s)),
    "factors of three axes": _both(
        lambda o: np.einsum("ijk,jr,kr->ir", o.t, o.d[:9], o.d[9:19])),
    "one axis of three": _both(lambda o: np.einsum("ijk,jr->irk", o.t, o.d[:9])),
    "constant sum": _both(lambda o: np.einsum("ij,k->i", o.x, o.v)),
    "least sums": Main(
        lambda o: tr.einsum("ij,jk->ik", o.x, o.y, add=tr.min, mul=tr.add),
        lambda o: (o.x[:, :, None] + o.y[None]).min(axis=1)),
    "reachable": Main(
        lambda o: tr.einsum("ij,jk->ik", o.b, o.b, add=tr.any, mul=tr.logical_and),
        lambda o: (o.b.astype(int) @ o.b.astype(int)) > 0),
    # -- entry by entry
    "union": _both(lambda o: o.z + o.s, "csr"),
    "unions": _both(lambda o: o.z + o.s - o.s.T + np.maximum(o.z, o.s), "csr"),
    "intersection": _both(lambda o: o.z * o.s * o.s.T),
    "shared": _both(lambda o: (o.x @ o.y) * (o.x @ o.y) + (o.x @ o.y)),
    "shifted": _both(lambda o: (o.x + 1) @ (o.y - 2)),
    "where": _both(lambda o: np.where(o.z > 0, o.z, o.v) * 2),
    "identities": _both(lambda o: -(-(o.z * 1 + 0)) ** 1 / 1),
    "same pattern": _both(lambda o: abs(o.x) * 3, "csr"),
    "other fill": _both(lambda o: o.f * o.x + o.f),
    "wrapped": _both(lambda o: o.n * o.n + o.n),
    "three axes": _both(lambda o: o.t + o.t[::-1] * 2),
    # -- reductions
    "extremes": _both(lambda o: (o.z - 1).max(axis=0) + o.z.min(axis=1)),
    "max of a product": _both(lambda o: (o.x @ o.y).max(axis=1)),
    "nested": _both(lambda o: ((o.z * o.v).sum(axis=1) * o.z.T).sum(axis=0)),
    "counts": _both(lambda o: (o.z != 0).sum(axis=0)),
    "any and all": _both(lambda o: o.b.any(axis=0) ^ (o.x != 1).all()),
    "wrapped sums": _both(lambda o: o.n.sum(axis=0, dtype=np.int8)),
    "norm": _both(lambda o: (o.c * o.c.conj()).sum().real),
    "middle axis": _both(lambda o: o.t.sum(axis=1)),
    "fill in sums": _both(lambda o: o.f.sum(axis=0)),
    # -- places
    "transposed": _both(lambda o: o.x.T, "csr"),
    "turned": _both(lambda o: np.transpose(o.t, (2, 0, 1)), "csf"),
    "slices": _both(lambda o: (o.x @ o.y)[::3, 5:20]),
    "reversed": _both(lambda o: o.z[::-1, 3:30:2], "csr"),
    "rows": _both(lambda o: o.z[[5, 0, 39]] @ o.x),
    "places": _both(lambda o: o.v[o.i]),
    "points": _both(lambda o: o.z[[1, 2, 3, 39], [0, 2, 7, 1]]),
    "diagonal": _both(lambda o: np.diagonal(o.z + o.s)),
    "rolled": _both(lambda o: np.roll(o.z, 3, axis=1) + np.pad(o.s[1:-1, 1:-1], 1)),
    "joined": _both(lambda o: np.concatenate([o.x, o.y.T]) @ o.d),
    "side by side": _both(lambda o: np.concatenate([o.x, o.z], axis=1), "csr"),
    "scattered": Main(lambda o: tr.sdql("sum(<_, k> in I) { k -> 1.0 }", I=o.i), _scattered),
    # -- whole tensors
    "sorted": _both(lambda o: np.sort(o.x @ o.y, axis=1)[:, -3:]),
    "running sums": _both(lambda o: np.cumsum(o.x, axis=1)),
    "first of the greatest": _both(lambda o: np.argmax(o.z, axis=1)),
    "reshaped": _both(lambda o: np.reshape(o.x @ o.y, (20, 80)).sum(axis=1)),
    "repeated": _both(lambda o: np.repeat(o.w, 2) + np.tile(o.v, 2)),
}


@cache
def expected(name: str) -> Array:
    """NumPy's answer."""
    with np.errstate(all="ignore"):
        return np.asarray(PROGRAMS[name].theirs(ARRAYS))
