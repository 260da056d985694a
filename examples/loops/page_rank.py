"""PageRank as one would write it on small data, on a sparse graph: the nests are bulk and planned
once, the loop around them runs until the ranks settle.

    python examples/loops/page_rank.py [nodes]
"""

import sys
import time

import numpy as np

import tensorel as tr


@tr.loops
def page_rank(links, tolerance):
    n = links.shape[0]
    out = np.zeros(n)
    for i in range(n):
        for j in range(n):
            out[i] += links[i, j]
    rank, after, share = np.full(n, 1.0 / n), np.zeros(n), np.zeros(n)
    change, rounds = 1.0, 0
    while change > tolerance:
        for i in range(n):
            share[i] = 0.85 * rank[i] / out[i] if out[i] > 0 else 0.0
        for i in range(n):
            after[i] = 0.15 / n
        for i in range(n):
            for j in range(n):
                after[j] += links[i, j] * share[i]
        change = 0.0
        for i in range(n):
            change += abs(after[i] - rank[i])
        rank, after = after, rank
        rounds += 1
    return rank, rounds


def main(n: int) -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, n, (2, 10 * n))
    links = tr.from_coo(ends, np.ones(10 * n), (n, n), format="csr", duplicates="last")
    began = time.perf_counter()
    rank, rounds = page_rank(links, 1e-9)
    seconds = time.perf_counter() - began
    best = np.argsort(rank.to_numpy())[::-1][:3]
    print(f"{n} nodes, {rounds.item()} rounds, {1e3 * seconds:.0f} ms; first: {best.tolist()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
