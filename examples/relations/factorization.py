"""A factorization of counts without negative entries, until its objective stands still:
``python examples/relations/factorization.py [--counts FILE.mtx]``.

The product of the factors is never made: the counts are sparse, and only where they have entries
does the quotient need it; its sum, a part of the objective, is a product of two sums."""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import numpy as np

import tensorel as tr


def generated(rows: int, columns: int, rank: int) -> tr.Tensor:
    """Counts of a product of two factors with few entries."""
    rng = np.random.default_rng(1)
    left, right = (rng.gamma(0.3, 0.5, s) for s in ((rows, rank), (rank, columns)))
    return tr.tensor(rng.poisson(left @ right).astype(float), format="csr")


def iteration(A, W, H):
    """Multiplicative updates."""
    W = W * ((A / (W @ H)) @ H.T) / H.sum(axis=1)
    return W, H * (W.T @ (A / (W @ H))) / W.sum(axis=0)[:, None]


def objective(A, W, H, log=tr.log):
    """What the factors are off by, but for a constant."""
    return (W @ H).sum() - (A * log(W @ H)).sum()


def fit(A: tr.Tensor, W: tr.Tensor, H: tr.Tensor, tolerance: float, most: int
        ) -> tuple[tr.Tensor, tr.Tensor, list[float]]:
    """The factors, and the objective after each iteration."""
    found = [objective(A, W, H).item()]
    while len(found) <= most:
        W, H = tr.compute(*iteration(A, W, H))
        found.append(objective(A, W, H).item())
        if found[-2] - found[-1] <= tolerance * abs(found[-1]):
            break
    return W, H, found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", type=Path, help="a sparse matrix of counts in a file")
    parser.add_argument("--sizes", type=int, nargs=2, default=(1000, 800))
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--iterations", type=int, default=200)
    args = parser.parse_args(arguments)
    given = tr.read(args.counts) if args.counts else generated(*args.sizes, args.rank)
    A = abs(given).astype(float).drop_empty(0).drop_empty(1).compute()
    rng = np.random.default_rng(0)
    w, h = (rng.random(s) + 0.1 for s in ((A.shape[0], args.rank), (args.rank, A.shape[1])))
    W, H, found = fit(A, tr.asarray(w), tr.asarray(h), args.tolerance, args.iterations)
    print(f"{A.nnz} counts of {A.shape[0]} x {A.shape[1]}; objective {found[0]:.4g}, after "
          f"{len(found) - 1} iterations {found[-1]:.6g}")
    print("it fell in every iteration:", all(y <= x for x, y in pairwise(found)))
    if A.size <= 10**7:
        a = A.to_numpy()
        for _ in found[1:]:
            w, h = iteration(a, w, h)
        same = np.allclose(W.to_numpy() @ H.to_numpy(), w @ h, rtol=1e-4, atol=1e-6)
        print("as NumPy has it:", bool(same and np.isclose(objective(a, w, h, np.log), found[-1])))


if __name__ == "__main__":
    main()
