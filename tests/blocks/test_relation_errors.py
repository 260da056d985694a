"""What relations refuse, and what the messages name."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tensorel as tr
from tensorel import errors

A = tr.relation(np.arange(16).reshape(4, 4), tile=2)
WIDE = tr.relation(np.ones((4, 6)), tile=2)
UNEVEN = tr.relation(np.ones((4, 4)), tile=([1, 3], 2))
HOLED = tr.relation({(0, 0): np.ones((2, 2)), (1, 1): np.ones((2, 2))})

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "two blocks with one key": (
        lambda: A.rekey(lambda i, j: i), errors.ValueError_,
        "blocks (0, 0) and (0, 1) would both have the key (0,)"),
    "also where they are absent": (
        lambda: tr.relation(tr.eye(4), tile=2).rekey(lambda i, j: i), errors.ValueError_,
        "blocks (0, 0) and (0, 1) would both have the key (0,)"),
    "a key given twice": (
        lambda: tr.relation([((0,), [1]), ((0,), [2])]), errors.ValueError_,
        "key (0,) is given twice"),
    "a negative key": (
        lambda: A.rekey(lambda i, j: (i, j - 1)), errors.ValueError_,
        "key (0, -1) has a negative component"),
    "a negative key of a block": (
        lambda: tr.relation({(0, -2): [1.0]}), errors.ValueError_, "key (0, -2)"),
    "a key that is none": (
        lambda: A.rekey(lambda i, j: i / 2), errors.TypeError_, "0.0 is no key"),
    "a key that is true": (
        lambda: A.rekey(lambda i, j: (i == j, j)), errors.TypeError_, "is no key"),
    "keys of several arities": (
        lambda: A.rekey(lambda i, j: (i, j)[: 1 + j]), errors.ShapeError,
        "keys (0,) and (0, 1) have 1 and 2 components"),
    "holes": (
        lambda: HOLED.to_tensor(), errors.ShapeError, "no blocks with the keys (0, 1), (1, 0)"),
    "holes that a filter made": (
        lambda: A.filter(lambda i, j: i == j).to_tensor(), errors.ShapeError, "(0, 1), (1, 0)"),
    "holes, whatever is stored": (
        lambda: tr.relation(tr.eye(4), tile=2).filter(lambda i, j: i == j).to_tensor(),
        errors.ShapeError, "(0, 1), (1, 0)"),
    "a hole between blocks": (
        lambda: A.filter(lambda i, j: j == 1).stack(1, 1), errors.ShapeError, "(0, 0)"),
    "keys that count no axes": (
        lambda: A.aggregate([1], "add").to_tensor(), errors.ShapeError, "1 components, blocks 2"),
    "blocks that do not lie beside each other": (
        lambda: tr.relation({(0, 0): np.ones((2, 2)), (0, 1): np.ones((3, 2))}).to_tensor(),
        errors.ShapeError, "blocks (0, 0) and (0, 1) have 2 and 3 entries along axis 0"),
    "joined extents": (
        lambda: A.join(WIDE, 1, 1, "add"), errors.ShapeError,
        "left keys has the extent 2, dimension 1 of the right keys 3"),
    "shapes that do not fit the kernel": (
        lambda: A.join(UNEVEN, 1, 0, "matmul"), errors.ShapeError,
        "kernel 'matmul' on blocks (0, 0) of shape (2, 2) and (0, 0) of shape (1, 2)"),
    "shapes that do not fit a function of arrays": (
        lambda: A.join(UNEVEN, 1, 0, lambda a, b: np.linalg.multi_dot([a, b])),
        errors.ShapeError, "on blocks (0, 0) of shape (2, 2) and (0, 0) of shape (1, 2)"),
    "shapes that do not fit, where nothing is stored": (
        lambda: tr.relation(tr.eye(4), tile=2).join(UNEVEN, 1, 0, "matmul"), errors.ShapeError,
        "of shape (2, 2) and (0, 0) of shape (1, 2)"),
    "blocks of several shapes combined": (
        lambda: UNEVEN.aggregate([1], "add"), errors.ShapeError,
        "blocks (0, 0) and (1, 0) have shapes (1, 2) and (3, 2)"),
    "a kernel that does not keep the shape": (
        lambda: A.aggregate([0], "outer"), errors.ShapeError,
        "makes shape (4, 4) of the blocks (0, 0) and (0, 1) of shape (2, 2)"),
    "a kernel that is not associative": (
        lambda: A.aggregate([0], "subtract"), errors.TypeError_, "not associative"),
    "a kernel of another dtype": (
        lambda: A.aggregate([0], "any"), errors.TypeError_, "logical_or of blocks of int64"),
    "an unknown kernel": (
        lambda: A.join(A, 1, 0, "matmull"), errors.ValueError_, "did you mean 'matmul'?"),
    "a kernel of another arity": (
        lambda: A.join(A, 1, 0, "diag"), errors.ValueError_, "no kernel 'diag' of 2 blocks"),
    "an einsum of another arity": (
        lambda: A.transform("ij,jk->ik"), errors.ValueError_, "has 2 terms for 1 block"),
    "no kernel": (lambda: A.transform(3), errors.TypeError_, "3 is no kernel"),
    "a dimension that is not there": (
        lambda: A.join(A, 2, 0, "matmul"), errors.AxisError, "left keys 2 does not exist"),
    "a dimension twice": (lambda: A.aggregate([0, 0], "add"), errors.ShapeError, "twice"),
    "dimensions not in pairs": (
        lambda: A.join(A, [0, 1], [0], "add"), errors.ShapeError, "2 dimensions"),
    "an axis that is not there": (lambda: A.tile(2, 1), errors.AxisError, "axis of the blocks 2"),
    "a size that is none": (lambda: A.tile(0, 0), errors.ShapeError, "tiles of size 0"),
    "sizes that do not add up": (
        lambda: tr.relation(np.ones(5), tile=[[2, 2]]), errors.ShapeError,
        "[2, 2] neither are sizes"),
    "tiles for other axes": (
        lambda: tr.relation(np.ones(5), tile=[2, 3]), errors.ShapeError, "2 tiles for the 1 axes"),
    "no tile": (lambda: tr.relation(np.ones(5)), errors.TypeError_, "say the size"),
    "tile of blocks": (lambda: tr.relation({0: [1]}, tile=2), errors.ValueError_, "not cut"),
    "no blocks": (lambda: tr.relation({}), errors.ShapeError, "no blocks"),
    "ranks": (lambda: tr.relation({0: [1], 1: [[1]]}), errors.ShapeError, "1 and 2 axes"),
    "extents below keys": (
        lambda: tr.relation({3: [1]}, extents=2), errors.ShapeError, "(3,) is not below"),
    "shapes that nothing says": (
        lambda: tr.relation({(0, 0): np.ones((1, 2)), (2, 2): np.ones((3, 4))}, extents=(3, 3)),
        errors.ShapeError, "(0, 1), (0, 2), (1, 0) that are not given"),
    "no relation": (
        lambda: A.join(np.ones(3), 0, 0, "add"), errors.TypeError_,  # type: ignore[arg-type]
        "ndarray is no relation"),
    "no block": (lambda: HOLED[0, 1], errors.KeyError_, "no block with the key (0, 1)"),
    "blocks that do not stack": (
        lambda: UNEVEN.stack(0, 1), errors.ShapeError, "blocks (0, 0) and (1, 0) have shapes"),
    "results of several dtypes": (
        lambda: A.transform(lambda a: np.asarray(a) * (1.5 if a[0, 0] else 1)),
        errors.TypeError_, "the block (0, 1) has dtype float64, others int64"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    call, kind, says = REFUSED[case]
    with pytest.raises(kind, match=re.escape(says)) as caught:
        call()
    assert isinstance(caught.value, errors.TensorelError) and caught.value.hint, case


def test_errors_of_functions_name_the_blocks() -> None:
    def kernel(a: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        A.transform(kernel)
    assert caught.value.__notes__ == ["transform: kernel 'kernel' on block (0, 0) of shape (2, 2)"]
