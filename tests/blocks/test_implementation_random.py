"""Random expressions on simulated sites: all plans give one relation and send what is predicted."""

from __future__ import annotations

import random

import numpy as np
import pytest
from implementation_support import data, equal

from tensorel.blocks.implementation import (
    ADD,
    MATMUL,
    MAXIMUM,
    MULTIPLY,
    RULES,
    TRANSPOSE,
    Input,
    Kernel,
    Node,
    Partition,
    Predicate,
    Simulation,
    evaluate,
    logical,
    neighbours,
    optimize,
    plan_cost,
    select,
    translate,
)
from tensorel.blocks.implementation.partitions import grids

KERNELS = (Kernel("double", lambda b: 2 * b, distributes_over=(ADD,)), TRANSPOSE,
           Kernel("square", np.square))
FILTERS = (Predicate("lower", (0, 1), lambda i, j: i <= j),
           Predicate("not 1", (1,), lambda j: j != 1),
           Predicate("even", (0,), lambda i: i % 2 == 0))


class Programs:
    """Expressions over two key dimensions, and the inputs that they read."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.sites = self.draw.choice((1, 2, 3, 4, 5, 6, 8))
        self.inputs: list[Input] = []

    def stored(self, extents: tuple[int, int]) -> Input:
        axes = list(enumerate(self.draw.choice(grids(extents, self.sites))))
        self.draw.shuffle(axes)
        at = self.draw.choice((None, Partition((), None), Partition.of(*zip(*axes))))
        self.inputs.append(Input(f"I{len(self.inputs)}", extents, (2, 2), at,
                                 free=self.draw.random() < 0.3 and at == Partition((), None)))
        return self.inputs[-1]

    def expression(self, depth: int) -> logical.Expr:
        if not depth:
            return self.stored((self.draw.choice((2, 3, 4)),) * 2)
        child, kind = self.expression(depth - 1), self.draw.randrange(8)
        rows, columns = translate(child, 1).relation.extents
        if kind < 3:
            other = self.stored((columns, self.draw.choice((1, 2, 4, 5))))
            pairs = logical.Join(child, other, (1,), (0,), self.draw.choice((MATMUL, MULTIPLY)))
            return logical.Aggregate(pairs, (0, 2), self.draw.choice((ADD, ADD, MAXIMUM)))
        if kind == 3:
            kernel = self.draw.choice((ADD, MULTIPLY, MATMUL))
            return logical.Join(child, self.stored((rows, columns)), (0, 1), (0, 1), kernel)
        if kind == 4:
            return logical.Transform(child, self.draw.choice(KERNELS))
        if kind == 5:
            return logical.Rekey(child, select(1, 0))
        if kind == 6:
            return logical.Filter(child, self.draw.choice(FILTERS))
        axis = self.draw.randrange(2)
        return logical.Stack(logical.Tile(child, axis, 1), 2, axis)


@pytest.mark.parametrize("seed", range(40))
def test_all_plans_of_a_random_expression(seed: int) -> None:
    programs = Programs(seed)
    expr = programs.expression(programs.draw.randrange(1, 5))
    if programs.draw.random() < 0.3:
        expr = logical.Aggregate(expr, programs.draw.choice(((), (0,), (1,))), ADD)
    sites = programs.sites
    plan, given = translate(expr, sites), data(*programs.inputs, seed=seed)
    want = evaluate(plan, given, sites)
    found = optimize(plan, sites)
    others = [p for _, p in (*neighbours(plan, sites, RULES), *neighbours(found.best.plan, sites))]
    for other in (found.best.plan, *programs.draw.sample(others, min(12, len(others)))):
        assert equal(evaluate(other, given, sites), want)
        if not any(_estimated(n) for n in _operators(other)):
            run = Simulation(given, sites)
            run.run(other)
            assert run.moved == pytest.approx(plan_cost(other, sites).bytes)


def _operators(plan: Node) -> list[Node]:
    return [plan, *(n for c in plan.children for n in _operators(c))]


def _estimated(node: Node) -> bool:
    at = node.relation.partition
    return bool(node.relation.filters) or (at is not None and at.grid is None)
