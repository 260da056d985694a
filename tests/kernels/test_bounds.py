"""Checked kernels: every load, store and append outside its array is an error that names it."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from interpreter import interpret
from samples import F8, HI, I4, I_, LO, keep_positive, merge, row_dots, spmm, spmv, total

from tensorel.algebra import ops
from tensorel.errors import EngineError
from tensorel.ir.build import element, plus, times
from tensorel.ir.nodes import INT64, Call, Expr, Local, Read, const
from tensorel.kernels.llvm import growing
from tensorel.kernels.llvm.module import emit
from tensorel.kernels.loopir.statements import (
    Append,
    AppendReserved,
    Assign,
    Buffer,
    For,
    Kernel,
    Prefetch,
    Reserve,
    Status,
    Stmt,
    Store,
    array,
)
from tensorel.kernels.runtime import native_pool
from tensorel.kernels.runtime.compiled import Control, GrowBuffer, compile, run_ranges

Array = np.ndarray[Any, np.dtype[Any]]
SAMPLES = [spmv, spmm, row_dots, total, merge, keep_positive]
X, IDX, OUT = array("x", F8), array("idx", INT64), array("out", F8)
KEPT = (Buffer("kept", F8),)


def kernel(*body: Stmt, tables: tuple[tuple[Buffer, ...], ...] = ()) -> Kernel:
    return Kernel("sample", (X, IDX, OUT), frozenset({"out"}), tables, (), LO, HI, body)


def loop(*body: Stmt) -> For:
    return For(I_, LO, HI, body, checked=True)


def run(k: Kernel, arrays: list[Array], lo: int, hi: int, strict: bool = False,
        effort: str = "quick") -> Status:
    buffers = [GrowBuffer(b.dtype) for b in k.buffers]
    return compile(k, strict, False, effort, checked=True).run(
        arrays, buffers, (), lo, hi, Control())


def three(size: int = 8, at: list[int] | None = None) -> list[Array]:
    idx = np.arange(size) if at is None else np.array(at, np.int64)
    return [np.arange(float(size)), idx, np.zeros(size)]


GATHER = kernel(loop(Store(OUT, I_, Read(X, (Read(IDX, (I_,)),)))))
SCATTER = kernel(loop(Store(OUT, Read(IDX, (I_,)), Read(X, (I_,)))))


@pytest.mark.parametrize("effort", ["quick", "full"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("bad", [8, 9, -1, 2**31, -(2**62), 2**63 - 1])
def test_a_position_outside_is_named(bad: int, strict: bool, effort: str) -> None:
    arrays = three(at=[0, 1, 2, bad, 4, 5, 6, 7])
    for k, name in ((GATHER, "x"), (SCATTER, "out")):
        with pytest.raises(EngineError, match=f"kernel sample: position {bad} of array {name}, "
                                              "which has 8 elements"):
            run(k, arrays, 0, 8, strict, effort)
    assert run(GATHER, arrays, 0, 3, strict, effort) is Status.DONE


def test_ranges_past_the_end_and_before_the_start() -> None:
    with pytest.raises(EngineError, match="position 8 of array idx"):
        run(GATHER, three(), 0, 9)
    with pytest.raises(EngineError, match="position -1 of array idx"):
        run(GATHER, three(), -1, 8)
    with pytest.raises(EngineError, match="position 0 of array idx, which has 0"):
        run(GATHER, three(0), 0, 1)


def test_index_arithmetic_that_overflows_is_found() -> None:
    """Unchecked kernels tell LLVM that sums of positions do not overflow; checked ones do not."""
    at = times(Read(IDX, (I_,)), 2**32)
    k = kernel(loop(Store(OUT, I_, Read(X, (plus(at, 3),)))))
    for strict in (False, True):
        with pytest.raises(EngineError, match="position -9223372036854775805 of array x"):
            run(k, three(4, at=[0, 2**31, 0, 0]), 1, 2, strict)
        assert run(k, three(4, at=[2**32] * 4), 0, 4, strict) is Status.DONE  # wraps to 3


@pytest.mark.parametrize("reserved, appended", [(0, 1), (5, 6), (2000, 2001)])
def test_appending_past_the_reserved_room(reserved: int, appended: int) -> None:
    """Also where the buffer happens to be larger: what was reserved is the law."""
    more = For(I_, const(0, INT64), const(appended, INT64),
               (AppendReserved(KEPT, (const(1.0),)),))
    k = kernel(Reserve(KEPT, const(reserved, INT64)), more, tables=(KEPT,))
    with pytest.raises(EngineError, match=f"position {reserved} of buffer kept, where "
                                          f"{reserved} were reserved"):
        run(k, three(), 0, 1)
    with pytest.raises(EngineError, match="no room reserved"):
        interpret(k, three(), (), 0, 1)
    for good in (kernel(Reserve(KEPT, const(appended, INT64)), more, tables=(KEPT,)),
                 kernel(loop(Append(KEPT, (const(1.0),))), tables=(KEPT,))):
        assert run(good, three(), 0, 8) is Status.DONE


def test_buffers_that_did_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """That there is room for what was reserved is not taken for granted."""
    head = growing.GROW[:growing.GROW.index("{\n")]
    monkeypatch.setattr(growing, "GROW", head + "{\n  ret i32 0\n}")
    k = kernel(loop(Append(KEPT, (const(1.0),))), tables=(KEPT,))
    with pytest.raises(EngineError, match="position 3 of buffer kept, where 3 were reserved"):
        compile(k, False, False, "quick", checked=True).run(
            three(), [GrowBuffer(F8, 3)], (), 0, 8, Control())


def test_a_record_that_is_written_and_not_kept_needs_room_too() -> None:
    one = AppendReserved(KEPT, (const(1.0),), const(False))
    k = kernel(one, tables=(KEPT,))
    with pytest.raises(EngineError, match="position 0 of buffer kept"):
        run(k, three(), 0, 1)


def test_fetching_ahead_is_free() -> None:
    k = kernel(loop(Prefetch(X, plus(I_, 1000)), Store(OUT, I_, Read(X, (I_,)))))
    assert run(k, three(), 0, 8) is Status.DONE
    far = kernel(loop(Prefetch(X, Read(IDX, (plus(I_, 1000),)))))  # the index is really read
    with pytest.raises(EngineError, match="position 1000 of array idx"):
        run(far, three(), 0, 8)


def test_a_branch_that_is_not_taken_reads_nothing() -> None:
    inside = Call(ops.less, (I_, const(8, INT64)))
    safe = Call(ops.where, (inside, Read(X, (I_,)), const(0.0)))
    out = kernel(loop(Assign(Local("v", F8), safe)))
    assert run(out, three(), 0, 100) is Status.DONE


@pytest.mark.parametrize("bad", [-1, 8, -(2**62)])
def test_the_interpreter_does_not_wrap_around(bad: int) -> None:
    for k in (GATHER, SCATTER):
        with pytest.raises(EngineError, match=f"position {bad} of"):
            interpret(k, three(at=[bad] * 8), (), 0, 8)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda s: s.__name__)
def test_unchecked_text_has_nothing_of_it(sample: Any) -> None:
    """And a checked one has a check for each element that it loads or stores."""
    for strict in (False, True):
        plain, checked = emit(sample(), strict), emit(sample(), strict, True)
        assert not re.search(r"%report|%n0\b|outside|\.room|checked:", plain)
        places = len(re.findall(r"getelementptr inbounds \S+(?: x \S+)?, ptr %a\d+,", checked))
        appends = len(re.findall(r"getelementptr inbounds \S+, ptr %v\d+, i64", checked))
        checks = checked.count("icmp uge i64") - checked.count("icmp uge i64 %old") \
            - checked.count("icmp uge i64 %size")
        assert places > 0 and places <= checks <= places + appends
        assert "nsw i64 %v" not in checked.split("@tr.grow")[0]


def test_all_workers_stop_and_one_tells() -> None:
    """A failure in one range of many, by Python's threads and by the native pool."""
    size = 1 << 16
    x, out = np.ones(size), np.zeros(size)
    idx = np.arange(size)
    idx[size // 2 :] = size
    compiled = compile(GATHER, False, False, "quick", checked=True)
    call = compiled.bind([x, idx, out])
    ranges = [(k, k + 64) for k in range(0, size, 64)]
    for _ in range(3):
        control = Control()
        with pytest.raises(EngineError, match=f"position {size} of array x"):
            run_ranges([lambda w, r=r, c=control: call(*r, c)  # type: ignore[misc]
                        for r in ranges], 2, control)
        assert control.cancelled
    packed = np.array(ranges, np.int64).tobytes()
    with pytest.raises(EngineError, match=f"position {size} of array x"):
        native_pool.run_calls([call], packed, 2, Control(), disk=False)
    with pytest.raises(EngineError, match=f"position {size} of array x"):
        native_pool.launch(compiled, packed, [compiled.table([x, idx, out])], b"", 2)
    good = compiled.bind([x, np.arange(size), out])
    assert native_pool.run_calls([good], packed, 2, Control(), disk=False) in (None, Status.DONE)


def test_names_make_kernels_different() -> None:
    """Kernels of the same text and other names have reports of their own."""
    other = array("other", F8)
    body: Expr = Read(other, (element(IDX, I_),))
    twin = Kernel("twin", (other, IDX, OUT), frozenset({"out"}), (), (), LO, HI,
                  (loop(Store(OUT, I_, body)),))
    assert emit(twin) == emit(GATHER)
    for k, said in ((GATHER, "sample: position 9 of array x"),
                    (twin, "twin: position 9 of array other")):
        with pytest.raises(EngineError, match=said):
            run(k, three(at=[9] * 8), 0, 8)


def test_narrow_index_arrays() -> None:
    narrow = array("idx", I4)
    k = Kernel("narrow", (X, narrow, OUT), frozenset({"out"}), (), (), LO, HI,
               (loop(Store(OUT, I_, Read(X, (element(narrow, I_),)))),))
    arrays = [np.ones(4), np.array([0, 1, -7, 3], "i4"), np.zeros(4)]
    with pytest.raises(EngineError, match="position -7 of array x"):
        run(k, arrays, 0, 4)
