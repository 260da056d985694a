"""Which storages to keep for a set of programs."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr
from tensorel.errors import MemoryLimitError, TensorelError, TypeError_


def sparse(n: int, density: float, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n, n)) < density, rng.random((n, n)), 0)


PROGRAMS = {"A @ x": lambda A, x: A @ x, "A.T @ x": lambda A, x: A.T @ x}


def thin(n: int) -> tr.Tensor:
    """A vector with few entries: rows or columns of a matrix are wanted, whichever it meets."""
    return tr.from_coo([range(0, n, n // 5)], np.ones(len(range(0, n, n // 5))), (n,))


def test_rows_and_columns_are_both_kept_where_both_are_used():
    a, x = sparse(1500, 0.02, 1), thin(1500)
    found = tr.advise(PROGRAMS, {"A": tr.tensor(a, format="coo"), "x": x})
    assert len(found.storages["A"]) == 2 and found.cost < found.before
    tensors = found.tensors()
    assert np.allclose(PROGRAMS["A.T @ x"](**tensors).to_numpy(), a.T @ x.to_numpy())
    assert "A: keep " in str(found) and "A.T @ x: about" in str(found)


def test_memory_is_a_limit():
    A, x = tr.tensor(sparse(1500, 0.02, 1), format="csr"), thin(1500)
    rich = tr.advise(PROGRAMS, {"A": A, "x": x})
    least = A.nbytes + x.nbytes + 1000
    poor = tr.advise(PROGRAMS, {"A": A, "x": x}, memory=least)
    assert len(rich.storages["A"]) > len(poor.storages["A"]) == 1
    assert poor.bytes <= least and rich.cost <= poor.cost
    with pytest.raises(MemoryLimitError):
        tr.advise(PROGRAMS, {"A": A, "x": x}, memory=1000)


def test_texts_weights_and_own_storages():
    a = sparse(300, 0.05, 3)
    text = "sum(<(i,j), v> in A, <j, y> in x) { i -> v * y }"
    ell = tr.storage("sum(<i,_> in 0:M, <s,_> in 0:len(i)) {(i, idx(i*K+s)) -> val(i*K+s)}", "ell")
    found = tr.advise([text], {"A": a, "x": np.ones(300)}, storages={"A": [ell]},
                      weights={"program 1": 3.0})
    assert found.cost <= found.before and found.programs[0][0] == "program 1"
    assert np.allclose(tr.sdql(text, **found.tensors()).to_numpy(), a.sum(axis=1))


def test_no_programs():
    with pytest.raises(TypeError_):
        tr.advise([], {})


A80 = np.eye(80)
BAD: list[tuple[str, dict[str, object]]] = [
    ("takes 'C', which is none of the tensors 'A'", {"programs": [lambda C: C @ C]}),
    ("not text or a function", {"programs": [tr.asarray(A80) @ A80]}),
    ("computed already", {"programs": [lambda A: 3]}),
    ("weights are given for 'x'", {"programs": [lambda A: A @ A], "weights": {"x": 1.0}}),
    ("storages are given for 'x'", {"programs": [lambda A: A @ A], "storages": {"x": ["csr"]}}),
    ("unknown name 'Q'", {"programs": ["sum(<i,v> in Q) v"]}),
    ("at least one program", {"programs": []}),
]


@pytest.mark.parametrize(("message", "asked"), BAD, ids=[m for m, _ in BAD])
def test_what_cannot_be_advised_is_said(message: str, asked: dict[str, object]) -> None:
    with pytest.raises(TensorelError, match=message):
        tr.advise(tensors={"A": A80}, **asked)  # type: ignore[arg-type]


def test_a_function_takes_what_it_names() -> None:
    found = tr.advise(lambda A: A.sum(axis=0), {"A": A80, "B": np.ones(5)})
    assert sorted(found.storages) == ["A", "B"]
