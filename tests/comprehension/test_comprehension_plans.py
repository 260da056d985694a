"""Plans of comprehensions: those of the arrays that say the same, in time that entries take."""

import re
from typing import Any

import numpy as np
import pytest

import tensorel as tr

N = 60
RNG = np.random.default_rng(3)
a, b = (np.where(RNG.random((N, N)) < 0.2, RNG.random((N, N)), 0.0) for _ in range(2))
v = RNG.random(N)
HUGE = 2**40

#: A text, and the same with arrays. "C" is the constructor of a matrix.
SAME: dict[str, tuple[str, Any]] = {
    "sum": ("C[((i,j), a+b) | ((i,j),a) <= A, ((ii,jj),b) <= B, ii==i, jj==j]",
            lambda A, B, V: A + B),
    "product": ("C[((i,j), a*b) | ((i,j),a) <- A, ((ii,jj),b) <- B, ii==i, jj==j]",
                lambda A, B, V: A * B),
    "matrix product": (
        "C[((i,j), +/(a*b)) | ((i,k),a) <- A, ((kk,j),b) <- B, kk==k, group by (i,j)]",
        lambda A, B, V: A @ B),
    "transpose": ("C[((j,i), a) | ((i,j),a) <- A]", lambda A, B, V: A.T),
    "row sums": ("tensor(n)()[(i, +/a) | ((i,j),a) <- A, group by i]", lambda A, B, V: A.sum(1)),
    "column sums": ("tensor(n)()[(j, +/a) | ((i,j),a) <- A, group by j]", lambda A, B, V: A.sum(0)),
    "row maxima": ("tensor(n)()[(i, max/a) | ((i,j),a) <= A, group by i]",
                   lambda A, B, V: A.max(1)),
    "row means": ("tensor(n)()[(i, avg/a) | ((i,j),a) <= A, group by i]",
                  lambda A, B, V: A.mean(1)),
    "matrix times vector": (
        "tensor(n)()[(i, +/(a*v)) | ((i,j),a) <- A, (jj,v) <- V, jj==j, group by i]",
        lambda A, B, V: A @ V),
    "page rank": (
        "tensor(n)()[(i, 0.0025 + 0.85 * +/(a*v)) | ((i,j),a) <= A, (jj,v) <= V, jj==j, "
        "group by i]", lambda A, B, V: 0.0025 + 0.85 * (A @ V)),
    "rotation": ("C[(((i+1)%n,j), a) | ((i,j),a) <- A]", lambda A, B, V: tr.roll(A, 1, 0)),
    "slice": ("tensor(n-10,n)()[((i-10,j), a) | ((i,j),a) <- A, i >= 10]",
              lambda A, B, V: A[10:]),
    "padding": ("tensor(n+2)()[(i+1, v) | (i,v) <= V]", lambda A, B, V: tr.pad(V, 1)),
    "scaled": ("C[((i,j), 2.5*a) | ((i,j),a) <- A]", lambda A, B, V: 2.5 * A),
    "exponentials": ("tensor(n,n)()[((i,j), exp(a)) | ((i,j),a) <= A]", lambda A, B, V: np.exp(A)),
    "selection": ("C[((i,j), a) | ((i,j),a) <- A, a > 0.5]",
                  lambda A, B, V: tr.where(A > 0.5, A, 0.0)),
    "outer product": ("tensor(n,n)()[((i,j), v*w) | (i,v) <- V, (j,w) <- V]",
                      lambda A, B, V: tr.outer(V, V)),
    "inner product": ("+/[v*w | (i,v) <- V, (j,w) <- V, i == j]", lambda A, B, V: V @ V),
    "trace": ("+/[a | ((i,j),a) <- A, i == j]", lambda A, B, V: tr.trace(A)),
    "diagonal": ("tensor(n)()[(i,a) | ((i,j),a) <- A, i == j]", lambda A, B, V: tr.diagonal(A)),
    "shortest step": (
        "C[((i,j), min/(a+b)) | ((i,k),a) <= A, ((kk,j),b) <= B, kk==k, group by (i,j)]",
        lambda A, B, V: tr.einsum("ik,kj->ij", A, B, add=tr.min, mul=tr.add)),
}


def plan(t: tr.Tensor) -> str:
    """The plan, with names of summed indices by appearance."""
    names: dict[str, str] = {}
    return re.sub(r"\b[rk]\d+(?:_\d+)?\b", lambda m: names.setdefault(
        m.group(), f"s{len(names)}"), str(t.explain()))


@pytest.mark.parametrize("format", ["dense", "csr"])
@pytest.mark.parametrize("name", SAME)
def test_the_plan_is_that_of_the_arrays(name: str, format: str) -> None:
    text, arrays = SAME[name]
    A, B, V = tr.tensor(a, format=format), tr.tensor(b, format=format), tr.asarray(v)
    text = text.replace("C[", "tensor(n,n)()[" if format == "dense" else "tensor(n)(n)[")
    found, wanted = tr.comprehension(text, A=A, B=B, V=V, n=N), arrays(A, B, V)
    wanted.program.wanted = found.program.wanted  # stored alike
    assert plan(found) == plan(wanted)
    np.testing.assert_allclose(found.to_numpy(), wanted.to_numpy(), rtol=1e-12)


@pytest.mark.parametrize(("text", "keys"), [
    ("tensor()(n)[ ((i+1)%n, v) | (i,v) <- V ]", [6, 102, 2**39 + 1]),
    ("tensor()(n)[ (i/2, v) | (i,v) <- V, i % 2 == 0 ]", [2**38]),
    ("tensor()(n)[ (k, +/v) | (i,v) <- V, group by k : i/100 ]", [0, 1, (2**39) // 100]),
    ("tensor()(2*n)[ (2*i+1, v) | (i,v) <- V ]", [11, 203, 2**40 + 1]),
    ("tensor()(2*n)[ (k, +/(v*w)) | (i,v) <- V, (j,w) <- V, group by k : i+j ]",
     [10, 106, 202, 2**39 + 5, 2**39 + 101, 2**40]),
    ("tensor()(n)[ (k, max/v) | (i,v) <- V, k <- (i-1)..(i+1), group by k ]",
     [4, 5, 6, 100, 101, 102, 2**39 - 1, 2**39, 2**39 + 1]),
    ("tensor()(n)[ (n-1-i, v) | (i,v) <- V, i < 200 ]", [HUGE - 102, HUGE - 6]),
    ("tensor()(n)[ ((i*i)%1000, v) | (i,v) <- V, i < 200 ]", [25, 201]),
    ("tensor()(101)[ (i%101, v) | (i,v) <- V, i < 200 ]", [0, 5]),
    ("tensor()(n)[ (k, count/v) | (i,v) <- V, group by k : int(v) ]", [1, 2, 3]),
])
def test_cost_grows_with_entries(text: str, keys: list[int]) -> None:
    """At an extent of 2^40 nothing compares entries with every key of the result."""
    V = tr.from_coo([[5, 101, 2**39]], [1.0, 2.0, 3.0], (HUGE,))
    coords, _ = tr.comprehension(text, V=V, n=HUGE).to_coo()
    assert coords[0].tolist() == keys


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_irregular_keys_of_sparse_matrices(format: str) -> None:
    rows, columns = [3, 70000, 2**30 - 1], [2**29, 5, 2**30 - 2]
    A = tr.from_coo([rows, columns], [1.0, 2.0, 3.0], (2**30, 2**30), format="coo")
    if format != "coo":
        A = A.to_format({"csr": "dcsr", "csc": "dcsc"}[format])
    n = 2**30
    found = tr.comprehension("tensor()(n, n)[ (((i+1)%n, n-1-j), v) | ((i,j),v) <- A ]", A=A, n=n)
    assert sorted(zip(*found.to_coo()[0].tolist())) == sorted(
        ((i + 1) % n, n - 1 - j) for i, j in zip(rows, columns))
    found = tr.comprehension("tensor()(2*n)[ (d, +/v) | ((i,j),v) <- A, group by d : i+j ]",
                             A=A, n=n)
    assert found.to_coo()[0][0].tolist() == sorted(i + j for i, j in zip(rows, columns))
    found = tr.comprehension("tensor()(n*n)[ (i*n + j, v) | ((i,j),v) <- A ]", A=A, n=n)
    assert found.to_coo()[0][0].tolist() == sorted(i * n + j for i, j in zip(rows, columns))


def test_programs_are_built_once() -> None:
    """What asks nothing of data is a formula that is found again; data keys are looked at."""
    A, V = tr.asarray(a), tr.asarray(v)
    text = "tensor(n)()[ (i, +/(a*v)) | ((i,j),a) <- A, (jj,v) <- V, jj==j, group by i ]"
    first, again = (tr.comprehension(text, A=A, V=V, n=N) for _ in range(2))
    assert again.program.formula is not None
    np.testing.assert_array_equal(first.to_numpy(), again.to_numpy())
    other = tr.comprehension(text, A=tr.asarray(a + 1), V=V, n=N)
    np.testing.assert_allclose(other.to_numpy(), (a + 1) @ v)
    keys = np.arange(5)
    scattered = "tensor(9)()[ (k, +/1) | (i, k) <= K, group by k ]"
    assert tr.comprehension(scattered, K=keys).tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0]
    keys[0] = 8
    assert tr.comprehension(scattered, K=keys).tolist() == [0, 1, 1, 1, 1, 0, 0, 0, 1]


def test_what_is_not_finite() -> None:
    """An entry that equals the fill is not drawn: with strict, it meets neither nan nor inf."""
    x = np.array([[0.0, 1.0], [2.0, 3.0]])
    y = np.array([[np.inf, 1.0], [2.0, np.nan]])
    text = "tensor(2,2)()[ ((i,j), +/(a*b)) | ((i,k),a) <- A, ((k,j),b) <- B, group by (i,j) ]"
    for format in ("dense", "csr"):
        with tr.options(strict=True):
            found = tr.comprehension(text, A=tr.tensor(x, format=format), B=y).to_numpy()
        np.testing.assert_array_equal(found, [[2.0, np.nan], [np.inf, np.nan]])
