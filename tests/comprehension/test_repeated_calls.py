"""Programs that are called again: found without building, and right when data have changed."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr
from tensorel.front.languages import comprehension_program as made

MEANS = "tensor(n)()[ (k, avg/v) | (i, v) <= V, let k = I[i], group by k ]"


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for each time that a program was lowered."""
    found: list[int] = []
    node = made.Program._node

    def counted(self: made.Program, *args: object) -> object:
        found.append(self.number)
        return node(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(made.Program, "_node", counted)
    return found


def means(labels: np.ndarray, values: np.ndarray, n: int) -> np.ndarray:
    found = np.zeros(n)
    for k in range(n):
        if (labels == k).any():
            found[k] = values[labels == k].mean()
    return found


def test_programs_are_lowered_once(built: list[int]) -> None:
    text = "tensor(n)()[ (i, +/(a*v)) | ((i,j),a) <- A, (jj,v) <- V, jj == j, group by i ]"

    @tr.comprehension
    def product(A, V):
        return {i: sum(a * v) for (i, j), a in A for k, v in V if k == j}

    rng = np.random.default_rng(0)
    for k in range(5):
        a, v = rng.random((4, 4)), rng.random(4)
        A, V = tr.tensor(a, format="csr" if k == 4 else "dense"), tr.asarray(v)
        for found in (tr.comprehension(text, A=A, V=V, n=4), product(A, V)):
            np.testing.assert_allclose(found.to_numpy(), a @ v)
        if k == 3:
            before = len(built)
    assert before == 4 and len(built) <= 8  # at first, then as a formula; the same for csr


def test_labels_that_change(built: list[int]) -> None:
    rng = np.random.default_rng(1)
    labels, values = np.arange(40) % 5, rng.random(40)
    I, V = tr.asarray(labels), tr.asarray(values)  # noqa: E741
    for k in range(6):
        np.testing.assert_allclose(
            tr.comprehension(MEANS, I=I, V=V, n=5).to_numpy(), means(labels, values, 5))
        labels[:] = (labels * 3 + k) % 5 if k % 2 else rng.permutation(labels)
        values[:] = rng.random(40)
    assert len(built) <= 6
    labels[7] = 9  # outside of the shape: another program, and a warning
    with pytest.warns(tr.errors.ExtentWarning):
        found = tr.comprehension(MEANS, I=I, V=V, n=5).to_numpy()
    np.testing.assert_allclose(found, means(labels, values, 5))
    labels[7] = -3
    with pytest.warns(tr.errors.ExtentWarning):
        found = tr.comprehension(MEANS, I=I, V=V, n=5).to_numpy()
    np.testing.assert_allclose(found, means(labels, values, 5))
    labels[7] = 0
    np.testing.assert_allclose(
        tr.comprehension(MEANS, I=I, V=V, n=5).to_numpy(), means(labels, values, 5))


def test_lazy_and_stored_labels_are_two_programs() -> None:
    rng = np.random.default_rng(2)
    for k in range(6):
        labels, values = rng.integers(0, 5, 30), rng.random(30)
        labels[:5] = np.arange(5)
        I = tr.asarray(labels)  # noqa: E741
        lazy = I + 0 if k % 2 else I
        found = tr.comprehension(MEANS, I=lazy, V=tr.asarray(values), n=5)
        np.testing.assert_allclose(found.to_numpy(), means(labels, values, 5))
        both = tr.comprehension(MEANS, I=I, V=I * 1.0, n=5)
        np.testing.assert_allclose(both.to_numpy(), np.arange(5.0))


@pytest.mark.parametrize("format", ["dense", "csr", "coo", "csc"])
@pytest.mark.parametrize("draw", ["<-", "<="])
def test_flattening_by_a_key_is_another_shape(format: str, draw: str) -> None:
    a = np.arange(24.0).reshape(4, 6) % 5
    A = tr.tensor(a, format=format)
    text = f"tensor(n*m)()[ (i*m + j, v) | ((i,j),v) {draw} A ]"
    found = tr.comprehension(text, A=A, n=4, m=6)
    np.testing.assert_array_equal(found.to_numpy(), a.reshape(-1))
    assert "reshape" in str(found.explain())
    other = {  # columns first, turned, moved, not all cells: no other shape
        "j*n + i": a.T.reshape(-1), "n*m-1 - (i*m + j)": a.reshape(-1)[::-1],
        "(i*m + j + 1) % (n*m)": np.roll(a.reshape(-1), 1)}
    for key, want in other.items():
        found = tr.comprehension(
            f"tensor(n*m)()[ ({key}, v) | ((i,j),v) {draw} A ]", A=A, n=4, m=6)
        np.testing.assert_array_equal(found.to_numpy(), want)
    found = tr.comprehension(
        f"tensor(n*m)()[ (i*m + j, v) | ((i,j),v) {draw} A, v > 2 ]", A=A, n=4, m=6)
    np.testing.assert_array_equal(found.to_numpy(), np.where(a > 2, a, 0).reshape(-1))


def test_flattening_with_a_fill() -> None:
    a = np.full((3, 4), 2.0)
    a[1, 2], a[0, 3] = 0.0, np.nan
    A = tr.tensor(a, format="coo", fill=2.0)
    drawn = tr.comprehension("tensor(12)()[ (i*4 + j, v) | ((i,j),v) <- A ]", A=A)
    np.testing.assert_array_equal(drawn.to_numpy(), np.where(a == 2, 0, a).reshape(-1))
    whole = tr.comprehension("tensor()(12)[ (i*4 + j, v) | ((i,j),v) <= A ]", A=A)
    np.testing.assert_array_equal(whole.to_numpy(), a.reshape(-1))
    split = tr.comprehension("tensor(2, 6)()[ (((i*2 + j), k), v) | ((i,j,k),v) <- A ]",
                             A=a.reshape(1, 2, 6))
    np.testing.assert_array_equal(split.to_numpy(), a.reshape(2, 6))
