"""Analyses: the fill follows the algebra, intervals and affine forms are sound."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorel import reference
from tensorel.algebra import bulk, ops
from tensorel.ir import analysis
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    Tensor,
    const,
    reads_in,
)
from tensorel.ir.parser import parse

FLOAT = np.dtype("float64")


def stored(fill: object, shape: tuple[int, ...] = (3, 4), dtype: ops.DType = FLOAT) -> Source:
    return Source(object(), shape, dtype, const(fill, dtype))


def tensor(text: str, **names: Any) -> Tensor:
    found = parse(text, names)
    assert isinstance(found, Tensor)
    return found


def fill(text: str, **names: Any) -> Any:
    return analysis.fill(tensor(text, **names)).value


def test_fill_follows_elementwise_operators() -> None:
    a, b = stored(0.0), stored(2.0)
    assert fill("[i in 3, j in 4] -> exp(A[i, j])", A=a) == 1
    assert fill("[i in 3, j in 4] -> A[i, j] + 1.0", A=a) == 1
    assert fill("[i in 3, j in 4] -> A[i, j] * B[i, j]", A=a, B=b) == 0
    assert fill("[i in 3, j in 4] -> B[i, j] ** 3.0", B=b) == 8
    assert np.isnan(fill("[i in 3, j in 4] -> A[i, j] / A[j, i]", A=a))


def test_fill_of_reductions_repeats() -> None:
    b = stored(2.0)
    assert fill("[i in 3] -> sum(j in 4) B[i, j]", B=b) == 8
    assert fill("[i in 3] -> prod(j in 4) B[i, j]", B=b) == 16
    assert fill("[i in 3] -> max(j in 4) B[i, j]", B=b) == 2
    assert fill("[] -> sum(i in 3, j in 4) B[i, j]", B=b) == 24
    assert fill("[i in 3] -> min(j in 0) B[i, j]", B=b) == np.inf


def test_fill_of_integer_sums_wraps_around() -> None:
    b = stored(100, dtype=np.dtype("int8"))
    found = fill("[i in 3] -> sum(j in 4) B[i, j]", B=b)
    assert found.dtype == np.int8 and found == np.full(4, 100, np.int8).sum(dtype=np.int8)


@pytest.mark.parametrize("op", [o for o in ops.operators() if o.is_monoid], ids=lambda o: o.name)
@pytest.mark.parametrize("dtype", ops.DTYPES, ids=str)
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_repeat_is_the_reduction_of_copies(op: ops.Operator, dtype: ops.DType, count: int) -> None:
    try:
        into, out = op.resolve(dtype, dtype)
    except ops.TypeError_:
        return
    value = np.asarray(3).astype(dtype)
    if op.identity is not None and count == 0:
        expected = np.asarray(op.identity(dtype)).astype(dtype)
    else:
        copies = np.full(count, value).astype(into[0])
        kind = out if into[0] == out else None
        expected = np.asarray(op.meaning.reduce(copies, dtype=kind))  # type: ignore[attr-defined]
    found = analysis.repeat(op, value, count)
    if out == dtype:
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected.astype(dtype), rtol=1e-5)


def test_fill_of_a_users_monoid_folds_by_doubling() -> None:
    def meaning(a: Any, b: Any) -> Any:
        return a + b + a * b  # 1 + (a o b) = (1+a)(1+b)

    op = ops.user_monoid("circle", meaning, meaning, 0.0)
    body = Reduce(op, (Axis("r", 5),), Read(stored(1.0, (5,)), (Index("r"),)))
    assert analysis.fill(Lambda((), body)).value == 2.0**5 - 1


def test_fill_that_depends_on_the_index_is_zero() -> None:
    assert fill("[i in 3, j in 3] -> where(i == j, 1.0, 0.0)") == 0
    assert fill("[i in 3] -> float64(i)") == 0
    assert fill("[i in 3] -> A[i, 0] * float64(i)", A=stored(0.0)) == 0


def test_a_scalar_operand_does_not_make_the_fill_undefined() -> None:
    total = tensor("[] -> sum(i in 3, j in 4) A[i, j]", A=stored(0.0))
    assert fill("[i in 3, j in 4] -> A[i, j] / S[]", A=stored(0.0), S=total) == 0


def test_fill_of_a_choice_with_one_value_is_that_value() -> None:
    a, b = stored(2.0), stored(2.0)
    assert fill("[i in 6] -> where(i < 3, A[i, 0], B[i - 3, 0])", A=a, B=b) == 2


def test_fill_of_whole_tensor_operators() -> None:
    a, z = stored(2.0), stored(0.0)

    def of(op: bulk.BulkOperator, t: Source, *params: object) -> Any:
        return analysis.fill(Bulk(op, (t,), params)).value

    assert of(bulk.sort, a, 0, False) == 2
    assert of(bulk.reshape, a, (12,)) == 2
    assert of(bulk.cumulative_sum, z, 0) == 0
    assert of(bulk.cumulative_sum, a, 0) == 0  # it depends on the place
    assert of(bulk.cumulative_prod, stored(1.0), 0) == 1


def test_fill_where_numpy_refuses_is_zero() -> None:
    b = stored(2, dtype=ops.INT64)
    assert fill("[i in 3] -> B[i, 0] ** -1", B=b) == 0


def test_fill_of_a_long_chain_does_not_recurse() -> None:
    t: Tensor = stored(0.0, (3,))
    for _ in range(5000):
        t = Lambda((Axis("i", 3),), Call(ops.add, (Read(t, (Index("i"),)), const(1.0))))
    assert analysis.fill(t).value == 5000


# -- indices ---------------------------------------------------------------------------------
_BINARY = [
    ops.add, ops.subtract, ops.multiply, ops.floor_divide, ops.remainder, ops.minimum, ops.maximum,
    ops.less, ops.less_equal, ops.equal, ops.not_equal, ops.greater, ops.greater_equal,
    ops.logical_and, ops.logical_or, ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor,
    ops.right_shift, ops.left_shift,
]
_UNARY = [
    ops.negative, ops.absolute, ops.logical_not, ops.positive, ops.cast(np.dtype("int8")),
    ops.cast(np.dtype("uint16")), ops.cast(ops.INT64), ops.cast(ops.BOOL),
]


def _call(op: ops.Operator, args: tuple[Expr, ...]) -> Expr:
    try:
        return Call(op, args)
    except ops.TypeError_:
        return args[0]


index_exprs: st.SearchStrategy[Expr] = st.recursive(
    st.sampled_from(["i", "j"]).map(Index) | st.integers(-4, 300).map(const),
    lambda below: st.one_of(
        st.builds(_call, st.sampled_from(_BINARY), st.tuples(below, below)),
        st.builds(_call, st.sampled_from(_UNARY), st.tuples(below)),
        st.builds(_call, st.just(ops.where), st.tuples(below, below, below)),
    ),
    max_leaves=8,
)
EXTENTS = {"i": 5, "j": 3}


@settings(max_examples=400, deadline=None)
@given(index_exprs)
def test_ranges_contain_all_values(e: Expr) -> None:
    found = analysis.index_range(e, EXTENTS)
    values = reference.evaluate_expr(e, EXTENTS)
    if found is not None:
        assert found[0] <= int(values.min()) and int(values.max()) <= found[1]


def test_ranges_are_tight_for_affine_and_split_indices() -> None:
    def bounds(text: str) -> object:
        e = parse(text)
        assert isinstance(e, Expr)
        return analysis.index_range(e, {"i": 10, "j": 4})

    assert bounds("3 * i - 2 * j + 1") == (-5, 28)
    assert bounds("i // 4") == (0, 2)
    assert bounds("i % 4") == (0, 3)
    assert bounds("(i + 20) % 4") == (0, 3)
    assert bounds("j % 8") == (0, 3)
    assert bounds("i < 10") == (1, 1)
    assert bounds("k") is None


@settings(max_examples=300, deadline=None)
@given(index_exprs)
def test_affine_forms_have_the_same_values(e: Expr) -> None:
    found = analysis.is_affine(e)
    if found is None:
        return
    values = reference.evaluate_expr(e, EXTENTS)
    for i, j in itertools.product(range(5), range(3)):
        coefficients = found.coefficients
        expected = found.constant + coefficients.get("i", 0) * i + coefficients.get("j", 0) * j
        assert values[i, j] == expected


def test_affine_sums_cancel() -> None:
    e = parse("2 * (i + 3) - i - i")
    assert isinstance(e, Expr)
    assert analysis.is_affine(e) == analysis.Affine({}, 6)
    product = parse("i * j")
    assert isinstance(product, Expr) and analysis.is_affine(product) is None


def test_reads_and_sources() -> None:
    a = stored(0.0)
    t = tensor("[i in 3] -> sum(j in 4) A[i, j] * A[i, j] + A[i, 0]", A=a)
    assert isinstance(t, Lambda)
    assert [r.tensor for r in reads_in(t.body)] == [a, a]
    assert analysis.sources(t) == (a,)
