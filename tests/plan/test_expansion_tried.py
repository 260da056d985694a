"""Expansion is left out only where it cannot win: plans cost what they would if it were tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import current
from tensorel.engines.in_process import engine
from tensorel.plan import pipeline
from tensorel.plan.definitions import Program
from tensorel.plan.variants import rewritings


def term(rng: Random, n: int, m: int) -> tr.Tensor:
    """A part of a sum over n rows and m columns, sparse or dense, given or a product."""
    draw = np.random.default_rng(rng.randrange(2**32))

    def sparse(rows: int, columns: int, fmt: str) -> tr.Tensor:
        values = draw.random((rows, columns))
        return tr.asarray(values * (values < rng.choice([0.003, 0.03]))).to_format(fmt)

    def dense(*shape: int) -> tr.Tensor:
        return tr.asarray(draw.random(shape))

    rank = rng.choice([1, 3, 20])
    makers: list[Callable[[], tr.Tensor]] = [
        lambda: sparse(n, m, "csr"), lambda: sparse(n, m, "csc"), lambda: sparse(n, m, "coo"),
        lambda: dense(n, rank) @ dense(rank, m), lambda: dense(n, 1), lambda: dense(1, m),
        lambda: dense(n, m), lambda: sparse(n, 50, "csr") @ dense(50, m)]
    return rng.choice(makers)()


def program(seed: int) -> tr.Tensor:
    """A sum of terms, perhaps squared, perhaps beside another factor, reduced."""
    rng = Random(seed)
    n, m = rng.choice([100, 400]), rng.choice([100, 400])
    value = term(rng, n, m) + term(rng, n, m)
    if rng.random() < 0.4:
        value = value**2
    if rng.random() < 0.7:
        value = value * term(rng, n, m)
    if value.shape != (n, m):
        return value.sum()
    makers: list[Callable[[], tr.Tensor]] = [
        lambda: value.sum(), lambda: value.sum(axis=0), lambda: value.sum(axis=1),
        lambda: value @ tr.asarray(np.ones(m)), lambda: value @ tr.asarray(np.ones((m, 8)))]
    return rng.choice(makers)()


def gradient(n: int) -> tr.Tensor:
    """Of a regression over a star join: the sum is a small part of the work."""
    rng = np.random.default_rng(0)
    key = np.zeros((n, 30))
    key[np.arange(n), rng.integers(30, size=n)] = 1
    x = tr.concatenate([tr.asarray(rng.random((n, 6))), tr.asarray(key).to_format("csr")
                        @ tr.asarray(rng.random((30, 5)))], axis=1)
    return x.T @ (x @ tr.asarray(rng.random(11)) - tr.asarray(rng.random(n)))


def weighted() -> tr.Tensor:
    draw = np.random.default_rng(2)
    w = tr.asarray((draw.random((1500, 1500)) < 0.02) * 1.0).to_format("csr")
    u = tr.asarray(draw.random((1500, 5)))
    return (w * (w - u @ u.T)**2).sum()


def cost(t: tr.Tensor) -> float:
    bound = engine.bind([t.node], [None], current())
    return engine.plan_for(bound, [None], current(), anew=True).plan.cost


@pytest.mark.parametrize("seed", range(30))
def test_plans_cost_what_they_would_if_it_were_always_tried(
        seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    t = program(seed)
    found = cost(t)
    monkeypatch.setattr(rewritings, "may_pay", lambda program, lam: True)
    assert found <= 1.05 * cost(t)


@pytest.mark.parametrize("make", [lambda: gradient(500), weighted])
def test_it_is_not_tried_where_it_cannot_win(
        make: object, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Program] = []
    t = make()  # type: ignore[operator]
    found = cost(t)
    expand = next(p for p in pipeline.PASSES if p.name == "expand")

    def write(program: Program) -> Program | None:
        other = expand.run(program)
        tried.extend([] if other is None else [other])
        return other

    monkeypatch.setattr(pipeline, "PASSES", tuple(
        replace(expand, run=write) if p is expand else p for p in pipeline.PASSES))
    assert cost(t) == found and not tried
    monkeypatch.setattr(rewritings, "may_pay", lambda program, lam: True)
    assert cost(t) == found and tried
