"""Products and orders of loops that are the same up to names of indices."""

from __future__ import annotations

from itertools import permutations
from random import Random

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.config import current
from tensorel.engines.in_process import engine
from tensorel.plan.contraction import eliminate
from tensorel.plan.contraction.join_sizes import Factor
from tensorel.plan.contraction.renaming import shape_of
from tensorel.plan.loops import nests

Reads = frozenset[tuple[str, tuple[int, ...]]]
TENSORS = ("turned", "mirrored")


def random_reads(rng: Random) -> Reads:
    """Matrices at places; those that are mirrored at both in any order."""
    return frozenset((rng.choice(TENSORS), tuple(rng.sample(range(4), 2)))
                     for _ in range(rng.randint(2, 4)))


def placed(reads: Reads, places: tuple[int, ...]) -> Reads:
    return frozenset((t, tuple([places[k] for k in at])) for t, at in reads)


def plain(reads: Reads) -> Reads:
    return frozenset((t, tuple(sorted(at)) if t == "mirrored" else at) for t, at in reads)


def shape(reads: Reads, gone: int) -> object:
    found = []
    for t, (a, b) in sorted(reads):
        axes = ((1 << a) | (1 << b),) if t == "mirrored" else (1 << a, 1 << b)
        found.append(Factor(1 << len(found), (1 << a) | (1 << b), None, True, True,
                            tensor=TENSORS[TENSORS.index(t)], axes=axes))
    return shape_of(found, gone, {1 << k: 10.0 for k in range(4)})


@pytest.mark.parametrize("seed", range(150))
def test_shapes_are_equal_for_renamed_products_alone(seed: int) -> None:
    rng = Random(seed)
    first, second = plain(random_reads(rng)), plain(random_reads(rng))
    turn = tuple(rng.sample(range(4), 4))
    assert shape(first, 1) == shape(plain(placed(first, turn)), 1 << turn[0])
    for other in (second, plain(placed(first, turn))):
        if any(0 in at for _, at in first) and any(0 in at for _, at in other):
            same = any(plain(placed(first, (0, *p))) == other for p in permutations((1, 2, 3)))
            assert (shape(first, 1) == shape(other, 1)) == same


def graph(seed: int, symmetric: bool) -> tr.Tensor:
    a = sp.random_array((150, 150), density=0.08, rng=np.random.default_rng(seed), format="csr")
    return tr.asarray(sp.csr_array(a + a.T) if symmetric else a)


def cost(t: tr.Tensor) -> float:
    bound = engine.bind([t.node], [None], current())
    return engine.plan_for(bound, [None], current(), anew=True).plan.cost


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("spec", [
    "ij,jk,ik->", "ij,jk,kl,li->", "ij,ik,il,jk,jl,kl->", "ij,jk,ki->i", "ij,jk,kl,lm->im",
    "ij,ik,jk,kl->l", "ij,ik,jl,kl->jk", "ij,jk,kl,li,ik->"])
def test_plans_cost_what_they_would_if_each_were_looked_at(
        spec: str, symmetric: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    t = graph(1, symmetric)
    program = tr.einsum(spec, *[t] * (spec.count(",") + 1))
    found = cost(program)
    monkeypatch.setattr(nests, "alike", lambda *_: None)
    monkeypatch.setattr(eliminate, "has_repeats", lambda _: False)
    assert found == pytest.approx(cost(program), rel=1e-9)
