"""One answer for every storage: each format x each operator family, each format x each output
format and each family x each output format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from engine_support import CUBE_FORMATS, MATRIX_FORMATS, formats_for, matrix, same

import tensorel as tr
from tensorel.errors import StorageError
from tensorel.storage.registry import resolve

N = 6
D = np.random.default_rng(7).integers(-3, 4, (N, 4)).astype(float)
V = np.random.default_rng(8).integers(-3, 4, N).astype(float)
ROWS = np.array([4, 0, 4, 1])

#: a: in the format under test; b: in the same format; c: in another sparse format; d, v: dense.
Program = Callable[[Any, Any, Any, Any, Any], Any]
FAMILIES: dict[str, tuple[Program, ...]] = {
    "unary, keeps zero": (
        lambda a, b, c, d, v: np.abs(a), lambda a, b, c, d, v: np.sqrt(np.square(a)),
        lambda a, b, c, d, v: np.sign(a * 1.0), lambda a, b, c, d, v: np.expm1(a)),
    "unary, moves zero": (
        lambda a, b, c, d, v: np.exp(a), lambda a, b, c, d, v: np.cos(a * 2) * 3,
        lambda a, b, c, d, v: np.logical_not(a)),
    "with a scalar": (
        lambda a, b, c, d, v: a + 1, lambda a, b, c, d, v: 3 * a, lambda a, b, c, d, v: 2.0 - a,
        lambda a, b, c, d, v: a / 2, lambda a, b, c, d, v: np.maximum(a, 1.5)),
    "with a dense tensor": (
        lambda a, b, c, d, v: a * v, lambda a, b, c, d, v: a + v[:, None],
        lambda a, b, c, d, v: v - a),
    "with the same format": (
        lambda a, b, c, d, v: a + b, lambda a, b, c, d, v: a * b,
        lambda a, b, c, d, v: np.minimum(a, b), lambda a, b, c, d, v: (a + b) * (a * 2)),
    "with another sparse format": (
        lambda a, b, c, d, v: a + c, lambda a, b, c, d, v: a * c,
        lambda a, b, c, d, v: np.maximum(c, a), lambda a, b, c, d, v: (a * 2 - c) * c),
    "comparison": (
        lambda a, b, c, d, v: a > 0, lambda a, b, c, d, v: a == c, lambda a, b, c, d, v: a <= b,
        lambda a, b, c, d, v: a != v),
    "where": (
        lambda a, b, c, d, v: np.where(a != 0, a, c), lambda a, b, c, d, v: np.where(c > 0, a, 0),
        lambda a, b, c, d, v: np.where(a == b, 5.0, b)),
    "sum": (
        lambda a, b, c, d, v: a.sum(), lambda a, b, c, d, v: a.sum(axis=0),
        lambda a, b, c, d, v: a.sum(axis=1), lambda a, b, c, d, v: (a + 1).sum(axis=0)),
    "max, prod, any": (
        lambda a, b, c, d, v: a.max(axis=0), lambda a, b, c, d, v: (a - 1.0).max(axis=1),
        lambda a, b, c, d, v: a.prod(axis=1), lambda a, b, c, d, v: (a + 1).prod(axis=0),
        lambda a, b, c, d, v: a.any(axis=0), lambda a, b, c, d, v: (a > 1).all(axis=1),
        lambda a, b, c, d, v: a.max(), lambda a, b, c, d, v: (a != 0).sum(axis=0)),
    "matmul": (
        lambda a, b, c, d, v: a @ d, lambda a, b, c, d, v: d.T @ a, lambda a, b, c, d, v: a @ c,
        lambda a, b, c, d, v: c @ a, lambda a, b, c, d, v: a @ v, lambda a, b, c, d, v: v @ a),
    "einsum of three": (
        lambda a, b, c, d, v: np.einsum("ij,jk,k->i", a, c, v),
        lambda a, b, c, d, v: np.einsum("ij,jk,ki->", c, a, a),
        lambda a, b, c, d, v: np.einsum("i,ij,jl->il", v, a, d)),
    "slices": (
        lambda a, b, c, d, v: a[1:5:2], lambda a, b, c, d, v: a[:, ::-2],
        lambda a, b, c, d, v: a[::-1, 1:4], lambda a, b, c, d, v: a[2],
        lambda a, b, c, d, v: a[:, 3]),
    "gather": (
        lambda a, b, c, d, v: a[ROWS], lambda a, b, c, d, v: a[:, ROWS],
        lambda a, b, c, d, v: a[ROWS, [0, 5, 0, 2]]),
    "transpose": (
        lambda a, b, c, d, v: a.T, lambda a, b, c, d, v: a.T + a, lambda a, b, c, d, v: a.T * c),
    "concat": (
        lambda a, b, c, d, v: np.concatenate([a, c]),
        lambda a, b, c, d, v: np.concatenate([d, a, b], axis=1),
        lambda a, b, c, d, v: np.stack([a, c], axis=1)),
    "reshape": (
        lambda a, b, c, d, v: a.reshape(-1), lambda a, b, c, d, v: a.reshape(4, 9),
        lambda a, b, c, d, v: a.reshape(2, 3, 6) + 1),
}


def operands(format: str) -> tuple[tuple[Any, ...], tuple[np.ndarray, ...]]:
    """The operands as tensors and as arrays."""
    x, y, z = matrix(format, 1), matrix(format, 2), matrix("coo", 3)
    if x.dtype == bool:
        z = z != 0
    other = "csc" if format != "csc" else "dcsr"
    tensors = (tr.tensor(x, format=format), tr.tensor(y, format=format),
               tr.tensor(z, format=other), tr.asarray(D), tr.asarray(V))
    return tensors, (x, y, z, D, V)


def numpy_result(program: Program, arrays: tuple[np.ndarray, ...]) -> np.ndarray | None:
    """What NumPy says; None where it refuses the dtype."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(program(*arrays))
    except TypeError:
        return None


def third(outputs: list[str], turn: int) -> list[str]:
    """One output format in three. With turns that add up numbers of formats and of programs, each
    pair of an output with a format, and with a program, is met."""
    return outputs[turn % 3 :: 3] or outputs


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("format", MATRIX_FORMATS)
def test_family(format: str, family: str) -> None:
    tensors, arrays = operands(format)
    place = MATRIX_FORMATS.index(format)
    for number, program in enumerate(FAMILIES[family]):
        wanted = numpy_result(program, arrays)
        if wanted is None or wanted.dtype == np.float16:
            continue
        found = program(*tensors)
        same(found.compute(), wanted, exact=False)
        outputs = formats_for(wanted)
        # many output formats for one program of the family, two for the others
        turn = place + number
        if number == place % len(FAMILIES[family]):
            outputs = third(outputs, place + [*FAMILIES].index(family))
        else:
            outputs = [outputs[turn % len(outputs)], outputs[(3 * turn + 1) % len(outputs)]]
        for output in outputs:
            stored = found.compute(format=output)
            assert stored.format == resolve(output, wanted.shape, wanted.dtype).name
            same(stored, wanted, exact=False)


SIX: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "A@B": lambda a, b, c, d: a @ b,
    "A.T@D@A": lambda a, b, c, d: a.T @ d @ a,
    "A.T@A": lambda a, b, c, d: a.T @ a,
    "(c0*A+B).T@(c1*B.T+C)": lambda a, b, c, d: (2 * a + b).T @ (3 * b.T + c),
    "A@B@C": lambda a, b, c, d: a @ b @ c,
    "(A+B)@(A+B+C)": lambda a, b, c, d: (a + b) @ (a + b + c),
}


@pytest.mark.parametrize("name", SIX)
@pytest.mark.parametrize("format", MATRIX_FORMATS)
def test_expressions_that_others_get_wrong(format: str, name: str) -> None:
    arrays = [matrix(format, seed) for seed in (11, 12, 13)]
    diagonal = np.diag(np.arange(1, N + 1)).astype(arrays[0].dtype)
    wanted = SIX[name](*arrays, diagonal)
    tensors = [tr.tensor(x, format=format) for x in (*arrays, diagonal)]
    found = SIX[name](*tensors)
    same(found.compute(), wanted)
    for output in third(formats_for(wanted), MATRIX_FORMATS.index(format) + [*SIX].index(name)):
        same(found.compute(format=output), wanted)
    mixed = [tr.tensor(x, format=f) for x, f in zip(arrays, ("csr", "dok", "csc"))]
    same(SIX[name](*mixed, tr.tensor(diagonal, format="coo")).compute(format="coo"), wanted)
    same(SIX[name](tensors[0], *mixed[1:], tr.asarray(diagonal)), wanted)


CUBES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "map": lambda t, m, v: np.abs(t) + 1,
    "broadcast": lambda t, m, v: t * v + m[0],
    "sum 0": lambda t, m, v: t.sum(axis=0),
    "sum 1": lambda t, m, v: t.sum(axis=1),
    "max 2": lambda t, m, v: t.max(axis=2),
    "prod 0, 2": lambda t, m, v: (t + 1).prod(axis=(0, 2)),
    "mttkrp": lambda t, m, v: np.einsum("ijk,jr,kr->ir", t, m[:4], m),
    "ttm": lambda t, m, v: np.einsum("ijk,kr->ijr", t, m),
    "ttv": lambda t, m, v: t @ v,
    "pair": lambda t, m, v: np.einsum("ijk,ljk->il", t, t),
    "matmul": lambda t, m, v: t @ m,
    "slices": lambda t, m, v: t[::-1, 1:4:2, ::3],
    "one": lambda t, m, v: t[1],
    "fibre": lambda t, m, v: t[1, :, 2],
    "gather": lambda t, m, v: t[:, [3, 0, 3]],
    "transpose": lambda t, m, v: t.transpose(2, 0, 1) if isinstance(t, np.ndarray)
    else tr.permute_dims(t, (2, 0, 1)),
    "concat": lambda t, m, v: np.concatenate([t, t * 2], axis=1),
    "reshape": lambda t, m, v: t.reshape(12, 5),
    "where": lambda t, m, v: np.where(t > 0, t, v),
    "diagonal": lambda t, m, v: np.einsum("iji->ij", t[:, :, :3]),
}


@pytest.mark.parametrize("name", CUBES)
def test_cubes(name: str) -> None:
    rng = np.random.default_rng(3)
    x = np.where(rng.random((3, 4, 5)) < 0.4, rng.integers(-3, 4, (3, 4, 5)), 0).astype(float)
    m, v = rng.integers(-2, 3, (5, 2)).astype(float), rng.integers(-2, 3, 5).astype(float)
    if name == "broadcast":
        m = np.arange(5.0).reshape(1, 5)
    wanted = CUBES[name](x, m, v)
    outputs = formats_for(wanted)
    for turn, format in enumerate(CUBE_FORMATS):
        found = CUBES[name](tr.tensor(x, format=format), tr.asarray(m), tr.asarray(v))
        same(found.compute(), wanted, exact=False)
        some = outputs if turn == len(name) % len(CUBE_FORMATS) else [outputs[turn % len(outputs)]]
        for output in some:
            same(found.compute(format=output), wanted, exact=False)


@pytest.mark.parametrize("fill", [1.0, -2.5, np.inf, np.nan])
@pytest.mark.parametrize("format", [f for f in MATRIX_FORMATS if f != "bitmap"])
def test_fills(format: str, fill: float) -> None:
    """Entries that are not stored equal the fill, in every format that can hold it."""
    x = np.where(matrix(format, 4) == 0, fill, matrix(format, 4))
    try:
        a = tr.tensor(x, format=format, fill=fill)
    except StorageError:
        assert format in ("tril", "triu", "symmetric", "dia", "band")
        return
    same(a, x)
    with np.errstate(all="ignore"):
        for program in (lambda t: t * 2, lambda t: np.abs(t) + 1, lambda t: t.max(axis=0),
                        lambda t: t.sum(axis=1), lambda t: t[::-1, 1:], lambda t: t.T,
                        lambda t: np.isnan(t), lambda t: np.where(t > 1, t, 0.0)):
            wanted, found = program(x), program(a)
            same(found, wanted, exact=False)
            for output in ("coo", "csr", "dense", "dok")[: 4 if wanted.ndim == 2 else 1]:
                same(found.compute(format=output), wanted, exact=False)
    if np.isfinite(fill):
        same(a @ a, x @ x, exact=False)
        same(a @ D, x @ D, exact=False)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "uint64", "float32", "complex64"])
@pytest.mark.parametrize("format", ["dense_f", "coo", "csr", "dcsc", "dok", "bsr(2,3)", "dia",
                                    "symmetric", "zorder", "1;0"])
def test_dtypes_through_formats(format: str, dtype: str) -> None:
    x, y = (np.abs(matrix(format, s)).astype(dtype) for s in (5, 6))
    a, b = tr.tensor(x, format=format), tr.tensor(y, format=format)
    for program in (lambda s, t: s + t, lambda s, t: s @ t, lambda s, t: s.sum(axis=0),
                    lambda s, t: s * t[0], lambda s, t: s == t, lambda s, t: s.prod(axis=1)):
        wanted = program(x, y)
        same(program(a, b), wanted, exact=False)
        if wanted.ndim == 2:
            for output in ("csr", "dok"):
                same(program(a, b).compute(format=output), wanted, exact=False)
