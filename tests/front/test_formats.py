"""One answer for every storage: programs over tensors in several formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from front_support import check, sample

import tensorel as tr

X, Y = sample((5, 4), seed=1, density=0.4), sample((4, 5), seed=2, density=0.4)
FORMATS = ["dense", "dense_f", "coo", "csr", "csc", "dcsr", "dok"]
PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda a, b: a @ b,
    "masked": lambda a, b: (a > 0) * (b.T + 1),
    "transposed sum": lambda a, b: (a.T + b).sum(0),
    "mean": lambda a, b: a.mean(1) - b.mean(0),
    "slices": lambda a, b: a[1:4, ::-1] * b[::2, 1:4].sum(),
    "gather": lambda a, b: a[[3, 0, 3]] @ b,
    "concat": lambda a, b: np.concatenate([a, b.T], axis=1),
    "roll": lambda a, b: np.roll(a, 2, axis=0),
    "pad": lambda a, b: np.pad(a, 1),
    "tril": lambda a, b: np.tril(a) + np.triu(b.T),
    "where": lambda a, b: np.where(a > 0, a, b.T),
    "chain": lambda a, b: (a @ b @ a).max(),
    "broadcast": lambda a, b: a - a.mean(0, keepdims=True),
    "reshape": lambda a, b: a.reshape(2, 10) + 1,
    "diagonal": lambda a, b: a.diagonal() * b.trace(),
    "elementwise": lambda a, b: np.exp(a) * np.sqrt(np.abs(b.T)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("format", FORMATS)
def test_programs(name: str, format: str) -> None:
    program = PROGRAMS[name]
    found = program(tr.tensor(X, format=format), tr.tensor(Y, format=format))
    check(found, program(X, Y))
