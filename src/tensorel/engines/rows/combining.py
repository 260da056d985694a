"""UNION, INTERSECT and EXCEPT."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tensorel.engines.rows.compacting import Rows
from tensorel.engines.rows.frames import Frame, from_vectors
from tensorel.engines.rows.keys import comparable
from tensorel.engines.rows.ordering import permutation
from tensorel.engines.rows.vectors import Array, Vector, concatenated
from tensorel.sql.algebra import SetOperation
from tensorel.storage.key_matching import group_ids


def combined(rows: Rows, node: SetOperation, left: Frame, right: Frame) -> Frame:
    """The rows of both sides, or those that both have, or the right has not."""
    left, ours = rows.vectors(left, node.left.columns)
    right, others = rows.vectors(right, node.right.columns)
    whole = [concatenated([a, b]) for a, b in zip(ours, others)]
    if node.kind == "union" and node.all:
        return _framed(rows, node, whole)
    ids = _row_ids(whole)
    split = left.count
    if node.kind == "union":
        at = _first_of(ids)
    elif node.all:
        at = _counted(ids, split, node.kind)
    else:
        met = np.zeros(int(ids.max(initial=-1)) + 1, bool)
        met[ids[split:]] = True
        first = _first_of(ids[:split])
        at = first[met[ids[first]] == (node.kind == "intersect")]
    return _framed(rows, node, [v.take(at) for v in whole])


def _framed(rows: Rows, node: SetOperation, vectors: Sequence[Vector]) -> Frame:
    return from_vectors(rows.arrays, len(vectors[0]), dict(zip(node.made, vectors)))


def _row_ids(vectors: Sequence[Vector]) -> Array:
    return group_ids([comparable(v) for v in vectors],
                     [None if v.valid is None else ~v.valid for v in vectors]).ids


def _first_of(ids: Array) -> Array:
    """The first row of each kind."""
    _, first = np.unique(ids, return_index=True)
    return np.sort(first)


def _counted(ids: Array, split: int, kind: str) -> Array:
    """Rows of the left as often as the sides say: the smaller count, or the difference."""
    ours = ids[:split]
    kinds = int(ids.max(initial=-1)) + 1
    there = np.bincount(ids[split:], minlength=kinds)
    order = permutation([ours])
    counts = np.bincount(ours, minlength=kinds)
    starts = np.cumsum(counts) - counts
    rank = np.empty(split, np.int64)
    rank[order] = np.arange(split) - starts[ours[order]]
    keep = rank < there[ours] if kind == "intersect" else rank >= there[ours]
    return np.flatnonzero(keep)
