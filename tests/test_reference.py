"""The reference interpreter against NumPy's own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tensorel import reference
from tensorel.algebra import bulk, ops
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Expr,
    Index,
    Lambda,
    Read,
    Reduce,
    Source,
    Tensor,
    const,
)
from tensorel.reference import interpret

rng = np.random.default_rng(7)


def source(array: np.ndarray[Any, Any]) -> Source:
    return Source(_Data(array), array.shape, array.dtype, const(0, array.dtype))


class _Data:
    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array = array

    def to_dense(self) -> np.ndarray[Any, Any]:
        return self.array


def ints(*shape: int) -> np.ndarray[Any, Any]:
    return rng.integers(-4, 5, shape).astype(np.float64)


def read(t: Tensor, *names: str) -> Read:
    return Read(t, tuple(Index(n) for n in names))


def einsum(spec: str, *arrays: np.ndarray[Any, Any]) -> Lambda:
    terms, out = spec.split("->")
    extents: dict[str, int] = {}
    factors: list[Expr] = []
    for term, array in zip(terms.split(","), arrays):
        extents |= dict(zip(term, array.shape))
        factors.append(read(source(array), *term))
    body = factors[0]
    for f in factors[1:]:
        body = Call(ops.multiply, (body, f))
    over = tuple(Axis(n, e) for n, e in extents.items() if n not in out)
    return Lambda(tuple(Axis(n, extents[n]) for n in out), Reduce(ops.add, over, body))


@pytest.mark.parametrize(
    "spec, shapes",
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("ii->i", [(4, 4)]),
        ("ij->", [(3, 0)]),
        ("ijk,lj,mk->ilm", [(2, 3, 4), (5, 3), (6, 4)]),
        ("ab,bc,cd,de,ef->af", [(6, 6)] * 5),
    ],
)
def test_einsum(spec: str, shapes: list[tuple[int, ...]]) -> None:
    arrays = [ints(*s) for s in shapes]
    np.testing.assert_array_equal(
        reference.evaluate(einsum(spec, *arrays)), np.einsum(spec, *arrays)
    )


def test_a_large_reduction_goes_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = [ints(5, 7), ints(7, 6), ints(6, 4)]
    monkeypatch.setattr(interpret, "MAX_ENTRIES", 20)
    np.testing.assert_array_equal(
        reference.evaluate(einsum("ab,bc,cd->ad", *arrays)), np.einsum("ab,bc,cd->ad", *arrays)
    )


def test_a_reduction_counts_axes_that_its_body_does_not_see() -> None:
    body = Reduce(ops.add, (Axis("r", 3),), const(2.0))
    assert reference.evaluate(Lambda((), body)) == 6.0


def test_the_same_name_may_have_two_extents() -> None:
    a, b = (Reduce(ops.add, (Axis("r", n),), Index("r")) for n in (3, 5))
    assert reference.evaluate(Lambda((), Call(ops.add, (a, b)))) == 3 + 10


def test_small_integers_wrap_around_in_their_dtype() -> None:
    array = np.array([100, 100, 100], np.int8)
    total = Reduce(ops.add, (Axis("r", 3),), read(source(array), "r"))
    found = reference.evaluate(Lambda((), total))
    assert found.dtype == np.int8 and found == array.sum(dtype=np.int8)


def test_an_empty_reduction_gives_the_identity() -> None:
    for op, expected in [(ops.minimum, np.inf), (ops.add, 0.0), (ops.multiply, 1.0)]:
        empty = Reduce(op, (Axis("r", 0),), read(source(ints(0)), "r"))
        assert reference.evaluate(Lambda((), empty)) == expected


def test_reads_under_a_false_condition_may_be_out_of_range() -> None:
    a, b = ints(0), ints(3)
    i = Index("i")
    body = Call(
        ops.where,
        (
            Call(ops.less, (i, const(0))),
            Read(source(a), (i,)),
            Read(source(b), (Call(ops.subtract, (i, const(0))),)),
        ),
    )
    np.testing.assert_array_equal(reference.evaluate(Lambda((Axis("i", 3),), body)), b)


def test_gather_reads_by_another_tensor() -> None:
    a, idx = ints(6, 2), np.array([5, 0, 0], np.uint8)
    body = Read(source(a), (read(source(idx), "k"), Index("j")))
    found = reference.evaluate(Lambda((Axis("k", 3), Axis("j", 2)), body))
    np.testing.assert_array_equal(found, a[idx])


def test_a_users_monoid_folds_in_index_order() -> None:
    first = ops.user_monoid("last", lambda a, b: b, lambda a, b: b, 0.0, commutative=False)
    array = ints(2, 5)
    body = Reduce(first, (Axis("r", 5),), read(source(array), "i", "r"))
    np.testing.assert_array_equal(
        reference.evaluate(Lambda((Axis("i", 2),), body)), array[:, -1]
    )


@pytest.mark.parametrize("dtype", ops.DTYPES, ids=str)
@pytest.mark.parametrize("op", [o for o in ops.operators() if o.arity == 2], ids=lambda o: o.name)
@pytest.mark.filterwarnings("ignore")
def test_binary_operators_have_numpys_dtypes_and_values(op: ops.Operator, dtype: ops.DType) -> None:
    left = rng.integers(1, 4, 5).astype(dtype)
    right = rng.integers(1, 3, 5).astype(np.float32 if dtype.kind == "f" else dtype)
    if op.count is not None:  # n copies of a value: n is of a dtype of its own
        right = np.asarray([op.count(dtype, int(n)) for n in rng.integers(1, 9, 5)])
    try:
        node = Call(op, (read(source(left), "i"), read(source(right), "i")))
    except ops.TypeError_:
        with pytest.raises(TypeError):
            op.meaning(left, right)
        return
    found = reference.evaluate(Lambda((Axis("i", 5),), node))
    expected = np.asarray(op.meaning(left, right))
    if expected.dtype == np.float16:
        expected = np.asarray(op.meaning(left.astype(np.float32), right.astype(np.float32)))
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_bulk_operators() -> None:
    array = ints(4, 5)
    t = source(array)
    idx = source(np.array([3, 0, 3]))
    by_numpy: list[tuple[bulk.BulkOperator, tuple[object, ...], Any]] = [
        (bulk.reshape, ((10, 2),), array.reshape(10, 2)),
        (bulk.take, (0,), array.take([3, 0, 3], 0)),
        (bulk.one_hot, (5,), np.equal.outer(np.arange(5), [3, 0, 3])),
        (bulk.sort, (1, False), np.sort(array, 1)),
        (bulk.sort, (0, True), -np.sort(-array, 0)),
        (bulk.argsort, (1, False), np.argsort(array, 1, kind="stable")),
        (bulk.argsort, (1, True), np.argsort(-array, 1, kind="stable")),
        (bulk.argmin, (1,), array.argmin(1)),
        (bulk.argmax, (None,), np.asarray(array.argmax())),
        (bulk.cumulative_sum, (0,), array.cumsum(0)),
        (bulk.cumulative_prod, (1,), array.cumprod(1)),
        (bulk.topk_values, (2, 1, True), -np.sort(-array, 1)[:, :2]),
        (bulk.topk_indices, (2, 1, False), np.argsort(array, 1, kind="stable")[:, :2]),
    ]
    for op, params, expected in by_numpy:
        args = {bulk.take: (t, idx), bulk.one_hot: (idx,)}.get(op, (t,))
        found = reference.evaluate(Bulk(op, args, params))
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected, err_msg=op.name)


def test_a_deep_expression_does_not_recurse() -> None:
    e: Expr = Index("i")
    one: Const = const(1)
    for _ in range(5000):
        e = Call(ops.add, (e, one))
    assert reference.evaluate(Lambda((Axis("i", 1),), e)).tolist() == [5000]


def test_missing_data_is_said_in_words() -> None:
    with pytest.raises(ops.TypeError_, match="no data"):
        reference.evaluate(Source("slot", (2,), np.dtype("float64"), const(0.0)))
