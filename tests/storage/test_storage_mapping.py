"""The mapping that a format prints, parsed and evaluated by the reference, is the tensor."""

from __future__ import annotations

import numpy as np
import pytest
from storage_support import SHAPED, formats_for, random_array

from tensorel.ir.nodes import Source, const
from tensorel.ir.parser import parse
from tensorel.reference.interpret import evaluate
from tensorel.storage import convert
from tensorel.storage.stored import Stored


def evaluated(stored: Stored) -> np.ndarray:
    names: dict[str, object] = {f"n{a}": n for a, n in enumerate(stored.shape)}
    for name, array in stored.arrays.items():
        names[name] = Source(name, array.shape, array.dtype, const(0, array.dtype))
        if name.startswith("idx"):
            names["N" + name[3:]] = int(array.size)
        if name == "off":
            names["N"] = int(array.size)
    tensor = parse(stored.format.mapping, names)  # type: ignore[arg-type]
    return np.asarray(evaluate(tensor, lambda s: stored.arrays[str(s.data)]))


@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (6, 6), (7, 3), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "bool"])
def test_mappings_mean_the_tensor(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(4)
    dense = (rng.integers(1, 5, shape) * (rng.random(shape) < 0.6)).astype(dtype)
    given = convert.from_dense(dense)
    for name in formats_for(shape, dtype):
        stored = convert.to_format(given, name)
        if stored.count:
            found = evaluated(stored)
            assert np.array_equal(found, dense), (name, stored.format.mapping)


@pytest.mark.parametrize("shape", [(4, 4), (3, 6), (6, 3)], ids=str)
@pytest.mark.parametrize("name", SHAPED)
def test_triangular_mappings(shape: tuple[int, int], name: str) -> None:
    dense = random_array(np.random.default_rng(5), shape, "int64", 0, 1.0) + 1
    if name == "symmetric":
        if shape[0] != shape[1]:
            return
        dense = dense + dense.T
    else:
        dense = np.tril(dense) if name == "tril" else np.triu(dense)
    stored = convert.to_format(convert.from_dense(dense), name)
    assert np.array_equal(evaluated(stored), dense)
