"""nan and inf beside entries that are not stored: annihilated, with a warning; strict as NumPy."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import NonFiniteWarning

rng = np.random.default_rng(5)
numbers = count()
DENSE = np.where(rng.random((6, 8)) < 0.3, rng.random((6, 8)), 0.0)
Program = Callable[[tr.Tensor, np.ndarray], tr.Tensor]
ANNIHILATING: dict[str, Program] = {
    "product": lambda a, x: a @ x,
    "elementwise": lambda a, x: a * x,
    "quotient": lambda a, x: a / x,
    "einsum": lambda a, x: tr.einsum("ij,j->i", a, x),
    "of a formula": lambda a, x: (2 * a) * (x + 1),
    "sparse": lambda a, x: a * tr.tensor(np.tile(x, (6, 1)), "csr"),
}
OTHERS: dict[str, Program] = {
    "sum": lambda a, x: a + x,
    "maximum": lambda a, x: tr.maximum(a, x),
    "whole": lambda a, x: tr.exp(a) * x,
    "reduced": lambda a, x: a.sum(axis=0) * x,
    "itself": lambda a, x: a * a,
}


@pytest.fixture(autouse=True)
def planned_anew() -> Iterator[None]:
    """Settings that no other test has: their plans are made here."""
    with tr.options(memory=10**9 + next(numbers)), warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def special(value: float) -> np.ndarray:
    x = np.ones(8)
    x[3] = value
    return x


@pytest.mark.parametrize("name", ANNIHILATING)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("format", ["csr", "coo", "dok"])
def test_users_are_told(name: str, value: float, format: str) -> None:
    a, x = tr.tensor(DENSE, format), special(value)
    if name == "quotient" and value == value:
        ANNIHILATING[name](a, x).compute()  # 0 / inf is 0 in NumPy too
        return
    with pytest.warns(NonFiniteWarning, match="not stored"):
        found = ANNIHILATING[name](a, x).compute()
    assert np.isfinite(found.to_numpy()).any()
    with np.errstate(all="ignore"):
        wanted = ANNIHILATING[name](tr.asarray(DENSE), x).to_numpy()
    strict = ANNIHILATING[name](a, x).compute(strict=True).to_numpy()
    assert np.array_equal(np.isnan(strict), np.isnan(wanted))


@pytest.mark.parametrize("name", OTHERS)
def test_others_hear_nothing(name: str) -> None:
    OTHERS[name](tr.tensor(DENSE, "csr"), special(np.nan)).compute()


@pytest.mark.parametrize("name", ANNIHILATING)
def test_finite_and_dense_operands_hear_nothing(name: str) -> None:
    ANNIHILATING[name](tr.tensor(DENSE, "csr"), np.full(8, 1e308)).compute()
    if name != "sparse":
        ANNIHILATING[name](tr.asarray(DENSE), special(np.nan)).compute()


def test_a_plan_is_looked_at_once() -> None:
    a, x = tr.tensor(DENSE, "dcsr"), special(np.inf)
    with pytest.warns(NonFiniteWarning):
        (a @ x).compute()
    (a @ x).compute()
