"""Programs on this engine: naive, without hints. Run by ``times.py`` in the network of nodes."""

from __future__ import annotations

import os
import sys
from functools import partial

import numpy as np

import tensorel as tr
from cluster.data import block, timed
from cluster.problems import PROBLEMS, TILES, scaled
from cluster.programs import convolution, gram, product, sum_first, training
from cluster.table import tiles

SYSTEM = "Tensorel"


def main(scale: float, names: list[str]) -> None:
    engine = tr.engines.ray(os.environ["RAY_ADDRESS"])
    sites = engine.stats()["sites"]
    made = 0

    def make(shape: tuple[int, ...], parts: object = "any") -> tr.Tensor:
        nonlocal made
        made += 1
        sizes = tiles(shape, parts, sites) if parts != "any" else [
            [len(x) for x in np.array_split(np.arange(n), min(TILES, n))] for n in shape]
        return tr.from_blocks(partial(of, sizes, made), shape, sizes, engine=engine)

    def run(results: list[tr.Tensor]) -> list[tr.Tensor]:
        return list(tr.persist(*results, engine=engine))

    builders = {"product": product, "sum": sum_first, "gram": gram, "training": training,
                "convolution": convolution}
    warm = make((64, 64), (2, 2))
    run([warm @ warm])
    for name in names or PROBLEMS:
        kind, sizes = scaled(name, scale)
        if kind == "factorization":
            iterations(name, sizes, make, engine, run)
            continue
        for turn in ("first", "again"):  # kernels are compiled in the first
            results = builders[kind](*sizes, make, sites)
            told = tr.explain(*results, engine=engine).predicted_moved
            results = builders[kind](*sizes, make, sites)
            engine.reset()
            kept = timed(SYSTEM, name, turn, partial(run, results), foretold=told,
                         counted=lambda: engine.stats()["bytes_moved"])
            del results, kept
    engine.close()


def iterations(name: str, sizes: tuple[int, int, int], make, engine, run) -> None:
    """Iterations of a factorization, each by itself."""
    rows, columns, rank = sizes
    sites = engine.stats()["sites"]
    a = make((rows, columns), (sites, 1)).persist(engine=engine)
    w, h = make((rows, rank), (sites, 1)), make((rank, columns), (1, sites))
    for k in range(4):
        results = factorization_step(a, w, h)
        told = tr.explain(*results, engine=engine).predicted_moved
        engine.reset()
        w, h = timed(SYSTEM, name, f"iteration {k + 1}",
                     partial(run, results), foretold=told,
                     counted=lambda: engine.stats()["bytes_moved"])


def factorization_step(a: tr.Tensor, w: tr.Tensor, h: tr.Tensor) -> list[tr.Tensor]:
    w = w * ((a / (w @ h)) @ h.T) / h.sum(axis=1)
    h = h * (w.T @ (a / (w @ h))) / w.sum(axis=0)[:, None]
    return [w, h]


def of(sizes: list[list[int]], name: int, key: tuple[int, ...]) -> np.ndarray:
    return block(tuple([s[k] for s, k in zip(sizes, key)]), name, key)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
