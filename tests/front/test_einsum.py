"""einsum: grammar, semirings, errors; and products of tensors."""

from __future__ import annotations

import numpy as np
import pytest
from front_support import DTYPES, check, sample

import tensorel as tr
from tensorel import errors
from tensorel.ir import nodes as ir

A, B, C = sample((2, 3), seed=1), sample((3, 4), seed=2), sample((2, 3, 4), seed=3)
S = sample((3, 3), seed=4)
TEXTS = [
    ("ij,jk->ik", A, B), ("ij,jk", A, B), ("ij", A), ("ji", A), ("ij->", A), ("ii", S),
    ("ii->i", S), ("iij->ij", sample((2, 2, 3))), ("ijk,jk->i", C, B), ("i,j->ij", A[:, 0], B[0]),
    ("ij,jk,kl->il", A, B, sample((4, 2))), ("...ij,...jk->...ik", C[None], sample((4, 2))),
    ("...j->...", C), ("i...->...", C), ("...,...", A, A), ("ij...,j...->i...", C, B),
    ("i,i", A[0], B[:, 0]), ("ij,ij->", A, A), (" ij , jk -> ik ", A, B), ("ba,cb->ca", S, S),
    ("i,->i", A[0], np.float64(2)), ("ij,jk", A, sample((1, 4))), ("ii,ij->j", S, S),
]


@pytest.mark.parametrize("case", TEXTS, ids=lambda c: c[0])
def test_like_numpy(case: tuple) -> None:
    text, *operands = case
    check(tr.einsum(text, *operands), np.einsum(text, *operands))


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    x, y = sample((2, 3), dtype, 1), sample((3, 2), dtype, 2)
    check(tr.einsum("ij,jk->ik", x, y), np.einsum("ij,jk->ik", x, y), engine=False)
    check(tr.asarray(x) @ tr.asarray(y), x @ y, engine=False)


def test_named_indices() -> None:
    check(tr.einsum("user item, item tag -> user tag", A, B), A @ B)
    check(tr.einsum("user item, item tag", A, B), A @ B)
    check(tr.einsum("b a, a c", A, B), A @ B)
    check(tr.einsum("i j -> j i", A), A.T)
    check(tr.einsum("... row col -> ... col", C), C.sum(1))


def test_one_lambda_with_one_reduction() -> None:
    node = tr.einsum("ij,jk->ik", A, B).node
    assert isinstance(node, ir.Lambda) and isinstance(node.body, ir.Reduce)
    assert isinstance(node.body.body, ir.Call)


def test_semirings() -> None:
    wanted = (A[:, :, None] + B[None]).min(1)
    for add, mul in [(tr.min, tr.add), ("min", "+"), (np.minimum, np.add), (np.min, "add"),
                     (tr.minimum, tr.add)]:
        check(tr.einsum("ij,jk->ik", A, B, add=add, mul=mul), wanted)
    check(tr.einsum("ij,jk->ik", A != 0, B != 0, add=tr.any, mul=tr.logical_and),
          ((A != 0)[:, :, None] & (B != 0)[None]).any(1))
    check(tr.einsum("ij->i", A, add=tr.prod), A.prod(1))
    with pytest.raises(errors.TypeError_, match="cannot be reduced"):
        tr.einsum("ij->i", A, add=tr.subtract)
    with pytest.raises(errors.TypeError_, match="does not name"):
        tr.einsum("ij->i", A, add="nothing")


@pytest.mark.parametrize(
    ("text", "operands", "error", "words"),
    [
        ("ij,jk->iz", (A, B), errors.ParseError, "'z' is in no operand"),
        ("ij->ii", (A,), errors.ParseError, "given twice"),
        ("ij,jk", (A,), errors.ParseError, "2 terms for 1 operands"),
        ("ij->j->i", (A,), errors.ParseError, "more than one"),
        ("i1", (A,), errors.ParseError, "'1' cannot stand here"),
        ("i..j", (A,), errors.ParseError, "cannot stand here"),
        ("......", (A,), errors.ParseError, "one '...'"),
        ("ij,jk", (A, A), errors.ShapeError, "index 'j' has sizes 3 and 2"),
        ("ijk", (A,), errors.ShapeError, "operand 0 has 2 axes"),
        ("i...->i", (A,), errors.ShapeError, "does not say"),
        ("", (), errors.ParseError, "1 terms for 0"),
    ],
)
def test_errors(text: str, operands: tuple, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        tr.einsum(text, *operands)


def test_marked_position() -> None:
    with pytest.raises(errors.ParseError) as caught:
        tr.einsum("ij,jk->iz", A, B)
    assert caught.value.column == 9
    assert caught.value.marked.split("\n")[1] == " " * 8 + "^"


# -- products -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("s", "t"),
    [((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 2)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
     ((5, 1, 2, 3), (4, 3, 2)), ((3,), (4, 3, 2)), ((4, 2, 3), (3,)), ((0, 3), (3, 2)),
     ((2, 0), (0, 2)), ((1, 2, 3), (7, 3, 1))],
)
def test_matmul(s: tuple[int, ...], t: tuple[int, ...]) -> None:
    x, y = sample(s, seed=1), sample(t, seed=2)
    check(tr.asarray(x) @ tr.asarray(y), x @ y)
    check(x @ tr.asarray(y), x @ y)
    check(tr.asarray(x) @ y, x @ y)


def test_matmul_errors() -> None:
    with pytest.raises(errors.ShapeError, match=r"matmul: shapes \(2, 3\) and \(2, 3\)"):
        tr.asarray(A) @ tr.asarray(A)
    with pytest.raises(errors.ShapeError, match="scalar"):
        tr.asarray(A) @ tr.asarray(2.0)


def test_other_products() -> None:
    check(tr.tensordot(C, B, 2), np.tensordot(C, B, 2))
    check(tr.tensordot(C, A, ([0, 1], [0, 1])), np.tensordot(C, A, ([0, 1], [0, 1])))
    check(tr.tensordot(A, B, 0), np.tensordot(A, B, 0))
    check(tr.outer(A, B), np.outer(A, B))
    check(tr.inner(A, S), np.inner(A, S))
    check(tr.dot(A, B), np.dot(A, B))
    check(tr.dot(C, sample((5, 4, 2))), np.dot(C, sample((5, 4, 2))))
    check(tr.kron(A, B), np.kron(A, B))
    check(tr.kron(A[0], B), np.kron(A[0], B))
    z, w = sample((2, 3), "complex128", 1), sample((2, 3), "complex128", 2)
    check(tr.vecdot(z, w), np.vecdot(z, w))
    check(tr.vecdot(z, w, axis=0), np.vecdot(z, w, axis=0))
    check(tr.vdot(z, w), np.vdot(z, w))
    check(tr.cross(A, A[::-1]), np.cross(A, A[::-1]))
    with pytest.raises(errors.ShapeError, match="tensordot"):
        tr.tensordot(A, A, 1)
