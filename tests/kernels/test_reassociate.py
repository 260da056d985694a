"""Sums that do not wait for each other: the same result, apart from the order of additions."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import interpret
from samples import HI, I4, I_, LO, P, spmv

import tensorel as tr
from tensorel.algebra import ops
from tensorel.ir.build import compare, convert, element, plus
from tensorel.ir.nodes import DTYPES, INT64, Call, Expr, Local, Read, const
from tensorel.kernels.llvm.module import emit
from tensorel.kernels.loopir.queries import lanes
from tensorel.kernels.loopir.statements import Assign, For, Kernel, Status, Stmt, Store, array
from tensorel.kernels.passes.exact_sums import BLOCK_TERMS
from tensorel.kernels.passes.reassociate import (
    GROUP_BLOCK_TURNS,
    GROUPED_TURNS,
    VECTOR_BLOCK_TURNS,
    chained,
)
from tensorel.kernels.runtime import compiler
from tensorel.kernels.runtime.compiled import Control, compile

NUMBERS = [d for d in DTYPES if d.kind != "b"]


def rows(name: str, dtype: np.dtype[np.generic], indirect: bool, across: bool) -> Kernel:
    """out[i] (or out[0], over all rows) = the reduction of the entries of row i; their count."""
    op = ops.operator(name)
    ptr, crd, x = array("ptr", I4), array("crd", I4), array("x", dtype)
    out, count = array("out", dtype), array("count", INT64)
    acc, seen, at = Local("acc", dtype), Local("seen", INT64), Local("at", INT64)
    assert op.identity is not None
    start = (Assign(acc, const(op.identity(dtype), dtype)), Assign(seen, const(0, INT64)))
    inner = For(P, element(ptr, I_), element(ptr, plus(I_, 1)), (
        Assign(at, element(crd, P) if indirect else P),
        Assign(acc, Call(op, (acc, Read(x, (at,))))),
        Assign(seen, plus(seen, 1))))
    place = const(0, INT64) if across else I_
    end = (Store(out, place, acc), Store(count, place, seen))
    body = (*start, For(I_, LO, HI, (inner,), True), *end) if across else (
        For(I_, LO, HI, (*start, inner, *end), True),)
    return Kernel("rows", (ptr, crd, x, out, count), frozenset({"out", "count"}), (), (), LO, HI,
                  body)


@given(
    st.sampled_from(["add", "multiply", "minimum", "maximum"]), st.sampled_from(NUMBERS),
    st.booleans(), st.booleans(), st.lists(st.one_of(
        st.integers(0, 3 * GROUPED_TURNS), st.integers(BLOCK_TERMS - 2, BLOCK_TERMS + 5),
        st.integers(GROUP_BLOCK_TURNS - 2, 2 * GROUP_BLOCK_TURNS + 7),
        st.integers(VECTOR_BLOCK_TURNS - 2, VECTOR_BLOCK_TURNS + 40)),
        max_size=6),
    st.integers(0, 99))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_reductions_of_any_length(name: str, dtype: np.dtype[np.generic], indirect: bool,
                                  across: bool, lengths: list[int], seed: int) -> None:
    if dtype.kind == "c" and name in ("minimum", "maximum"):
        return
    rng = np.random.default_rng(seed)
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(I4)
    size = max(int(ptr[-1]), 1)
    values = rng.integers(1, 4, size) * (0.5 if name == "multiply" and dtype.kind in "fc" else 1)
    kernel = rows(name, dtype, indirect, across)
    made = []
    for native in (True, False):
        out, count = np.zeros(len(lengths) + 1, dtype), np.zeros(len(lengths) + 1, np.int64)
        arrays = [ptr, np.random.default_rng(seed).permutation(size).astype(I4),
                  values.astype(dtype), out, count]
        if native:
            status = compile(kernel, disk=False).run(arrays, [], [], 0, len(lengths), Control())
        else:
            status = interpret(kernel, arrays, [], 0, len(lengths))[0]
        assert status is Status.DONE
        made.append((out, count))
    np.testing.assert_allclose(made[0][0], made[1][0], rtol=1e-5)
    np.testing.assert_array_equal(made[0][1], made[1][1])


def _fresh(stem: str, like: Local) -> Local:
    return Local(f"{stem}.fresh", like.dtype)


def _row(*body: Assign | Store) -> For:
    return For(P, const(0, INT64), HI, body)


def test_what_is_chained() -> None:
    acc, other, q = Local("acc", np.dtype("f8")), Local("other", np.dtype("f8")), Local("q", INT64)
    x = array("x", np.dtype("f8"))
    term = Assign(acc, Call(ops.add, (acc, Read(x, (P,)))))
    assert chained(_row(term), _fresh) is not None
    assert chained(_row(Assign(acc, Call(ops.subtract, (acc, Read(x, (P,)))))), _fresh) is None
    assert chained(_row(term, Assign(other, acc)), _fresh) is None, "its value on the way is read"
    assert chained(_row(term, term), _fresh) is None
    assert chained(_row(term, Store(x, P, other)), _fresh) is None
    carried = Assign(acc, Call(ops.add, (acc, Read(x, (q,)))))
    assert chained(_row(carried, Assign(q, plus(P, 1))), _fresh) is None, "q is of the last turn"
    chosen = Assign(q, Call(ops.where, (compare(ops.less, P, 3), plus(q, 1), q)))
    assert chained(_row(term, chosen), _fresh) is None, "q is of the last turn"
    count = Assign(q, plus(q, 1))
    assert chained(_row(count), _fresh) is None, "integers do not wait"
    assert chained(_row(count, Assign(acc, Call(ops.add, (acc, convert(P, acc.dtype))))),
                   _fresh) is not None


@pytest.mark.parametrize("strict", [True, False])
def test_strict_sums_stay_in_order(strict: bool) -> None:
    assert ("reassoc" in emit(spmv(), strict)) is not strict


def sums(dtype: np.dtype[np.generic], square: bool) -> Kernel:
    """out[i] = the sum of the entries of row i, or of their squares."""
    ptr, x, out = array("ptr", I4), array("x", dtype), array("out", dtype)
    acc, v, c = Local("acc", dtype), Local("v", dtype), Local("c", INT64)
    last = Local("last", INT64)
    inner = For(P, element(ptr, I_), last, (
        Assign(c, element(ptr, P)),  # nobody asks: as coordinates of a sum of values
        Assign(v, Read(x, (P,))),
        Assign(acc, plus(acc, Call(ops.multiply, (v, v)) if square else v))))
    body = For(I_, LO, HI, (Assign(acc, const(0, dtype)), Assign(
        last, element(ptr, plus(I_, 1))), inner, Store(out, I_, acc)), True)
    return Kernel("sums", (ptr, x, out), frozenset({"out"}), (), (), LO, HI, (body,))


@given(st.sampled_from([d for d in NUMBERS if d.kind == "f"]), st.booleans(),
       st.lists(st.integers(0, 70), min_size=1, max_size=9), st.integers(0, 9))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_sums_under_masks(dtype: np.dtype[np.generic], square: bool, lengths: list[int],
                          seed: int) -> None:
    """What lies behind the last entry, nan among it, is not added."""
    ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(I4)
    rng = np.random.default_rng(seed)
    x = np.concatenate([rng.integers(-9, 9, int(ptr[-1])), [np.nan] * 40]).astype(dtype)
    out = np.zeros(len(lengths), dtype)
    kernel = sums(dtype, square)
    assert compile(kernel, disk=False).run([ptr, x, out], [], [], 0, len(lengths),
                                           Control()) == Status.DONE
    parts = [x[a:b] for a, b in pairwise(ptr)]
    np.testing.assert_array_equal(out, [(p * p if square else p).sum() for p in parts])


def test_which_loops_get_masks() -> None:
    f8, f4 = np.dtype(np.float64), np.dtype(np.float32)
    inner = [next(s for s in k.body[0].body if isinstance(s, For))  # type: ignore[attr-defined]
             for k in (sums(f8, True), sums(f4, False))]
    assert [lanes(loop, set()) for loop in inner] == [8, 16]
    assert lanes(inner[0], {inner[0].hi}) == 0, "always as long: guessed rightly"
    x, v, acc = array("x", f8), Local("v", f8), Local("acc", f8)

    def loop(*body: Stmt) -> For:
        return For(P, Local("a", INT64), Local("b", INT64), body)

    def added(e: Expr) -> For:
        return loop(Assign(v, e), Assign(acc, plus(acc, v)))

    strided = Read(x, (Call(ops.multiply, (P, const(3, INT64))),))
    indirect = Read(x, (element(array("crd", I4), P),))
    slow = Call(ops.operator("exp"), (Read(x, (P,)),))
    assert [lanes(added(e), set()) for e in (strided, indirect, slow)] == [0, 0, 0]
    assert lanes(added(Read(x, (plus(P, Local("start", INT64)),))), set()) == 8
    assert lanes(loop(Assign(v, Read(x, (P,))), Store(x, P, v)), set()) == 0


def test_without_masks_the_text_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without masks gets the same sums from vectors without."""
    compiler.assembly(emit(spmv()))  # the machine is asked for its features once
    monkeypatch.setattr("llvmlite.binding.get_host_cpu_features", dict)
    text = emit(sums(np.dtype(np.float64), False))
    assert "predicate.enable\", i1 true" in text
    listing = compiler.assembly(text)
    assert not re.search(r"[yz]mm\d+\{%k", listing.replace(" ", ""))


@pytest.mark.parametrize("length", [3, 17, 31, 32, 33, 40])
def test_rows_around_the_length_where_groups_begin(length: int) -> None:
    rng = np.random.default_rng(length)
    dense = np.zeros((50, 64))
    for row in dense:
        row[rng.permutation(64)[:length]] = rng.random(length)
    a, x = tr.tensor(dense, format="csr"), rng.random(64)
    np.testing.assert_allclose((a @ tr.asarray(x)).compute(), dense @ x, rtol=1e-12)
