"""Rows of a line of blocks, walked together: values as NumPy has them, for all sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import interpret

import tensorel as tr
from tensorel.algebra import ops
from tensorel.ir.build import element, plus
from tensorel.ir.nodes import INT64, Call, Expr, Local, const
from tensorel.kernels.loopir.statements import Assign, For, Kernel, Stmt, Store, array
from tensorel.kernels.passes.unroll_and_jam import jammed

_BLOCKED = (Path(__file__).parents[2] / "examples" / "storage" / "blocked_csr.sdql").read_text()

PROGRAMS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "A @ x": lambda a, x, y, w: a @ x,
    "y @ A": lambda a, x, y, w: y @ a,
    "A.T @ (A @ x)": lambda a, x, y, w: 2 * (a.T @ (a @ x)),
    "A @ W": lambda a, x, y, w: a @ w,
    "rows": lambda a, x, y, w: a.sum(axis=1),
    "largest of rows": lambda a, x, y, w: a.max(axis=1),
    "columns": lambda a, x, y, w: a.sum(axis=0),
    "all": lambda a, x, y, w: (a @ x).sum(),
    "twice": lambda a, x, y, w: (a * a) @ x + y,
    "some rows": lambda a, x, y, w: a[1:] @ x,
    "some columns": lambda a, x, y, w: a[:, 1:] @ x[1:],
    "every other": lambda a, x, y, w: a[::2] @ x,
}


def _matrix(shape: tuple[int, int], block: tuple[int, int], seed: int, dtype: str) -> Any:
    rng = np.random.default_rng(seed)
    small = rng.random([-(-n // k) for n, k in zip(shape, block)]) < 0.5
    whole = np.kron(small, np.ones(block))[: shape[0], : shape[1]]
    return (whole * rng.integers(-4, 5, shape)).astype(dtype)


def _stored(a: Any, block: tuple[int, int], own: bool) -> Any:
    r, c = block
    return tr.asarray(a).to_format(
        tr.storage(_BLOCKED, "blocked", R=r, C=c) if own else f"bsr({r},{c})")


@given(st.sampled_from(sorted(PROGRAMS)), st.integers(1, 9), st.integers(1, 9),
       st.integers(0, 4), st.integers(0, 4), st.integers(0, 3), st.booleans(), st.booleans(),
       st.sampled_from(["float64", "int64", "float32"]), st.integers(0, 99))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_programs_over_blocks(name: str, r: int, c: int, lines: int, columns: int, over: int,
                              own: bool, strict: bool, dtype: str, seed: int) -> None:
    shape = (r * lines + over % (r + 1) + 1, c * columns + over % (c + 1) + 1)
    if seed % 2:  # blocks that tile the matrix
        shape = (r * (lines + 1), c * (columns + 1))
    a = _matrix(shape, (r, c), seed, dtype)
    rng = np.random.default_rng(seed + 1)
    x, y, w = (rng.integers(1, 5, n).astype(dtype) for n in (shape[1], shape[0], (shape[1], 3)))
    with tr.options(strict=strict):
        found = PROGRAMS[name](_stored(a, (r, c), own), *map(tr.asarray, (x, y, w)))
        np.testing.assert_allclose(np.asarray(found), PROGRAMS[name](a, x, y, w))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("rows", [40_000, 40_001])
def test_threads_and_edges(rows: int, own: bool, threads: int) -> None:
    a = np.zeros((rows, 30))
    a[:, 4:8] = np.random.default_rng(1).random((rows, 4))
    x = np.arange(30.0)
    with tr.options(threads=threads):
        t, tx = _stored(a, (4, 2), own), tr.asarray(x)
        np.testing.assert_allclose(np.asarray(t @ tx), a @ x)
        np.testing.assert_allclose(np.asarray(t.T @ (t @ tx)), a.T @ (a @ x))


def test_rows_are_walked_together() -> None:
    a = _matrix((12, 8), (4, 4), 1, "float64")
    for own in (False, True):
        code = str((_stored(a, (4, 4), own) @ tr.asarray(np.ones(8))).explain(level="code"))
        assert "row_" in code and code.count("acc_") > 12, code


# -- by hand ---------------------------------------------------------------------------------------

ROW, Q, ACC, COUNT = Local("i", INT64), Local("q", INT64), Local("acc", INT64), Local("n", INT64)
POS, VAL, OUT = (array(name, INT64) for name in ("pos", "val", "out"))
LO, HI = Local("lo", INT64), Local("hi", INT64)


def _line(e: Expr, rows: int = 3) -> Expr:
    return Call(ops.floor_divide, (e, const(rows, INT64)))


def _loop(*inside: Stmt, before: tuple[Stmt, ...] = (), after: tuple[Stmt, ...] = ()) -> For:
    lo, hi = element(POS, _line(ROW)), element(POS, plus(_line(ROW), 1))
    return For(ROW, LO, HI, (*before, For(Q, lo, hi, inside), *after))


def _add(target: Local, e: Expr) -> Assign:
    return Assign(target, Call(ops.add, (target, e)))


ZERO = Assign(ACC, const(0, INT64))
TERM = Call(ops.multiply, (element(VAL, Q), plus(ROW, 1)))
SHARED = Store(OUT, Q, Call(ops.add, (element(OUT, Q), TERM)))
FREE = {
    "sums of rows": _loop(_add(ACC, TERM), before=(ZERO,), after=(Store(OUT, ROW, ACC),)),
    "sums that rows share": _loop(SHARED),
}
BOUND = {
    "a sum over rows": _loop(_add(ACC, TERM), after=(Store(OUT, ROW, ACC),)),
    "bounds of its own": For(ROW, LO, HI, (
        ZERO, For(Q, _line(ROW), plus(ROW, 1), (_add(ACC, TERM),)), Store(OUT, ROW, ACC))),
    "places of rows inside": _loop(Store(OUT, ROW, TERM)),
    "reads what it writes": _loop(_add(ACC, element(OUT, Q)), before=(ZERO,),
                                  after=(Store(OUT, ROW, ACC),)),
    "counts": _loop(_add(COUNT, const(1, INT64)), after=(Store(OUT, ROW, COUNT),)),
    "the last stays": _loop(Store(OUT, Q, TERM)),
}


def _fresh() -> Callable[[str, Local], Local]:
    names = iter(range(1000))
    return lambda name, like: Local(f"{name}_{next(names)}", like.dtype)


def _run(body: tuple[Stmt, ...], lo: int, hi: int) -> Any:
    kernel = Kernel("k", (POS, VAL, OUT), frozenset({"out"}), (), (), LO, HI, body)
    rng = np.random.default_rng(3)
    pos = np.array([0, 2, 2, 5, 9, 10])
    out = np.zeros(20, np.int64)
    interpret(kernel, [pos, rng.integers(1, 9, 10), out], [], lo, hi)
    return out


@pytest.mark.parametrize("name", sorted(FREE))
@pytest.mark.parametrize("lo", range(5))
def test_every_range(name: str, lo: int) -> None:
    loop = FREE[name]
    made = jammed(loop, _fresh(), False)
    assert made is not None
    for hi in range(lo, 16):
        assert np.array_equal(_run(tuple(made), lo, hi), _run((loop,), lo, hi))


@pytest.mark.parametrize("name", sorted(BOUND))
def test_rows_that_are_not_independent(name: str) -> None:
    assert jammed(BOUND[name], _fresh(), False) is None


def test_strict_sums_keep_their_order() -> None:
    assert jammed(FREE["sums of rows"], _fresh(), True) is not None
    assert jammed(FREE["sums that rows share"], _fresh(), True) is None
