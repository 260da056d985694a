"""Loops at the edges of registers, branches and whole numbers of 64 bits: as in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.engines.in_process import imperative

F = np.array([3.0, -1.0, 2.0, 5.0, 0.5, -2.5, 7.0])
I = np.array([4, -2, 7, 0, 3, 3, -9])  # noqa: E741
M = np.random.default_rng(0).integers(-3, 4, (4, 5)).astype(float)
CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = []


def case(*given: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES.append((function, given))
        return function

    return enter


# -- what the turn before has stored --------------------------------------------------------------
@case(F)
def read_behind_the_store(x):
    y, s = x.copy(), 0.0
    for i in range(1, len(x)):
        y[i] = y[i] * 0.5
        s = s * 0.9 + y[i - 1]
    return y, s


@case(F)
def two_stores(x):
    y = x.copy()
    for i in range(1, len(x)):
        y[i] = y[i] + y[i - 1]
        y[i - 1] = y[i] * 2
    return y


@case(F)
def downwards(x):
    y = x.copy()
    for i in range(len(x) - 2, -1, -1):
        y[i] = y[i] + 0.5 * y[i + 1]
    return y


@case(F)
def by_two(x):
    y = x.copy()
    for i in range(2, len(x), 2):
        y[i] = y[i] + 0.5 * y[i - 2] + y[i - 1]
    return y


@case(I)
def narrow(x):
    y, z = np.zeros(len(x), dtype=np.int8), np.zeros(len(x), dtype=np.float32)
    for i in range(1, len(x)):
        y[i] = y[i - 1] + np.int8(x[i] * 30)
        z[i] = z[i - 1] * 1.1 + x[i]
    return y, z


@case(F)
def not_in_every_turn(x):
    y = x.copy()
    for i in range(1, len(x)):
        if x[i] < 0:
            continue
        y[i] = y[i - 1] + 1
    return y


@case(F)
def under_a_test(x):
    y = x.copy()
    for i in range(1, len(x)):
        t = y[i - 1]
        if t > 0:
            y[i] = t + 1
    return y


@case(F)
def by_a_wrapped_index(x):
    y = x.copy()
    for i in range(len(x)):
        y[i] = y[i - 1] + 1
    return y


@case(F, 3)
def a_bound_that_is_the_counter(x, n):
    y = x.copy()
    for n in range(1, n + 3):  # noqa: B020
        y[n] += y[n - 1]
    return y, n


@case(F)
def other_names(x):
    a, b = x.copy(), np.zeros_like(x)
    for t in range(3):
        for i in range(1, len(x)):
            b[i] = a[i] * 0.5 + b[i - 1] + t
        a, b = b, a
    return a, b


# -- what stays in all turns, or in all but one ---------------------------------------------------
@case(M)
def beside_the_pivot(A):
    n, m = A.shape
    for k in range(n):
        for i in range(k + 1, n):
            A[i, k] = A[i, k] / (A[k, k] + 9.5)
            for j in range(k + 1, m):
                A[i, j] -= A[i, k] * A[k, j]
    return A


@case(M)
def changed_in_the_first_turn(A):
    n, m = A.shape
    for i in range(n):
        for j in range(m):
            A[i, j] = A[i, j] * 0.5 + A[i, 0]
    return A


@case(M)
def changed_in_a_turn_between(A):
    n, m = A.shape
    for k in range(n):
        for i in range(n):
            for j in range(m):
                if A[i, k] + A[k, j] < A[i, j]:
                    A[i, j] = A[i, k] + A[k, j] - 1
    return A


@case(M)
def changed_in_two_turns(A):
    n, m = A.shape
    for i in range(n):
        for j in range(m):
            A[i, j] = A[i, 1] * 0.5 - A[i, 3] + A[i, j]
    return A


@case(M, 9)
def changed_in_no_turn(A, k):
    n, m = A.shape
    for i in range(n):
        for j in range(1, 3):
            A[i, j] = A[i, k % m] * 0.5 + A[i, j]
    return A


# -- whole numbers --------------------------------------------------------------------------------
@case(25)
def product(n):
    a = 1
    for i in range(1, n):
        a *= i
    return a


@case(19)
def product_that_fits(n):
    a = 1
    for i in range(1, n):
        a *= i
    return a


@case(2**63 - 3, 5)
def sum_from_the_end(s, n):
    for i in range(n):
        s += i
    return s


@case(-(2**62), 5)
def sum_from_afar(s, n):
    for i in range(n):
        s += i
    return s


@case(62)
def opposite_of_the_lowest(n):
    a = -1
    for _ in range(n):
        a += a
    a += a
    return -a, abs(a), a // -1


@case(2**63 - 2)
def one_branch_overflows(v):
    k = 0
    while v != 1 and k < 5:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        k += 1
    return v


@case(2**59)
def linear_on_the_way(v):
    k = 0
    while k < 2:
        v = (v * 4 - 2) * 2 // 8 - (5 - v) + (v - 3)
        v = v // 3
        k += 1
    return v


@case(27)
def both_branches(v):
    k, top = 0, v
    while v != 1:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        top = max(top, v)
        k += 1
    return k, top


@case(3)
def a_division_in_one_branch(n):
    s = 0
    for i in range(n):
        s = s * 2 % 7 + (10 // i if i != 0 else 5)
    return s


@pytest.mark.parametrize("function,given", CASES, ids=[f.__name__ for f, _ in CASES])
def test_as_in_python(function: Callable[..., Any], given: tuple[Any, ...]) -> None:
    want = function(*[a.copy() if isinstance(a, np.ndarray) else a for a in given])
    want = want if isinstance(want, tuple) else (want,)
    found = tr.loops(function)(*given)
    found = found if isinstance(found, tuple) else (found,)
    if any(isinstance(v, int) and abs(v) >= 2**63 for v in want):
        with pytest.raises(OverflowError, match="64 bits"):
            tr.compute(*found)
        return
    for a, b in zip(want, tr.compute(*found), strict=True):
        np.testing.assert_array_equal(b.to_numpy(), a)
        assert b.dtype == np.asarray(a).dtype


@pytest.mark.effort("full")
def test_better_code_is_made_when_there_is_much_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    @tr.loops
    def running(x):
        for i in range(1, len(x)):
            x[i] = x[i] * 0.5 + x[i - 1]
        return x

    monkeypatch.setattr(imperative, "quick_work", 210)
    with tr.options(disk_cache=False):
        results = [running(F * 16 // 1 if k else np.ones(100)).to_numpy() for k in range(4)]
        results.append(running(np.ones(100)).to_numpy())
    codes = [c for known in imperative._kernels.values() for c in known.codes.values()
             if c.kernel.name == "loops_running"]
    assert [c.best is not None for c in codes] == [True] and codes[0].work >= 210
    np.testing.assert_array_equal(results[0], running.meaning(np.ones(100)))
    np.testing.assert_array_equal(results[4], results[0])
