"""``tr.loops`` on the programs of ``programs.py``, against running them in Python."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from programs import PROGRAMS

import tensorel as tr

FORMATS = ("dense", "csr", "coo", "dcsc")


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def variants(given: tuple[Any, ...]) -> Iterator[list[Any]]:
    """The arguments with matrices in several storages, then in another dtype."""
    for format in FORMATS:
        yield [tr.tensor(a, format=format if a.ndim == 2 else "dense")
               if isinstance(a, np.ndarray) else a for a in given]
    if any(isinstance(a, np.ndarray) and a.dtype == np.float64 for a in given):
        yield [a.astype(np.float32) if isinstance(a, np.ndarray) and a.dtype == np.float64 else a
               for a in given]
        yield [(a * 10).astype(np.int64) if isinstance(a, np.ndarray) and a.dtype == np.float64
               else a for a in given]


def check_error(loops: Any, given: list[Any], error: Exception) -> None:
    """The same error; a variable that may hold NumPy's numbers is divided by zero as NumPy
    does."""
    kind = NameError if isinstance(error, NameError) else type(error)
    try:
        found = tr.compute(*as_tuple(loops(*given)))
    except kind:
        return
    assert kind is ZeroDivisionError and not all(np.isfinite(t.to_numpy()).all() for t in found)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program(name: str) -> None:
    function, arguments = PROGRAMS[name]
    loops = tr.loops(function)
    rng = np.random.default_rng(5)
    for n in (6, 1, 0):
        for given in variants(arguments(rng, n)):
            arrays = [a.to_numpy().copy() if isinstance(a, tr.Tensor) else a.copy()
                      if isinstance(a, np.ndarray) else a for a in given]
            kept = [a.copy() if isinstance(a, np.ndarray) else a for a in arrays]
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                try:
                    want = as_tuple(function(*arrays))
                except (IndexError, ZeroDivisionError, ValueError, NameError) as error:
                    check_error(loops, given, error)
                    continue
            found = as_tuple(loops(*given))
            tolerance = 1e-4 if any(getattr(a, "dtype", None) == np.float32 for a in given) \
                else 1e-12
            for a, b in zip(want, tr.compute(*found), strict=True):
                np.testing.assert_allclose(b.to_numpy(), a, rtol=tolerance, atol=tolerance)
            for a, b in zip(given, kept):  # arguments are never changed
                if isinstance(b, np.ndarray):
                    np.testing.assert_array_equal(
                        a.to_numpy() if isinstance(a, tr.Tensor) else a, b)
