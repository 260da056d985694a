"""Lengths of slices are values: a plan for one of them holds for others of about its size."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from measures import calls
from tensorel.engines import evaluation, formulas, programs
from tensorel.engines.in_process import engine
from tensorel.errors import MemoryLimitError, ShapeError
from tensorel.kernels.runtime import compiled

FORMATS = ("dense", "csr", "csc", "coo", "dok", "bsr(2,2)", "dcsr", "dense_f")
#: Of a square matrix of 24 rows, a vector, a place and a length.
PROGRAMS: dict[str, Callable[[Any, Any, Any, int, int], Any]] = {
    "rows": lambda xp, a, x, k, n: a[k : k + n],
    "columns": lambda xp, a, x, k, n: a[:, k : k + n] * 2.5,
    "every other": lambda xp, a, x, k, n: a[k : k + n : 2, 1::3],
    "backwards": lambda xp, a, x, k, n: a[k : k + n][::-1] - a[0],
    "slice of a slice": lambda xp, a, x, k, n: a[k : k + n][1:, : n // 2 + 1],
    "entries of a row": lambda xp, a, x, k, n: a[k, :n] + x[:n],
    "rows times": lambda xp, a, x, k, n: a[k : k + n] @ a,
    "rows times a vector": lambda xp, a, x, k, n: a[k : k + n] @ x,
    "columns times rows": lambda xp, a, x, k, n: a[:, k : k + n] @ a[k : k + n],
    "columns times entries": lambda xp, a, x, k, n: a[:, k : k + n] @ x[k : k + n],
    "of a product": lambda xp, a, x, k, n: (a @ a)[k : k + n, :n],
    "three factors": lambda xp, a, x, k, n: a[:n] @ a @ a[:, :n],
    "Gram": lambda xp, a, x, k, n: a[k : k + n].T @ a[k : k + n],
    "covered twice": lambda xp, a, x, k, n: a[k : k + n] + a[:n] * x,
    "sum": lambda xp, a, x, k, n: xp.sum(a[k : k + n]),
    "sums": lambda xp, a, x, k, n: xp.sum(a[k : k + n], axis=0) + xp.sum(a[:, :n], axis=1),
    "sum over a background": lambda xp, a, x, k, n: xp.sum(a[k : k + n] + 1.5, axis=0),
    "sum of a square": lambda xp, a, x, k, n: xp.sum((a[:n, :n] - 0.5) * a[:n, :n]),
    "product over a background": lambda xp, a, x, k, n: xp.prod(a[k : k + n] + 1.0, axis=0),
    "largest": lambda xp, a, x, k, n: xp.max(a[k : k + n] - 0.25, axis=1),
    "mean": lambda xp, a, x, k, n: xp.mean(a[k : k + n], axis=0) * n,
    "variance": lambda xp, a, x, k, n: xp.var(a[k : k + n] @ a, axis=0),
    "count": lambda xp, a, x, k, n: xp.sum(a[k : k + n] > 0.1, axis=0),
    "comparison": lambda xp, a, x, k, n: a[k : k + n] > x[: a.shape[1]],
    "choice": lambda xp, a, x, k, n: xp.where(a[k : k + n] > 0.3, a[k : k + n], -1.0) @ a,
    "exponential": lambda xp, a, x, k, n: xp.exp(a[k : k + n]) @ x,
    "outer": lambda xp, a, x, k, n: a[k, :n, None] * x[None, k : k + n],
    "samples": lambda xp, a, x, k, n: a[k : k + n] * (a[k : k + n] @ a),
    "triangle": lambda xp, a, x, k, n: xp.tril(a[:n, :n]) @ a[:n],
    "diagonal": lambda xp, a, x, k, n: np.diagonal(a[:n, k : k + n]) * x[:n],
    "rolled": lambda xp, a, x, k, n: xp.roll(a[k : k + n], 1, axis=0) @ x,
    "joined": lambda xp, a, x, k, n: xp.concat([a[:n], a[k : k + n]], axis=0) @ a,
    "flat": lambda xp, a, x, k, n: xp.reshape(a[k : k + n], (-1,)) * 3.5,
    "padded": lambda xp, a, x, k, n: xp.pad(a[k : k + n], 1) @ xp.pad(a, 1),
    "running": lambda xp, a, x, k, n: xp.cumulative_sum(a[k : k + n], axis=0),
    "sorted": lambda xp, a, x, k, n: xp.sort(a[k : k + n] @ a, axis=1),
    "einsum": lambda xp, a, x, k, n: xp.einsum("ij,kj,k->i", a[k : k + n], a, x),
    "whole numbers": lambda xp, a, x, k, n: xp.sum(xp.astype(a[k : k + n] * 9, "int32"), axis=0),
}
ORDER = (7, 4, 6, 5, 0, 9, 1, 12, 2, 15, 8, 24, 10, 17, 23)


def matrix(seed: int = 0, n: int = 24) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, n)) < 0.3, rng.random((n, n)) * 4 - 2, 0.0)


def same(found: Any, expected: Any, about: object = "") -> None:
    expected = np.asarray(expected)
    result = found.compute()
    assert found.shape == result.shape == expected.shape, about
    assert result.dtype == expected.dtype, about
    assert all(type(n) is int for n in (*found.shape, *result.shape)), about
    np.testing.assert_allclose(result.to_numpy(), expected, rtol=1e-9, atol=1e-9,
                               err_msg=str(about))


@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")  # of means of nothing
@pytest.mark.parametrize("format", ["dense", "csr", "dok"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_lengths(name: str, format: str) -> None:
    """None, one and all rows among them, in any order."""
    program, dense = PROGRAMS[name], matrix()
    vector = np.arange(24.0) - 7
    a, x = tr.tensor(dense, format=format), tr.asarray(vector)
    for n in ORDER:
        k = min(24 - n, 3 + n % 5)
        try:
            with np.errstate(all="ignore"):
                expected = program(np, dense, vector, k, n)
        except ValueError:
            with pytest.raises(Exception):  # noqa: B017 (as NumPy refuses)
                program(tr, a, x, k, n).compute()
            continue
        if np.isfinite(np.asarray(expected)).all():
            same(program(tr, a, x, k, n), expected, n)


SLICES: list[Callable[..., Any]] = [
    lambda a, x, k, n: a[k : k + n] @ x, lambda a, x, k, n: a[k : k + n] @ a,
    lambda a, x, k, n: a[:, k : k + n] @ x[k : k + n], lambda a, x, k, n: a[k : k + n] * 2.5,
    lambda a, x, k, n: a[k : k + n].sum(axis=0), lambda a, x, k, n: a[k : k + n].sum(axis=1),
    lambda a, x, k, n: (a[k : k + n] @ a).sum(), lambda a, x, k, n: x[k : k + n] + 1.5,
    lambda a, x, k, n: a[k : k + n].T @ a[k : k + n], lambda a, x, k, n: a[k : k + n] + a[:n],
    lambda a, x, k, n: np.exp(a[k : k + n, :n]), lambda a, x, k, n: np.where(x[:n] > 2, x[:n], 0),
    lambda a, x, k, n: np.sum(a[k : k + n], axis=0) + np.sum(a[:, :n], axis=1),
    lambda a, x, k, n: np.maximum(a[k : k + n], x), lambda a, x, k, n: a[:n] @ a @ a[:, :n]]


@pytest.mark.parametrize("number", range(len(SLICES)))
@pytest.mark.parametrize("format", ["dense", "csr"])
def test_the_third_length_is_not_planned(
        number: int, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one is planned for itself, the second for all of about its size."""
    program, dense, vector = SLICES[number], matrix(2, 29), np.arange(29.0)  # seen here alone
    a, x = tr.tensor(dense, format=format), tr.asarray(vector)
    for k, n in ((3, 8), (3, 9)):
        same(program(a, x, k, n), program(dense, vector, k, n))
    monkeypatch.setattr(engine, "make_plan", None)
    before = set(compiled.compiled_kernels)  # one for each step, whatever the length
    for k, n in ((6, 12), (5, 15), (9, 10), (4, 8), (7, 13)):
        same(program(a, x, k, n), program(dense, vector, k, n), n)
    assert set(compiled.compiled_kernels) == before


def formula(rng: np.random.Generator) -> Callable[[Any, list[Any], Any, Any], Any]:
    """A random formula over matrices of 20 columns, which cuts them to lengths that are drawn when
    it is called."""
    kinds = [(int(rng.integers(14)), int(rng.integers(3))) for _ in range(int(rng.integers(2, 6)))]

    def write(xp: Any, given: list[Any], length: Any, place: Any) -> Any:
        n = length()
        t = given[0][:n]  # n rows; as many columns as all have
        for kind, other in kinds:
            u, k = given[other], place()
            match kind:
                case 0:
                    t = t @ u
                case 1:
                    t = t * 1.5 + u[k : k + t.shape[0]]
                case 2:
                    t = u - xp.sum(t, axis=0)
                case 3:
                    t = t[: length()]
                case 4:
                    m = length()
                    t = t[:, k : k + m] @ u[k : k + m]
                case 5:
                    t = t.T @ t
                case 6:
                    t = xp.where(t > 0.5, t, u[k : k + t.shape[0]])
                case 7:
                    t = xp.maximum(t, -0.25)
                case 8:
                    t = t * (t @ u)
                case 9:
                    t = t - xp.sum(t, axis=1, keepdims=True) / t.shape[1]
                case 10:
                    t = xp.tril(t, k - 3)
                case 11:
                    t = t[::-1]
                case 12:
                    t = xp.roll(t, k, axis=0) * xp.max(t)
                case _:
                    t = xp.concat([t, u[: length()]], axis=0)[: t.shape[0]]
        return t

    return write


@pytest.mark.parametrize("first", [0, 15])
def test_random_formulas_with_other_lengths(first: int) -> None:
    for number in range(first, first + 15):
        rng = np.random.default_rng([27, number])
        write, dense = formula(rng), [matrix(number + k, 20) for k in range(3)]
        tensors = [tr.tensor(d, format=str(rng.choice(FORMATS))) for d in dense]
        for draw in range(6):
            lengths = rng.choice([1, 2, 5, 6, 7, 9, 11, 12, 20] if draw % 2 else
                                 [4, 5, 6, 7], 40).tolist()
            places = rng.integers(0, 8, 40).tolist()
            made: list[Any] = []
            for xp, given in ((np, dense), (tr, tensors)):
                sizes, at = iter(lengths), iter(places)
                try:
                    made.append(write(xp, given, lambda s=sizes: next(s), lambda p=at: next(p)))
                except (ValueError, ShapeError):
                    made.append(None)
            expected, found = made
            if expected is None:
                assert found is None
                continue
            scale = 1 + np.abs(expected).max(initial=0)
            with tr.options(effort="quick"):
                same(found * (1 / scale), expected * (1 / scale), (number, draw))


def test_lengths_under_other_settings() -> None:
    dense, x = matrix(4), np.arange(24.0)
    a = tr.tensor(dense, format="csr")
    settings: tuple[dict[str, Any], ...] = (
        {}, {"strict": True}, {"bounds": True}, {"verify": True}, {"threads": 1}, {"threads": 2},
        {"optimize": False}, {"disabled": ("expand", "order_contractions")}, {"check": True})
    for n in (5, 6, 7, 4, 9):
        for options in settings:
            with tr.options(**options):
                same((a[n : n + n] @ a)[:, :n] * 1.5, (dense[n : n + n] @ dense)[:, :n] * 1.5)
                same(np.sum(a[:n] + 1.0, axis=0) * x, np.sum(dense[:n] + 1.0, axis=0) * x)


def test_plans_for_other_lengths_see_other_data() -> None:
    """The kinds and sizes of operands change between lengths."""
    rng = np.random.default_rng(5)
    for step in range(25):
        rows = int(rng.integers(5, 30))
        dense = matrix(step, rows)
        a = tr.tensor(dense, format=str(rng.choice(FORMATS[:5])))
        n, k = int(rng.integers(rows)), int(rng.integers(rows))
        same(a[k : k + n] @ a, dense[k : k + n] @ dense, step)
        same((a[:n] * a[0]).sum(axis=1), (dense[:n] * dense[0]).sum(axis=1), step)


def test_limits_are_those_of_the_length() -> None:
    """A plan for a short slice does not let a long one past the limit, nor refuses a short one."""
    x = tr.asarray(np.arange(4000.0))
    for n in (600, 700, 1000, 800, 900, 650, 1023):
        needed = 8 * n * n
        with tr.options(memory=6_000_000):
            program = x[:n, None] * x[None, :n] + 1.5
            if needed > 6_000_000:
                with pytest.raises(MemoryLimitError):
                    program.compute()
            elif needed < 5_000_000:
                assert program.compute().shape == (n, n)
    s = tr.from_coo([[0, 3000], [0, 3000]], [1.0, 2.0], (4000, 4000))
    for n in (2100, 2200, 4000, 2300, 3900):
        with tr.options(densify=8 * 3000 * 3000):
            program = (s[:n, :n] + 1.0) @ x[:n, None] + s[:n, :n]
            if n > 3000:
                with pytest.raises(MemoryLimitError):
                    program.compute()
            else:
                assert program.compute().shape == (n, n)


def test_results_are_kept_with_their_length() -> None:
    dense = matrix(6)
    a = tr.asarray(sp.csr_array(dense), copy=True)
    products = {n: a[:n] @ a for n in (8, 9, 12, 15, 10)}
    sums = {n: p.sum(axis=0) for n, p in products.items()}
    for n, total in sums.items():
        same(total, (dense[:n] @ dense).sum(axis=0))
        same(products[n], dense[:n] @ dense)
        same(products[n][:5] * 2.0, (dense[:n] @ dense)[:5] * 2.0)


def test_lengths_that_do_not_fit_are_refused() -> None:
    a = tr.tensor(matrix(7), format="csr")
    for n in (8, 9, 10, 11):
        same(a[:, :n] @ a[:n], matrix(7)[:, :n] @ matrix(7)[:n])
        with pytest.raises(ShapeError):
            a[:, :n] @ a[: n + 1]
        with pytest.raises(ShapeError):
            a[:n] + a[: n + 2]


def test_explained_plans_are_of_their_length() -> None:
    a = tr.tensor(matrix(8), format="csr")
    for n in (8, 9, 12, 13):
        lazy = a[:n] @ a
        lazy.compute()
        assert f"({n}, 24)" in str((a[:n] @ a).explain())


def test_calls_of_a_length_never_seen() -> None:
    """A plan takes ten thousand and more."""
    rng = np.random.default_rng(0)
    a = tr.asarray(sp.random_array((500, 300), density=0.01, format="csr", rng=rng))
    w = tr.asarray(rng.random((300, 8)))
    for n in range(64, 100):
        called, _ = calls(lambda n=n: (a[n : 2 * n] @ w).compute())
    assert called < 900


def test_lazy_slices_are_pickled() -> None:
    a = tr.asarray(sp.csr_array(matrix(9)))
    for n in (8, 9, 10):
        same(pickle.loads(pickle.dumps(a[:n] @ a)), matrix(9)[:n] @ matrix(9))


LIMITS = ((formulas, "MAX_SHAPES"), (evaluation, "MAX_PLANS"), (formulas, "MAX_RECORDS"),
          (programs, "MAX_REMEMBERED"))


@pytest.mark.parametrize("limits", [LIMITS[:1], LIMITS[1:3], LIMITS],
                         ids=["shapes", "plans", "all"])
def test_what_is_forgotten_is_found_out_again(monkeypatch: pytest.MonkeyPatch,
                                              limits: tuple[tuple[Any, str], ...]) -> None:
    """More lengths than are remembered, the first of them among the last."""
    for module, name in limits:
        monkeypatch.setattr(module, name, 2)
    a, x = matrix(10), np.arange(24.0)
    t, v = tr.asarray(sp.csr_array(a)), tr.asarray(x)
    for n in (8, 9, 10, 11, 12, 8, 13, 8, 9, 14, 15, 8, 2, 20, 8, 16, 8):
        for k in (0, 3, n % 5):
            same(t[k : k + n] @ v, a[k : k + n] @ x)
            same((t[k : k + n] * 2 + 1)[:, :n].sum(axis=0),
                 (a[k : k + n] * 2 + 1)[:, :n].sum(axis=0))
