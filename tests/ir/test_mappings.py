"""A format's mapping, read by the parser and run by the reference, gives back the tensor."""

from __future__ import annotations

import numpy as np
import pytest

from tensorel import reference
from tensorel.errors import StorageError
from tensorel.ir.nodes import Node, Source, Tensor, const
from tensorel.ir.parser import parse
from tensorel.ir.printer import show
from tensorel.storage import convert, registry
from tensorel.storage.stored import Stored
from tensorel.testing.programs.leaves import random_leaf

NAMES = (*registry.names(), "0;1", ";1,0", "csf(1,0)", "bsr(2,3)", "0,2;1", "csf(2,0,1)")


def bindings(stored: Stored) -> dict[str, Node | int]:
    """Physical arrays and sizes under the names that mappings use."""
    names: dict[str, Node | int] = {f"n{k}": n for k, n in enumerate(stored.shape)}
    for name, array in stored.arrays.items():
        data = Data(array.reshape(-1))
        names[name] = Source(data, (array.size,), array.dtype, const(0, array.dtype))
        if name.startswith("idx"):
            names["N" + name[3:]] = array.size
        if name == "off":
            names["N"] = array.size
    return names


class Data:
    def __init__(self, array: np.ndarray) -> None:  # type: ignore[type-arg]
        self.array = array

    def to_dense(self) -> np.ndarray:  # type: ignore[type-arg]
        return self.array


@pytest.mark.parametrize("name", NAMES)
def test_the_mapping_is_the_tensor(name: str) -> None:
    rng = np.random.default_rng(1)
    tried = 0
    for _ in range(600):
        leaf = random_leaf(rng, "A")
        if leaf.fill != 0:
            continue
        try:
            stored = convert.to_format(convert.from_dense(leaf.array, 0), name)
        except StorageError:
            continue
        names = bindings(stored)
        tensor = parse(stored.format.mapping, names)
        assert isinstance(tensor, Tensor)
        given = {v: k for k, v in names.items() if isinstance(v, Tensor)}
        assert parse(show(tensor, given), names) is tensor
        np.testing.assert_array_equal(reference.evaluate(tensor), leaf.array)
        tried += 1
        if tried == 8:
            return
    assert tried, "no random tensor fits"
