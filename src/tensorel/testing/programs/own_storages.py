"""Storage mappings for random programs: layouts that no built-in format has, by rank. Any tensor of
the rank fits in."""

from __future__ import annotations

import json

import numpy as np

_RUNS = "sum(<r,_> in {0}) sum(<j,_> in start(r):start(r)+len(r)) {{ {1} -> val(r) }}"
_BLOCKS = (
    "sum(<bi,_> in 0:MB) sum(<b,bj> in idx(pos(bi):pos(bi+1))) sum(<i,_> in 0:R, <j,_> in 0:C)"
    " { (bi*R+i, bj*C+j) -> val((b*R+i)*C+j) }")
_ELL = "sum(<i,_> in 0:M, <s,_> in 0:len(i)) { (i, idx(i*K+s)) -> val(i*K+s) }"
_PADDED = (
    "CREATE int ARRAY idx(M*K); CREATE real ARRAY val(M*K); CREATE TENSOR A(M,N) AS "
    "sum(<i,_> in 0:M, <s,_> in 0:K) if (idx(i*K+s) < N) then { (i, idx(i*K+s)) -> val(i*K+s) }")
_DIAGONALS = (
    "CREATE int ARRAY off(D); CREATE real ARRAY val(D*M); CREATE TENSOR A(M, N) AS "
    "sum(<d, o> in off, <i,_> in 0:M) if (0 <= i+o && i+o < N) then { (i, i+o) -> val(d*M+i) }")
_BY_ROWS = "sum(<i,_> in 0:M) sum(<p,j> in idx(pos(i):pos(i+1))) { (i, j) -> val(p) }"
_SLICES = (
    "sum(<k,_> in 0:K) sum(<p,i> in idx(pos(k):pos(k+1))) sum(<j,_> in 0:N)"
    " { (i,j,k) -> val(p*N+j) }")
_TREE = (
    "sum(<p,j> in idx0) sum(<q,i> in idx1(pos1(p):pos1(p+1))) sum(<r,k> in idx2(pos2(q):pos2(q+1)))"
    " { (i,j,k) -> val(r) }")

TEXTS: dict[int, tuple[str, ...]] = {
    1: (_RUNS.format("0:R", "j"),),
    2: (_RUNS.format("pos(i):pos(i+1)", "(i, j)").replace("sum(<r", "sum(<i,_> in 0:M) sum(<r"),
        _BLOCKS, _ELL, _PADDED, _DIAGONALS, _BY_ROWS),
    3: (_SLICES, _TREE),
}


def own_formats(rank: int, rng: np.random.Generator) -> list[str]:
    """Texts of formats that ``registry.resolve`` takes."""
    blocks = {"R": int(rng.integers(1, 4)), "C": int(rng.integers(1, 4))}
    return [f"storage {json.dumps(['own', [text, blocks if text is _BLOCKS else {}]])}"
            for text in TEXTS.get(rank, ())]
