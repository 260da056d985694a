"""Substitution: places that are moved again and again are moved once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensorel.algebra import ops
from tensorel.ir.nodes import INT64, Call, Const, Expr, Index, const, postorder
from tensorel.ir.replacing import substitute

WHOLE = st.one_of(st.integers(-9, 9), st.integers(-(2**63), 2**63 - 1))
STEPS = st.lists(st.tuples(st.sampled_from(["x+a", "a+x", "x-a", "a-x"]), WHOLE), max_size=6)


def stepped(how: str, x: Expr, a: int) -> Expr:
    by = const(np.int64(a), INT64)
    op = ops.add if "+" in how else ops.subtract
    return Call(op, (x, by) if how[0] == "x" else (by, x))


def value(e: Expr, at: int) -> int:
    """As the processor has it: modulo 2**64."""
    match e:
        case Index():
            return at
        case Const():
            return int(e.value)
        case Call(op=op, args=(a, b)):
            left, right = value(a, at), value(b, at)
            total = left + right if op is ops.add else left - right
            return (total + 2**63) % 2**64 - 2**63
        case _:
            raise AssertionError(e)


@given(STEPS, st.integers(-99, 99))
def test_the_same_place(steps: list[tuple[str, int]], at: int) -> None:
    """Each step is put into the next, as formulas are into those that read them."""
    i = Index("i")
    whole: Expr = i
    expected = at
    for how, a in steps:
        whole = substitute(stepped(how, i, a), {"i": whole})
        expected = value(stepped(how, i, a), expected)
    assert value(whole, at) == expected
    if all(abs(a) < 10 for _, a in steps):
        assert sum(isinstance(e, Call) for e in postorder(whole)) <= 1


def test_ways_to_one_place_are_one_formula() -> None:
    i = Index("i")
    one = substitute(stepped("x+a", i, 7), {"i": stepped("a+x", i, -1)})
    other = substitute(stepped("x-a", i, 1), {"i": stepped("x+a", i, 7)})
    assert one is other
    assert substitute(stepped("x-a", i, 3), {"i": stepped("a+x", i, 3)}) is i
    turned = stepped("a-x", i, 9)
    assert substitute(turned, {"i": turned}) is i


@pytest.mark.parametrize("dtype", ["int32", "float64", "uint64"])
def test_other_numbers_are_left_alone(dtype: str) -> None:
    """Sums of floating-point numbers round, and those of narrow integers are cast."""
    kind = np.dtype(dtype)
    x = Call(ops.cast(kind), (Index("i"),))
    once = Call(ops.add, (x, const(1, kind)))
    twice = Call(ops.add, (once, const(1, kind)))
    moved = substitute(twice, {"i": Index("j")})
    assert sum(isinstance(e, Call) and e.op is ops.add for e in postorder(moved)) == 2
