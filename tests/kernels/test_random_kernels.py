"""Random expressions and statements: native code, strict, equals the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import interpret
from samples import HI, I_, LO

from tensorel.algebra import ops
from tensorel.errors import TensorelError
from tensorel.ir.build import compare, convert
from tensorel.ir.nodes import BOOL, DTYPES, INT64, Call, DType, Expr, Local, Read, const
from tensorel.kernels.loopir.statements import (
    Append,
    Assign,
    Buffer,
    For,
    If,
    Kernel,
    Status,
    Store,
    array,
)
from tensorel.kernels.runtime.compiled import Control, GrowBuffer, compile

COUNT = 12
#: Operators whose results do not depend on the C library.
EXACT = [op for op in ops.operators() if op.name in (
    "add", "subtract", "multiply", "floor_divide", "remainder", "minimum", "maximum", "equal",
    "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_or",
    "logical_xor", "bitwise_and", "bitwise_or", "left_shift", "right_shift", "negative",
    "absolute", "sign", "logical_not", "isnan", "square", "floor", "where", "divide", "sqrt",
)]
REAL = [d for d in DTYPES if d.kind != "c"]
INPUTS = [array(f"x{k}", d) for k, d in enumerate(REAL)]
LOCALS = [Local(f"t{k}", d) for k, d in enumerate(REAL)]


def inputs(seed: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    found = []
    for dtype in REAL:
        values = rng.integers(-4, 5, COUNT)
        if dtype.kind == "u":
            values = abs(values)
        found.append((values * (0.5 if dtype.kind == "f" else 1)).astype(dtype))
        if dtype.kind == "f":
            found[-1][:3] = np.nan, np.inf, -0.0
    return found


def leaf(draw: st.DrawFn, dtype: DType) -> Expr:
    source, local = INPUTS[REAL.index(dtype)], LOCALS[REAL.index(dtype)]
    choices = [Read(source, (I_,)), local, const(draw(st.integers(0, 3)), dtype)]
    inside = compare(ops.less, I_, COUNT)
    far = Call(ops.add, (I_, const(3, INT64)))
    safe = Call(ops.where, (compare(ops.less, far, COUNT), Read(source, (far,)), local))
    return draw(st.sampled_from([*choices, safe, Call(ops.where, (inside, *choices[:2]))]))


@st.composite
def expressions(draw: st.DrawFn) -> Expr:
    pool: list[Expr] = [leaf(draw, draw(st.sampled_from(REAL))) for _ in range(3)]
    for _ in range(draw(st.integers(1, 6))):
        op = draw(st.sampled_from(EXACT))
        args = [draw(st.sampled_from(pool)) for _ in range(op.arity)]
        try:
            pool.append(Call(op, tuple(args)))
        except TensorelError:
            pool.append(leaf(draw, draw(st.sampled_from(REAL))))
    return pool[-1]


@given(st.lists(expressions(), min_size=2, max_size=4), st.integers(0, 100))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_kernels(exprs: list[Expr], seed: int) -> None:
    out, buffer = array("out", exprs[0].dtype), Buffer("kept", exprs[1].dtype)
    chosen = [LOCALS[REAL.index(e.dtype)] for e in exprs]
    body = (
        *(Assign(t, const(1, t.dtype)) for t in LOCALS),
        For(I_, LO, HI, (
            *(Assign(t, e) for t, e in zip(chosen[2:], exprs[2:])),
            Store(out, I_, exprs[0]),
            If(convert(exprs[0], BOOL),
               (Append((buffer,), (exprs[1],)),), (Assign(chosen[1], exprs[1]),)),
        ), checked=bool(seed % 2)),
    )
    kernel = Kernel("random", (*INPUTS, out), frozenset({"out"}), ((buffer,),), (), LO, HI, body)
    data, result = inputs(seed), np.zeros(COUNT, out.dtype)
    grown = GrowBuffer(buffer.dtype)
    run = compile(kernel, strict=True, disk=False).run
    assert run([*data, result], [grown], [], 0, COUNT, Control()) is Status.DONE
    want = np.zeros(COUNT, out.dtype)
    _, (kept,) = interpret(kernel, [*data, want], [], 0, COUNT)
    np.testing.assert_array_equal(result, want)
    np.testing.assert_array_equal(grown.take(), kept)
