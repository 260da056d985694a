"""Corners: extents 0 and 1, rank 0 and many, huge virtual shapes, random einsums."""

from __future__ import annotations

import numpy as np
import pytest
from front_support import check, sample
from hypothesis import given, settings
from hypothesis import strategies as st

import tensorel as tr

EMPTY = [(0,), (0, 3), (3, 0), (0, 0), (2, 0, 3), (1, 0)]


@pytest.mark.parametrize("shape", EMPTY)
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    x = np.zeros(shape)
    a = tr.asarray(x)
    check(a + 1, x + 1)
    check(a.T, x.T)
    check(a.sum(), x.sum())
    check(tr.flip(a), np.flip(x))
    check(tr.roll(a, 1, 0), np.roll(x, 1, 0))
    check(tr.pad(a, 1), np.pad(x, 1))
    check(tr.concat([a, a], axis=-1), np.concatenate([x, x], axis=-1))
    check(tr.sort(a), np.sort(x))
    check(a.reshape(0, 5), x.reshape(0, 5))
    check(a[..., None], x[..., None])
    check(tr.tile(a, 2), np.tile(x, 2))
    check(a[a > 0], x[x > 0])
    check(tr.unique_values(a), np.unique_values(x))
    assert a.nnz == 0 and a.to_coo()[1].size == 0


def test_scalars_as_tensors() -> None:
    a = tr.asarray(3.0)
    check(a + 1, np.asarray(4.0))
    check(a.sum(), np.asarray(3.0))
    check(a[...], np.asarray(3.0))
    check(a[None], np.asarray([3.0]))
    check(a.reshape(1), np.asarray([3.0]))
    check(tr.stack([a, a]), np.asarray([3.0, 3.0]))
    check(tr.broadcast_to(a, (2, 2)), np.full((2, 2), 3.0))
    check(a * tr.asarray([1, 2]), np.asarray([3.0, 6.0]))


def test_rank_eight() -> None:
    x = sample((2, 1, 2, 1, 2, 1, 2, 2))
    a = tr.asarray(x)
    check(a.sum((0, 2, 4)), x.sum((0, 2, 4)))
    check(a.T * 2, x.T * 2)
    check(a[1, ..., ::-1], x[1, ..., ::-1])


def test_huge_virtual_shapes() -> None:
    n, rank = 10**6, 7
    coords = np.array([[5, 7, 5]] * rank)
    coords[0] = [1, 2, 3]
    a = tr.from_coo(coords, [1.0, 2.0, 3.0], (n,) * rank, format="coo")
    assert a.size == n**rank and (a * 2).shape == (n,) * rank
    assert (a * a).sum().item() == 14.0
    assert sorted((a * 2).compute().to_coo()[1].tolist()) == [2.0, 4.0, 6.0]


LETTERS = "abcd"
SIZES = dict(zip(LETTERS, (2, 3, 1, 2), strict=True))


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.text(LETTERS, min_size=0, max_size=3), min_size=1, max_size=3),
    st.data(),
)
def test_random_einsums(terms: list[str], data: st.DataObject) -> None:
    used = sorted(set("".join(terms)))
    output = data.draw(st.permutations(used)) if used else []
    kept = "".join(output[: data.draw(st.integers(0, len(output)))])
    operands = [
        sample(tuple(SIZES[c] for c in term), seed=k, density=1.0) for k, term in enumerate(terms)
    ]
    for text in (",".join(terms) + "->" + kept, ",".join(terms)):
        check(tr.einsum(text, *operands), np.einsum(text, *operands), engine=False)


def test_methods_of_arrays() -> None:
    a = np.array([[0.0, 2.567], [-1.25, 0.0]])
    t = tr.tensor(a, "csr")
    assert np.array_equal(t.round(1).to_numpy(), a.round(1))
    assert np.array_equal(t.clip(-1, 2).to_numpy(), a.clip(-1, 2))
    assert np.array_equal((t * 1j).conjugate().to_numpy(), (a * 1j).conjugate())


def test_an_axis_that_is_not_there_is_caught_as_numpys() -> None:
    for kind in (ValueError, IndexError, tr.errors.AxisError):
        with pytest.raises(kind):
            tr.ones((2, 3)).sum(axis=5)
    assert tr.can_cast(tr.float64, tr.float32, casting="same_kind")
    assert not tr.can_cast(tr.float64, tr.float32)


def test_errors_name_the_function_that_was_called() -> None:
    for make in (tr.zeros, tr.ones):
        for shape in (-1, 2**61):
            with pytest.raises(tr.errors.ShapeError, match=f"^{make.__name__}: "):
                make(shape)
