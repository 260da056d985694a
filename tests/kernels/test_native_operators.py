"""Every operator on every dtype: native code against NumPy, corners included."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorel.algebra import ops
from tensorel.errors import TensorelError
from tensorel.ir.nodes import DTYPES, INT64, Call, DType, Expr, Local, Read, const
from tensorel.kernels.llvm import operators
from tensorel.kernels.loopir.statements import For, Kernel, Status, Stmt, Store, array
from tensorel.kernels.runtime.compiled import Control, compile

Array = np.ndarray[Any, np.dtype[Any]]
Case = tuple[Expr, list[Any], list[Array]]  # an expression, the arrays it reads, their values
LO, HI, I_ = Local("lo", INT64), Local("hi", INT64), Local("i", INT64)

#: Units in the last place by which C's functions may differ from NumPy's own.
LIBM_ULPS = dict.fromkeys((*operators.LIBM, "logaddexp", "power"), 8)


def corners(dtype: DType) -> Array:
    rng = np.random.default_rng(7)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        some = [0, 1, 2, 3, 7, 63, info.max, info.max - 1, info.min, info.min + 1]
        some += [-1, -2, -5, -64] if dtype.kind == "i" else []
        wide = rng.integers(info.min, info.max, 12, dtype, endpoint=True)
        return np.concatenate([np.array(some, dtype), wide])
    if dtype.kind == "f":
        info_f = np.finfo(dtype)
        some_f = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0]
        some_f += [np.nan, np.inf, -np.inf, 1e10, -7.25]
        some_f += [info_f.max, info_f.min, info_f.tiny, info_f.smallest_subnormal]
        return np.concatenate([some_f, rng.normal(size=8), rng.normal(size=4) * 100]).astype(dtype)
    parts = np.array([0.0, -0.0, 1.0, -1.0, 2.5, -3.25, np.nan, np.inf, -np.inf])
    grid = (parts[:, None] + 1j * 0).ravel().repeat(len(parts))
    grid.imag = np.tile(parts, len(parts))
    return np.concatenate([grid, rng.normal(size=6) + 1j * rng.normal(size=6)]).astype(dtype)


def arguments(dtypes: tuple[DType, ...]) -> list[Array]:
    """All combinations of corners, flat."""
    values = [corners(d) for d in dtypes]
    return [g.ravel().copy() for g in np.meshgrid(*values, indexing="ij")]


def run_native(cases: list[Case]) -> list[Array]:
    """One loop per expression over its arrays, all in one kernel."""
    outs = [np.empty(len(arrays[0]) if arrays else 1, e.dtype) for e, _, arrays in cases]
    sources, data, body = [], [], list[Stmt]()
    targets = [array(f"out{k}", o.dtype) for k, o in enumerate(outs)]
    for target, out, (expr, own, arrays) in zip(targets, outs, cases):
        sources += [target, *own]
        data += [out, *arrays]
        body.append(For(I_, LO, const(len(out), INT64), (Store(target, I_, expr),)))
    kernel = Kernel("test", tuple(sources), frozenset(str(t.data) for t in targets), (), (), LO,
                    HI, tuple(body))
    assert compile(kernel, strict=True, disk=False).run(
        data, [], [], 0, 0, Control()) is Status.DONE
    return outs


def case(op: ops.Operator, dtypes: tuple[DType, ...], tag: int) -> Case:
    own = [array(f"in{tag}_{k}", d) for k, d in enumerate(dtypes)]
    return Call(op, tuple(Read(s, (I_,)) for s in own)), own, arguments(dtypes)


def expected(op: ops.Operator, dtypes: tuple[DType, ...], arrays: list[Array]) -> Array:
    into, out = op.resolve(*dtypes)
    args = [np.asarray(convert_array(a, d)) for a, d in zip(arrays, into)]
    with np.errstate(all="ignore"):
        if op is ops.power and into[0].kind in "iu":
            refused = args[1] < 0
            args[1] = np.where(refused, 0, args[1]).astype(into[1])
            return np.where(refused, 0, op.meaning(*args)).astype(out)
        return np.asarray(op.meaning(*args)).astype(out)


def convert_array(a: Array, dtype: DType) -> Any:
    return ops.cast(dtype).meaning(a)


def resolves(op: ops.Operator, dtypes: tuple[DType, ...]) -> bool:
    try:
        op.resolve(*dtypes)
    except TensorelError:
        return False
    return True


def check(op: ops.Operator, got: Array, want: Array, arrays: list[Array]) -> None:
    assert got.dtype == want.dtype
    where = f"{op.name} {[a.dtype.name for a in arrays]}"
    if got.dtype.kind in "biu":
        different = got != want
    elif got.dtype.kind == "f":
        usual = 4 if arrays[0].dtype.kind == "c" else 0
        different = ~close(got, want, LIBM_ULPS.get(op.name, usual))
    else:
        different = ~close_complex(op, got, want, arrays)
    if different.any():
        rows = [(*(a[k] for a in arrays), "got", got[k], "want", want[k])
                for k in np.flatnonzero(different)[:8]]
        pytest.fail(f"{where}: {different.sum()} of {len(got)} differ, e.g.\n"
                    + "\n".join(map(str, rows)))


def close(got: Array, want: Array, ulps: int) -> Array:
    """Equal, both nan, or a few units in the last place apart."""
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= ulps * np.maximum(np.spacing(np.abs(want)), np.spacing(0.0))
        same: Array = (got == want) | (np.isnan(got) & np.isnan(want)) | (near if ulps else False)
    return same


def close_complex(op: ops.Operator, got: Array, want: Array, arrays: list[Array]) -> Array:
    """Parts within rounding of the whole; where an argument is not finite, C's functions and
    NumPy's may choose other infinities, so only exact operators are compared there."""
    unit = np.finfo(got.dtype).eps * 16
    with np.errstate(all="ignore"):
        near = np.abs(got - want) <= unit * np.abs(want)
    both_nan = np.isnan(got) & np.isnan(want)
    same = (got == want) | near | both_nan
    same |= close(got.real, want.real, 0) & close(got.imag, want.imag, 0)
    exact = op.name in ("add", "subtract", "negative", "conjugate", "where", "minimum", "maximum")
    if not exact:
        same |= ~np.logical_and.reduce([np.isfinite(a) for a in arrays])
    return same


# Copies are of whole numbers n >= 1: tests/engine/test_repetition.py.
@pytest.mark.parametrize(
    "op", [op for op in ops.operators() if op.count is None], ids=lambda op: op.name)
def test_operator_on_every_dtype(op: ops.Operator) -> None:
    cases, wants = [], []
    for k, dtype in enumerate(DTYPES):
        dtypes = (np.dtype(bool), dtype, dtype) if op is ops.where else (dtype,) * op.arity
        if resolves(op, dtypes):
            cases.append(case(op, dtypes, k))
            wants.append(expected(op, dtypes, cases[-1][2]))
    for got, want, (_, _, arrays) in zip(run_native(cases), wants, cases):
        check(op, got, want, arrays)


@pytest.mark.parametrize("target", DTYPES, ids=lambda d: d.name)
def test_cast_from_every_dtype(target: DType) -> None:
    op = ops.cast(target)
    cases = [case(op, (d,), k) for k, d in enumerate(DTYPES)]
    for got, (_, _, arrays) in zip(run_native(cases), cases):
        want = expected(op, (arrays[0].dtype,), arrays)
        if target.kind == "u":  # what NumPy gives for floats out of range depends on the machine
            real = arrays[0].real
            low, high = np.iinfo(target).min, np.iinfo(target).max
            inside = (real > -1) & (real < high) if real.dtype.kind == "f" else low <= high
            got, want = np.where(inside, got, 0), np.where(inside, want, 0)
        check(op, got.astype(target), want.astype(target), arrays)


@pytest.mark.parametrize("op", [ops.add, ops.less, ops.equal, ops.greater_equal, ops.maximum,
                                ops.floor_divide, ops.divide, ops.logical_and, ops.power],
                         ids=lambda op: op.name)
def test_mixed_dtypes(op: ops.Operator) -> None:
    """Promotion, and comparisons of signed with unsigned 64-bit integers."""
    names = ["int64 uint64", "uint64 int64", "bool int8", "int32 float32", "uint8 int8",
             "float32 float64", "int64 float32"]
    cases, wants = [], []
    for k, pair in enumerate(names):
        dtypes = tuple(np.dtype(n) for n in pair.split())
        if resolves(op, dtypes):
            cases.append(case(op, dtypes, k))
            wants.append(expected(op, dtypes, cases[-1][2]))
    for got, want, (_, _, arrays) in zip(run_native(cases), wants, cases):
        check(op, got, want, arrays)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7, 8, -1, -2, -3, 0, 2**40])
def test_division_by_literals(divisor: int) -> None:
    values = corners(INT64)
    cases = []
    for k, op in enumerate((ops.floor_divide, ops.remainder, ops.power, ops.left_shift)):
        own = array(f"in{k}", INT64)
        cases.append((Call(op, (Read(own, (I_,)), const(divisor, INT64))), [own], [values]))
    with np.errstate(all="ignore"):
        quotient, rest, power, shifted = run_native(cases)
        assert np.array_equal(quotient, np.floor_divide(values, divisor))
        assert np.array_equal(rest, np.remainder(values, divisor))
        assert np.array_equal(shifted, np.left_shift(values, divisor))
        if divisor >= 0:
            assert np.array_equal(power, np.power(values, divisor))


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.0, -1.0])
def test_power_by_literals(exponent: float) -> None:
    values = corners(np.dtype("float64"))
    own = array("in", values.dtype)
    got, = run_native([(Call(ops.power, (Read(own, (I_,)), const(exponent))), [own], [values])])
    with np.errstate(all="ignore"):
        check(ops.power, got, np.power(values, exponent), [values])


def test_user_operator_is_expanded() -> None:
    def smooth(a: Expr, b: Expr) -> Expr:
        return Call(ops.logaddexp, (a, Call(ops.multiply, (b, const(2.0)))))

    op = ops.user_monoid("smooth", smooth, lambda a, b: np.logaddexp(a, 2 * b), 0.0)
    expr, own, arrays = case(op, (np.dtype("float32"), np.dtype("float64")), 0)
    got, = run_native([(expr, own, arrays)])
    with np.errstate(all="ignore"):
        check(ops.logaddexp, got, np.logaddexp(arrays[0], 2 * arrays[1]), arrays)


@pytest.mark.parametrize("target", ["bool", "int16", "uint64", "float32", "complex128"])
def test_conversion_of_literals(target: str) -> None:
    literals = [const(v, d) for d in DTYPES for v in (2.5, -3) if v >= 0 or d.kind not in "ub"]
    op = ops.cast(np.dtype(target))
    cases: list[Case] = [(Call(op, (c,)), [], []) for c in literals]
    for out, literal in zip(run_native(cases), literals):
        assert out[0] == op.meaning(literal.value)
