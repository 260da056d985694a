"""Galley's ground on graphs: counting patterns, BFS, PageRank, a graph convolution of few nodes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

import tensorel as tr
from optimizer import data, native
from optimizer.peers import WHOLE, Contest, c_loop, duck_peer, gram_work, guarded
from suite.case import Job, Peer, add

GRAPHS = ("power-law", "email-Enron", "ca-AstroPh")


def _edges(a: Any) -> dict[str, Any]:
    return {"i": np.repeat(np.arange(a.shape[0], dtype=np.int32), np.diff(a.indptr)),
            "j": a.indices}


def _csr_parts(a: Any) -> tuple[Any, ...]:
    return a.shape[0], a.indptr, a.indices, a.data


def _triangles(name: str, scale: float) -> Contest:
    a = data.graph(name, scale)
    t, low = tr.asarray(a), data.oriented(a)
    tables = {"E": _edges(a), "L": _edges(low)}
    every = "SELECT count(*) FROM {0} a, {0} b, {0} c WHERE a.j = b.i AND b.j = c.j AND a.i = c.i"
    mark = np.empty(a.shape[0])
    return Contest(
        lambda: tr.einsum("ij,jk,ik->", t, t, t),
        (
            Peer("scipy", "by hand", lambda: 6 * ((low @ low) * low).sum()),
            guarded("scipy", "naive", lambda: ((a @ a) * a).sum(), gram_work(a)),
            duck_peer("oriented", "SELECT 6 * n FROM (" + every.format("L").replace(
                "count(*)", "count(*) AS n") + ")", tables),
            duck_peer("naive", every.format("E"), tables),
            c_loop(lambda: native.scalar("triangles", *_csr_parts(a), mark)),
        ),
        (t,),
    )


def _clique_pairs(low: Any, i: Any, j: Any) -> Any:
    """Common neighbours of both ends of each edge, then the edges among them."""
    both = sp.csr_array(low[i] * low[j])
    return 24 * ((both @ low) * both).sum()


def _cliques(name: str, scale: float) -> Contest:
    a = data.graph(name, scale)
    t, low = tr.asarray(a), data.oriented(a)
    i, j = sp.coo_array(low).coords
    n = a.shape[0]
    sql = ("SELECT {1} * count(*) FROM {0} a, {0} b, {0} c, {0} d, {0} e, {0} f WHERE a.i = b.i "
           "AND b.i = c.i AND a.j = d.i AND b.j = d.j AND a.j = e.i AND c.j = e.j AND b.j = f.i "
           "AND c.j = f.j")
    tables = {"E": _edges(a), "L": _edges(low)}
    mark, both, found = np.empty(n), np.empty(n), np.empty(n, np.int32)
    return Contest(
        lambda: tr.einsum("ij,ik,il,jk,jl,kl->", t, t, t, t, t, t),
        (
            Peer("scipy", "by hand", lambda: _clique_pairs(low, i, j)),
            duck_peer("oriented", sql.format("L", 24), tables),
            duck_peer("naive", sql.format("E", 1), tables),
            c_loop(lambda: native.scalar("cliques4", *_csr_parts(a), mark, both, found)),
        ),
        (t,),
    )


def _cycles(name: str, scale: float) -> Contest:
    a = data.graph(name, scale)
    t, acc = tr.asarray(a), np.empty(a.shape[0])
    sql = ("WITH p AS (SELECT a.i, b.j, count(*) AS n FROM E a JOIN E b ON a.j = b.i "
           "GROUP BY a.i, b.j) SELECT sum(n * n) FROM p")
    every = ("SELECT count(*) FROM E a, E b, E c, E d WHERE a.j = b.i AND b.j = c.i AND c.j = d.i "
             "AND d.j = a.i")

    def by_hand() -> Any:
        p = a @ a
        return p.data @ p.data

    return Contest(
        lambda: tr.einsum("ij,jk,kl,li->", t, t, t, t),
        (
            guarded("scipy", "by hand", by_hand, gram_work(a)),
            duck_peer("by hand", sql, {"E": _edges(a)}),
            duck_peer("naive", every, {"E": _edges(a)}),
            c_loop(lambda: native.scalar("cycles4", *_csr_parts(a), acc)),
        ),
        (t,),
    )


def _paths(name: str, scale: float) -> Contest:
    a = data.graph(name, scale)
    t, ones = tr.asarray(a), np.ones(a.shape[0])
    come, leave = np.empty(a.shape[0]), np.empty(a.shape[0])
    sql = ("WITH o AS (SELECT i, count(*) AS n FROM E GROUP BY i), "
           "c AS (SELECT j, count(*) AS n FROM E GROUP BY j) "
           "SELECT sum(c.n * o.n) FROM E JOIN c ON E.i = c.j JOIN o ON E.j = o.i")
    return Contest(
        lambda: tr.einsum("ij,jk,kl->", t, t, t),
        (
            Peer("scipy", "by hand", lambda: (ones @ a) @ (a @ (a @ ones))),
            guarded("scipy", "naive", lambda: (a @ a @ a).sum(), gram_work(a) * 20),
            duck_peer("by hand", sql, {"E": _edges(a)}),
            duck_peer("naive", "SELECT count(*) FROM E a, E b, E c WHERE a.j = b.i AND b.j = c.i",
                      {"E": _edges(a)}),
            c_loop(lambda: native.scalar("paths3", *_csr_parts(a), come, leave)),
        ),
        (t,),
    )


def _depths(found: tuple[Any, Any], start: int) -> Any:
    """From SciPy's order and predecessors to the depth of each node, -1 where not reached."""
    order, before = found
    depth = np.full(before.size, -1, np.int32)
    depth[start] = 0
    for node in order[1:]:
        depth[node] = depth[before[node]] + 1
    return depth


def _search(a: Any, start: int, trail: list[str] | None = None) -> Any:
    """The user's loop: next = any over i of (A[i, j] and frontier[i]), less what was seen."""
    n = a.shape[0]
    frontier = tr.from_coo([[start]], [True], (n,))
    seen: Any = frontier
    depth = np.full(n, -1, np.int32)
    depth[start] = level = 0
    while frontier.nnz:
        level += 1
        reached = tr.einsum("ij,i->j", a, frontier, add=tr.any, mul=tr.logical_and)
        frontier, seen = tr.compute(reached & ~seen, reached | seen)
        (places,), stored = frontier.to_coo()  # False may be stored
        depth[places[stored]] = level
        if trail is not None:
            trail.append(f"{int(stored.sum()):,} of {n:,}, {frontier.format}")
    return depth


def _trail(loop: Callable[[list[str]], Any]) -> list[str]:
    """What a loop notes of its rounds."""
    found: list[str] = []
    loop(found)
    return found


def _scipy_search(a: Any, start: int) -> Any:
    depth = np.full(a.shape[0], -1, np.int32)
    depth[start] = level = 0
    frontier = np.array([start])
    while frontier.size:
        level += 1
        near = a[frontier].indices
        frontier = np.unique(near[depth[near] < 0])
        depth[frontier] = level
    return depth


def _bfs(name: str, scale: float) -> Contest:
    a = data.graph(name, scale)
    start = int(np.argmax(np.diff(a.indptr)))
    t = tr.asarray(sp.csr_array((np.ones(a.nnz, bool), a.indices, a.indptr), shape=a.shape))
    depth, queue = np.empty(a.shape[0], np.int32), np.empty(a.shape[0], np.int32)
    one = tr.from_coo([[start]], [True], (a.shape[0],))
    return Contest(
        lambda: _search(t, start),
        (
            Peer("scipy", "csgraph", lambda: breadth_first_order(a, start),
                 read=lambda found: _depths(found, start)),
            Peer("scipy", "by hand", lambda: _scipy_search(a, start)),
            c_loop(lambda: native.loop("bfs", a.shape[0], a.indptr, a.indices, np.int32(start),
                                       depth, queue), lambda _: depth),
        ),
        (t,),
        eager=True,
        planned=lambda: tr.einsum("ij,i->j", t, one, add=tr.any, mul=tr.logical_and) & ~one,
        trail=lambda: _trail(partial(_search, t, start)),
    )


ROUNDS, DAMPING = 20, 0.85


def _rank(p: Any, x: Any) -> Any:
    for _ in range(ROUNDS):
        x = (DAMPING * (p @ x) + (1 - DAMPING) / p.shape[0]).compute()
    return x


def _scipy_rank(p: Any) -> Any:
    x = np.full(p.shape[0], 1 / p.shape[0])
    for _ in range(ROUNDS):
        x = DAMPING * (p @ x) + (1 - DAMPING) / p.shape[0]
    return x


def _links(scale: float) -> Any:
    """The probability to go from page j to page i."""
    a = data.matrix("webbase", scale)
    out = np.asarray(a.sum(axis=1)).ravel()
    p = sp.csr_array(a.T / np.where(out > 0, out, 1.0)[None, :])
    return sp.csr_array((p.data, p.indices.astype(np.int32), p.indptr.astype(np.int32)), p.shape)


def _pagerank(scale: float) -> Contest:
    p = _links(scale)
    n = p.shape[0]
    tp, x0 = tr.asarray(p), tr.asarray(np.full(n, 1 / n))
    x, y = np.empty(n), np.empty(n)
    return Contest(
        lambda: _rank(tp, x0),
        (
            Peer("scipy", "by hand", lambda: _scipy_rank(p)),
            c_loop(lambda: native.loop("pagerank", *_csr_parts(p), DAMPING, ROUNDS, x, y),
                   lambda _: x),
        ),
        (tp, x0),
        eager=True,
        planned=lambda: DAMPING * (tp @ x0) + (1 - DAMPING) / n,
    )


def _rank_from(p: Any, start: Any, trail: list[str] | None = None) -> Any:
    """Ranks as seen from one page: all begins there and returns there."""
    x = start
    for _ in range(ROUNDS):
        x = (DAMPING * (p @ x) + (1 - DAMPING) * start).compute()
        if trail is not None:
            trail.append(f"{x.nnz:,} of {x.shape[0]:,}, {x.format}")
    return x


def _pagerank_from(scale: float) -> Contest:
    p = _links(scale)
    n, page = p.shape[0], int(np.argmax(np.diff(p.tocsc().indptr)))
    tp, t0 = tr.alternatives(tr.asarray(p), tr.asarray(p.tocsc())), tr.from_coo(
        [[page]], [1.0], (n,))
    dense = np.zeros(n)
    dense[page] = 1.0

    def by_hand() -> Any:
        x = dense
        for _ in range(ROUNDS):
            x = DAMPING * (p @ x) + (1 - DAMPING) * dense
        return x

    return Contest(
        lambda: _rank_from(tp, t0),
        (Peer("scipy", "by hand", by_hand),),
        (tp, t0),
        eager=True,
        planned=lambda: DAMPING * (tp @ t0) + (1 - DAMPING) * t0,
        read=lambda x: x.to_numpy(),
        trail=lambda: _trail(partial(_rank_from, tp, t0)),
    )


def _few(a: Any, x: Any, w1: Any, w2: Any, rows: Any) -> Job:
    """The expert computes the first layer for the neighbours of the asked nodes alone."""

    def job() -> Any:
        part = a[rows]
        near = np.unique(part.indices)
        hidden = np.maximum((a[near] @ x) @ w1, 0)
        place = np.searchsorted(near, part.indices)
        small = sp.csr_array((part.data, place, part.indptr), shape=(rows.size, near.size))
        return np.maximum(small @ (hidden @ w2), 0)

    return job


def _needed(a: Any, rows: Any, widths: tuple[int, int, int]) -> tuple[float, float]:
    """The share of the multiplications that the asked rows need, and of the numbers that are read:
    each visit of an entry reads a row of ``first`` numbers in the first layer and of ``last`` in
    the second, from anywhere."""
    first, second, last = widths
    part = a[rows]
    near = a[np.unique(part.indices)]

    def count(inner: Any, outer: Any) -> float:
        hidden = inner.nnz * first + inner.shape[0] * second * (first + last)
        return float(hidden + outer.nnz * last)

    read = float(near.nnz * first + part.nnz * last) / (a.nnz * float(first + last))
    return count(near, part) / count(a, a), read


def _convolution(share: float, scale: float) -> Contest:
    a = data.graph("power-law", scale * 5)
    n, rng = a.shape[0], np.random.default_rng(8)
    x, w1, w2 = rng.random((n, 64)), rng.standard_normal((64, 32)), rng.standard_normal((32, 8))
    rows = np.sort(rng.permutation(n)[: max(int(n * share), 2)])
    ta, tx, t1, t2 = (tr.asarray(y) for y in (a, x, w1, w2))

    def all_nodes() -> Any:
        hidden = tr.maximum(ta @ tx @ t1, 0)
        return tr.maximum(ta @ hidden @ t2, 0)

    def ours() -> Any:
        return all_nodes()[rows]

    def naive() -> Any:
        return np.maximum(a @ np.maximum(a @ x @ w1, 0) @ w2, 0)[rows]

    mark, near, few = np.zeros(n, np.int32), np.empty(n, np.int32), rows.astype(np.int32)
    xw, inner = np.empty((n, 32)), np.empty((n, 8))
    return Contest(
        ours,
        (
            Peer("scipy", "by hand", _few(a, x, w1, w2, rows)), Peer("scipy", "naive", naive),
            c_loop(lambda: native.into(
                (few.size, 8), "convolution", n, few.size, few, *_csr_parts(a)[1:], x, w1, w2,
                np.int32(share > 0.1), mark, near, xw, inner, native.OUT)),
            Peer(*WHOLE.split(" ", 1), lambda: all_nodes().compute(),
                 read=lambda y: y.to_numpy()[rows]),
        ),
        (ta, tx, t1, t2),
        share=_needed(a, rows, (64, 32, 8)),
    )


for _name in GRAPHS:
    if data.has_graph(_name):
        add(f"triangles {_name}", 'einsum("ij,jk,ik->", E, E, E)', partial(_triangles, _name))
        add(f"4-cliques {_name}", 'einsum("ij,ik,il,jk,jl,kl->", E, ...)', partial(_cliques, _name))
        add(f"4-cycles {_name}", 'einsum("ij,jk,kl,li->", E, E, E, E)', partial(_cycles, _name))
        add(f"paths {_name}", 'einsum("ij,jk,kl->", E, E, E)', partial(_paths, _name))
add("bfs power-law", "frontier = any(A and frontier) & ~seen, until empty",
    lambda scale: _bfs("power-law", scale * 5))
if data.has_graph("email-Enron"):
    add("bfs email-Enron", "frontier = any(A and frontier) & ~seen, until empty",
        partial(_bfs, "email-Enron"))
add("pagerank webbase", "x = d * (P @ x) + (1 - d) / n, 20 times", _pagerank)
add("pagerank webbase, one page", "x = d * (P @ x) + (1 - d) * e, 20 times", _pagerank_from)
add("convolution 0.1%", "max(A @ max(A @ X @ W1, 0) @ W2, 0)[rows]", partial(_convolution, 0.001))
add("convolution 1%", "max(A @ max(A @ X @ W1, 0) @ W2, 0)[rows]", partial(_convolution, 0.01))
add("convolution 100%", "max(A @ max(A @ X @ W1, 0) @ W2, 0)[rows]", partial(_convolution, 1.0))
