"""Sizes of joins from samples: exact where nothing is left out, near where it is."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tensorel.stats.estimates import join_sampling
from tensorel.stats.estimates.join_sampling import Edge, Rows, is_cyclic, join_size, rows_of
from tensorel.storage.convert import from_coo
from tensorel.storage.stored import Stored

FORMATS = ("csr", "csc", "coo")


@pytest.fixture(autouse=True)
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_sampling, "MIN_ENTRIES", 1)
        yield


def _stored(mask: np.ndarray, fmt: str) -> Stored:
    return from_coo(np.nonzero(mask), np.ones(int(mask.sum())), mask.shape, format=fmt)


def _rows(mask: np.ndarray, fmt: str) -> Rows:
    found = rows_of(_stored(mask, fmt))
    assert found is not None
    return found


def _exact(masks: list[np.ndarray], pairs: list[tuple[str, str]]) -> float:
    text = ",".join(a + b for a, b in pairs)
    return float(np.einsum(f"{text}->", *(m.astype(float) for m in masks), optimize=True))


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_exact_without_leaving_out(data: st.DataObject) -> None:
    n = data.draw(st.integers(3, 6))
    names = "abcd"[: data.draw(st.integers(2, 4))]
    pairs = data.draw(st.lists(st.sampled_from(
        [p for p in itertools.product(names, repeat=2) if p[0] != p[1]]), min_size=1, max_size=6))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    several = [rng.random((n, n)) < 0.6 for _ in range(2)]
    for m in several:
        m[0] = True  # no matrix is empty, none has fewer entries than rows
    formats = [data.draw(st.sampled_from(FORMATS)) for _ in several]
    rows = [_rows(m, f) for m, f in zip(several, formats)]
    which = [data.draw(st.integers(0, 1)) for _ in pairs]
    edges: dict[Edge, np.ndarray] = {
        (rows[w], a, b): several[w] for w, (a, b) in zip(which, pairs)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_sampling, "SAMPLED_TUPLES", 10**6)
        patch.setattr(join_sampling, "MAX_CANDIDATES", 10**6)
        found = join_size(list(edges))
    assert found == pytest.approx(_exact(list(edges.values()), [e[1:] for e in edges]))


PATTERNS = {
    "triangle": "ij jk ik", "directed triangle": "ij jk ki", "4-cycle": "ij jk kl li",
    "bipartite cycle": "ik jk il jl", "4-clique": "ij ik il jk jl kl",
    "diamond": "ij ik jk jl kl", "triangle with a tail": "ij jk ik kl",
}


SIDE = 80


def _graph(kind: str, rng: np.random.Generator) -> np.ndarray:
    n = SIDE
    if kind == "communities":  # cliques of a dozen, a few edges between
        group = rng.integers(0, n // 8, n)
        near = (group[:, None] == group[None, :]) & (rng.random((n, n)) < 0.8)
        found = near | (rng.random((n, n)) < 0.01)
    else:
        chance = (np.arange(n) + 4.0) ** -0.7
        found = rng.random((n, n)) < np.minimum(chance[:, None] * chance[None, :] * 40, 1)
    found = np.triu(found, 1)
    both: np.ndarray = found | found.T
    return both


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("kind", ["communities", "skewed"])
def test_near_where_sampled(kind: str, pattern: str, fmt: str) -> None:
    mask = _graph(kind, np.random.default_rng(3))
    rows = _rows(mask, fmt)
    pairs = [(p[0], p[1]) for p in PATTERNS[pattern].split()]
    truth = _truth(kind, pattern)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(join_sampling, "SAMPLED_TUPLES", 128)
        patch.setattr(join_sampling, "MAX_CANDIDATES", 1024)
        found = join_size([(rows, a, b) for a, b in pairs])
    assert truth / 2 < found < truth * 2


@cache
def _truth(kind: str, pattern: str) -> float:
    mask = _graph(kind, np.random.default_rng(3))
    pairs = [(p[0], p[1]) for p in PATTERNS[pattern].split()]
    return _exact([mask] * len(pairs), pairs)


def test_same_shape_is_looked_at_once() -> None:
    rows = _rows(_graph("skewed", np.random.default_rng(0)), "csr")
    first = join_size([(rows, "i", "j"), (rows, "j", "k"), (rows, "i", "k")])
    kept = len(rows.samples)
    again = join_size([(rows, "c", "a"), (rows, "b", "a"), (rows, "c", "b")])
    assert again == first and len(rows.samples) == kept


def test_directions_of_a_symmetric_pattern_do_not_matter() -> None:
    """Nor is it taken for symmetric if a mirror image is missing."""
    mask = _graph("skewed", np.random.default_rng(0))
    rows = _rows(mask, "csr")
    assert rows.mirrored
    pairs = [("i", "j"), ("j", "k"), ("i", "k")]
    sizes = {join_size([(rows, b, a) if k >> n & 1 else (rows, a, b)
                        for n, (a, b) in enumerate(pairs)]) for k in range(8)}
    assert len(sizes) == 1
    assert not _rows(np.triu(mask), "csr").mirrored
    assert not _rows(mask[:, :-1], "csr").mirrored


def test_cycles() -> None:
    rows = _rows(np.ones((4, 4), bool), "csr")
    assert not is_cyclic([(rows, "i", "j"), (rows, "j", "k"), (rows, "j", "l")])
    assert is_cyclic([(rows, "i", "j"), (rows, "j", "k"), (rows, "k", "i")])
    assert is_cyclic([(rows, "i", "j"), (rows, "j", "i")])


def test_parts_multiply() -> None:
    mask = _graph("skewed", np.random.default_rng(1))
    rows = _rows(mask, "csr")
    assert join_size([(rows, "i", "j"), (rows, "k", "l")]) == float(mask.sum()) ** 2


def test_nothing_met_is_less_than_one_tuple() -> None:
    """A bipartite graph has no triangles; the sample says few, not none: it has not seen all."""
    rng = np.random.default_rng(2)
    mask = np.zeros((800, 800), bool)
    mask[:400, 400:] = rng.random((400, 400)) < 0.1
    mask |= mask.T
    rows = _rows(mask, "csr")
    edges = [(rows, "i", "j"), (rows, "j", "k"), (rows, "i", "k")]
    assert 0 < join_size(edges) < 0.01 * _exact([mask] * 2, [("i", "j"), ("j", "k")])


def test_views_of_rows() -> None:
    """The arrays of a view are longer than what it has."""
    mask = _graph("skewed", np.random.default_rng(4))
    whole = _rows(mask, "csr")
    part, inside = Rows(0, whole.pos[20:71], whole.idx, whole.across), mask[20:70]
    assert part.size == inside.sum()
    assert np.array_equal(part.lengths(1, np.arange(SIDE)), inside.sum(0))
    rows, columns = part.entries(10**6)[0]
    assert np.array_equal(np.stack((rows, columns)), np.stack(np.nonzero(inside)))
    i, j = np.meshgrid(np.arange(50), np.arange(SIDE), indexing="ij")
    assert np.array_equal(part.has((i.ravel(), j.ravel())), inside.ravel())
