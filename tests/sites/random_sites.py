"""Random programs over sites against NumPy: ``python tests/sites/random_sites.py 0 1000``.

Each operand is handed in, or comes into being in uneven blocks, dense or sparse, or lies at the
sites already. The planner and the number of sites are drawn, too."""

from __future__ import annotations

import pickle
import sys
import warnings
from typing import Any

import numpy as np

import tensorel as tr
from tensorel.blocks.planning.cells import Rates
from tensorel.engines.sites.sites_engine import SitesEngine
from tensorel.engines.sites.threads import ThreadCluster
from tensorel.testing import difference, run_numpy, sample_program

#: Tasks cost nothing and work costs much, so that small programs are spread over all sites.
SPREAD = Rates(flop=1e-5, task=0.0, send=0.0)
#: The same, but blocks that come into being beside each other do so together.
TOGETHER = Rates(flop=1e-5, task=1e-6, send=0.0)
PLANNERS = ("both", "grids", "lineage")
ANY_EXTENTS = ("coo", "dcsr", "csr", "csc", "dcsc")  # formats that hold blocks of any extents


def tiles(rng: np.random.Generator, extent: int) -> list[int]:
    """Uneven tiles of an axis."""
    cuts = np.unique(rng.integers(1, max(extent, 2), int(rng.integers(0, 5))))
    return np.diff([0, *[c for c in cuts.tolist() if c < extent], extent]).tolist()


def in_blocks(array: np.ndarray, rng: np.random.Generator, engine: SitesEngine,
              format: str | None = None, fill: Any = 0) -> tr.Tensor:
    """A tensor that comes into being in uneven blocks."""
    sizes = [tiles(rng, n) for n in array.shape]
    edges = [np.cumsum([0, *s]) for s in sizes]

    def block(key: tuple[int, ...]) -> Any:
        part = array[tuple(slice(e[k], e[k + 1]) for e, k in zip(edges, key))]
        return part if format is None else tr.tensor(part, format=format, fill=fill)

    return tr.from_blocks(block, array.shape, sizes, dtype=array.dtype, engine=engine, fill=fill)


def operand(leaf: Any, rng: np.random.Generator, engine: SitesEngine, pickles: bool) -> tr.Tensor:
    way = int(rng.integers(4))
    if way == 0 or pickles or 0 in leaf.array.shape:
        return leaf.build()
    two = leaf.array.ndim == 2
    formats = [None, "coo" if not two else str(rng.choice(ANY_EXTENTS))]
    format = formats[int(rng.integers(2))] if leaf.array.ndim else None
    found = in_blocks(leaf.array, rng, engine, format, leaf.fill if format else 0)
    return found.persist() if way == 3 else found


def wrong_in(seed: int, number: int, show: bool = False) -> str | None:
    """What one program gets wrong; None if nothing."""
    program = sample_program(seed, number)
    trace = run_numpy(program)
    if not trace.comparable:
        return None
    rng = np.random.default_rng([seed, number])
    sites, planner = int(rng.integers(1, 9)), PLANNERS[int(rng.integers(3))]
    root = program.root
    with warnings.catch_warnings(), tr.options(effort="quick"), \
            SitesEngine(ThreadCluster(sites), planner, (SPREAD, TOGETHER)[number % 2]) as engine:
        warnings.simplefilter("ignore")
        pickles = any("pickle" in s.template for s in program.steps)
        named: dict[str, Any] = {x.name: operand(x, rng, engine, pickles) for x in program.leaves}
        for step in program.steps:
            named[step.name] = eval(step.code, {"xp": tr, "np": np, "pickle": pickle} | named)
        if show:
            print(program.text, named[root].explain(engine=engine), sep="\n")
        found = named[root].compute(engine=engine).to_numpy()
        if show:
            print(found, trace.values[root], sep="\n")
    return difference(found, trace.values[root], trace.tolerances.get(root))


def main() -> int:
    seed, first, last = [int(x) for x in (sys.argv[1:] + ["0", "0", "1000"])[:3]]
    bad = 0
    for number in range(first, last):
        if number % 100 == 0:
            print(f"{number} ...", flush=True)
        try:
            wrong = wrong_in(seed, number)
        except Exception as error:
            wrong = repr(error)[:300]
        if wrong is not None:
            bad += 1
            print(f"{seed} {number}: {wrong}", flush=True)
    print(f"{last - first} programs, {bad} different", flush=True)
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main())
