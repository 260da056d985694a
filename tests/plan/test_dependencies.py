"""Indices that keys make equal are written as one, for tensors that have the key and no others."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr

FIRED = "identify: indices that a key makes equal are one"
FORMATS = ("csr", "csc", "coo", "dcsr")


def keyed(rng: np.random.Generator, rows: int, columns: int, axis: int = 0) -> np.ndarray:
    """At most one entry for each coordinate of the axis; some have none."""
    n, m = (rows, columns) if axis == 0 else (columns, rows)
    found = np.zeros((n, m))
    found[np.arange(n), rng.integers(m, size=n)] = rng.random(n) * (rng.random(n) < 0.8)
    return found if axis == 0 else found.T


def unkeyed(like: np.ndarray) -> np.ndarray:
    """As many entries, two of them in one row and in one column."""
    found = like.copy()
    (i, p), j, q = np.argwhere(found)[:2].T, *np.argwhere(found)[2]
    found[i[0], p[0]], found[j, q] = 0.0, 0.0
    row, column = i[1], p[1]
    found[row, (column + 1) % found.shape[1]] = 0.5
    found[(row + 1) % found.shape[0], column] = 0.25
    while np.count_nonzero(found) < np.count_nonzero(like):
        found[tuple(np.argwhere(found == 0)[0])] = 0.75
    return found


def stored(x: np.ndarray, fmt: str) -> tr.Tensor:
    return tr.asarray(x).to_format(fmt)


def fired(t: tr.Tensor) -> int:
    return int(t.explain(level="logical").to_dict()["rules"].get(FIRED, 0))


@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize(("text", "axis", "times"), [
    ("ka,kb,bj->aj", 0, 1), ("ka,kb,bj,al->jl", 0, 1), ("ka,kb->k", 0, 1), ("ka,kb->kb", 0, 1),
    ("ka,kb,kc->k", 0, 2), ("ka,kb->ab", 0, 0), ("ak,bk,bj->aj", 1, 1), ("ak,bk,bj->aj", 0, 0),
    ("ka,kb,bj->aj", 1, 0)])
def test_equal_to_numpy(text: str, axis: int, times: int, fmt: str) -> None:
    rng = np.random.default_rng(7)
    k = keyed(rng, 40, 12, axis)
    count = text.split("->")[0].count("k")
    wide = k.shape[0] if text.startswith("ak") else k.shape[1]
    rest = [rng.random((wide, n)) for n in (5, 4)]
    if text.endswith("jl"):
        rest = [rest[0], rng.random((wide, 4))]
    given = [k] * count + rest[: text.count(",") + 1 - count]
    tensors = [stored(k, fmt)] * count + [tr.asarray(r) for r in given[count:]]
    lazy = tr.einsum(text, *tensors)
    np.testing.assert_allclose(lazy.to_numpy(), np.einsum(text, *given), rtol=1e-12)
    assert fired(lazy) == times


def test_the_other_tensor_of_the_same_class_has_its_own_plan() -> None:
    """Same shape, dtype, format and number of entries: the plan of one is wrong for the other."""
    rng = np.random.default_rng(3)
    k, r = keyed(rng, 64, 16), rng.random((16, 3))
    kinds = [k, unkeyed(k), keyed(rng, 64, 16), unkeyed(k)[::-1].copy()]
    assert len({int(np.count_nonzero(x)).bit_length() for x in kinds}) == 1
    for x in kinds * 2:
        a, b = stored(x, "csr"), tr.asarray(r)
        np.testing.assert_allclose((a.T @ (a @ b)).to_numpy(), x.T @ (x @ r))
        np.testing.assert_allclose(tr.einsum("ka,kb,bj->aj", a, a, b).to_numpy(), x.T @ (x @ r))
        np.testing.assert_allclose((a.T @ a).sum(axis=0).to_numpy(), (x.T @ x).sum(0))


def test_covariance_over_a_star_join_counts_keys() -> None:
    rng = np.random.default_rng(4)
    f, r = rng.random((20_000, 2)), rng.random((200, 30))
    k = (keyed(rng, 20_000, 200) != 0).astype(float)
    x = tr.concatenate([tr.asarray(f), stored(k, "csr") @ tr.asarray(r)], axis=1)
    lazy = x.T @ x
    whole = np.hstack([f, k @ r])
    np.testing.assert_allclose(lazy.to_numpy(), whole.T @ whole)
    assert fired(lazy) == 1
    text = str(lazy.explain())
    assert "sum(k3 in 20000) B[k3, k1] * B[k3, k1]" in text, text


def test_not_where_entries_that_are_absent_count() -> None:
    rng = np.random.default_rng(5)
    k, r = keyed(rng, 30, 8), rng.random((8, 3))
    a = stored(k, "csr")
    with tr.options(strict=True):
        assert fired(a.T @ (a @ tr.asarray(r))) == 0
    assert fired((a + 1).T @ ((a + 1) @ tr.asarray(r))) == 0
    assert fired(stored(k, "dense").T @ (stored(k, "dense") @ tr.asarray(r))) == 0
    with tr.options(disabled={"identify_indices"}):
        lazy = tr.einsum("ka,kb,bj->aj", a, a, tr.asarray(r))
        assert fired(lazy) == 0
        np.testing.assert_allclose(lazy.to_numpy(), k.T @ (k @ r))


def test_keys_of_two_axes() -> None:
    """Fibres of a rank-3 tensor with one entry each."""
    rng = np.random.default_rng(6)
    t = np.zeros((7, 6, 5))
    for i in range(7):
        for j in range(6):
            t[i, j, rng.integers(5)] = rng.random()
    r = rng.random((5, 4))
    for fmt in ("csf", "coo"):
        a = stored(t, fmt)
        lazy = tr.einsum("ija,ijb,bl->al", a, a, tr.asarray(r))
        np.testing.assert_allclose(lazy.to_numpy(), np.einsum("ija,ijb,bl->al", t, t, r))
        free = tr.einsum("ija,icb->ac", a, a)
        np.testing.assert_allclose(free.to_numpy(), np.einsum("ija,icb->ac", t, t))
        assert fired(free) == 0
