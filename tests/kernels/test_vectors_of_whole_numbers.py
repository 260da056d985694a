"""Vectors that the lowering writes itself, of whole numbers."""

from __future__ import annotations

import numpy as np
import pytest

import tensorel as tr


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint16])
@pytest.mark.parametrize("shape", [(3, 1), (8, 1), (20, 1), (5,)])
def test_a_choice_between_numbers_and_their_opposites(dtype: type, shape: tuple[int, ...]) -> None:
    x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    t = tr.asarray(x)
    assert np.array_equal(tr.where(t > 1, t, -t).to_numpy(), np.where(x > 1, x, -x))
    assert np.array_equal(tr.where(t > 1, t, ~t).to_numpy(), np.where(x > 1, x, ~x))
