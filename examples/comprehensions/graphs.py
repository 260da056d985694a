"""PageRank, shortest paths and triangles of a graph.

    python examples/comprehensions/graphs.py [EDGES]    a file of two columns; else a random graph
"""

import sys
from typing import Any

import numpy as np

import tensorel as tr


def edges(path: str | None, size: int = 2000, count: int = 20000) -> tuple[Any, int]:
    """Pairs of nodes, and how many nodes there are."""
    pairs = np.random.default_rng(0).integers(0, size, (count, 2)) if path is None else np.loadtxt(
        path, dtype=np.int64, comments=("#", "%"), usecols=(0, 1))
    pairs = np.unique(pairs[pairs[:, 0] != pairs[:, 1]], axis=0)
    return pairs.T, int(pairs.max()) + 1


@tr.comprehension
def degrees(A: Any) -> Any:
    return {i: len(a) for (i, j), a in A}


RANK = """
    tensor(n)()[ (j, 0.15/n + 0.85 * +/[ a * s | ((p, q), a) <- A, (i, s) <- S, i == p, q == j ])
                 | j <- 0..n-1 ]"""
SHARE = "tensor(n)()[ (i, r / D[i]) | (i, r) <- R, D[i] > 0 ]"
RELAX = """
    tensor(n)()[ (j, min(D[j], min/[ d + w | (i, d) <= D, ((p, q), w) <- W, p == i, q == j ]))
                 | j <- 0..n-1 ]"""
TRIANGLES = "+/[ 1 | ((i, j), a) <- A, ((j, k), b) <- A, ((k, i), c) <- A ]"


def page_rank(A: Any, n: int, steps: int = 20) -> Any:
    rank, degree = tr.asarray(np.full(n, 1 / n)), degrees(A).compute()
    for _ in range(steps):
        share = tr.comprehension(SHARE, R=rank, D=degree, n=n)
        rank = tr.comprehension(RANK, A=A, S=share, n=n).compute()
    return rank


def distances(W: Any, n: int, start: int = 0) -> Any:
    """Shortest paths from a node: relaxed until nothing changes."""
    found = tr.asarray(np.where(np.arange(n) == start, 0.0, np.inf))
    while True:
        nearer = tr.comprehension(RELAX, D=found, W=W, n=n).compute()
        if np.array_equal(nearer.to_numpy(), found.to_numpy()):
            return found
        found = nearer


def main(path: str | None = None) -> None:
    pairs, n = edges(path)
    A = tr.from_coo(pairs, np.ones(pairs.shape[1]), (n, n), format="csr")
    rank = page_rank(A, n)
    print("page rank:", np.sort(rank.to_numpy())[::-1][:3].round(5))
    weights = np.random.default_rng(1).integers(1, 10, pairs.shape[1]).astype(float)
    far = distances(tr.from_coo(pairs, weights, (n, n), format="csr"), n).to_numpy()
    print("farthest node:", far[np.isfinite(far)].max(), "of", np.isfinite(far).sum(), "reached")
    print("directed triangles:", tr.comprehension(TRIANGLES, A=A).item() // 3)


if __name__ == "__main__":
    main(*sys.argv[1:2])
