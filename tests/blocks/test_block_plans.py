"""Plans of programs over sites: near the best known algorithms, and what they foretell is what is
counted."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tensorel as tr
from tensorel.algebra import ops
from tensorel.blocks.steps.access import Loops, loops_of, range_of
from tensorel.blocks.steps.footprints import Footprints, parts_of
from tensorel.blocks.steps.layout import FREE, Layout
from tensorel.ir.build import minus, plus, times
from tensorel.ir.nodes import Axis, Call, Expr, Index, Lambda, Read, Reduce, Source, const

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))

from cluster.programs import PROGRAMS, Program
from cluster.table import counted, study


@pytest.mark.parametrize("sites", [4, 8, 16])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_plans_move_what_the_best_known_algorithms_move(program: Program, sites: int) -> None:
    found = study(program, sites)
    assert found.ratio <= 1.1, found.plan


@pytest.mark.parametrize("sites", [3, 4])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_what_is_counted_was_foretold(program: Program, sites: int) -> None:
    foretold, moved = counted(program, sites)
    assert abs(moved - foretold) <= 0.05 * foretold


def test_what_was_sent_for_one_step_is_not_sent_again() -> None:
    rng = np.random.default_rng(0)
    a, h = rng.random((80, 64)), rng.random((5, 64))
    with tr.engines.local(sites=4) as engine:
        A = tr.from_blocks(lambda k: a[20 * k[0]:20 * k[0] + 20], a.shape, (20, 64), engine=engine)
        H = tr.from_blocks(lambda k: h[:, 16 * k[1]:16 * k[1] + 16], h.shape, (5, 16),
                           engine=engine)
        once = (A @ H.T).explain(engine=engine).predicted_moved
        both = [A @ H.T, tr.exp(A / 9) @ H.T]
        assert tr.explain(*both, engine=engine).predicted_moved == once
        engine.reset()
        found = tr.compute(*both, engine=engine)
        assert engine.stats()["bytes_moved"] == once
        np.testing.assert_allclose(found[1].to_numpy(), np.exp(a / 9) @ h.T)


def test_intermediate_results_are_dropped_after_their_last_use() -> None:
    with tr.engines.local(sites=2) as engine:
        x = tr.from_blocks(lambda k: np.ones((200, 100)), (400, 100), (200, 100), engine=engine)
        kept = ((x @ x.T) @ x).persist(engine=engine)
        held = sum(engine.stats()["bytes_held"])
        assert held < 8 * (400 * 100 * 2 + 400 * 100 * 2)
        assert kept.shape == (400, 100)


# -- the boxes that cells read --------------------------------------------------------------------
def _random_step(rng: np.random.Generator) -> Loops:
    """Reads of one operand at shifted, scaled, mirrored and sparse places."""
    axes = (Axis("i", int(rng.integers(1, 20))), Axis("j", int(rng.integers(1, 20))))
    inner = Axis("s", 3)
    source = Source(0, (30, 25), np.dtype("f8"), const(0.0, np.dtype("f8")))

    def place() -> Expr:
        e = Index(str(rng.choice(["i", "j"])))
        match int(rng.integers(5)):
            case 0:
                return e
            case 1:
                return plus(e, int(rng.integers(-3, 8)))
            case 2:
                return minus(24, e)
            case 3:
                return plus(times(e, 2), Index("s"))
            case _:
                return plus(Index("i"), Index("j"))

    reads = [Read(source, (place(), place())) for _ in range(int(rng.integers(1, 4)))]
    body: Expr = reads[0]
    for r in reads[1:]:
        body = Call(ops.add, (body, r))
    return loops_of(Lambda(axes, Call(ops.add, (const(1.0, np.dtype("f8")),
                                                Reduce(ops.add, (inner,), body)))))


@pytest.mark.parametrize("seed", range(60))
def test_boxes_are_the_ranges_of_the_index_expressions(seed: int) -> None:
    rng = np.random.default_rng([9, seed])
    loops = _random_step(rng)
    cuts = tuple([np.unique(np.r_[0, rng.integers(0, a.extent + 1, 3), a.extent])
                  for a in loops.indices])
    operand = loops.operands[0]
    found = Footprints(loops, operand).of(cuts)
    for c, at in enumerate(np.ndindex(*[len(e) - 1 for e in cuts])):
        cell = {a.name: (int(e[k]), int(e[k + 1])) for a, e, k in zip(loops.indices, cuts, at)}
        for axis, extent in enumerate(operand.shape):
            ranges = [range_of(r.indices[axis], {"s": (0, 3)} | cell, extent)
                      for r in loops.reads(operand)]
            ranges = [(lo, hi) for lo, hi in ranges if lo < hi]
            wanted = (min(lo for lo, _ in ranges), max(hi for _, hi in ranges)) \
                if ranges else (0, 0)
            assert found.box(c)[axis] == wanted


@pytest.mark.parametrize("seed", range(20))
def test_parts_of_boxes_add_up(seed: int) -> None:
    rng = np.random.default_rng([10, seed])
    shape = tuple(rng.integers(1, 30, int(rng.integers(0, 4))).tolist())
    edges = tuple([np.unique(np.r_[0, rng.integers(0, n + 1, 4), n]) for n in shape])
    layout = Layout(edges, np.full([len(e) - 1 for e in edges], FREE), 8.0)
    ends = np.sort(np.stack([rng.integers(0, n + 1, (2, 12)) for n in shape], axis=2)
                   if shape else np.zeros((2, 12, 0), np.int64), axis=0)
    parts = parts_of(layout, ends[0], ends[1])
    sums = np.bincount(parts.box, parts.size, 12)
    np.testing.assert_array_equal(sums, 8.0 * (ends[1] - ends[0]).prod(axis=1))
    for box, block, size in zip(parts.box, parts.block, parts.size):
        at = np.unravel_index(block, layout.grid) if shape else ()
        low = [max(int(e[k]), a) for e, k, a in zip(edges, at, ends[0, box])]
        high = [min(int(e[k + 1]), b) for e, k, b in zip(edges, at, ends[1, box])]
        assert size == 8.0 * np.prod([h - lo for lo, h in zip(low, high)])


def test_cells_of_one_shape_are_one_program() -> None:
    """Positions count from the corner of a cell and of a box: the two corners cancel, so that a
    cell of a product is a product, and cells share a kernel."""
    a, b = (Source(k, (40, 40), np.dtype(float), const(0.0, np.dtype(float))) for k in range(2))
    i, j, k = Axis("i", 40), Axis("j", 40), Axis("k", 40)
    entry = Call(ops.multiply, (Read(a, (Index("i"), plus(Index("k"), 0))),
                                Read(b, (Index("k"), Index("j")))))
    loops = loops_of(Lambda((i, j), Reduce(ops.add, (k,), entry)))

    def over(low: int) -> object:
        part = low, low + 10
        return loops.over(dict.fromkeys("ijk", part), [(part, part), (part, part)])

    assert over(0) == over(10) == over(30)
    near = loops_of(Lambda((Axis("i", 38),), Read(a, (plus(Index("i"), 2), Index("i")))))
    found = [near.over({"i": (low, low + 10)}, [((low + 2, low + 12), (low, low + 10))])
             for low in (0, 7)]
    assert found[0] == found[1]
