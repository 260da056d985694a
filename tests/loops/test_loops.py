"""``@tr.loops``: results, errors with their lines, plans, storages, and what is refused."""

from __future__ import annotations

import math
import pickle
import signal
import threading
import time
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr

OUTSIDE = 2.5
X = np.array([3.0, -1.0, 2.0, 5.0])


def explained(found: Any) -> str:
    return str(found.explain())


def test_results_are_lazy_and_come_from_one_run() -> None:
    @tr.loops
    def f(x):
        y = x.copy()
        s = 0.0
        for i in range(1, len(x)):
            y[i] = y[i - 1] * OUTSIDE + y[i]
            s += y[i]
        return y, s

    y, s = f(tr.tensor(X))
    assert isinstance(y, tr.Tensor) and y.shape == (4,) and s.shape == ()
    want = f.meaning(X)
    np.testing.assert_array_equal(y.to_numpy(), want[0])
    assert s.item() == want[1]
    assert (y * 2).sum().item() == 2 * sum(want[0])
    assert "f: lines" in explained(y)


def test_arguments_may_be_lists_numbers_and_named() -> None:
    @tr.loops
    def f(x, n, scale=2):
        s = 0
        for i in range(n):
            s += scale * x[i]
        return s

    assert f([1, 2, 3], n=2).item() == 6
    assert f([1, 2, 3], 3, scale=1).item() == 6
    assert f(tr.asarray([1.5, 2.5]), np.int64(2)).item() == 8.0
    with pytest.raises(tr.errors.TypeError_, match="x is NoneType"):
        f(None, 2)
    with pytest.raises(TypeError):
        f([1])


def test_plain_calls_are_decorators_too() -> None:
    def double(x):
        for i in range(len(x)):
            x[i] *= 2
        return x

    assert tr.loops(double)(X).tolist() == (2 * X).tolist()
    assert X.tolist() == [3.0, -1.0, 2.0, 5.0]  # arguments are never changed
    with pytest.raises(tr.errors.TypeError_, match="first argument"):
        tr.loops(3)


def product(A, B):
    n, p = A.shape
    R = np.zeros((n, B.shape[1]))
    for i in range(n):
        for j in range(B.shape[1]):
            for k in range(p):
                R[i, j] += A[i, k] * B[k, j]
    return R


def test_bulk_loops_have_the_plan_of_the_array_form() -> None:
    a = sp.random(200, 300, 0.02, format="csr", random_state=1)
    b = tr.asarray(np.random.default_rng(0).normal(size=(300, 20)))
    found = tr.loops(product)(a, b)
    assert explained(found).split("\n", 1)[1] == explained(tr.asarray(a) @ b).split("\n", 1)[1]
    np.testing.assert_allclose(found.to_numpy(), a @ b.to_numpy())


def scattered(n: int, count: int) -> sp.csr_array:
    rng = np.random.default_rng(1)
    at = rng.integers(0, n, (2, count))
    return sp.csr_array((np.ones(count), (at[0], at[1])), shape=(n, n))


def test_sparse_inputs_of_bulk_loops_stay_sparse() -> None:
    a = scattered(200_000, 40_000)

    @tr.loops
    def f(A, x):
        y = np.zeros(A.shape[0])
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                y[i] += A[i, j] * x[j]
        return y

    x = np.ones(200_000)
    np.testing.assert_allclose(f(a, x).to_numpy(), a @ x)


def test_sparse_inputs_of_carried_loops_are_refused_above_the_limit() -> None:
    @tr.loops
    def f(A):
        s = 0.0
        for i in range(1, A.shape[0]):
            s = 0.5 * s + A[i, i - 1]
        return s

    a = sp.random(100, 100, 0.1, format="csr", random_state=1)
    assert math.isclose(f(a).item(), f.meaning(a.toarray()))
    large = scattered(200_000, 40_000)
    with pytest.raises(tr.errors.MemoryLimitError):
        f(large).item()


def test_a_while_runs_around_plans_that_are_kept() -> None:
    @tr.loops
    def rank(P, tolerance):
        n = P.shape[0]
        r, s = np.full(n, 1.0 / n), np.zeros(n)
        change, rounds = 1.0, 0
        while change > tolerance:
            for i in range(n):
                s[i] = 0.15 / n
            for i in range(n):
                for j in range(n):
                    s[i] += 0.85 * P[i, j] * r[j]
            change = 0.0
            for i in range(n):
                change += abs(s[i] - r[i])
            r, s = s, r
            rounds += 1
            if rounds == 100:
                break
        return r, rounds

    p = sp.random(60, 60, 0.05, format="csr", random_state=1)
    r, rounds = rank(p, 1e-9)
    want, count = rank.meaning(p.toarray(), 1e-9)
    assert rounds.item() == count
    np.testing.assert_allclose(r.to_numpy(), want, rtol=1e-10)


def test_a_loop_without_turns_leaves_variables_as_they_are() -> None:
    @tr.loops
    def f(A, n):
        k, s = 7, 0.0
        for i in range(A.shape[0]):
            for j in range(A.shape[1]):
                s += A[i, j] * A[i, j]
        x = 1.5
        for i in range(n):
            for _j in range(i):
                k = i % 3
                x = x * s + k
        return s, k, x

    a = sp.random(30, 20, 0.2, format="csr", random_state=1)
    for n in (0, 1, 4):
        want = f.meaning(a.toarray(), n)
        np.testing.assert_allclose([t.item() for t in f(a, n)], want)


# -- errors ---------------------------------------------------------------------------------------
def test_an_index_outside_is_an_index_error_with_its_line() -> None:
    @tr.loops
    def f(x):
        s = 0.0
        for i in range(5):
            s += x[i]
        return s

    with pytest.raises(IndexError, match=r"index 4 of x is outside its 4 entries") as error:
        f(X).item()
    assert isinstance(error.value, tr.errors.IndexError_)
    assert "s += x[i]" in str(error.value) and "test_loops.py, line" in str(error.value)


@pytest.mark.parametrize("value, kind", [
    ("1 / (n - n)", ZeroDivisionError), ("n // (n - n)", ZeroDivisionError),
    ("n % (n - n)", ZeroDivisionError), ("math.sqrt(-n)", ValueError),
    ("math.log(n - n)", (ValueError, OverflowError)), ("math.exp(1000.0 * n)", OverflowError),
    ("n ** 40 * n ** 40", OverflowError), ("9223372036854775807 + n", OverflowError),
    ("1 << (60 + n)", OverflowError), ("1 << -n", ValueError), ("int(math.inf * n)", Exception),
    ("x[n * 100]", IndexError), ("x[-5]", IndexError), ("u", NameError),
])
def test_what_python_refuses_is_refused(value: str, kind: Any) -> None:
    from random_loops import compiled

    text = (f"def program(x, n):\n    r = 0.0\n    for i in range(n):\n        r = {value}\n"
            "        u = r\n    return r")
    with pytest.raises(kind):
        tr.loops(compiled(text, f"<refused {value}>"))(X, 3).item()


@pytest.mark.parametrize("statement, match", [
    ("x[0:2] = 1", "slices"), ("y = x + 1", "is an array"), ("x.sort()", "not used"),
    ("import os", "import"), ("y = [1, 2]", "List"), ("print(x[0])", "not used"),
    ("y = x @ x", "@ is not"), ("y = open(x)", "cannot be called"), ("y = x[0, 0]", "1 axes"),
    ("y = z", "z is not known"), ("for i in x: pass\n    else: pass", "else after a loop"),
    ("x[0.5] = 1", "whole number"), ("raise ValueError", "raise"), ("y = 'text'", "Constant"),
    ("del x", "del"), ("y = x[0] in x", "not in"), ("for i in range(2.5): pass", "whole number"),
    ("n, m = x.shape", "shape"), ("while x[0] > 0: n = np.zeros(int(x[0]))", "shape of an array"),
])
def test_what_is_outside_of_the_subset_is_refused_at_its_line(statement: str, match: str) -> None:
    from random_loops import compiled

    text = f"def program(x):\n    {statement}\n    return x"
    with pytest.raises(tr.errors.TensorelError, match=match) as error:
        tr.loops(compiled(text, f"<outside {statement}>"))(X).to_numpy()
    assert "line 4" in str(error.value) or "line 5" in str(error.value)


def test_nothing_returned_is_refused() -> None:
    @tr.loops
    def f(x):
        for i in range(len(x)):
            x[i] = 0

    with pytest.raises(tr.errors.UnsupportedError, match="nothing is returned"):
        f(X)


def test_one_array_under_two_names_is_refused_where_it_is_written() -> None:
    @tr.loops
    def f(x, y):
        for i in range(len(x)):
            x[i] = y[-1 - i]
        return x

    with pytest.raises(tr.errors.UnsupportedError, match="the same array"):
        f(X, X)
    with pytest.raises(tr.errors.UnsupportedError, match="the same array"):
        f(X[:3], X[1:])
    assert f(X, X.copy()).tolist() == [5.0, 2.0, -1.0, 3.0]


def test_a_function_without_source_is_refused() -> None:
    scope: dict[str, Any] = {}
    exec("def f(x):\n    return x", scope)
    with pytest.raises(tr.errors.UnsupportedError, match="source"):
        tr.loops(scope["f"])


def test_a_variable_has_one_type() -> None:
    @tr.loops
    def f(x, k):
        s = 0
        for v in x:
            s = s + v
        if k > 3:
            s = k
        return s

    assert f(X, 1).dtype == np.float64
    assert f(np.arange(3, dtype=np.int32), 1).dtype == np.int32
    with pytest.raises(OverflowError, match="does not fit int32"):
        f(np.arange(3, dtype=np.int32), 2**40).item()
    with pytest.raises(OverflowError, match="no exact float64"):
        f(X, 2**60 + 1).item()


# -- running --------------------------------------------------------------------------------------
def forever(n):
    k = 0
    while n > 0:
        k = (k + 1) % 1000
    return k


@pytest.mark.measured
def test_an_interrupt_ends_a_program() -> None:
    found = tr.loops(forever)(1)
    main = threading.main_thread().ident
    timer = threading.Timer(0.5, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    began = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        found.item()
    assert time.perf_counter() - began < 60
    timer.join()


def test_programs_are_values() -> None:
    @tr.loops
    def f(x):
        for i in range(1, len(x)):
            x[i] += x[i - 1]
        return x

    lazy = f(tr.tensor(X))
    again = pickle.loads(pickle.dumps(lazy))
    assert again.tolist() == lazy.tolist() == np.cumsum(X).tolist()


def test_other_engines_run_programs() -> None:
    @tr.loops
    def f(x):
        y = x.copy()
        for i in range(1, len(x)):
            y[i] = max(y[i - 1], x[i])
        return y

    with tr.engines.local(sites=3) as engine, tr.options(engine=engine):
        assert f(X).tolist() == np.maximum.accumulate(X).tolist()


def test_positions_are_checked_where_that_is_asked() -> None:
    with tr.options(bounds=True):
        assert tr.loops(forever)(0).item() == 0
        np.testing.assert_allclose(tr.loops(product)(np.eye(3), np.eye(3)).to_numpy(), np.eye(3))


def test_the_memory_limit_holds() -> None:
    @tr.loops
    def f(n):
        A = np.zeros((n, n))
        for i in range(1, n):
            A[i, i] = A[i - 1, i - 1] + 1
        return A

    assert f(10).to_numpy()[9, 9] == 9
    with tr.options(memory="10MB"), pytest.raises(tr.errors.MemoryLimitError):
        f(3000).compute()
