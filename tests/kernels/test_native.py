"""Statements: native code against the interpreter of the loop IR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from samples import (
    F8,
    HI,
    I4,
    I_,
    LO,
    J,
    N,
    P,
    Q,
    add,
    keep_positive,
    merge,
    row_dots,
    spmm,
    spmv,
    total,
)

from tensorel.algebra import ops
from tensorel.errors import EngineError
from tensorel.ir.build import compare, plus, times
from tensorel.ir.nodes import INT64, Call, Local, Read, const
from tensorel.kernels.llvm.module import emit
from tensorel.kernels.loopir.printing import show
from tensorel.kernels.loopir.statements import (
    Append,
    AppendReserved,
    Assign,
    Break,
    Buffer,
    Comment,
    Continue,
    For,
    If,
    Kernel,
    Reserve,
    Status,
    Stmt,
    Store,
    Table,
    While,
    array,
)
from tensorel.kernels.runtime import compiler
from tensorel.kernels.runtime.compiled import CompiledKernel, Control, GrowBuffer, compile

Array = np.ndarray[Any, np.dtype[Any]]


def both_ways(
    kernel: Kernel, arrays: list[Array], scalars: list[object], lo: int, hi: int
) -> list[Array]:
    """Run natively and interpreted; equal arrays and buffers; the buffers."""
    for strict in (True, False):
        mine, other = [a.copy() for a in arrays], [a.copy() for a in arrays]
        buffers = [GrowBuffer(b.dtype) for b in kernel.buffers]
        compiled = compile(kernel, strict=strict, disk=False)
        assert compiled.run(mine, buffers, scalars, lo, hi, Control()) is Status.DONE
        status, want = interpret(kernel, other, scalars, lo, hi)
        assert status is Status.DONE
        got = [b.take() for b in buffers]
        for a, b in zip([*mine, *got], [*other, *want], strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=0 if strict else 1e-12)
    return got


def csr(n: int, rng: np.random.Generator) -> list[Array]:
    counts = rng.integers(0, 7, n)
    ptr = np.concatenate([[0], np.cumsum(counts)]).astype("i4")
    return [ptr, rng.integers(0, n, ptr[-1]).astype("i4"), rng.normal(size=ptr[-1])]


def test_sparse_times_dense() -> None:
    rng = np.random.default_rng(1)
    matrix = csr(30, rng)
    both_ways(spmv(), [*matrix, rng.normal(size=30), np.full(30, 9.0)], [], 3, 30)
    both_ways(spmm(), [*matrix, rng.normal(size=150), np.zeros(150)], [5], 0, 30)
    both_ways(row_dots(), [rng.normal(size=210), rng.normal(size=210), np.zeros(7)], [30], 0, 7)


@pytest.mark.parametrize("count", [0, 1, 17, (1 << 14) + 3])
def test_cancellable_strips_cover_the_range(count: int) -> None:
    x = np.arange(count + 5, dtype=float)
    out = np.zeros(1)
    assert compile(total(), disk=False).run([x, out], [], [], 2, count, Control()) is Status.DONE
    assert out[0] == x[2:count].sum()


def test_growing_buffers() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=5000)
    where, values = both_ways(keep_positive(), [x, np.zeros(5000, "i8")], [], 10, 4000)
    assert np.array_equal(where, np.flatnonzero(x[10:4000] > 0) + 10)
    assert values.flags.owndata is False and values.flags.writeable


def test_buffer_can_go_on_after_a_call() -> None:
    x = np.ones(3000)
    ends = np.zeros(3000, "i8")
    kernel = compile(keep_positive(), disk=False)
    buffers = [GrowBuffer(I4, capacity=10), GrowBuffer(F8, capacity=10)]
    call = kernel.bind([x, ends], buffers)
    for lo in range(0, 3000, 1000):
        assert call(lo, lo + 1000, Control()) is Status.DONE
    assert buffers[0].length == 3000 and buffers[1].capacity >= 3000
    assert np.array_equal(buffers[0].take(), np.arange(3000))
    assert buffers[0].length == 0 and buffers[0].take().size == 0


def test_records_grow_together() -> None:
    """Each buffer of a table is as long as the others; what was reserved needs no look."""
    table = (Buffer("at", I4), Buffer("square", INT64), Buffer("half", F8))
    odd = compare(ops.greater, Call(ops.remainder, (I_, const(2, INT64))), 0)
    record = (Call(ops.cast(I4), (I_,)), times(I_, I_), Call(ops.multiply, (
        Call(ops.cast(F8), (I_,)), const(0.5))))
    for body in (
        (For(I_, LO, HI, (If(odd, (Append(table, record),)),)),),
        (Reserve(table, N), For(I_, LO, HI, (AppendReserved(table, record, odd),))),
    ):
        arrays = [np.zeros(1, "i8"), np.zeros(1, "i8")]
        at, square, half = both_ways(outer(body, (table,)), arrays, [5000], 0, 5000)
        assert np.array_equal(at, np.arange(1, 5000, 2))
        assert np.array_equal(square, at.astype("i8") ** 2) and np.array_equal(half, at * 0.5)


def test_buffers_of_a_table_are_alike() -> None:
    kernel = compile(keep_positive(), disk=False)
    with pytest.raises(EngineError, match="alike"):
        kernel.bind([np.ones(3), np.zeros(3, "i8")], [GrowBuffer(I4, 5), GrowBuffer(F8, 6)])


def test_buffers_close_and_extend() -> None:
    buffers = [GrowBuffer(I4, 4), GrowBuffer(F8, 4)]
    kernel = compile(keep_positive(), disk=False)
    kernel.run([np.array([1.0, -1.0, 2.0]), np.zeros(3, "i8")], buffers, [], 0, 3, Control())
    whole = GrowBuffer(I4)
    for more in (0, 10, 2**31):
        assert whole.extend(buffers[0], Control(), more)
    assert whole.close(9).tolist() == [0, 2, 10, 12, -(2**31), 2 - 2**31, 9]
    assert buffers[1].close(7).tolist() == [1.0, 2.0, 7.0]
    assert GrowBuffer(I4).close(0).tolist() == [0]


@pytest.mark.parametrize("sizes", [(3,), (70, 3), (5, 40, 3), (3, 70, 2)])
def test_nested_loops_stop(sizes: tuple[int, ...]) -> None:
    """Loops that look at the flag now and then do so where they begin at a multiple."""
    names = [Local(f"k{d}", INT64) for d in range(len(sizes))]
    body: tuple[Stmt, ...] = (Assign(P, plus(P, 1)), Store(OUT, const(0, INT64), P))
    for name, size in zip(reversed(names), reversed(sizes)):
        body = (For(name, const(0, INT64), const(size, INT64), body, checked=True),)
    control, out = Control(), np.zeros(1, "i8")
    kernel = compile(outer(body), disk=False)
    assert kernel.run([out, out.copy()], [], [1], 0, 1, control) is Status.DONE
    control.cancel()
    assert kernel.run([out, out.copy()], [], [1], 0, 1, control) is Status.CANCELLED


def test_merge_short_circuits() -> None:
    a, b = np.arange(0, 60, 2), np.arange(0, 60, 3)
    out, = both_ways(merge(), [a, b], [len(a), len(b)], 0, 0)
    assert np.array_equal(out, np.arange(0, 60, 6))


def test_memory_limit() -> None:
    x = np.ones(20000)
    buffers = [GrowBuffer(I4), GrowBuffer(F8)]
    control = Control(budget=40_000)
    kernel = compile(keep_positive(), disk=False)
    status = kernel.run([x, np.zeros(20000, "i8")], buffers, [], 0, 20000, control)
    assert status is Status.OVER_LIMIT
    used = sum(b.capacity * b.dtype.itemsize for b in buffers)
    assert control.budget == 40_000 - used >= 0
    length = buffers[0].length
    assert length == buffers[1].length
    assert np.array_equal(buffers[0].take(), np.arange(length))


def test_cancelled_before_start() -> None:
    control = Control()
    control.cancel()
    out = np.zeros(1)
    kernel = compile(total(), disk=False)
    assert kernel.run([np.ones(10), out], [], [], 0, 10, control) is Status.CANCELLED
    assert control.cancelled
    status, _ = interpret(total(), [np.ones(10), out], [], 0, 10, lambda: True)
    assert status is Status.CANCELLED


def outer(body: tuple[Stmt, ...], tables: tuple[Table, ...] = ()) -> Kernel:
    x, out = array("x", INT64), array("out", INT64)
    return Kernel("t", (x, out), frozenset({"out"}), tables, (N,), LO, HI, body)


X, OUT = array("x", INT64), array("out", INT64)


def test_break_and_continue() -> None:
    """out[i] = sum of x[j] for odd j < n, up to the first x[j] > 90."""
    inner = (
        If(compare(ops.greater, Read(X, (J,)), 90), (Break(),)),
        If(compare(ops.equal, Call(ops.remainder, (J, const(2, INT64))), 0),
           (Comment("even"), Continue()), ()),
        Store(OUT, I_, add(Read(OUT, (I_,)), Read(X, (J,)))),
    )
    kernel = outer((For(I_, LO, HI, (For(J, I_, N, inner),)),))
    x = np.random.default_rng(3).integers(0, 100, 50)
    both_ways(kernel, [x, np.zeros(50, "i8")], [50], 0, 50)


def test_break_out_of_a_checked_loop() -> None:
    kernel = outer((
        For(I_, LO, HI, (
            If(compare(ops.equal, I_, 40_000), (Break(),), (
                If(compare(ops.less, I_, 3), (Continue(),)),)),
            Store(OUT, const(0, INT64), I_),
        ), checked=True),
        Store(OUT, const(1, INT64), I_),
    ))
    out = np.zeros(2, "i8")
    compile(kernel, disk=False).run([np.zeros(1, "i8"), out], [], [0], 0, 50_000, Control())
    assert out.tolist() == [39_999, 40_000]


def test_while_with_continue_and_both_branches_leaving() -> None:
    body = (
        Assign(P, plus(P, 1)),
        If(compare(ops.less, P, 10), (Continue(),), (
            If(compare(ops.greater, P, 20), (Break(),), (
                Store(OUT, const(0, INT64), add(Read(OUT, (const(0, INT64),)), P)), Continue())),)),
    )
    zero, one = const(0, INT64), const(1, INT64)
    kernel = outer((Assign(P, zero), While(const(True), body), Store(OUT, one, P)))
    both_ways(kernel, [np.zeros(1, "i8"), np.zeros(2, "i8")], [0], 0, 0)


def test_loop_bounds_are_evaluated_once() -> None:
    kernel = outer((
        Assign(Q, N),
        For(I_, LO, Q, (Assign(Q, const(0, INT64)), Assign(J, I_), Assign(I_, plus(I_, 100)),
                       Store(OUT, J, I_))),
    ))
    both_ways(kernel, [np.zeros(1, "i8"), np.zeros(9, "i8")], [9], 0, 0)


def test_where_reads_only_the_chosen_branch() -> None:
    inside = compare(ops.less, I_, N)
    value = Call(ops.where, (inside, Read(X, (I_,)), const(-1, INT64)))
    also = Call(ops.logical_and, (inside, compare(ops.greater, Read(X, (I_,)), 5)))
    either = Call(ops.logical_or, (compare(ops.greater_equal, I_, N), also))
    kernel = outer((For(I_, LO, HI, (
        Store(OUT, I_, add(value, Call(ops.cast(INT64), (also,)))),
        If(either, (Store(OUT, I_, add(Read(OUT, (I_,)), const(1000, INT64))),)),
        If(Call(ops.logical_not, (Call(ops.logical_or, (either, compare(ops.equal, I_, 2))),)),
           (Store(OUT, I_, const(7, INT64)),)),
    )),))
    both_ways(kernel, [np.arange(10), np.zeros(40, "i8")], [10], 0, 40)


def test_reserved_appends() -> None:
    table = (Buffer("b", INT64),)
    kernel = outer((
        Reserve(table, times(N, 3)),
        For(I_, LO, HI, (AppendReserved(table, (times(I_, I_),)),)),
    ), (table,))
    got, = both_ways(kernel, [np.zeros(1, "i8"), np.zeros(1, "i8")], [1000], 0, 3000)
    assert np.array_equal(got, np.arange(3000) ** 2)
    control = Control()
    huge = outer((Reserve(table, N),), (table,))
    arrays = [np.zeros(1, "i8"), np.zeros(1, "i8")]
    run = compile(huge, disk=False).run
    assert run(arrays, [GrowBuffer(INT64)], [2**61], 0, 0, control) is Status.OVER_LIMIT
    assert run(arrays, [GrowBuffer(INT64)], [2**55], 0, 0, control) is Status.NO_MEMORY
    assert control.budget == 2**62


@pytest.mark.parametrize(
    "name", ["bool", "uint8", "int32", "uint64", "float32", "float64", "complex64", "complex128"]
)
def test_scalars_locals_and_buffers_of_every_dtype(name: str) -> None:
    dtype = np.dtype(name)
    a, b, t = Local("a", dtype), Local("b", dtype), Local("t", dtype)
    x, out, grown = array("x", dtype), array("out", dtype), (Buffer("grown", dtype),)
    kernel = Kernel("t", (x, out), frozenset({"out"}), (grown,), (a, N, b), LO, HI, (
        Assign(t, a),
        For(I_, LO, N, (
            Assign(t, Call(ops.add, (t, Read(x, (I_,))))),
            Store(out, I_, Call(ops.multiply, (t, b))),
            Reserve(grown, const(1, INT64)),
            AppendReserved(grown, (t,)),
        )),
    ))
    values = (np.arange(12) % 5).astype(dtype)
    if dtype.kind == "c":
        values = values * dtype.type(1 - 2j)
    scalars = [values[1], 12, values[2]]
    both_ways(kernel, [values, np.zeros(12, dtype)], scalars, 0, 12)
    if name == "uint64":
        both_ways(kernel, [values, np.zeros(12, dtype)], [2**64 - 1, 12, 2**63], 0, 12)


def test_kernels_that_differ_in_signedness_only() -> None:
    """Their text is the same, their parameters are not."""
    for name in ("int16", "uint16"):
        dtype = np.dtype(name)
        x, out = array("x", dtype), array("out", dtype)
        kernel = Kernel("t", (x, out), frozenset({"out"}), (), (), LO, HI,
                        (For(I_, LO, HI, (Store(out, I_, Read(x, (I_,))),)),))
        both_ways(kernel, [np.arange(5, dtype=dtype), np.zeros(5, dtype)], [], 0, 5)


def test_deep_expressions() -> None:
    expr = Read(X, (I_,))
    for k in range(3000):
        expr = add(expr, const(k % 7, INT64))  # type: ignore[assignment]
    kernel = outer((For(I_, LO, HI, (Store(OUT, I_, expr),)),))
    out = np.zeros(4, "i8")
    compile(kernel, disk=False).run([np.arange(4), out], [], [0], 0, 4, Control())
    assert np.array_equal(out, np.arange(4) + sum(k % 7 for k in range(3000)))


def test_mistakes_in_kernels_are_named() -> None:
    with pytest.raises(EngineError, match="variable p"):
        emit(outer((Store(OUT, P, P),)))
    with pytest.raises(EngineError, match="array y"):
        emit(outer((Store(OUT, LO, Read(array("y", INT64), (LO,))),)))
    with pytest.raises(EngineError, match="position 7 of x"):
        interpret(outer((Store(OUT, LO, Read(X, (LO,))),)), [np.zeros(7, "i8")] * 2, [0], 7, 8)
    compiled = compile(outer(()), disk=False)
    good = np.zeros(3, "i8")
    frozen = good.copy()
    frozen.flags.writeable = False
    for arrays, scalars in (([good], [1]), ([good, good], []), ([good, good.astype("i4")], [1]),
                            ([np.zeros(6, "i8")[::2], good], [1]), ([good, frozen], [1])):
        with pytest.raises(EngineError):
            compiled.run(arrays, [], scalars, 0, 0, Control())


def test_sums_vectorize_unless_strict() -> None:
    for kernel in (row_dots(), total()):
        fast, exact = (compiler.assembly(emit(kernel, strict)) for strict in (False, True))
        packed = ("vfmadd", "vaddpd") if "avx" in compiler.host() else ("",)
        assert any(f"{p}" in line and "pd" in line for line in fast.split("\n") for p in packed)
        assert "fmadd" not in exact and "reassoc" not in emit(kernel, True)
    if "avx" in compiler.host():
        assert "ymm" in compiler.assembly(emit(spmm())) or "zmm" in compiler.assembly(emit(spmm()))


def test_strict_sums_stay_in_order() -> None:
    x = np.random.default_rng(5).normal(size=10_001) * 10.0 ** np.arange(10_001).__mod__(9)
    out = np.zeros(1)
    compile(total(), strict=True, disk=False).run([x, out], [], [], 0, len(x), Control())
    assert out[0] == np.add.accumulate(x)[-1]


def test_loading_by_llvm_gives_the_same() -> None:
    """The loader for other machines."""
    kernel = keep_positive()
    loaded = compiler.load_with_llvm(compiler.compile_object(emit(kernel)))
    buffers = [GrowBuffer(I4), GrowBuffer(F8)]
    x = np.array([1.0, -2.0, 3.0])
    run = CompiledKernel(kernel, loaded).run
    assert run([x, np.zeros(3, "i8")], buffers, [], 0, 3, Control()) is Status.DONE
    assert buffers[1].take().tolist() == [1.0, 3.0]


def test_text() -> None:
    assert show(merge()) == (
        "def merge(a: int64[], b: int64[], out: int64[grows], n: int64, m: int64, lo: int64, "
        "hi: int64):\n"
        "    p = 0\n"
        "    q = 0\n"
        "    while p < n and q < m:  # can be cancelled\n"
        "        if a[p] == b[q]:\n"
        "            out.append(a[p])\n"
        "            p += 1\n"
        "            q += 1\n"
        "        else:\n"
        "            if a[p] < b[q]:\n"
        "                p += 1\n"
        "            else:\n"
        "                q += 1"
    )
    assert "y[i * n + j] += v * x[q * n + j]" in show(spmm())
