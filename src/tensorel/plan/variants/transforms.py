"""Convolutions with large kernels by fast transforms.

``sum(r, s) x[i + r, j + s] * k[r, s]`` over dense numbers takes as many terms a cell as the kernel
has entries; transforms take the logarithm of the extents. They round differently: the error is that
of the largest values around a cell, not of its own terms. A variant of the program, of floats
alone, and off in strict mode."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.algebra.convolutions import transform
from tensorel.ir.affine import split_affine
from tensorel.ir.build import int_value
from tensorel.ir.nodes import Bulk, Expr, Index, Lambda, Read, Reduce, Source
from tensorel.plan.definitions import Definition, Program, factors_of, product_of
from tensorel.plan.estimate import Estimator

MIN_TERMS = 128  # of a cell that transforms may pay for


def transforms(program: Program) -> Program | None:
    """The program with convolutions by transforms; None where there are none."""
    other = program.copy()
    other.definitions = [_by_transform(program, d) for d in program.definitions]
    found = sum(a is not b for a, b in zip(other.definitions, program.definitions))
    if not found:
        return None
    other.fire("transform: a convolution by fast transforms", found)
    return other


def _by_transform(program: Program, d: Definition) -> Definition:
    lam = d.tensor
    if not isinstance(lam, Lambda) or not isinstance(lam.body, Reduce) \
            or lam.body.op is not ops.add or lam.dtype.kind not in "fc" \
            or product_of(lam.body.axes) < MIN_TERMS or 0 in lam.shape \
            or not Estimator(program.stats).is_dense(lam.body):
        return d
    pair = factors_of(lam.body.body, ops.multiply)
    if len(pair) != 2 or not all(isinstance(f, Read) for f in pair):
        return d
    for x, k in (pair, pair[::-1]):
        assert isinstance(x, Read) and isinstance(k, Read)
        turned = _turned(lam, lam.body, x, k)
        if turned is not None and isinstance(x.tensor, Source) and isinstance(k.tensor, Source):
            return d.rewritten(Bulk(transform, (x.tensor, k.tensor), (turned,)))
    return d


def _turned(lam: Lambda, r: Reduce, x: Read, k: Read) -> bool | None:
    """Whether the kernel is read from its end; None where this is no convolution of the whole of
    ``x`` along its last axes."""
    extents, names = {a.name: a.extent for a in r.axes}, [_name(e) for e in k.indices]
    if len(set(names)) != len(names) or set(names) != extents.keys() \
            or len(x.indices) != len(lam.axes):
        return None
    first = len(x.indices) - len(names)
    ways: set[int] = set()
    for e, name, size in zip(k.indices, names, k.tensor.shape):
        parts = split_affine(e, name)
        way = None if parts is None else (parts[0], int_value(parts[1]))
        if extents[name] != size or way not in ((1, 0), (-1, size - 1)):
            return None
        if size > 1 and way is not None:
            ways.add(way[0])
    for place, (a, e, n) in enumerate(zip(lam.axes, x.indices, x.tensor.shape)):
        along = names[place - first] if place >= first else ""
        parts = split_affine(e, along)
        if parts is None or parts[0] != (place >= first) or parts[1] is not Index(a.name) \
                or a.extent != n - extents.get(along, 1) + 1:
            return None
    return None if len(ways) > 1 else ways == {-1}


def _name(e: Expr) -> str:
    return next(iter(e.free)) if len(e.free) == 1 else ""
