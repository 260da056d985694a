"""The matrices and tensors of STOREL's Table 2 by dimensions, entries and character, and graphs.

The originals are not redistributed here: each stand-in has the original's size and number of
entries and the structure that decides costs: rows per block, distance from the diagonal, skew.
Table 2 prints 31.31M entries for NIPS beside a density of 3e-5, which is 3.1M, as FROSTT's file
has: 3.1M is used. NELL (76.9M) is made at a tenth.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from suite.data import Entries, as_csr, remembered, skewed_draw, tensor3

#: Real graphs are read from here where the folder exists.
REAL = Path(os.environ.get("TENSOREL_REAL_DATA", Path(__file__).parents[3] / "shared" / "data"))


@dataclass(frozen=True)
class Mesh:
    """A finite-element matrix: ``block`` unknowns at a node, neighbours ``spread`` nodes away
    on average, a share ``far`` of them anywhere, a share ``empty`` of the nodes without any."""

    rows: int
    nnz: int
    block: int
    spread: float
    far: float = 0.0
    empty: float = 0.0


MESHES = {
    "cant": Mesh(62_451, 2_030_000, 3, 60),
    "consph": Mesh(83_334, 3_050_000, 3, 900),
    "cop20k": Mesh(121_192, 1_360_000, 1, 9000, 0.2, 0.17),
    "pdb1HYS": Mesh(36_417, 2_190_000, 6, 40, 0.05),
    "rma10": Mesh(46_835, 2_370_000, 5, 120),
}
MATRICES = (*MESHES, "webbase")


def _mesh(m: Mesh, scale: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    nodes = max(int(m.rows * scale) // m.block, 40)
    rows = nodes * m.block
    live = max(int(nodes * (1 - m.empty)), 1)
    kept = np.sort(rng.permutation(nodes)[:live])
    wanted = m.nnz * rows / m.rows
    count = max(int(1.06 * wanted / m.block**2), live)
    here = kept[rng.integers(0, live, count)]
    away = np.rint(rng.laplace(0, min(m.spread, nodes / 8), count)).astype(np.int64)
    there = np.clip(here + away, 0, nodes - 1)
    there = np.where(rng.random(count) < m.far, rng.integers(0, nodes, count), there)
    unit = np.arange(m.block)
    i = np.repeat(here[:, None] * m.block + unit, m.block, axis=1).ravel()
    j = np.tile(there[:, None] * m.block + unit, (1, m.block)).ravel()
    return as_csr(i, j, (rows, rows), seed)


def _webbase(scale: float, seed: int) -> Any:
    """Links of pages: steep out- and in-degrees, most pages with one to three links."""
    rng = np.random.default_rng(seed)
    n, nnz = max(int(1_000_005 * scale), 50), max(int(3_110_000 * scale), 100)
    own = np.arange(n)  # a link of each page to itself, as in webbase-1M
    i = np.r_[own, skewed_draw(rng, n, nnz - n, 0.7)]
    j = np.r_[own, skewed_draw(rng, n, nnz - n, 0.7)]
    return as_csr(i, j, (n, n), seed)


@remembered
def matrix(name: str, scale: float = 1.0) -> Any:
    """One of Table 2's six matrices as canonical CSR with int32 indices."""
    seed = MATRICES.index(name) + 1
    return _webbase(scale, seed) if name == "webbase" else _mesh(MESHES[name], scale, seed)


#: name: shape, entries, skew of the first two axes
_TENSORS: dict[str, tuple[tuple[int, int, int], int, float]] = {
    "nips": ((2_482, 2_862, 14_036), 3_101_609, 0.4),
    "nell": ((12_092, 9_184, 28_818), 7_687_942, 0.5),
    "facebook": ((1_591, 63_891, 63_890), 737_934, 0.5),
    "enron": ((6_066, 5_699, 244_268), 3_100_000, 0.6),
}
TENSORS = tuple(_TENSORS)


def tensor(name: str, scale: float = 1.0) -> Entries:
    """One of Table 2's four tensors. Axes shrink with the cube root, so density stays."""
    shape, nnz, skew = _TENSORS[name]
    side = scale ** (1 / 3)
    first, second, third = (max(int(n * side), 8) for n in shape)
    made: Entries = tensor3(max(int(nnz * scale), 50), (first, second, third),
                            TENSORS.index(name) + 1, skew)
    return made


@remembered
def factor(rows: int, columns: int, seed: int = 7) -> Any:
    """A synthetic factor as the paper makes them: one cell in 32 is stored."""
    rng = np.random.default_rng(seed)
    count = max(rows * columns // 32, 4)
    return as_csr(rng.integers(0, rows, count), rng.integers(0, columns, count),
                (rows, columns), seed)


@remembered
def graph(name: str, scale: float = 1.0) -> Any:
    """An undirected graph without loops as CSR of ones; "power-law" or a real one's name."""
    a = _generated_graph(scale) if name == "power-law" else _part(_real_graph(name), scale)
    a = sp.csr_array(a + a.T)
    a.setdiag(0)
    a.eliminate_zeros()
    ones = np.ones(a.nnz)
    made = sp.csr_array((ones, a.indices.astype(np.int32), a.indptr.astype(np.int32)),
                        shape=a.shape)
    made.sort_indices()
    return made


def _generated_graph(scale: float) -> Any:
    rng = np.random.default_rng(11)
    nodes, edges = max(int(40_000 * scale), 40), max(int(200_000 * scale), 120)
    number = rng.permutation(nodes)
    ends = [np.minimum(nodes * rng.random(edges) ** 2.2, nodes - 1).astype(int) for _ in range(2)]
    return as_csr(number[ends[0]], number[ends[1]], (nodes, nodes), 11)


def has_graph(name: str) -> bool:
    return name == "power-law" or (REAL / "load_data.py").exists()


def _real_graph(name: str) -> Any:
    spec = importlib.util.spec_from_file_location("load_data", REAL / "load_data.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return sp.csr_array(module.load(name))


def _part(a: Any, scale: float) -> Any:
    """The graph among a random share of the nodes, with about ``scale`` of the edges."""
    if scale >= 1:
        return a
    nodes = np.random.default_rng(12).permutation(a.shape[0])
    kept = np.sort(nodes[: max(int(a.shape[0] * scale**0.5), 2)])
    return a[kept][:, kept]


def oriented(a: Any) -> Any:
    """Each edge once, from the end of lower degree to the other: the expert's first step."""
    degree = np.diff(a.indptr)
    i, j = np.repeat(np.arange(a.shape[0]), degree), a.indices
    up = (degree[i] < degree[j]) | ((degree[i] == degree[j]) & (i < j))
    kept = sp.coo_array((np.ones(int(up.sum())), (i[up], j[up])), shape=a.shape)
    return sp.csr_array(kept)
