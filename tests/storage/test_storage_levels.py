"""Walking and finding through levels meets exactly the stored entries, in every format."""

from __future__ import annotations

import numpy as np
import pytest
from storage_support import ANY_RANK, MATRIX, SHAPED, Interpreter, formats_for, random_array, same

from tensorel.ir.build import as_expr
from tensorel.storage import convert
from tensorel.storage.entries import distinguishable
from tensorel.storage.stored import Stored

SHAPES = [(), (0,), (1,), (5,), (3, 4), (7, 7), (5, 2), (2, 9), (0, 3), (3, 0), (3, 4, 2),
          (2, 1, 3, 2)]


def check(stored: Stored, dense: np.ndarray) -> None:
    interpreter = Interpreter(stored)
    found = list(interpreter.entries())
    cells = [cell for cell, _ in found]
    assert len(set(cells)) == len(cells), "a cell twice"
    turned = [tuple(c[a] for a in stored.format.order) for c in cells]
    assert turned == sorted(turned), "not in the order of the format"
    for cell, value in found:
        assert same(np.asarray(value), dense[cell]), (cell, value)
    wanted = {tuple(int(x) for x in c) for c in np.argwhere(distinguishable(dense, stored.fill))}
    assert wanted <= set(cells)
    assert len(cells) <= stored.count
    if not stored.format.name.startswith("bsr"):
        assert len(cells) == stored.count
    for cell in np.ndindex(dense.shape):
        probe = stored.format.lookup(interpreter.arrays, tuple(as_expr(i) for i in cell))
        if probe is not None:
            position = interpreter.probed(probe)
            assert (position is not None) == (cell in cells)
            if position is not None:
                value = interpreter.number(stored.format.value(interpreter.arrays, position))
                assert same(np.asarray(value), dense[cell])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype,fill", [("float64", 0.0), ("int32", 3), ("bool", False),
                                        ("bool", True), ("complex64", 1 + 2j)])
def test_levels_give_the_stored_entries(shape: tuple[int, ...], dtype: str, fill: object) -> None:
    rng = np.random.default_rng(len(shape) * 7 + sum(shape))
    for density in (0.0, 0.3, 1.0):
        dense = random_array(rng, shape, dtype, fill, density)
        given = convert.from_dense(dense, fill)
        for name in formats_for(shape, dtype):
            check(convert.to_format(given, name), dense)


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (6, 6), (4, 7), (7, 4), (1, 5), (5, 1)], ids=str)
def test_triangles(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    dense = random_array(rng, shape, "float64", 0.0, 0.7)
    check(convert.to_format(convert.from_dense(np.tril(dense)), "tril"), np.tril(dense))
    check(convert.to_format(convert.from_dense(np.triu(dense)), "triu"), np.triu(dense))
    if shape[0] == shape[1]:
        mirrored = np.tril(dense) + np.tril(dense, -1).T
        check(convert.to_format(convert.from_dense(mirrored), "symmetric"), mirrored)


def test_row_slices_of_csr_are_views() -> None:
    rng = np.random.default_rng(2)
    dense = random_array(rng, (9, 6), "float64", 0.0, 0.5)
    whole = convert.to_format(convert.from_dense(dense), "csr")
    arrays = whole.arrays | {"pos1": whole.arrays["pos1"][3:8]}
    part = Stored(whole.format, (4, 6), whole.dtype, whole.fill, arrays)
    check(part, dense[3:7])
    assert same(convert.to_dense(part), dense[3:7])
    assert convert.count_nonfill(part) == np.count_nonzero(dense[3:7])
    assert same(convert.to_dense(convert.to_format(part, "csc")), dense[3:7])


def test_all_names_are_covered() -> None:
    from tensorel.storage.registry import names

    assert set(names()) <= set(ANY_RANK) | set(MATRIX) | set(SHAPED)
