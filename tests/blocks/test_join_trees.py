"""Programs of the paper on two-phase execution as relations: convolution as a join of the 2^d
neighbouring tiles, with a bank of filters and channels, and a training step as aggregated joins."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tensorel as tr
from tensorel.blocks.join_groups.pilot import Join, Scan, Tree, pilot


def convolved(x: np.ndarray, bank: np.ndarray) -> np.ndarray:
    """Of channels and axes, by filters, channels and shifts; without the border."""
    sizes = bank.shape[2:]
    windows = np.lib.stride_tricks.sliding_window_view(x, sizes, tuple(range(1, x.ndim)))
    axes = "ijk"[:len(sizes)], "abc"[:len(sizes)]
    return np.einsum(f"c{axes[0]}{axes[1]},fc{axes[1]}->f{axes[0]}", windows, bank)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_convolution_is_a_join_of_neighbouring_tiles(d: int) -> None:
    tiles, tile, size, channels, filters = 3, 4, 3, 3, 5
    rng = np.random.default_rng(d)
    x = rng.random((channels, *[tiles * tile] * d))
    bank = rng.random((filters, channels, *[size] * d))
    R = tr.relation(x, tile=(None, *[tile] * d))
    for axis in range(1, d + 1):  # each tile with the next one along each axis: 2^d of them
        def back(*key: int, axis: int = axis) -> tuple[int, ...]:
            return tuple([k - (n == axis) for n, k in enumerate(key)])

        def has_one_before(*key: int, axis: int = axis) -> bool:
            return key[axis] > 0

        def beside(a: np.ndarray, b: np.ndarray, axis: int = axis) -> np.ndarray:
            return np.concatenate([a, b.take(range(size - 1), axis)], axis)

        everywhere = tuple(range(d + 1))
        def has_one_after(*key: int, axis: int = axis) -> bool:
            return key[axis] < tiles - 1

        inner = R.filter(has_one_after).rekey(lambda *key: key)  # of fewer keys
        R = inner.join(R.filter(has_one_before).rekey(back), everywhere, everywhere, beside)
    found = R.transform(lambda a: convolved(a, bank)).to_tensor().to_numpy()
    np.testing.assert_allclose(found, convolved(x, bank)[
        (slice(None), *[slice((tiles - 1) * tile)] * d)])


@pytest.mark.parametrize("d", [1, 2, 3])
def test_lineage_of_a_convolution_has_all_neighbours(d: int) -> None:
    tiles = 4
    keys = np.array(list(product(range(tiles), repeat=d)))
    tree: Tree = Scan(0)
    for shift in list(product((0, 1), repeat=d))[1:]:
        on = tuple([(lambda rows, k=k, s=s: rows[:, k] + s, k) for k, s in enumerate(shift)])
        tree = Join(tree, Scan(0), on)
    found = pilot([keys], tree, tuple(range(d)))
    assert len(found.target) == (tiles - 1) ** d and found.blocks.shape[1] == 2**d
    for row, key in zip(found.blocks, found.target_keys[found.target]):
        wanted = {tuple((key + s).tolist()) for s in product((0, 1), repeat=d)}
        assert {tuple(keys[b].tolist()) for b in row} == wanted


def test_a_training_step_is_aggregated_joins() -> None:
    """Forward, backward and update of a network with a hidden layer, block by block."""
    rng = np.random.default_rng(0)
    x, y = rng.random((12, 20)), rng.random((12, 6))
    w, v = rng.random((20, 8)) - 0.5, rng.random((8, 6)) - 0.5
    X, Y, W, V = (tr.relation(a, tile=4 if a.shape[1] != 6 else (4, 3)) for a in (x, y, w, v))

    def times(a: tr.TensorRelation, b: tr.TensorRelation, how: str, on: tuple[int, int]
              ) -> tr.TensorRelation:
        left = 1 - on[0]
        return a.join(b, on[0], on[1], how).aggregate([left, 2], "add")

    H = times(X, W, "matmul", (1, 0))
    A = H.transform(lambda a: np.maximum(a, 0))
    E = times(A, V, "matmul", (1, 0)).join(Y, (0, 1), (0, 1), "subtract")
    back = times(E, V, "ij,kj->ik", (1, 1)).join(
        H, (0, 1), (0, 1), lambda g, h: np.where(h > 0, g, 0.0))
    step = {"w": W.join(times(X, back, "ij,ik->jk", (0, 0)), (0, 1), (0, 1),
                        lambda a, g: a - 0.1 * g),
            "v": V.join(times(A, E, "ij,ik->jk", (0, 0)), (0, 1), (0, 1), lambda a, g: a - 0.1 * g)}
    h = x @ w
    a = np.maximum(h, 0)
    e = a @ v - y
    np.testing.assert_allclose(step["v"].to_tensor().to_numpy(), v - 0.1 * a.T @ e)
    np.testing.assert_allclose(step["w"].to_tensor().to_numpy(),
                               w - 0.1 * x.T @ np.where(h > 0, e @ v.T, 0))
