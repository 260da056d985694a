"""Indexing against NumPy, by examples and by random keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from front_support import check, sample
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorel as tr
from tensorel import errors

SHAPE = (3, 4, 5)
KEYS: list[Any] = [
    0, -1, slice(None), slice(1, None), slice(None, None, -1), slice(10, 0, -2), slice(2, 2),
    ..., None, (0, 1, 2), (slice(None), 2), (..., 1), (None, ..., None), (0, ..., slice(1, 4, 2)),
    [0, 2], [[0, 1], [2, 0]], [], np.array([1, -1]), ([0, 1], [2, 3]), ([0, 1], slice(None), 1),
    ([0, 1], slice(None), [1, 2]), (slice(None), [0, 1], [2, 3]), (slice(None), 0, [1, 2]),
    (0, slice(None), [1, 2]), ([0], None, [1, 2]), (None, [0, 1]), ([[0], [1]], [0, 1, 2]),
    (slice(None), slice(None), [0, 0, 4]), (np.int64(1), np.uint8(2)), (slice(1, 3), [1], 2),
    ([True, False, True],), (slice(None), [True, False, False, True]),
    (slice(None), [True, False, False, True], [1, 2]), True, False, (0, True), np.array(2),
    range(2), (slice(None), np.zeros((0, 2), np.int64)), (None, None, 1, ..., [0, 1]),
]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_keys(key: Any) -> None:
    x = sample(SHAPE, density=1.0)
    check(tr.asarray(x)[key], x[key])


def _entry(n: int) -> st.SearchStrategy[Any]:
    bound = st.one_of(st.none(), st.integers(-n - 2, n + 2))
    step = st.one_of(st.none(), st.integers(-3, 3).filter(bool))
    return st.one_of(
        st.integers(-n, n - 1), st.builds(slice, bound, bound, step),
        st.lists(st.integers(-n, n - 1), min_size=1, max_size=1),
        st.lists(st.integers(-n, n - 1), min_size=2, max_size=2),
        st.lists(st.booleans(), min_size=n, max_size=n).map(np.array),
    )


@st.composite
def keys(draw: st.DrawFn) -> tuple[Any, ...]:
    count = draw(st.integers(0, 3))
    key: list[Any] = [draw(_entry(n)) for n in SHAPE[:count]]
    for _ in range(draw(st.integers(0, 2))):
        key.insert(draw(st.integers(0, len(key))), None)
    if draw(st.booleans()):
        key.append(Ellipsis)
    return tuple(key)


@settings(max_examples=150, deadline=None)
@given(keys())
def test_random_keys(key: tuple[Any, ...]) -> None:
    x = sample(SHAPE, density=1.0)
    try:
        wanted = x[key]
    except IndexError:
        with pytest.raises(errors.IndexError_):
            tr.asarray(x)[key]
        return
    check(tr.asarray(x)[key], wanted, engine=False)


def test_masks_full_partial_and_lazy() -> None:
    x = sample((3, 4))
    a = tr.asarray(x)
    check(a[a > 0], x[x > 0])
    check(a[x > 0], x[x > 0])
    check(a[x[:, 0] > 0], x[x[:, 0] > 0])
    check(a[:, x[0] != 0], x[:, x[0] != 0])
    check(a[x[:, 0] >= 0, 1], x[x[:, 0] >= 0, 1])
    s = tr.tensor(x, format="csr")
    check(s[s > 0], x[x > 0])
    check(s[s <= 0], x[x <= 0])
    check(tr.nonzero(s)[1], np.nonzero(x)[1])
    b = sample((2, 3, 4))
    m = b.sum(2) > 0
    check(tr.asarray(b)[m], b[m])
    check(tr.asarray(b)[m, 1:3], b[m, 1:3])


def test_index_tensors() -> None:
    x = sample((4, 5))
    a = tr.asarray(x)
    check(a[tr.asarray([3, 1])], x[[3, 1]])
    check(a[tr.asarray(2)], x[2])
    check(a[a.argmax(0), tr.arange(5)], x[x.argmax(0), np.arange(5)])


def test_errors() -> None:
    a = tr.asarray(sample((3, 4)))
    for key, words in [
        (3, "index 3 is out of range for axis 0 with 3 entries"),
        ((0, -5), "index -5 is out of range for axis 1"),
        ([0, 9], "index 9 is out of range for axis 0"),
        ((0, 0, 0), "3 indices for a tensor of 2 axes"),
        ((..., ...), "one '...'"),
        (np.ones(5, bool), "mask of shape"),
        (([0, 1], [0, 1, 2]), "do not broadcast"),
        (1.5, "cannot index"),
        (np.array([0.5]), "cannot index"),
        ("a", "cannot index"),
    ]:
        with pytest.raises(errors.IndexError_, match=words):
            a[key]
    with pytest.raises(ValueError, match="step 0"):
        a[::0]
    with pytest.raises(errors.TypeError_, match="never written"):
        a[0] = 1


def test_take_and_take_along_axis() -> None:
    x = sample((3, 4), density=1.0)
    a = tr.asarray(x)
    check(tr.take(a, [1, 1, 0], axis=1), np.take(x, [1, 1, 0], axis=1))
    check(tr.take(a, 5), np.take(x, 5))
    order = np.argsort(x, axis=1)
    check(tr.take_along_axis(a, order, axis=1), np.take_along_axis(x, order, axis=1))
    check(tr.take_along_axis(a, np.array([[2]]), axis=0), np.take_along_axis(x, np.array([[2]]), 0))


def test_rows_iterate() -> None:
    x = sample((3, 2))
    assert [r.tolist() for r in tr.asarray(x)] == x.tolist()
    with pytest.raises(errors.TypeError_):
        iter(tr.asarray(1.0))
