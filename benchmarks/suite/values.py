"""Numbers never seen, and loops that ask for a result each time, beside NumPy and SciPy.

    python benchmarks/suite/values.py
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[2] / "src")]

import tensorel as tr

VALUES = 60


class Row(NamedTuple):
    """Seconds of the first value, of the second, of later ones (median), of a value seen before,
    and of NumPy or SciPy."""

    name: str
    first: float
    second: float
    later: float
    again: float
    theirs: float


def _timed(f: Callable[[Any], object], values: Iterable[object]) -> list[float]:
    found = []
    for v in values:
        start = time.perf_counter()
        f(v)
        found.append(time.perf_counter() - start)
    return found


def measure() -> list[Row]:
    """Every value is new to the process, but for the last column of ours."""
    rng = np.random.default_rng(0)
    s = sp.random_array((5000, 3000), density=0.01, format="csr", rng=rng)
    w, x = rng.random((3000, 8)), rng.random(1000)
    d = rng.random((200, 3000))
    S, W, X, D = tr.asarray(s), tr.asarray(w), tr.asarray(x), tr.asarray(d)
    scalars, places = (rng.random(VALUES) + 3).tolist(), list(range(7, 7 + VALUES))
    cases: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Sequence[Any]]] = {
        "x * v": (lambda v: (X * v).compute(), lambda v: x * v, scalars),
        "x ** v": (lambda v: (X ** v).compute(), lambda v: x ** v, scalars),
        "where(x > v, x, 0)": (lambda v: tr.where(v < X, X, 0.0).compute(),
                               lambda v: np.where(x > v, x, 0.0), scalars),
        "clip(x, 0, v)": (lambda v: tr.clip(X, 0, v).compute(), lambda v: np.clip(x, 0, v),
                          scalars),
        "a traced function": (lambda v: tr.map(lambda a: a * v + 1, X).compute(),
                              lambda v: x * v + 1, scalars),
        "roll(x, k)": (lambda k: tr.roll(X, k).compute(), lambda k: np.roll(x, k), places),
        "B[i]": (lambda k: S[k].compute(), lambda k: s[[k]], places),
        "B[:, j]": (lambda k: S[:, k].compute(), lambda k: s[:, [k]], places),
        "B[i, j].item()": (lambda k: S[k, k].item(), lambda k: s[k, k], places),
        "B[a:a+50] @ W": (lambda k: (S[k:k + 50] @ W).compute(), lambda k: s[k:k + 50] @ w, places),
        "B[a:b] @ W": (lambda k: (S[k:2 * k] @ W).compute(), lambda k: s[k:2 * k] @ w, places),
        "D[a:b] @ W": (lambda k: (D[k:2 * k] @ W).compute(), lambda k: d[k:2 * k] @ w, places),
        "x[:n] * v": (lambda k: (X[:k] * 2.5).compute(), lambda k: x[:k] * 2.5, places),
        "B[:n].sum(axis=0)": (lambda k: S[:k].sum(axis=0).compute(), lambda k: s[:k].sum(axis=0),
                              places),
    }
    rows = []
    for name, (ours, theirs, values) in cases.items():
        found = _timed(ours, values)
        rows.append(Row(name, found[0], found[1], statistics.median(found[5:]),
                        statistics.median(_timed(ours, values[-1:] * 40)),
                        statistics.median(_timed(theirs, values))))
    rows += _iterated(S, s, X, x)
    return rows


def _iterated(S: Any, s: Any, X: Any, x: Any) -> list[Row]:
    """An element of an iteration; an iteration of PageRank that tests its change each time."""
    each, theirs = _timed(lambda v: list(v), [X] * 9), _timed(lambda v: list(v), [x] * 9)
    rows = [Row("an element of list(x)", *[t / x.size for t in (
        each[0], each[1], *[statistics.median(each)] * 2, statistics.median(theirs))])]
    places = _timed(lambda v: list(zip(*v.nonzero())), [S] * 5)
    known = _timed(lambda v: list(zip(*v.nonzero())), [s] * 5)
    rows.append(Row("a pair of zip(*B.nonzero())", *[t / s.nnz for t in (
        places[0], places[1], *[statistics.median(places)] * 2, statistics.median(known))]))
    n = 20_000
    links = sp.random_array((n, n), density=4 / n, format="csr", rng=np.random.default_rng(1))
    L, p, q = tr.asarray(links, copy=True), tr.asarray(np.full(n, 1 / n), copy=True), \
        np.full(n, 1 / n)
    ours, peers = [], []
    for _ in range(40):
        start = time.perf_counter()
        new = 0.85 * (L @ p) + 0.15 / n
        float(abs(new - p).sum())
        p = new
        middle = time.perf_counter()
        other = 0.85 * (links @ q) + 0.15 / n
        float(abs(other - q).sum())
        q = other
        ours.append(middle - start)
        peers.append(time.perf_counter() - middle)
    rows.append(Row("PageRank: iterations 5 to 9 (later), 36 to 40 (again)", ours[0], ours[1],
                    statistics.median(ours[4:9]), statistics.median(ours[35:]),
                    statistics.median(peers)))
    return rows


if __name__ == "__main__":
    print(f"{'microseconds':<64}{'first':>10}{'second':>9}{'later':>9}{'again':>9}{'theirs':>9}")
    for row in measure():
        print(f"{row.name:<64}" + f"{row.first * 1e6:10.1f}" + "".join(
            f"{t * 1e6:9.1f}" for t in row[2:]))
