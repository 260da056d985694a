"""Elementwise functions and operators against NumPy, for all dtypes."""

from __future__ import annotations

import operator

import numpy as np
import pytest
from front_support import DTYPES, check, sample

import tensorel as tr
from tensorel import errors

BINARY = [
    "add", "subtract", "multiply", "divide", "floor_divide", "remainder", "pow", "minimum",
    "maximum", "atan2", "hypot", "copysign", "logaddexp", "nextafter", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift",
]
UNARY = [
    "negative", "positive", "abs", "sign", "logical_not", "bitwise_invert", "isnan", "isinf",
    "isfinite", "signbit", "conj", "real", "imag", "square", "reciprocal", "sqrt", "cbrt", "exp",
    "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "floor", "ceil", "trunc", "rint",
]


def _values(name: str, dtype: str, seed: int) -> np.ndarray:
    # Values for which every operator is defined: no division by zero, no negative powers.
    x = sample((2, 3), dtype, seed, density=1.0)
    kind = np.dtype(dtype).kind
    if seed and kind != "b":
        x = np.where(x == 0, 1, x).astype(dtype)
        if kind in "iu" or "shift" in name:
            x = np.abs(x).astype(dtype)
    return x


@pytest.mark.parametrize("name", BINARY)
def test_promotion_of_pairs_of_dtypes(name: str) -> None:
    for a in DTYPES:
        for b in DTYPES:
            x, y = _values(name, a, 0), _values(name, b, 1)
            with np.errstate(all="ignore"):
                try:
                    wanted = getattr(np, name)(x, y)
                except TypeError:
                    with pytest.raises(errors.TypeError_):
                        getattr(tr, name)(x, y)
                    continue
            check(getattr(tr, name)(tr.asarray(x), tr.asarray(y)), wanted, engine=False)


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name: str) -> None:
    for dtype in DTYPES:
        x = sample((2, 3), dtype, 3)
        with np.errstate(all="ignore"):
            try:
                wanted = getattr(np, name)(x)
            except TypeError:
                with pytest.raises(errors.TypeError_):
                    getattr(tr, name)(tr.asarray(x))
                continue
        check(getattr(tr, name)(tr.asarray(x)), wanted, engine=False)


@pytest.mark.parametrize("scalar", [2, -1, 2.5, 1j, True, np.float32(2), np.int8(3)])
@pytest.mark.parametrize("op", [operator.add, operator.sub, operator.mul, operator.truediv,
                                operator.eq, operator.lt])
def test_scalars_are_weak_or_strong_as_in_numpy(scalar: object, op: object) -> None:
    for dtype in DTYPES:
        x = sample((3,), dtype, 1)
        for swap in (False, True):
            def go(t: object, swap: bool = swap) -> object:
                return op(scalar, t) if swap else op(t, scalar)  # type: ignore[operator]

            with np.errstate(all="ignore"):
                try:
                    wanted = go(x)
                except TypeError:
                    with pytest.raises(TypeError):
                        go(tr.asarray(x))
                    continue
                except OverflowError:
                    with pytest.raises(OverflowError):
                        go(tr.asarray(x))
                    continue
            check(go(tr.asarray(x)), wanted, engine=False)  # type: ignore[arg-type]


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 2.0, 0.5, -1.0, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_powers(exponent: object, dtype: str) -> None:
    x = np.abs(_values("pow", dtype, 1)).astype(dtype)
    with np.errstate(all="ignore"):
        check(tr.asarray(x) ** exponent, x ** exponent, engine=False)


def test_negative_power_of_integers() -> None:
    with pytest.raises(errors.TypeError_, match="negative powers"):
        tr.asarray([1, 2]) ** -1


def test_comparison_with_numbers_out_of_range() -> None:
    x = np.array([0, 200], np.uint8)
    for value in (300, -1, 2**63, 2**70, -(2**70)):
        check(tr.asarray(x) < value, x < value, engine=False)
        check(tr.asarray(x) == value, x == value, engine=False)
    with pytest.raises(OverflowError, match="does not fit in uint8"):
        tr.asarray(x) + 300


def test_operators_and_reflected() -> None:
    x, y = sample((2, 3)), sample((3,), seed=2, density=1.0)
    y[y == 0] = 2
    a, b = tr.asarray(x), tr.asarray(y)
    check(a + y, x + y)
    check(y - a, y - x)
    check(a % b, x % y)
    check(divmod(a, b)[0], x // y)
    check(2 ** a, 2 ** x)
    check(-a, -x)
    check(abs(a), abs(x))
    check([1, 2, 3] * a, np.array([1, 2, 3]) * x)
    k = sample((4,), "int32", 5)
    check(~tr.asarray(k) & 5 | 2 ^ tr.asarray(k), ~k & 5 | 2 ^ k)
    check(1 << abs(tr.asarray(k)) >> 1, 1 << abs(k) >> 1)
    a += 1
    check(a, x + 1)


def test_broadcasting() -> None:
    for s, t in [((2, 1), (3,)), ((), (2, 2)), ((0, 3), (1, 3)), ((1, 3, 1), (2, 1, 4)),
                 ((1,), (0,))]:
        x, y = sample(s, seed=1), sample(t, seed=2)
        check(tr.asarray(x) * tr.asarray(y), x * y)
    with pytest.raises(errors.ShapeError, match=r"add: shapes \(2,\) and \(3,\)"):
        tr.asarray([1, 2]) + tr.asarray([1, 2, 3])


@pytest.mark.parametrize("a", DTYPES)
@pytest.mark.parametrize("b", ["bool", "int8", "uint64", "float32", "complex128"])
def test_where(a: str, b: str) -> None:
    p, x, y = sample((3, 1), "bool"), sample((3, 2), a, 1), sample((2,), b, 2)
    check(tr.where(p, x, y), np.where(p, x, y), engine=False)
    check(tr.where(tr.asarray(p), 1, x), np.where(p, 1, x), engine=False)
    check(tr.where(p, x, 0), np.where(p, x, 0), engine=False)


def test_where_of_scalars_and_numbers_as_conditions() -> None:
    x = sample((4,))
    check(tr.where(tr.asarray(x), 1, 2.5), np.where(x, 1, 2.5))
    check(tr.where(x > 0, np.float32(1), 2), np.where(x > 0, np.float32(1), 2))


@pytest.mark.parametrize("a", DTYPES)
def test_astype(a: str) -> None:
    x = np.abs(sample((5,), a, 1))
    for b in DTYPES:
        if x.dtype.kind == "c" and np.dtype(b).kind not in "cb":
            continue
        check(tr.asarray(x).astype(b), x.astype(b), engine=False)


def test_clip_round_and_closeness() -> None:
    x = np.linspace(-2, 2, 9)
    a = tr.asarray(x)
    check(tr.clip(a, -1, 1), np.clip(x, -1, 1))
    check(tr.clip(a, max=0.5), np.clip(x, None, 0.5))
    check(tr.round(a), np.round(x))
    check(tr.round(a, 1), np.round(x, 1))
    check(tr.round(tr.asarray([1, 2])), np.array([1, 2]))
    assert tr.allclose(a, x + 1e-12)
    assert not tr.allclose(a, x + 1)
    assert tr.array_equal(a, x) and not tr.array_equal(a, x[:3])
    y = np.array([np.nan, np.inf, -np.inf, 1.0])
    check(tr.nan_to_num(tr.asarray(y)), np.nan_to_num(y))
    check(tr.nan_to_num(tr.asarray(y), 5.0, 7.0, -7.0), np.nan_to_num(y, True, 5.0, 7.0, -7.0))


def test_complex_parts() -> None:
    x = sample((3,), "complex64", 4)
    a = tr.asarray(x)
    check(a.real, x.real)
    check(a.imag, x.imag)
    check(a.conj(), x.conj())
    check(abs(a), abs(x))


def test_equal_programs_are_one_node() -> None:
    a, b = tr.asarray(sample((2, 3))), tr.asarray(sample((3, 2)))
    assert (a @ b + 1).node is (a @ b + 1).node
