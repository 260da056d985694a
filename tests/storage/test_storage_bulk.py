"""Whole-tensor operators: what each declares holds, and the engine meets its meaning from any
storage. An operator is covered by being declared: its kinds say how to draw a call of it."""

from __future__ import annotations

import copy
import pickle
import time
from typing import Any

import numpy as np
import pytest
from storage_support import formats_for, same

import tensorel as tr
from measures import allowed
from tensorel import config
from tensorel.algebra import bulk, joins
from tensorel.algebra.bulk import BULK_OPERATORS, BulkOperator, Kind
from tensorel.engines.in_process import whole_tensors
from tensorel.errors import MemoryLimitError, ShapeError, TypeError_
from tensorel.front.array.tensor import Tensor
from tensorel.ir.analysis import fill as fill_of
from tensorel.ir.nodes import Bulk, Source, const
from tensorel.storage import convert
from tensorel.storage.stored import Stored

DTYPES = ("float64", "int64", "bool", "complex128", "float32", "uint8")
CALLS = 60


def random_tensor(rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    shape = tuple(int(n) for n in rng.integers(0, 6, rng.integers(1, 4)))
    dtype = np.dtype(rng.choice(DTYPES))
    fill: Any = rng.choice([0, 1, 2, np.nan, -1, np.inf])
    if dtype.kind not in "fc" and not (np.isfinite(fill) and fill >= 0):
        fill = 1
    fill = np.asarray(fill).astype(dtype)[()]
    values = rng.integers(0, 4, shape).astype(dtype)
    if dtype.kind in "fc":
        values = np.where(rng.random(shape) < 0.1, np.nan, values - 1)
    dense = np.where(rng.random(shape) < rng.random(), values, fill).astype(dtype)
    return dense, fill


def operand(kind: Kind, rng: np.random.Generator) -> tuple[np.ndarray, Any]:
    """The dense array and its fill."""
    if kind is Kind.PLACES:  # some out of range
        return rng.integers(-2, 8, rng.integers(0, 8)), np.int64(0)
    return random_tensor(rng)


def conditions(drawn: list[tuple[np.ndarray, Any]], rng: np.random.Generator) -> joins.Join:
    """A join of two tensors by values or coordinates."""
    sides = []
    for name, (array, _) in zip("ab", drawn):
        of_value = (name, array.dtype.str)
        sides.append([(of_value,), *(((f"{name}{k}", "<i8"),) for k in range(array.ndim))])
    found = []
    real = all(a.dtype.kind != "c" for a, _ in drawn)
    for _ in range(rng.integers(0, 3)):
        op = str(rng.choice(["equal", "less", "greater_equal", "not_equal"])) if real else "equal"
        a, b = (s[int(rng.integers(len(s)))] for s in sides)
        if op not in ("equal", "not_equal") and np.dtype(bool) in (
                np.dtype(a[0][1]), np.dtype(b[0][1])):
            op = "equal"
        found.append(joins.Condition(op, a, b))
    summed = tuple(tuple(k for k in range(a.ndim) if rng.random() < share)
                   for (a, _), share in zip(drawn, rng.choice([0.0, 0.5, 1.0], 2)))
    kept = tuple(k for k in range(drawn[1][0].ndim) if k not in summed[1])
    merge = (sides[0][0][0], sides[1][0][0], (str(rng.choice(["add", "multiply"])), 0, 1))
    fills = tuple((np.asarray(f).astype(a.dtype).tobytes(), a.dtype.str) for a, f in drawn)
    return joins.Join(tuple(found), kept, merge, fills, summed=summed)  # type: ignore[arg-type]


def parameters(op: BulkOperator, given: list[tuple[np.ndarray, Any]], rng: np.random.Generator
               ) -> tuple[Any, ...]:
    first = given[0][0]
    if op.params == (Kind.CONDITIONS,):
        return (conditions(given, rng),)
    axis = int(rng.integers(0, max(first.ndim, 1)))
    split = [first.size] if rng.random() < 0.3 else rng.permutation(first.shape)
    drawn = {
        Kind.AXIS: axis, Kind.AXIS_OR_ALL: None if rng.random() < 0.2 else axis,
        Kind.COUNT: int(rng.integers(0, first.shape[axis] + 1)),
        Kind.EXTENT: int(rng.integers(0, 7)), Kind.FLAG: bool(rng.integers(0, 2)),
        Kind.SHAPE: tuple(int(n) for n in split),
    }
    return tuple(drawn[kind] for kind in op.params)


def stored_as(array: np.ndarray, fill: Any, rng: np.random.Generator) -> Stored:
    format = str(rng.choice(formats_for(array.shape, array.dtype)))
    return convert.to_format(convert.from_dense(array, fill), format)


def node(op: BulkOperator, stored: list[Stored], params: tuple[Any, ...]) -> Bulk:
    args = [Source(s, s.shape, s.dtype, const(s.fill)) for s in stored]
    return Bulk(op, tuple(args), params)


def check_call(op: BulkOperator, rng: np.random.Generator) -> None:
    """What is declared, on a random call; nothing where the call has no meaning."""
    drawn = [operand(kind, rng) for kind in op.operands]
    arrays, fills = [a for a, _ in drawn], [f for _, f in drawn]
    params = parameters(op, drawn, rng)
    try:
        shape = op.shape(*[a.shape for a in arrays], *params)
        want = op.apply(arrays, params)
    except (ShapeError, IndexError):  # of no entries
        assert 0 in arrays[0].shape
        return
    dtype = op.dtype(*[a.dtype for a in arrays], *params)
    assert want.shape == shape and want.dtype == dtype, (op, params)
    stored = [stored_as(a, f, rng) for a, f in drawn]
    found = whole_tensors.run(op, stored, params)
    about = (op, [s.format.name for s in stored], params, fills, arrays)
    assert (found.shape, found.dtype) == (shape, dtype), about
    exact = same(convert.to_dense(found), want)
    assert exact, (*about, convert.to_dense(found), want)
    written = node(op, stored, params)
    fill = fill_of(written)
    assert (written.shape, written.dtype, fill.dtype) == (shape, dtype, dtype)
    assert same(np.asarray(found.fill), np.asarray(fill.value)), about
    check_fill(op, arrays, params, fills[0], fill.value)
    check_fibres(op, arrays, params, want, rng)


def check_fill(op: BulkOperator, arrays: list[np.ndarray], params: tuple[Any, ...], fill: Any,
               declared: Any) -> None:
    """Where no operand has an entry the result is the fill, unless that depends on the place."""
    nothing = op.apply([np.full_like(arrays[0], fill), *arrays[1:]], params)
    assert declared == 0 or same(nothing, np.full_like(nothing, declared)), (op, params, fill)


def check_fibres(op: BulkOperator, arrays: list[np.ndarray], params: tuple[Any, ...],
                 want: np.ndarray, rng: np.random.Generator) -> None:
    """Some fibres of the result are the result for these fibres, with the axis moved as well."""
    axis, first = op.axis(params), arrays[0]
    if axis is None:
        return
    if op.places is not None:
        at = op.places.apply(arrays, params)
        assert same(np.take_along_axis(first, at, axis), want), op
    turned, moved = np.moveaxis(first, axis, -1), op.along(params, first.ndim - 1)
    left_out = want.ndim < first.ndim
    expected = want if left_out else np.moveaxis(want, axis, -1)
    if first.ndim > 1 and len(turned):
        rows = rng.integers(0, len(turned), 2)
        turned, expected = turned[rows], expected[rows]
    assert same(op.apply([turned, *arrays[1:]], moved), expected), (op, params)


#: Those of any tensor; decompositions are of matrices with a condition, and have their own tests.
GENERAL = {name: op for name, op in BULK_OPERATORS.items() if op.effort is None}


@pytest.mark.parametrize("op", GENERAL.values(), ids=GENERAL)
def test_declared_and_computed(op: BulkOperator) -> None:
    rng = np.random.default_rng(7)
    for _ in range(CALLS):
        check_call(op, rng)
    for made in (pickle.loads(pickle.dumps(op)), copy.deepcopy(op), bulk.bulk_operator(op.name)):
        assert made is op


def test_native_forms_are_those_of_operators() -> None:
    assert set(whole_tensors.NATIVE) <= {*BULK_OPERATORS.values(),
                                         *bulk.PROGRAM_OPERATORS.values()}


def test_an_operator_is_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a native form it runs by its meaning."""
    monkeypatch.setattr(bulk, "BULK_OPERATORS", dict(BULK_OPERATORS))
    cumulative_max = bulk.declare(
        "cumulative_max", np.maximum.accumulate, Kind.AXIS, fill=lambda fill: fill)
    rng = np.random.default_rng(3)
    for _ in range(CALLS):
        check_call(cumulative_max, rng)
    a = rng.integers(0, 9, (4, 5)) * (rng.random((4, 5)) < 0.5)
    t = tr.tensor(a, format="csr")
    lazy = pickle.loads(pickle.dumps(Tensor(Bulk(cumulative_max, (t.node,), (1,)))))
    np.testing.assert_array_equal(lazy[[2, 0]].to_numpy(), np.maximum.accumulate(a, 1)[[2, 0]])
    assert "cumulative_max" in str(lazy.explain())
    huge = convert.from_coo([[5], [7]], [3.0], (10**5, 10**5))
    with pytest.raises(MemoryLimitError, match="cumulative_max would make a dense result"):
        whole_tensors.run(cumulative_max, [huge], (0,))
    spread = bulk.declare("spread", np.ptp, Kind.AXIS, shape=lambda shape, axis: shape[:axis])
    wide = convert.from_coo([[5], [7]], [3.0], (10, 1000))
    with config.options(densify="1kB"), pytest.raises(MemoryLimitError, match="dense"):
        whole_tensors.run(spread, [wide], (1,))


def test_other_numbers_of_operands_and_parameters_are_refused() -> None:
    t = convert.from_dense(np.eye(3))
    with pytest.raises(TypeError_, match="sort takes 1 operands and 2 parameters"):
        node(bulk.sort, [t], (0,))
    with pytest.raises(TypeError_, match="not 2 and 2"):
        node(bulk.sort, [t, t], (0, False))
    with pytest.raises(TypeError_, match="unknown whole-tensor operator 'srot'"):
        bulk.bulk_operator("srot")


def test_reshape_of_huge_shapes() -> None:
    rng = np.random.default_rng(0)
    coords = rng.integers(0, 10**6, (6, 50))
    t = convert.from_coo(coords, np.arange(50.0), (10**6,) * 6)
    merged = whole_tensors.run(bulk.reshape, [t], ((10**12,) * 3,))
    back = whole_tensors.run(bulk.reshape, [merged], ((10**6,) * 6,))
    for a, b in zip(convert.to_coo(back).coords, convert.to_coo(t).coords):
        assert np.array_equal(a, b)
    odd = (2**40, 2**40)
    u = convert.from_coo([[2**39 + 5], [2**40 - 1]], [1.0], odd)
    turned = whole_tensors.run(bulk.reshape, [u], ((2**39, 2**41),))
    flat = (2**39 + 5) * 2**40 + 2**40 - 1
    assert [int(c[0]) for c in convert.to_coo(turned).coords] == [flat >> 41, flat % 2**41]


def test_views_and_layouts() -> None:
    a = np.arange(6.0)
    made = whole_tensors.run(bulk.reshape, [convert.from_dense(a)], ((2, 3),))
    assert np.shares_memory(made.arrays["val"], a)
    csr = convert.to_format(convert.from_dense(np.eye(4)), "csr")
    rows = convert.from_dense(np.array([3, 3, 0]))
    taken = whole_tensors.run(bulk.take, [csr, rows], (0,))
    assert taken.format.name == "csr" and same(convert.to_dense(taken), np.eye(4)[[3, 3, 0]])


@pytest.mark.measured
def test_cost_follows_entries() -> None:
    n = 10**9
    t = convert.from_coo([[5, 10**8, 3], [7, 7, 9]], [3.0, -1.0, 2.0], (n, n))
    started = time.process_time()
    top = whole_tensors.run(bulk.topk_values, [t], (2, 0, True))
    assert convert.to_coo(top).values.tolist() == [3.0, 2.0]
    down = whole_tensors.run(bulk.sort, [t], (0, False))
    assert [c.tolist() for c in convert.to_coo(down).coords] == [[0, n - 1, n - 1], [7, 7, 9]]
    best = whole_tensors.run(bulk.argmax, [t], (0,))
    assert convert.to_coo(best).values.tolist() == [5, 3]
    least = whole_tensors.run(bulk.argmin, [t], (None,))
    assert int(convert.to_dense(least)) == 10**8 * n + 7
    assert time.process_time() - started < allowed(0.5), "a walk over n places takes longer"


def test_refusals() -> None:
    t = convert.from_coo([[5], [7]], [3.0], (10**5, 10**5))
    for op, params in ((bulk.argsort, (0, False)), (bulk.topk_indices, (10**5, 0, True))):
        with pytest.raises(MemoryLimitError, match="dense result"):
            whole_tensors.run(op, [t], params)
    filled = convert.from_coo([[5], [7]], [3.0], (10**5, 10**5), fill=1.0)
    with pytest.raises(MemoryLimitError):
        whole_tensors.run(bulk.cumulative_sum, [filled], (0,))
    running = whole_tensors.run(bulk.cumulative_sum, [t], (0,))
    assert convert.to_coo(running).count <= 10**5
    with config.options(memory="1kB"), pytest.raises(MemoryLimitError):
        whole_tensors.run(bulk.cumulative_sum, [t], (0,))
    with pytest.raises(ShapeError):
        whole_tensors.run(bulk.reshape, [t], ((7,),))
