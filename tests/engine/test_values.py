"""Numbers in formulas are values: a program seen once is not planned for another number."""

from __future__ import annotations

import itertools
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.engines.in_process import engine

FORMATS = ("dense", "csr", "csc", "coo", "dok", "bsr(2,2)", "dcsr")
SCALARS: dict[str, Callable[[Any, Any, float], Any]] = {
    "product": lambda xp, a, v: a * v,
    "sum": lambda xp, a, v: v + a,
    "difference": lambda xp, a, v: v - a * (v + 1),
    "quotient": lambda xp, a, v: a / v + v / (a + 9),
    "maximum": lambda xp, a, v: xp.maximum(a, v),
    "comparison": lambda xp, a, v: xp.sum(a > v, axis=1),
    "product of matrices": lambda xp, a, v: (a * v) @ (a + v),
    "sum of squares": lambda xp, a, v: xp.sum((a - v) * (a - v) + v),
    "two numbers": lambda xp, a, v: a * v + (a @ a) * (v / 3),
    "the same twice": lambda xp, a, v: a * v + xp.sum(a, axis=0) * v,
    "exponential": lambda xp, a, v: xp.exp(a * v) - v,
    "of a mean": lambda xp, a, v: (a - v) / (xp.sum(a) + v),
    "choice": lambda xp, a, v: xp.where(a > v, a * v, v),
    "choice of a constant": lambda xp, a, v: xp.where(a != 0, v, a),
    "power": lambda xp, a, v: xp.abs(a) ** v,
    "power of a constant": lambda xp, a, v: (abs(v) + 1) ** xp.minimum(a, 3.0),
    "clipped": lambda xp, a, v: xp.clip(a, -1.0, max(v, 0.0)),
    "traced function": lambda xp, a, v: tr.map(lambda x: x * v + xp.where(x > v, 1.0, v), a)
    if xp is tr else a * v + np.where(a > v, 1.0, v),
    "padded": lambda xp, a, v: xp.pad(a, 1, constant_values=v) @ xp.pad(a, 1),
}
PLACES: dict[str, Callable[[Any, int], Any]] = {
    "row": lambda a, k: a[k],
    "column": lambda a, k: a[:, k],
    "entry": lambda a, k: a[k, k // 2],
    "diagonal entry": lambda a, k: a[k, k],
    "rows": lambda a, k: a[k : k + 5],
    "columns": lambda a, k: a[:, k : k + 5],
    "every other": lambda a, k: a[k : k + 8 : 2, ::2],
    "backwards": lambda a, k: a[k : k - 6 : -1] if k >= 6 else a[k : k + 6][::-1],
    "rows times": lambda a, k: a[k : k + 5] @ a,
    "sum of a row": lambda a, k: (a[k] * a[k + 1]).sum(),
    "new axis": lambda a, k: a[k, None, 3:],
    "rolled": lambda a, k: np.roll(a, k, axis=0) @ a,
    "rolled back": lambda a, k: np.roll(a, -k, axis=1)[k],
    "diagonal": lambda a, k: np.diagonal(a, k) if k < 3 else np.diagonal(a[k : k + 6, 2:8]),
    "below a diagonal": lambda a, k: np.tril(a, k - 8) + np.triu(a, 8 - k),
    "flipped": lambda a, k: np.flip(a[k : k + 7], 1) * k,
}


def matrix(seed: int = 0, n: int = 24) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, n)) < 0.3, rng.random((n, n)) * 4 - 2, 0.0)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", SCALARS)
def test_other_numbers(name: str, format: str) -> None:
    """Special numbers, signs and dtypes among them, in any order."""
    program, dense = SCALARS[name], matrix()
    a = tr.tensor(dense, format=format)
    rng = np.random.default_rng(3)
    numbers: list[Any] = [0.3, 1.7, 2.9, 0.5, 2, 1, -1.25, 3, -2.5, 0, 0.7, 5, 7, -3, 1e300, np.inf,
                          np.nan, np.float32(0.1), -0.0, 1e-300, *rng.normal(size=8).tolist()]
    for v in numbers:
        with np.errstate(all="ignore"):
            expected = np.asarray(program(np, dense, v))
        if not np.isfinite(expected).all():
            continue  # what is not stored annihilates
        found = program(tr, a, v).compute()
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-9, atol=1e-9)
        if v == v and name in ("product", "sum"):
            assert found.fill == program(np, np.zeros(()), v)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", PLACES)
def test_other_places(name: str, format: str) -> None:
    program, dense = PLACES[name], matrix(1)
    a = tr.tensor(dense, format=format)
    for k in (7, 3, 11, 12, 0, 1, 2, 5, 17, 16, 4, 13, 14):
        found, expected = program(a, k), np.asarray(program(dense, k))
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-12)
        np.testing.assert_allclose(found.compute().to_numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("program", [
    lambda a, x, k: a * (k + 0.25), lambda a, x, k: a @ x + (k + 0.25),
    lambda a, x, k: (a * (k + 0.25)).sum(axis=0), lambda a, x, k: a[k], lambda a, x, k: a[:, k],
    lambda a, x, k: a[k, k + 1], lambda a, x, k: a[k : k + 5] @ x, lambda a, x, k: x[k : k + 4],
    lambda a, x, k: abs(a) ** (k + 0.25), lambda a, x, k: np.where(x > k + 0.25, x, k + 0.25),
    lambda a, x, k: np.clip(a, 0, k + 0.25), lambda a, x, k: np.roll(x, k)])
@pytest.mark.parametrize("format", ["dense", "csr"])
def test_the_second_number_is_not_planned(
        program: Callable[..., Any], format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    a, x = tr.tensor(matrix(2), format=format), tr.asarray(np.arange(24.0))
    program(a, x, 3).compute()
    monkeypatch.setattr(engine, "make_plan", None)
    for k in (6, 4, 13):
        expected = program(matrix(2), np.arange(24.0), k)
        np.testing.assert_allclose(program(a, x, k).compute().to_numpy(), expected, rtol=1e-12)


def test_plans_for_other_numbers_see_other_data() -> None:
    """The kinds and sizes of operands change between numbers."""
    rng = np.random.default_rng(5)
    for step in range(60):
        n = int(rng.integers(1, 30))
        dense = matrix(step, n)
        a = tr.tensor(dense, format=str(rng.choice(FORMATS[:5])))
        v, k = float(rng.normal()), int(rng.integers(n))
        np.testing.assert_allclose((a * v + v).to_numpy(), dense * v + v, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose((a[k] * v).to_numpy(), dense[k] * v, rtol=1e-12)


def test_kernels_that_were_not_foreseen_are_made_for_their_number() -> None:
    """Other settings need another kernel, which the plan for other numbers has not run."""
    dense, x = matrix(4), np.arange(24.0)
    a = tr.tensor(dense, format="csr")
    for v in (0.3, 1.7, 2.9, 3.1, 4.1, 5.3):
        for options in ({}, {"bounds": True}, {"verify": True}, {"threads": 1}, {"strict": True}):
            with tr.options(**options):
                np.testing.assert_allclose(((a * v) @ x + v).compute().to_numpy(),
                                           (dense * v) @ x + v, rtol=1e-12)
    for k, v in ((3, 0.3), (4, 1.7), (5, 2.9), (6, np.inf), (7, np.nan), (8, 3.3)):
        b = np.where(dense == 0, 0, v)  # products that hope for finite numbers
        t = tr.tensor(b, format="csr")
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = ((t * (v if v == v else 1.0)) @ tr.asarray(dense[:, k])).compute(strict=True)
            wanted = (b * (v if v == v else 1.0)) @ dense[:, k]
        np.testing.assert_allclose(found.to_numpy(), wanted, rtol=1e-9)


def formula(rng: np.random.Generator) -> Callable[[Any, list[Any], Any, Any], Any]:
    """A random formula over square matrices: its numbers are drawn when it is called."""
    kinds = [(int(rng.integers(13)), int(rng.integers(3))) for _ in range(int(rng.integers(2, 6)))]

    def write(xp: Any, given: list[Any], number: Any, place: Any) -> Any:
        t = given[0]
        for kind, other in kinds:
            u = given[other]
            match kind:
                case 0:
                    t = t * number()
                case 1:
                    t = number() - t
                case 2:
                    t = t + u * number()
                case 3:
                    t = xp.maximum(t, number())
                case 4:
                    t = (t @ u) * number() if t.shape[1:] == u.shape[:1] else t * number()
                case 5:
                    t = t / number() + number()
                case 6:
                    k = place()
                    t = t[k : k + 8] @ u if t.shape[1:] == u.shape[:1] else t
                    t = u - xp.sum(t, axis=0)
                case 7:
                    t = xp.where(t > number(), t, number())
                case 8:
                    t = xp.roll(t, place(), axis=-1)
                case 9:
                    t = xp.clip(t, -abs(number()), number() + 3)
                case 10:
                    t = xp.where(xp.abs(t) > 3, number(), t) - xp.tril(t, place() - 6) \
                        if t.ndim == 2 else t
                case 11:
                    t = t * u[place()] if t.shape[1:] == u.shape[1:] else t
                case _:
                    t = xp.abs(t) + u[place(), place()] * number()
        return t

    return write


@pytest.mark.parametrize("first", range(0, 90, 15))
def test_random_formulas_with_other_numbers(first: int) -> None:
    for number in range(first, first + 15):
        rng = np.random.default_rng([12, number])
        write, dense = formula(rng), [matrix(number + k, 20) for k in range(3)]
        tensors = [tr.tensor(d, format=str(rng.choice(FORMATS))) for d in dense]
        for draw in range(6):
            values = rng.choice([0.3, 1.5, 2.5, -0.75, 4.0, 2.0, 1.0, 3.0], 40).tolist() \
                if draw % 2 else rng.normal(size=40).tolist()
            places = rng.integers(0, 12, 40).tolist()
            made = []
            for xp, given in ((np, dense), (tr, tensors)):
                numbers, at = iter(values), iter(places)
                made.append(write(xp, given, lambda n=numbers: next(n), lambda p=at: next(p)))
            expected, found = made
            with tr.options(effort="quick"):
                result = found.compute()
            scale = 1 + np.abs(expected).max()
            np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-9, atol=1e-9 * scale,
                                       err_msg=f"formula {number}, draw {draw}")


@pytest.mark.parametrize("format", ["dense", "csr"])
def test_numbers_after_other_settings(format: str) -> None:
    """A plan that is made later asks more of numbers than those before did."""
    x, big = np.array([[1, 9, 3], [4, 100, 0]]), 2**63 - 1
    programs: list[Callable[[Any, Any, int], Any]] = [
        lambda xp, x, v: xp.minimum(x, v), lambda xp, x, v: xp.maximum(x, -v - 1),
        lambda xp, x, v: (x + v) - 5, lambda xp, x, v: xp.sum(xp.minimum(x, v), axis=0)]
    settings = ({"optimize": False}, {"strict": True}, {"disabled": ("expand",)}, {"bounds": True},
                {}, {"format": "coo"}, {"effort": "quick"})
    for n, program in enumerate(programs):
        for k, (one, two) in enumerate(itertools.permutations(settings, 2)):
            y = np.vstack([x] * (2 + n + len(programs) * k))  # a formula that is new
            a = tr.tensor(y, format=format)
            for v, options in ((big, one), (5, two), (big, two), (5, one)):
                found = program(tr, a, v).compute(**options).to_numpy()
                assert np.array_equal(found, program(np, y, v)), (n, one, two, v)


def test_threads_with_other_numbers() -> None:
    """Two threads plan one formula, each with a number of its own."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for n in range(2, 60):
            x = (np.arange(n * 7).reshape(n, 7) * 37) % 101
            a, found, start = tr.asarray(x), dict[int, Any](), threading.Barrier(2)

            def go(v: int, a: Any = a, found: Any = found, start: Any = start) -> None:
                start.wait()
                found[v] = tr.minimum(a, v).to_numpy()

            threads = [threading.Thread(target=go, args=(v,)) for v in (2**63 - 1, 5)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            for v, array in found.items():
                assert np.array_equal(array, np.minimum(x, v)), (n, v)
    finally:
        sys.setswitchinterval(before)


#: With a tensor whose fill is a number, and that number: few entries come out.
FITTING: dict[str, Callable[[Any, Any, float], Any]] = {
    "difference": lambda y, z, v: y - v,
    "comparisons": lambda y, z, v: (y != v) | (y > v) & (y >= v),
    "choice of places": lambda y, z, v: tr.where(z > 0, y, v),
    "choice of values": lambda y, z, v: tr.where(y > v, y, v),
    "bounds": lambda y, z, v: tr.clip(tr.minimum(tr.maximum(y, v), v + 9), v, v + 2),
    "padded": lambda y, z, v: tr.pad(y, 2, constant_values=v),
    "padded sum": lambda y, z, v: tr.pad(z + v, 2, constant_values=v),
    "triangle of a difference": lambda y, z, v: tr.tril(y - v),
    "sum of a difference": lambda y, z, v: tr.sum(y - v, axis=0),
    "joined": lambda y, z, v: tr.concat([y, tr.full((y.shape[0], 5), v)], axis=1),
    "close": lambda y, z, v: tr.isclose(y, v),
    "shifted": lambda y, z, v: tr.roll(y, 3, axis=0) - v,
}


@pytest.mark.parametrize("name", FITTING)
def test_numbers_that_equal_a_fill(name: str) -> None:
    """What a plan for other numbers knows of this one is enough: nothing grows with the extent."""
    n = 2**40
    for v in (0.0, 2.0, 150.0, -7.5, 1 / 3):
        y = tr.from_coo([[0, 5], [0, 7]], [1.0, 4.0], (n, n), fill=v)
        z = tr.from_coo([[0, 5], [0, 7]], [1.0, 4.0], (n, n))
        lazy = FITTING[name](y, z, v)
        promised = lazy.fill
        found = lazy.compute()
        assert found.fill == promised and found.nbytes < 1000, (v, found)
