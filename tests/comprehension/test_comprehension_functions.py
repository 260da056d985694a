"""Comprehensions as Python functions."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import ParseError, ShapeError, TypeError_, UnsupportedError

RNG = np.random.default_rng(7)
a = np.where(RNG.random((5, 6)) < 0.5, RNG.integers(-3, 4, (5, 6)), 0).astype(float)
b = np.where(RNG.random((6, 4)) < 0.5, RNG.integers(-3, 4, (6, 4)), 0).astype(float)
outside = 3


@tr.comprehension
def product(A: Any, B: Any) -> Any:
    """The product of two matrices."""
    return {(i, j): sum(a * b) for (i, k), a in A for (kk, j), b in B if k == kk}


@tr.comprehension(shape=(3, 6))
def pooled(A: Any) -> Any:
    return {(i // 2, j): max(a) + i // 2 for (i, j), a in A}


@tr.comprehension
def squares(A: Any) -> Any:
    return sum(a * a for (i, j), a in A if a > 0)


@tr.comprehension
def edges(A: Any) -> Any:
    return {(j, i) for (i, j), a in A if a}


@tr.comprehension
def lower(A: Any) -> Any:
    return {(i, j): A[i, j] + math.sqrt(4) for i in range(len(A)) for j in range(i + 1)}


@tr.comprehension
def centred(A: Any, scale: float = 2) -> Any:
    n = A.shape[1]
    means = {i: sum(a) / n for (i, j), a in A}
    return {(i, j): (a - means[i]) / scale for (i, j), a in A if 0 <= j < n - outside}


@pytest.mark.parametrize("format", ["dense", "csr", "csc", "coo", "dok"])
def test_forms(format: str) -> None:
    A, B = tr.tensor(a, format=format), tr.tensor(b, format=format)
    np.testing.assert_array_equal(product(A, B).to_numpy(), a @ b)
    found = pooled(A).to_numpy()
    for p in range(3):
        for j in range(6):
            column = [x for x in a[2 * p:2 * p + 2, j] if x]
            assert found[p, j] == (max(column) + p if column else 0)
    assert squares(A).item() == (a[a > 0] ** 2).sum()
    assert edges(A).dtype == bool
    np.testing.assert_array_equal(edges(A).to_numpy(), a.T != 0)
    np.testing.assert_array_equal(
        lower(A).to_numpy(), np.tril(a[:, :5] + 2))
    means = a.sum(1) / 6
    want = np.where(a != 0, (a - means[:, None]) / 2, 0)
    want[:, 3:] = 0
    np.testing.assert_allclose(centred(A).to_numpy(), want)
    np.testing.assert_allclose(centred(A, scale=4.0).to_numpy(), want / 2)


def test_calls_without_the_sign() -> None:
    def counts(A: Any) -> Any:
        return {i: len(a) for (i, j), a in A}

    def halves(V: Any) -> Any:
        return {i // 2: prod(v) for i, v in V}  # type: ignore[name-defined]  # noqa: F821

    np.testing.assert_array_equal(tr.comprehension(counts)(a).to_numpy(), (a != 0).sum(1))
    found = tr.comprehension(shape=2)(halves)(np.array([2.0, 3.0, 4.0]))
    assert found.tolist() == [6.0, 4.0]
    assert product.__doc__ == "The product of two matrices."
    assert tr.comprehension(halves, shape="n") is not None


def test_shapes_that_are_arguments() -> None:
    @tr.comprehension(shape=("n", 2))
    def table(n: int) -> Any:
        return {(i, j): i * j for i in range(n) for j in range(2)}

    assert table(3).tolist() == [[0, 0], [0, 1], [0, 2]]
    assert table(2).shape == (2, 2)


def test_steps_and_choices() -> None:
    @tr.comprehension
    def every(V: Any) -> Any:
        return {i: V[i] if V[i] > 0 or V[i] != -1 else -(V[i] ** 2) for i in range(5, -1, -2)}

    v = np.array([1.0, -1.0, 2.0, -3.0, 4.0, -1.0])
    assert every(v).tolist() == [0, -1, 0, -3, 0, -1]


def test_the_plan_is_that_of_the_arrays() -> None:
    A, B = tr.tensor(a, format="csr"), tr.asarray(b)
    assert str(product(A, B).explain()) == str((A @ B).explain())


def test_errors_stand_at_their_line() -> None:
    def unknown(A: Any) -> Any:
        return {i: sum(missing(a))  # type: ignore[name-defined]  # noqa: F821
                for (i, j), a in A}

    with pytest.raises(ParseError, match="missing is not a function") as error:
        tr.comprehension(unknown)
    line = Path(__file__).read_text().split("\n")[error.value.line - 1]
    assert "missing(a)" in line and line[error.value.column - 1:].startswith("missing")


@pytest.mark.parametrize(("body", "words"), [
    ("return [a for (i, j), a in A]", "a list has no keys"),
    ("return {i: a for (i, j), a in A for i, b in A}", "'i' is bound twice"),
    ("for i in A: pass\n    return {i: 1 for i, a in A}", "only assignments of names stand before"),
    ("x = 3", "the function returns a comprehension"),
    ("return {i: A[1:2] for i, a in A}", "a cell is read, not a slice"),
    ("return {i: a for i, a in enumerate(A)}", "a tensor gives its keys with its values"),
    ("return {i: 'x' for (i, j), a in A}", "Constant is outside of what comprehensions"),
    ("return {i: a.real for (i, j), a in A}", "Attribute is outside"),
    ("return {i: 1 in a for (i, j), a in A}", "comparisons are"),
])
def test_what_is_outside_of_the_subset(body: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "written.py"
    path.write_text(f"def f(A):\n    {body}\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    with pytest.raises(ParseError, match=words) as error:
        tr.comprehension(names["f"])
    assert error.value.line >= 2


def test_what_has_no_source() -> None:
    with pytest.raises(UnsupportedError, match="a lambda has no source"):
        tr.comprehension(lambda A: {i: a for (i, j), a in A})
    names: dict[str, Any] = {}
    exec("def f(A):\n    return {i: a for i, a in A}", names)
    with pytest.raises(UnsupportedError, match="cannot be read"):
        tr.comprehension(names["f"])
    with pytest.raises(TypeError_, match="only plain functions"):
        tr.comprehension(len)
    with pytest.raises(TypeError_, match="no option of the decorator"):
        tr.comprehension(shapes=3)(squares.function)


def test_extents_that_are_not_there() -> None:
    with pytest.raises(ShapeError, match="A has 1 axes, and not axis 1"):
        centred(np.ones(3))
