"""Kernels built by hand, for tests and timings."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.ir.build import compare, element, plus, times
from tensorel.ir.nodes import INT64, Call, Expr, Local, Read, const
from tensorel.kernels.loopir.statements import (
    Append,
    Assign,
    Buffer,
    For,
    If,
    Kernel,
    Length,
    Store,
    While,
    array,
)

F8, I4 = np.dtype("float64"), np.dtype("int32")
LO, HI = Local("lo", INT64), Local("hi", INT64)
I_, J, P, Q, N = (Local(name, INT64) for name in "ijpqn")
TOTAL, V = Local("total", F8), Local("v", F8)
ZERO = const(0, INT64)


def add(a: Expr, b: Expr) -> Expr:
    return Call(ops.add, (a, b))


def mul(a: Expr, b: Expr) -> Expr:
    return Call(ops.multiply, (a, b))


def spmv() -> Kernel:
    """y = A @ x, A in CSR."""
    ptr, crd, val, x, y = (
        array("ptr", I4), array("crd", I4), array("val", F8), array("x", F8), array("y", F8))
    term = mul(Read(val, (P,)), Read(x, (element(crd, P),)))
    return Kernel("spmv", (ptr, crd, val, x, y), frozenset({"y"}), (), (), LO, HI, (
        For(I_, LO, HI, (
            Assign(TOTAL, const(0.0)),
            For(P, element(ptr, I_), element(ptr, plus(I_, 1)),
                (Assign(TOTAL, add(TOTAL, term)),)),
            Store(y, I_, TOTAL),
        ), checked=True),
    ))


def spmm() -> Kernel:
    """Y += A @ X, A in CSR, n dense columns."""
    ptr, crd, val, x, y = (
        array("ptr", I4), array("crd", I4), array("val", F8), array("x", F8), array("y", F8))
    at = plus(times(I_, N), J)
    term = mul(V, Read(x, (plus(times(Q, N), J),)))
    return Kernel("spmm", (ptr, crd, val, x, y), frozenset({"y"}), (), (N,), LO, HI, (
        For(I_, LO, HI, (
            For(P, element(ptr, I_), element(ptr, plus(I_, 1)), (
                Assign(V, Read(val, (P,))),
                Assign(Q, element(crd, P)),
                For(J, ZERO, N, (Store(y, at, add(Read(y, (at,)), term)),)),
            )),
        ), checked=True),
    ))


def row_dots() -> Kernel:
    """y[i] = sum_j x[i, j] * w[i, j], dense."""
    x, w, y = array("x", F8), array("w", F8), array("y", F8)
    at = plus(times(I_, N), J)
    return Kernel("row_dots", (x, w, y), frozenset({"y"}), (), (N,), LO, HI, (
        For(I_, LO, HI, (
            Assign(TOTAL, const(0.0)),
            For(J, ZERO, N, (
                Assign(TOTAL, add(TOTAL, mul(Read(x, (at,)), Read(w, (at,))))),)),
            Store(y, I_, TOTAL),
        ), checked=True),
    ))


def total(checked: bool = True) -> Kernel:
    """out[0] = sum of x[lo:hi]."""
    x, out = array("x", F8), array("out", F8)
    return Kernel("total", (x, out), frozenset({"out"}), (), (), LO, HI, (
        Assign(TOTAL, const(0.0)),
        For(I_, LO, HI, (Assign(TOTAL, add(TOTAL, Read(x, (I_,)))),), checked=checked),
        Store(out, ZERO, TOTAL),
    ))


def keep_positive() -> Kernel:
    """Positions and values of the positive entries of x, and the count of values so far."""
    x, ends = array("x", F8), array("ends", INT64)
    kept = Buffer("where", I4), Buffer("values", F8)
    value = Read(x, (I_,))
    return Kernel("keep", (x, ends), frozenset({"ends"}), (kept,), (), LO, HI, (
        For(I_, LO, HI, (
            If(compare(ops.greater, value, 0), (  # type: ignore[arg-type]
                Append(kept, (Call(ops.cast(I4), (I_,)), value)),
            )),
            Length(P, kept),
            Store(ends, I_, P),
        ), checked=True),
    ))


def merge() -> Kernel:
    """The common entries of two sorted lists, by a two-way merge."""
    a, b = array("a", INT64), array("b", INT64)
    n, m = Local("n", INT64), Local("m", INT64)
    out = (Buffer("out", INT64),)
    left, right = Read(a, (P,)), Read(b, (Q,))
    return Kernel("merge", (a, b), frozenset(), (out,), (n, m), LO, HI, (
        Assign(P, ZERO),
        Assign(Q, ZERO),
        While(Call(ops.logical_and, (compare(ops.less, P, n), compare(ops.less, Q, m))), (
            If(compare(ops.equal, left, right), (
                Append(out, (left,)), Assign(P, plus(P, 1)), Assign(Q, plus(Q, 1)),
            ), (
                If(compare(ops.less, left, right),
                   (Assign(P, plus(P, 1)),), (Assign(Q, plus(Q, 1)),)),
            )),
        ), checked=True),
    ))


def endless() -> Kernel:
    """Runs until it is cancelled."""
    out = array("out", INT64)
    return Kernel("endless", (out,), frozenset({"out"}), (), (), LO, HI, (
        Assign(I_, ZERO),
        While(compare(ops.greater_equal, I_, 0), (
            Assign(I_, Call(ops.bitwise_and, (plus(I_, 1), const(1023, INT64)))),
        ), checked=True),
        Store(out, ZERO, I_),
    ))
