"""Entries that are not stored, in reductions: n copies of the fill under every monoid, exactly, and
fills that decide the result whatever the stored entries come to."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.algebra import ops
from tensorel.ir import analysis
from tensorel.ir.nodes import INT64, Call, Expr, Local, Read, const
from tensorel.kernels.loopir.statements import For, Kernel, Status, Stmt, Store, array
from tensorel.kernels.runtime.compiled import Control, compile

Array = np.ndarray[Any, np.dtype[Any]]
COUNTS = (1, 2, 3, 100, 2**24 + 1, 2**40, 2**40 + 1, 2**62 + 3, 2**70 + 1)
BROAD = (2, 3, 100, 200, 257, 2**16 + 1, 2**24 + 1, 2**32 + 1, 2**40)  # extents of axes
REALS = (0.0, -0.0, 1.0, -1.0, 3.0, -0.5, 1.0000001, math.inf, -math.inf, math.nan, 1e300, 1e-300)
FORMATS = ("dense", "csr", "csc", "coo", "dcsr", "dok", "csf", "bsr")


def values_of(dtype: np.dtype[Any]) -> list[Any]:
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return [0, 1, 2, 3, 10, info.max, info.min, info.max - 1] + [-1] * (dtype.kind == "i")
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            return [dtype.type(v) for v in REALS]
    return [complex(a, b) for a, b in itertools.product((0.0, 1.0, -2.0, math.inf), repeat=2)]


def rounded(exact: Fraction, sign: float) -> float:
    try:
        found = float(exact)
    except OverflowError:
        found = math.inf
    return math.copysign(found, sign)


def copies(op: ops.Operator, value: Any, n: int, dtype: np.dtype[Any]) -> Any:
    """n copies by arithmetic without rounding; None where that takes too long."""
    if op.idempotent or dtype.kind == "b":
        return value
    if dtype.kind in "iu":
        whole = int(value) * n if op is ops.add else pow(int(value), n, 2**64)
        return np.array([whole % 2**64], np.uint64).astype(dtype)[0]
    if dtype.kind == "c":
        value = dtype.type(value)
        if op is ops.add:
            made = np.empty(1, np.complex128)
            made.real, made.imag = float(value.real) * n, float(value.imag) * n
            return made.astype(dtype)[0]
        # infinite parts give nans that depend on the order
        small = n <= 3 and np.isfinite(value)
        return np.multiply.reduce(np.full(n, value, np.complex128)) if small else None
    x = float(value)
    if op is ops.add:
        return x * n if not math.isfinite(x) else rounded(Fraction(abs(x)) * n, x)
    sign = -1.0 if math.copysign(1, x) < 0 and n % 2 else 1.0
    if not math.isfinite(x) or abs(x) in (0.0, 1.0):
        return math.copysign(abs(x), sign)
    return rounded(Fraction(abs(x)) ** n, sign) if n <= 100 else math.copysign(
        math.exp(min(n * math.log(abs(x)), 800)) if n * math.log(abs(x)) < 709 else math.inf, sign)


def cases(op: ops.Operator, dtype: np.dtype[Any]) -> list[tuple[Any, int, Any]]:
    found = []
    for value, n in itertools.product(values_of(dtype), COUNTS):
        with np.errstate(all="ignore"):
            expected = copies(op, value, n, dtype)
        if expected is not None:
            found.append((value, n, expected))
    return found


def check(found: Any, expected: Any, dtype: np.dtype[Any], about: object) -> None:
    with np.errstate(all="ignore"):
        want = np.asarray(expected).astype(dtype)
    if dtype.kind in "biu":
        assert found == want, about
        return
    for got, exact in ((found.real, want.real), (found.imag, want.imag)):
        # a power is as exact as its exponent times the rounding of the logarithm
        assert (np.isnan(got) and np.isnan(exact)) or np.isclose(got, exact, rtol=1e-6), about
        assert np.isnan(exact) or np.signbit(got) == np.signbit(exact), about


MONOIDS = [o for o in ops.operators() if o.is_monoid]


@pytest.mark.parametrize("op", MONOIDS, ids=lambda o: o.name)
def test_copies_of_constants(op: ops.Operator) -> None:
    for dtype in ops.DTYPES:
        try:
            if op.resolve(dtype, dtype)[1] != dtype:
                continue
        except ops.TypeError_:
            continue
        for value, n, expected in cases(op, dtype):
            found = analysis.repeat(op, np.asarray(value).astype(dtype), n)
            assert found.dtype == dtype
            check(found, expected, dtype, (op, dtype, value, n, found, expected))


@pytest.mark.parametrize("op", [o for o in MONOIDS if o.repeat], ids=lambda o: o.name)
def test_copies_in_kernels(op: ops.Operator) -> None:
    """The native form of each repetition on every dtype, all in one kernel."""
    i, lo, hi = (Local(n, INT64) for n in ("i", "lo", "hi"))
    sources, data, body, wanted = [], [], list[Stmt](), []
    for k, dtype in enumerate(ops.DTYPES):
        some = cases(op, dtype)
        values = np.array([v for v, _, _ in some], dtype)
        counts = np.array([op.copies(dtype, n)[1] for _, n, _ in some])
        own = [array(f"{s}{k}", d) for s, d in (("v", dtype), ("n", counts.dtype), ("o", dtype))]
        made: Expr = Call(op.copies(dtype, 1)[0], (Read(own[0], (i,)), Read(own[1], (i,))))
        body.append(For(i, lo, const(len(some), INT64), (Store(own[2], i, made),)))
        sources += own
        data += [values, counts, np.zeros(len(some), dtype)]
        wanted.append((some, data[-1]))
    kernel = Kernel("copies", tuple(sources), frozenset(
        str(s.data) for s in sources if str(s.data)[0] == "o"), (), (), lo, hi, tuple(body))
    assert compile(kernel, disk=False).run(data, [], [], 0, 0, Control()) is Status.DONE
    for some, found in wanted:
        for got, (value, n, expected) in zip(found, some):
            check(got, expected, found.dtype, (op, found.dtype, value, n, got, expected))


@pytest.mark.parametrize("op", [o for o in MONOIDS if o in (ops.add, ops.multiply)],
                         ids=lambda o: o.name)
def test_copies_along_axes_that_an_operand_lacks(op: ops.Operator) -> None:
    """Programs know how often an entry is repeated: no loop goes through the copies, alone, with
    other terms and beside axes that the operand has."""
    add = {ops.add: tr.sum, ops.multiply: tr.prod}[op]
    for dtype in ops.DTYPES:
        if op.resolve(dtype, dtype)[1] != dtype:
            continue
        for n in BROAD:
            with np.errstate(all="ignore"):
                known = [(v, copies(op, v, n, dtype)) for v in values_of(dtype)]
            known = [(v, e) for v, e in known if e is not None]
            t = tr.asarray(np.array([v for v, _ in known], dtype))
            rows = tr.broadcast_to(t[:, None], (len(known), n))
            block = tr.broadcast_to(t[:, None, None], (len(known), n, 1))
            for found in (tr.einsum("ij->i", rows, add=add), tr.einsum("ijk->i", block, add=add)):
                for got, (value, expected) in zip(found.to_numpy(), known):
                    check(got, expected, dtype, (op, dtype, value, n, got, expected))
            if dtype.kind in "biu":  # in no order, exactly
                whole = op.meaning.reduce(t.to_numpy(), dtype=dtype)  # type: ignore[attr-defined]
                got = tr.einsum("ij->", rows, add=add).to_numpy()[()]
                check(got, copies(op, whole, n, dtype), dtype, (op, dtype, n, got))


# -- reductions of stored tensors --------------------------------------------------------------
REDUCTIONS = {tr.sum: ops.add, tr.prod: ops.multiply, tr.min: ops.minimum, tr.max: ops.maximum,
              tr.any: ops.logical_or, tr.all: ops.logical_and}
FILLS = (0.0, 1.0, -1.0, math.inf, -math.inf, math.nan, 1e300)
DATA = {"plain": (2.0, -1.5, 0.5), "large": (1e200, -3e200), "small": (1e-200, -1e-180),
        "infinite": (math.inf, 2.0), "nan": (math.nan, 1.0), "none": ()}


def stored_in(fmt: str, shape: tuple[int, int], at: Array, values: Array, fill: float) -> tr.Tensor:
    return tr.tensor(tr.from_coo(at, values, shape, fill=fill), format=fmt)


def by_law(op: ops.Operator, row: Array, stored: Array, fill: float) -> list[Any]:
    """What a reduction may give: the fill's own value where it decides, else what NumPy gives in
    some order of the row."""
    decided = op.decided(1, fill, row.dtype)
    if decided is not None and not stored.all():
        return [decided]
    orders = (row, row[::-1], np.concatenate([row[stored], row[~stored]]), np.sort(row))
    with np.errstate(all="ignore"):
        found = [op.meaning.reduce(r) for r in orders]  # type: ignore[attr-defined]
        parts = [op.meaning.reduce(row[k]) for k in (stored, ~stored)  # type: ignore[attr-defined]
                 if row[k].size or op in (ops.add, ops.multiply)]
        return [*found, op.meaning(*parts) if len(parts) > 1 else found[0]]


def agrees(got: Any, wanted: list[Any]) -> bool:
    return any((np.isnan(got) and np.isnan(w)) or got == w or np.isclose(got, w, rtol=1e-12)
               for w in wanted)


@pytest.mark.parametrize("fmt", FORMATS)
def test_reductions_of_every_fill(fmt: str) -> None:
    rng = np.random.default_rng(5)
    shape = (3, 40)
    for fill, (kind, some) in itertools.product(FILLS, DATA.items()):
        mask = rng.random(shape) < 0.4
        mask[2] = bool(some) and fmt != "dense"
        at = np.array(np.nonzero(mask))
        values = rng.choice(some, at.shape[1]) if some else np.zeros(0)
        if not some:
            at = at[:, :0]
            mask[:] = False
        dense = np.full(shape, fill)
        dense[mask] = values
        t = stored_in(fmt, shape, at, values, fill)
        if fmt == "dense":
            mask[:] = True
        for function, op in REDUCTIONS.items():
            for axis in (0, 1):
                found = function(t, axis=axis).to_numpy()
                rows, held = (dense.T, mask.T) if axis == 0 else (dense, mask)
                for got, row, here in zip(found, rows, held):
                    wanted = by_law(op, row, here, fill)
                    assert agrees(got, wanted), (fmt, kind, fill, op, axis, got, wanted)
            got, wanted = function(t).to_numpy()[()], by_law(op, dense.ravel(), mask.ravel(), fill)
            assert agrees(got, wanted), (fmt, kind, fill, op, None, got, wanted)


def test_strict_products_are_numpys() -> None:
    a = np.full((3, 2000), 3.0)
    a[:, 5] = 0
    a[1, 5], a[1, 1990] = 3.0, 0.0
    with tr.options(strict=True), np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            tr.prod(tr.tensor(a, format="csr"), axis=1).to_numpy(), np.prod(a, axis=1))


def test_an_absent_factor_decides_a_product_that_overflows() -> None:
    a = np.full((3, 2000), 3.0)
    a[:, 5] = 0
    for fmt in FORMATS[1:]:
        t = tr.tensor(a, format=fmt)
        np.testing.assert_array_equal(tr.prod(t, axis=1).to_numpy(), np.zeros(3))
        assert tr.prod(t).to_numpy() == 0


def test_a_complex_infinite_fill_sums_by_parts() -> None:
    found = tr.from_coo([[0]], [1 + 5j], (4,), fill=np.inf).sum().to_numpy()[()]
    assert found == complex(math.inf, 5)
    column = tr.from_coo([[0]], [1 + 5j], (4,), fill=np.inf)[:, None]
    spread = (column + tr.zeros((1, 3))).sum(axis=1)
    np.testing.assert_array_equal(spread.to_numpy(), [3 + 15j] + [complex(math.inf, 0)] * 3)


SEMIRINGS = [(tr.sum, ops.multiply), (tr.prod, ops.add), (tr.prod, ops.multiply),
             (tr.min, ops.add), (tr.max, ops.multiply), (tr.sum, ops.minimum)]


@pytest.mark.parametrize("dtype", ["uint64", "int8", "float64", "complex128"])
def test_semirings_with_fills(dtype: str) -> None:
    rng = np.random.default_rng(3)
    for round_ in range(36):
        add, times = SEMIRINGS[round_ % len(SEMIRINGS)]
        if dtype == "complex128" and (add in (tr.min, tr.max) or times is ops.minimum):
            continue
        monoid = REDUCTIONS[add]
        fills, shapes = rng.integers(0, 4, 2), ((int(rng.choice([1, 7, 100])), 3), (3, 2))
        tensors, dense = [], []
        for fill, shape in zip(fills, shapes):
            mask = rng.random(shape) < rng.choice([0.0, 0.3])
            full = np.where(mask, rng.integers(0, 5, shape), fill).astype(dtype)
            at = np.array(np.nonzero(mask))
            fmt = str(rng.choice(FORMATS))
            tensors.append(stored_in(fmt, shape, at, full[mask], full.dtype.type(fill)))
            dense.append(full)
        found = tr.einsum("ij,jk->kj", *tensors, add=add, mul=times).to_numpy()
        with np.errstate(all="ignore"):
            body = times.meaning(dense[0][:, :, None], dense[1][None])
            wanted = monoid.meaning.reduce(body, axis=0, dtype=body.dtype).T
        np.testing.assert_allclose(found, wanted, rtol=1e-11, err_msg=str((round_, add, times)))


def test_a_product_of_sums_that_wraps_around() -> None:
    a, b = np.ones((100, 1), np.uint64), np.array([[2]], np.uint64)
    for fmt in FORMATS:
        found = tr.einsum("ij,jk->kj", tr.tensor(a, format=fmt, fill=1),
                          tr.tensor(b, format="dense", fill=1), add=tr.prod, mul=tr.add)
        assert found.to_numpy()[0, 0] == pow(3, 100, 2**64)
