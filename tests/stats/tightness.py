"""Estimates and bounds beside the truth: the table of docs/design/statistics.md.

Run by hand: PYTHONPATH=src python tests/stats/tightness.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from tensorel.stats.collected.collect import collect
from tensorel.stats.estimates.joins import join, union
from tensorel.stats.estimates.pointset import Relation
from tensorel.stats.estimates.reads import of_read
from tensorel.stats.estimates.reduction import project
from tensorel.storage.convert import from_coo
from tensorel.storage.stored import Stored

N, EACH = 5000, 8


def zipf(rng: np.random.Generator, n: int, count: int, power: float = 0.8) -> Any:
    weights = 1.0 / (1 + rng.permutation(n)) ** power
    return rng.choice(n, count, p=weights / weights.sum())


def coordinates(kind: str, rng: np.random.Generator) -> tuple[Any, Any]:
    if kind == "uniform":
        return rng.integers(0, N, N * EACH), rng.integers(0, N, N * EACH)
    if kind == "power-law":
        return zipf(rng, N, N * EACH), zipf(rng, N, N * EACH)
    if kind == "blocks":
        block = rng.integers(0, 50, N * EACH) * (N // 50)
        return tuple(block + rng.integers(0, N // 50, N * EACH) for _ in range(2))
    rows = np.repeat(np.arange(N), EACH)
    columns = rows + np.tile(np.arange(EACH) - EACH // 2, N)
    inside = (columns >= 0) & (columns < N)
    return rows[inside], columns[inside]


def matrix(kind: str, seed: int) -> tuple[Stored, Any]:
    i, j = coordinates(kind, np.random.default_rng(seed))
    stored = from_coo([i, j], np.ones(i.size), (N, N), duplicates="last", format="csr")
    arrays = stored.arrays
    return stored, sp.csr_matrix((arrays["val"], arrays["idx1"], arrays["pos1"]), shape=(N, N))


def cube(kind: str, seed: int) -> tuple[Stored, Any]:
    rng = np.random.default_rng(seed)
    n, count = 400, 40_000
    draw = zipf if kind == "power-law" else lambda r, m, c: r.integers(0, m, c)
    i, j, k = (draw(rng, n, count) for _ in range(3))
    if kind == "banded":
        j, k = np.clip(i + j % 9 - 4, 0, n - 1), np.clip(i + k % 9 - 4, 0, n - 1)
    stored = from_coo([i, j, k], np.ones(count), (n, n, n), duplicates="last", format="coo")
    return stored, np.stack([stored.arrays[f"idx{a}"] for a in range(3)])


def nnz(m: Any) -> int:
    return int((m != 0).sum())


def cases(kind: str) -> Iterator[tuple[str, Relation, int]]:
    (sa, a), (sb, b), (sc, c) = (matrix(kind, s) for s in (1, 2, 3))
    extents = dict.fromkeys("ijkl", N)

    def read(stored: Stored, names: str) -> Relation:
        return of_read(collect(stored), tuple(names), extents)

    product = join(read(sa, "ik"), read(sb, "kj"))
    ab = a @ b
    yield "A@B, points", product, int(ab.sum())
    yield "A@B, entries", project(product, "ij"), nnz(ab)
    chain = join(read(sa, "ik"), read(sb, "kj"), read(sc, "jl"))
    yield "A@B@C, points", chain, int((ab @ c).sum())
    last = join(project(product, "ij"), read(sc, "jl"))
    yield "(A@B)@C, entries", project(last, "il"), nnz(ab @ c)
    yield "C*(A@B), points", join(product, read(sc, "ij")), int(ab.multiply(c).sum())
    yield "triangles of A", join(*[read(sa, p) for p in ("ij", "jk", "ki")]), int(
        (a @ a).multiply(a.T).sum())
    square = a @ a
    yield "4-cycles of A", join(*[read(sa, p) for p in ("ij", "jk", "kl", "li")]), int(
        square.multiply(square.T).sum())
    yield "A+B", union(read(sa, "ij"), read(sb, "ij")), nnz(a + b)
    yield "A*B", join(read(sa, "ij"), read(sb, "ij")), nnz(a.multiply(b))
    yield "A.sum(1)", project(read(sa, "ij"), "i"), nnz(a.sum(axis=1))
    yield "(A@B).sum(1)", project(product, "i"), nnz(ab.sum(axis=1))
    yield from slices(sa, a)
    yield from products_of_cubes(kind)


def slices(stored: Stored, a: Any) -> Iterator[tuple[str, Relation, int]]:
    from tensorel.ir.build import plus, times
    from tensorel.ir.nodes import Index

    stats, i, j = collect(stored), Index("i"), Index("j")
    yield "A[1000:1500]", of_read(stats, (plus(i, 1000), j), {"i": 500, "j": N}), nnz(a[1000:1500])
    yield "A[:, ::3]", of_read(stats, (i, times(j, 3)), {"i": N, "j": -(-N // 3)}), nnz(a[:, ::3])
    yield "A[:2500, :2500]", of_read(stats, (i, j), {"i": 2500, "j": 2500}), nnz(a[:2500, :2500])


def products_of_cubes(kind: str) -> Iterator[tuple[str, Relation, int]]:
    stored, (i, j, k) = cube(kind, 4)
    rng = np.random.default_rng(5)
    n, r = 400, 16
    bs, cs = ((rng.random((n, r)) < 0.1) for _ in range(2))
    extents = {"i": n, "j": n, "k": n, "r": r}

    def factor(m: Any, names: str) -> Relation:
        at = np.nonzero(m)
        return of_read(collect(from_coo(at, np.ones(at[0].size), (n, r))), tuple(names), extents)

    x = of_read(collect(stored), tuple("ijk"), extents)
    points = join(x, factor(bs, "jr"), factor(cs, "kr"))
    held = bs[j] & cs[k]
    out = np.zeros((n, r), bool)
    np.logical_or.at(out, i, held)
    yield "MTTKRP sparse, points", points, int(held.sum())
    yield "MTTKRP sparse, entries", project(points, "ir"), int(out.sum())
    yield "X.any(2)", project(x, "ij"), int(np.unique(i.astype(int) * n + j).size)


def table() -> str:
    kinds = ("uniform", "power-law", "banded", "blocks")
    rows: dict[str, list[str]] = {}
    for kind in kinds:
        for name, relation, true in cases(kind):
            assert relation.bound >= true, (kind, name, relation, true)
            ratio = (relation.estimate / true, relation.bound / true) if true else (
                relation.estimate, relation.bound)
            rows.setdefault(name, []).append(
                f"{true:,} | {ratio[0]:.2f} | {ratio[1]:.3g}" + ("" if true else " (absolute)"))
    head = "| size of | " + " | ".join(f"{k}: true | estimate/true | bound/true" for k in kinds)
    lines = [head + " |", "|---" * (1 + 3 * len(kinds)) + "|"]
    return "\n".join(lines + [f"| {n} | " + " | ".join(r) + " |" for n, r in rows.items()])


if __name__ == "__main__":
    print(table())
