"""A factorization of counts in two matrices without negative entries, on a cluster:
``python examples/cluster/pnmf.py``.

Strips of rows of the counts come into being at the sites and stay there; so do the rows of ``w``.
Only the small ``h`` and its update are moved, in each iteration. ``--sites 4`` runs on threads,
``--ray auto`` joins a cluster."""

from __future__ import annotations

import argparse

import numpy as np

import tensorel as tr


def counts(rows: int, columns: int, rank: int, first: int) -> np.ndarray:
    """A strip of the counts that begins at a row."""
    left = np.random.default_rng([1, first]).random((rows, rank))
    right = np.random.default_rng(2).random((rank, columns))
    return np.random.default_rng([3, first]).poisson(20 * left @ right).astype(float)


def iteration(a, w, h, kept=lambda t: t):
    """Multiplicative updates; ``kept`` leaves a tensor where it is made."""
    w = kept(w * ((a / (w @ h)) @ h.T) / h.sum(axis=1))
    return w, kept(h * (w.T @ (a / (w @ h))) / w.sum(axis=0)[:, None])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sites", type=int, default=4)
    parser.add_argument("--ray", metavar="ADDRESS", help="a Ray cluster instead of threads")
    parser.add_argument("--sizes", type=int, nargs=3, default=(800, 600, 10),
                        metavar=("ROWS", "COLUMNS", "RANK"))
    parser.add_argument("--iterations", type=int, default=4)
    args = parser.parse_args(arguments)
    rows, columns, rank = args.sizes
    rng = np.random.default_rng(0)
    first, second = rng.random((rows, rank)) + 0.1, rng.random((rank, columns)) + 0.1
    with tr.engines.ray(args.ray) if args.ray else tr.engines.local(sites=args.sites) as engine:
        sites = engine.stats()["sites"]
        strips = [len(x) for x in np.array_split(np.arange(rows), sites)]
        starts = np.cumsum([0, *strips]).tolist()
        a = tr.from_blocks(lambda key: counts(strips[key[0]], columns, rank, starts[key[0]]),
                           (rows, columns), (strips, columns), engine=engine)
        a = a.persist(engine=engine)
        w, h = tr.asarray(first), tr.asarray(second)
        for _ in range(args.iterations):
            engine.reset()
            w, h = iteration(a, w, h, lambda t: t.persist(engine=engine))
            moved = engine.stats()["bytes_moved"]
            away = (a - w @ h).compute().to_numpy() if rows * columns < 10**6 else np.zeros(1)
            print(f"{moved / 1e6:.3f} MB moved, off by {np.abs(away).mean():.3f} on average")
        found = w.to_numpy(), h.to_numpy()
    whole = np.concatenate([counts(n, columns, rank, s) for n, s in zip(strips, starts)])
    for _ in range(args.iterations):
        first, second = iteration(whole, first, second)
    for one, other in zip(found, (first, second)):
        np.testing.assert_allclose(one, other, rtol=1e-8)
    print("the factors are those of NumPy")


if __name__ == "__main__":
    main()
