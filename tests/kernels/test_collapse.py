"""Leading loops that nothing but one operand knows become one loop over its entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tensorel as tr

#: Programs over A (sparse) and vectors x, y for its columns and rows, with how often the kernel
#: loops: 1 where the row of an entry does not matter.
PROGRAMS: dict[str, tuple[Callable[[Any, Any, Any], Any], int]] = {
    "sum of squares": (lambda a, x, y: (a * a).sum(), 1),
    "weighted by columns": (lambda a, x, y: (a * x).sum(), 1),
    "columns twice": (lambda a, x, y: (a * x * (x + 1)).sum(), 1),
    "sum by columns": (lambda a, x, y: a.sum(axis=0), 1),
    "scaled columns": (lambda a, x, y: a * x, 1),
    "weighted by rows": (lambda a, x, y: (a * y[:, None]).sum(), 2),
    "sum by rows": (lambda a, x, y: a.sum(axis=1), 2),
    "first columns": (lambda a, x, y: (a[:, :2] * x[:2]).sum(), 2),
    "later rows": (lambda a, x, y: (a[1:] * x).sum(), 2),
    "maximum": (lambda a, x, y: (a * x).max(), 1),
    "not zero outside": (lambda a, x, y: (a + x).sum(), 2),
}


def _random(shape: tuple[int, ...], seed: int, empty: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.integers(-4, 5, shape) * (rng.random(shape) < 0.3)
    values[rng.random(shape[0]) < empty] = 0
    return values.astype(float)


@given(st.sampled_from(sorted(PROGRAMS)), st.sampled_from(["csr", "csc", "dcsr", "csf", "coo"]),
       st.integers(2, 9), st.integers(2, 9), st.sampled_from([0.0, 0.6, 1.0]), st.booleans(),
       st.integers(0, 99))
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_programs_over_one_matrix(name: str, fmt: str, rows: int, columns: int, empty: float,
                                  strict: bool, seed: int) -> None:
    a = _random((rows, columns), seed, empty)
    rng = np.random.default_rng(seed + 1)
    x, y = rng.integers(1, 5, columns).astype(float), rng.integers(1, 5, rows).astype(float)
    program = PROGRAMS[name][0]
    with tr.options(strict=strict):
        found = program(tr.asarray(a).to_format(fmt), tr.asarray(x), tr.asarray(y))
        np.testing.assert_allclose(np.asarray(found), program(a, x, y))


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_number_of_loops(name: str) -> None:
    a = tr.asarray(_random((40, 30), 1)).to_format("csr")
    x, y = tr.asarray(np.arange(1.0, 31)), tr.asarray(np.arange(1.0, 41))
    program, loops = PROGRAMS[name]
    code = str(program(a, x, y).explain(level="code"))
    assert max(_depths(code)) == loops, code


#: The entries of a list have all coordinates: one loop, but for a sum that each row keeps.
LISTS: dict[str, int] = {
    "ij->": 1, "ij,j->": 1, "ij,i->": 1, "ij,i->j": 1, "ij,i,j->ij": 1, "ij,j->i": 2,
    "ij,ir->jr": 2, "ij,jr->ir": 2}


@pytest.mark.parametrize("spec", sorted(LISTS))
def test_loops_over_a_list(spec: str) -> None:
    a = _random((40, 30), 1)
    sizes = {"i": 40, "j": 30, "r": 7}
    rng = np.random.default_rng(2)
    others = [rng.integers(1, 5, [sizes[n] for n in part]).astype(float)
              for part in spec.split("->")[0].split(",")[1:]]
    program = tr.einsum(spec, tr.asarray(a).to_format("coo"), *map(tr.asarray, others))
    np.testing.assert_allclose(np.asarray(program), np.einsum(spec, a, *others))
    code = str(program.explain(level="code"))
    assert _loops(code) == LISTS[spec], code


def _loops(code: str) -> int:
    """How many loops there are but for searches, and for the ends of runs."""
    return sum(line.strip().startswith(("for ", "while q_")) for line in code.splitlines())


def test_a_row_of_a_list_is_gone_through_once() -> None:
    a, x = _random((40, 30), 1, 0.4), np.arange(30.0)
    program = tr.asarray(a).to_format("coo") @ tr.asarray(x)
    np.testing.assert_allclose(np.asarray(program), a @ x)
    code = str(program.explain(level="code"))
    assert "end_" not in code, code  # nobody looks for the end of a run before
    code = str(tr.asarray(a).to_format("coo").sum(axis=1).explain(level="code"))
    assert "end_" in code, code  # sums in order become vectors


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("fmt", ["coo", "0;1,2"])
@given(st.sampled_from(["ijk,jr,kr->ir", "ijk,i->jk", "ijk,ij->k", "ijk->ik", "ijk,k->ij"]),
       st.integers(0, 99))
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_lists_of_three_coordinates(fmt: str, threads: int, spec: str, seed: int) -> None:
    sizes = dict(zip("ijkr", np.random.default_rng(seed).integers(1, 7, 4)))
    a = _random(tuple(sizes[n] for n in "ijk"), seed, 0.3)
    rng = np.random.default_rng(seed + 1)
    others = [rng.random([sizes[n] for n in part]) for part in spec.split("->")[0].split(",")[1:]]
    with tr.options(threads=threads):
        found = tr.einsum(spec, tr.asarray(a).to_format(fmt), *map(tr.asarray, others))
        np.testing.assert_allclose(np.asarray(found), np.einsum(spec, a, *others))


def _depths(code: str) -> list[int]:
    """How deep the loops of each kernel stand inside each other."""
    found, stack = [0], list[int]()
    for line in code.splitlines():
        indent = len(line) - len(line.lstrip())
        stack = [s for s in stack if s < indent]
        if line.lstrip().startswith("for "):
            stack.append(indent)
            found.append(len(stack))
    return found


@pytest.mark.parametrize("fmt", ["csf", "coo", "0;1,2", "0,1;2", "csf(2,0,1)"])
@pytest.mark.parametrize("spec", ["ijk->", "ijk,k->", "ijk,jk->", "ijk,j->", "ijk,i->", "ijk,k->k",
                                  "ijk,jk->jk"])
def test_three_levels(fmt: str, spec: str) -> None:
    shape = (5, 4, 5)
    a = _random(shape, 3, 0.3)
    t = tr.asarray(a).to_format(fmt)
    sizes = dict(zip("ijk", shape))
    rng = np.random.default_rng(5)
    others = [rng.integers(1, 5, [sizes[n] for n in part]).astype(float)
              for part in spec.split("->")[0].split(",")[1:]]
    found = tr.einsum(spec, t, *map(tr.asarray, others))
    np.testing.assert_allclose(np.asarray(found), np.einsum(spec, a, *others))


def test_ranges_on_threads() -> None:
    rng = np.random.default_rng(2)
    n = 60_000
    rows, columns = np.sort(rng.integers(0, n, 4 * n)), rng.integers(0, 50, 4 * n)
    a = tr.from_coo([rows, columns], rng.random(4 * n), (n, 50),
                    duplicates="sum").to_format("csr")
    x = rng.random(50)
    dense = np.asarray(a)
    for threads in (1, 2):
        with tr.options(threads=threads):
            np.testing.assert_allclose((a * tr.asarray(x)).sum().compute(), (dense * x).sum())
            np.testing.assert_allclose(np.asarray(a.sum(axis=0)), dense.sum(axis=0))
