"""Random trees of joins, unions, reductions and selections against brute force."""

from __future__ import annotations

import itertools

import numpy as np
from stats_support import KINDS, joined, random_pattern, relation_of

from tensorel.stats.estimates.joins import extend, join, union
from tensorel.stats.estimates.reduction import project, reduce_over

NAMES = "ijkl"
FORMATS = {1: ("coo", "csf"), 2: ("coo", "csr", "csc", "bsr(2,2)", "dense", "dia"),
           3: ("coo", "csf", "csf(2,0,1)", "0;1,2")}


def leaf(rng, extents):
    rank = int(rng.choice([1, 2, 2, 2, 3]))
    names = "".join(rng.permutation(list(NAMES))[:rank])
    pattern = random_pattern(rng, tuple(extents[n] for n in names), str(rng.choice(KINDS)))
    fmt = str(rng.choice(FORMATS[rank]))
    relation = relation_of(pattern, names, extents, fmt)
    return relation, pattern, names


def tree(rng, extents, depth):
    """A relation, its true points and their index names in order."""
    if depth == 0 or rng.random() < 0.2:
        return leaf(rng, extents)
    kind = rng.choice(["join", "join", "union", "reduce"])
    if kind in ("join", "union"):
        parts = [tree(rng, extents, depth - 1) for _ in range(rng.integers(2, 4))]
        names = "".join(n for n in NAMES if any(n in p[2] for p in parts))
        op = np.logical_and if kind == "join" else np.logical_or
        truth = joined({n: extents[n] for n in names}, [(t, ns) for _, t, ns in parts], op)
        return (join if kind == "join" else union)(*[p[0] for p in parts]), truth, names
    relation, truth, names = tree(rng, extents, depth - 1)
    if not names:
        return relation, truth, names
    if kind == "reduce":
        gone = [n for n in names if rng.random() < 0.4]
        axes = tuple(names.index(n) for n in gone)
        left = "".join(n for n in names if n not in gone)
        return reduce_over(relation, gone), np.asarray(truth.any(axis=axes)), left
def check_tree(seed, depth=3):
    rng = np.random.default_rng(seed)
    extents = {n: int(rng.choice([0, 1, 3, 5, 8], p=[0.03, 0.12, 0.25, 0.3, 0.3])) for n in NAMES}
    relation, truth, names = tree(rng, extents, depth)
    truth = np.asarray(truth)
    assert set(relation.names) == set(names), seed
    for size in range(len(names) + 1):
        for keep in itertools.combinations(names, size):
            gone = tuple(k for k, n in enumerate(names) if n not in keep)
            held = int(np.count_nonzero(truth.any(axis=gone))) if gone else np.count_nonzero(truth)
            found = project(relation, keep)
            assert found.bound >= held, (seed, keep)
            assert found.cardinality >= held, (seed, keep)
            assert 0 <= found.estimate <= found.cardinality * (1 + 1e-9), (seed, keep)
    wide = extend(relation, extents)
    missing = np.prod([extents[n] for n in NAMES if n not in names], dtype=float)
    assert wide.bound >= np.count_nonzero(truth) * missing, seed


def test_random_trees():
    for seed in range(250):
        check_tree(seed)


if __name__ == "__main__":
    import sys

    first, last = map(int, sys.argv[1:3])
    for seed in range(first, last):
        check_tree(seed, 3 + seed % 2)
    print("trees", first, "to", last, "hold")
