"""Conversions: charged by how they are made, and once."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

import tensorel as tr
from tensorel.config import Config
from tensorel.costs import SHIPPED
from tensorel.engines.binding import bind
from tensorel.engines.in_process.engine import known_of, plan_for
from tensorel.ir.nodes import Source
from tensorel.plan.physical import ConvertStep, KernelStep, Plan
from tensorel.plan.slot_facts import Known
from tensorel.plan.steps.conversions import by_kernel, conversion_cost
from tensorel.storage.registry import resolve


def matrix(n: int, count: int, format: str, seed: int = 0) -> tr.Tensor:
    rng = np.random.default_rng(seed)
    cells = np.unique(rng.integers(0, n * n, count))
    return tr.from_coo((cells // n, cells % n), rng.random(cells.size), (n, n), format=format)


def known(t: tr.Tensor) -> Known:
    bound = bind([t.node], [None], Config())
    (source,), (stored,) = bound.slots, bound.stored.values()
    assert isinstance(source, Source)
    return known_of(source, stored)


def plan_of(*tensors: tr.Tensor) -> Plan:
    formats = [None] * len(tensors)
    bound = bind([t.node for t in tensors], formats, Config())
    return plan_for(bound, formats, Config(), anew=True).plan


def cost(have: str, want: str, count: int = 1000, n: int = 1000) -> float:
    t = matrix(n, count, have)
    return conversion_cost(known(t), resolve(want, t.shape, t.dtype), SHIPPED)


def test_kinds_of_conversions() -> None:
    assert cost("dcsr", "csr") < cost("csr", "csc")  # the order stays
    assert cost("csr", "dense") == 1e6 * SHIPPED.convert_cell + SHIPPED.convert_start
    assert cost("csr", "csc", 100_000) < 100_000 * SHIPPED.convert_sort  # in buckets
    both = tr.alternatives(matrix(1000, 1000, "csr"), matrix(1000, 1000, "csc"))
    other = resolve("csc", both.shape, both.dtype)
    assert conversion_cost(known(both), other, SHIPPED) == 0.0
    assert not by_kernel(known(both), other, SHIPPED)


@pytest.mark.parametrize("have, want", [("csr", "csc"), ("csc", "csr"), ("coo", "csc"),
                                        ("dcsr", "csc"), ("dcsc", "csr")])
def test_long_lists_are_turned_by_a_kernel(have: str, want: str) -> None:
    a, b = matrix(900, 80_000, have), matrix(900, 80_000, want, seed=1)
    assert by_kernel(known(a), resolve(want, a.shape, a.dtype), SHIPPED)
    total = a + b
    steps = plan_of(total).steps
    assert len(steps) == 2 and all(isinstance(s, KernelStep) for s in steps)
    np.testing.assert_array_equal(np.asarray(total), np.asarray(a) + np.asarray(b))


def test_a_converted_copy_is_paid_once() -> None:
    a, b, c = (matrix(300, 3000, f, seed) for seed, f in enumerate(("csr", "csc", "csc")))
    steps = plan_of(a + b, a * b + c).steps
    assert sum(isinstance(s, ConvertStep) for s in steps) < 3
    kernels = [s for s in steps if isinstance(s, KernelStep)]
    least = 3000 * SHIPPED.convert_sort + SHIPPED.convert_start
    assert all(s.cost < least for s in kernels), "conversions pay themselves"
    for t, expected in ((a + b, np.asarray(a) + np.asarray(b)),
                        (a * b + c, np.asarray(a) * np.asarray(b) + np.asarray(c))):
        np.testing.assert_allclose(np.asarray(t), expected)


def test_a_level_is_searched_where_it_is_long_and_merged_where_it_is_short() -> None:
    """A coordinate list has thousands of entries at its first level and a few below: a search of
    the first says nothing about the second."""
    tall, few = matrix(2000, 8000, "coo"), matrix(2000, 60, "dcsr", seed=1)
    total = few * tall
    (step,) = plan_of(total).steps
    assert isinstance(step, KernelStep) and step.nest is not None
    assert {k for _, k in step.nest.gallop} == {0}
    np.testing.assert_array_equal(total.to_numpy(), few.to_numpy() * tall.to_numpy())
    turned = tr.einsum("ij,ji->ij", matrix(300, 9000, "coo"), matrix(300, 4000, "dcsr", seed=2))
    wanted = matrix(300, 9000, "coo").to_numpy() * matrix(300, 4000, "dcsr", seed=2).to_numpy().T
    np.testing.assert_array_equal(turned.to_numpy(), wanted)


def test_matrices_searched_in_long_lists_are_turned() -> None:
    """Loops over i, k, j, l follow C by columns, but would search columns of thousands of
    entries; by rows they are found in lists of one or two."""
    rng = np.random.default_rng(5)
    shape, rank = (1000, 1000, 60_000), 25
    cells = tuple(rng.integers(0, n, 150_000) for n in shape)
    a = tr.from_coo(cells, rng.random(150_000), shape, format="csf", duplicates="sum")
    x = sp.random_array((shape[1], rank), density=1 / 32, rng=rng, format="csr")
    y = sp.random_array((shape[2], rank), density=1 / 32, rng=rng, format="csr")
    coords, values = a.to_coo()
    fibres = x.toarray()[coords[1]] * y.toarray()[coords[2]] * values[:, None]
    want = np.zeros((shape[0], rank))
    np.add.at(want, coords[0], fibres)
    rows, columns = (tr.einsum("ikl,kj,lj->ij", a, tr.asarray(x), tr.asarray(c))
                     for c in (y, y.tocsc()))
    only, = plan_of(rows).steps
    first, second = plan_of(columns).steps
    assert first.target.format.name == "csr" and first.shape == y.shape
    assert isinstance(second, KernelStep) and first.target.name in second.operands
    assert second.cost == pytest.approx(only.cost)
    np.testing.assert_allclose(columns.compute().to_numpy(), want, rtol=1e-9, atol=1e-12)
