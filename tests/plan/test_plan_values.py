"""Plans are values: equal and printed alike in every process, never changed by running, and run
elsewhere with the same bits."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import FrozenInstanceError, fields, replace
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.config import Config, current
from tensorel.engines.binding import Bound, bind
from tensorel.engines.in_process.engine import Run, execute, plan_for
from tensorel.engines.in_process.plan_state import PlanState
from tensorel.plan.physical import BlasStep, BulkStep, ConvertStep, KernelStep, Plan, ViewStep
from tensorel.storage.stored import Stored

ELL = 'storage ["ell", ["sum(<i,_> in 0:M, <s,_> in 0:len(i)) ' \
    '{ (i, idx(i*K+s)) -> val(i*K+s) }", {}]]'


def programs() -> dict[str, tr.Tensor]:
    rng = np.random.default_rng(3)
    x, y = (np.where(rng.random((40, 40)) < 0.2, rng.random((40, 40)), 0) for _ in range(2))
    a, b = tr.tensor(x, format="csr"), tr.tensor(y, format="csr")
    d, v = tr.asarray(rng.random((40, 40))), tr.asarray(rng.random(40))
    places = tr.asarray(rng.integers(0, 40, 12))
    reduced = tr.reduce(lambda s, t: s + t - s * t, a, axis=1, identity=0.0)
    either = reduced.node.body.op  # type: ignore[attr-defined]
    deep = v
    for k in range(60):
        deep = tr.maximum(deep * 0.5, v - k)
    return {
        "sparse by dense": a @ d,
        "sparse product": a @ b,
        "three operands": tr.einsum("ij,jk,k->i", a, b, v),
        "triangles": tr.einsum("ij,jk,ik->", a, a, a),
        "blas": d @ (d + 1.0),
        "blas beside kernels": tr.tanh(a @ d) @ d,
        "sort": tr.sort(a @ d, axis=1),
        "ranking": tr.argmax(a * 2.0, axis=0),
        "rows": a[5:20],
        "transposed": a.T,
        "conversion": a,
        "map": tr.map(lambda s, t: s * t + s, a, b),
        "user's monoid": reduced,
        "user's semiring": tr.einsum("ij,j->i", a, v, add=either, mul=tr.min),
        "user's product": tr.map(lambda s, t: s * t + s, a, b).max(axis=0),
        "user's storage": tr.tensor(x, format=ELL) @ v,
        "gather": a[places],
        "long": deep.sum(),
    }


NAMES = tuple(programs())
FORMATS = {"conversion": "bsr"}


def planned(name: str, program: tr.Tensor) -> tuple[Bound, PlanState, Config]:
    config = current()
    formats = [FORMATS.get(name)]
    bound = bind([program.node], formats, config)
    return bound, plan_for(bound, formats, config, anew=True), config


def bits(results: list[Stored]) -> list[Any]:
    return [(s.format.name, s.shape, s.dtype, s.fill.tobytes(),
             {n: a.tobytes() for n, a in s.arrays.items()}) for s in results]


def run_elsewhere(sent: bytes) -> tuple[list[Any], bytes, str]:
    """What a plan gives over operands that came with it, the plan again, and its text."""
    plan, operands, config = pickle.loads(sent)
    return bits(execute(Run(PlanState(plan), operands, config))), pickle.dumps(plan), repr(plan)


def plan_elsewhere(name: str) -> tuple[bytes, str]:
    """The plan that another process makes, and its text there."""
    plan = planned(name, programs()[name])[1].plan
    return pickle.dumps(plan), repr(plan)


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Executor]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("name", NAMES)
def test_a_plan_runs_elsewhere_with_the_same_bits(name: str, elsewhere: Executor) -> None:
    bound, state, config = planned(name, programs()[name])
    plan, before, text = state.plan, pickle.dumps(state.plan), repr(state.plan)
    found = bits(execute(Run(state, bound.stored, config)))
    for _ in range(4):  # it is compiled, timed and launched again
        assert bits(execute(Run(state, bound.stored, config))) == found
    after = pickle.dumps(plan)
    assert after == before and repr(plan) == text and pickle.loads(before) == plan
    assert hash(pickle.loads(before)) == hash(plan) and str(plan) == text
    for sent in (before, after):
        there, back, shown = elsewhere.submit(
            run_elsewhere, pickle.dumps((pickle.loads(sent), bound.stored, config))).result()
        assert there == found and pickle.loads(back) == plan and shown == text


@pytest.mark.parametrize("name", NAMES)
def test_every_process_makes_the_same_plan(name: str, elsewhere: Executor) -> None:
    plan = planned(name, programs()[name])[1].plan
    made, text = elsewhere.submit(plan_elsewhere, name).result()
    assert pickle.loads(made) == plan == planned(name, programs()[name])[1].plan
    assert text == repr(plan)


def parts(plan: Plan) -> list[Any]:
    return [plan, *plan.steps, *[s.nest for s in plan.steps if isinstance(s, KernelStep)]]


def test_nothing_of_a_plan_can_be_assigned() -> None:
    kinds = set()
    for name, program in programs().items():
        for part in parts(planned(name, program)[1].plan):
            kinds.add(type(part))
            for f in fields(part):
                value = getattr(part, f.name)
                assert not isinstance(value, (list, dict, set)), f.name
                with pytest.raises(FrozenInstanceError):
                    setattr(part, f.name, value)
                with pytest.raises(FrozenInstanceError):
                    delattr(part, f.name)
            with pytest.raises((AttributeError, TypeError)):
                part.anything = 1
    assert kinds >= {Plan, KernelStep, BlasStep, BulkStep, ViewStep, ConvertStep}


def test_other_plans_are_not_equal() -> None:
    found = [planned(name, p)[1].plan for name, p in programs().items()]
    assert all((p == q) == (p is q) for p in found for q in found)
    plan = found[0]
    (step,) = plan.steps
    assert isinstance(step, KernelStep) and step.nest is not None
    assert replace(plan, steps=(replace(step, threads=step.threads + 1),)) != plan
    assert replace(plan, steps=(replace(step, cost=step.cost),)) == plan


def test_dtypes_of_a_plan_from_elsewhere_are_those_of_the_process() -> None:
    plan = planned("sparse product", programs()["sparse product"])[1].plan
    (step,) = pickle.loads(pickle.dumps(plan)).steps
    out = step.nest.output
    for dtype in (step.dtype, out.dtype, out.place_dtype, *out.index_dtypes):
        assert dtype is np.dtype(dtype.str), "what compares them by identity must find them"
