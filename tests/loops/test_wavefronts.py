"""Nests on several threads: the results of Python to the last bit, and dependences that a trace of
the accesses confirms."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from programs import PROGRAMS
from random_loops import Drawn, compare, compiled

import tensorel as tr
from tensorel.engines.in_process import imperative, wavefronts
from tensorel.loops.analysis.wavefront import Wavefront, wavefront
from tensorel.loops.unit import Launch

#: Those of ``PROGRAMS`` with a nest that may run on several threads.
PARALLEL = ("edit_distance", "common_subsequence", "gauss_seidel", "lu", "mandelbrot")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is worth several threads, which look at each other often."""
    monkeypatch.setattr(wavefronts, "least_work", 0)
    monkeypatch.setattr(wavefronts, "STRIP_WORK", 3)
    imperative._kernels.clear()
    with tr.options(threads=3):
        yield
    imperative._kernels.clear()


def fronts() -> list[Wavefront | None]:
    """Of the calls so far."""
    return [ready.front for known in imperative._kernels.values()
            for ready in known.calls.values()]  # type: ignore[misc]


@pytest.mark.parametrize("name", PARALLEL)
def test_programs(name: str) -> None:
    function, arguments = PROGRAMS[name]
    for n in (12, 5, 0):
        given = arguments(np.random.default_rng(n), n)
        want = function(*[a.copy() if isinstance(a, np.ndarray) else a for a in given])
        found = tr.loops(function)(*given)
        for a, b in zip(*(x if isinstance(x, tuple) else (x,) for x in (want, found)), strict=True):
            np.testing.assert_array_equal(b.to_numpy(), a)
    assert any(fronts())


def test_random_programs() -> None:
    for mode in ("regular", "tame", "wild"):
        for seed in range(1000, 1008):
            compare(Drawn(seed, mode))


def test_the_first_error_is_told() -> None:
    def f(A, at):
        n, m = A.shape
        for i in range(1, n):
            for j in range(1, m):
                A[i, j] = A[i - 1, j] + A[i, j - 1] + A[0, at[i]]
        return A

    at = np.arange(40) % 5
    at[20], at[30] = 70, 80
    with pytest.raises(IndexError, match="index 70 of A"):
        tr.loops(f)(np.ones((40, 40)), at).to_numpy()
    at[20] = at[30] = 0
    want = f(np.ones((40, 40)), at)
    assert any(fronts())  # row 0 is not written
    np.testing.assert_array_equal(tr.loops(f)(np.ones((40, 40)), at).to_numpy(), want)


def test_what_is_carried_in_variables_runs_in_order() -> None:
    def f(A):
        n, m = A.shape
        best = 0.0
        for i in range(1, n):
            for j in range(1, m):
                A[i, j] += A[i - 1, j]
                best = max(best, A[i, j])
        return A, best

    A = np.random.default_rng(0).random((9, 9))
    found, best = tr.loops(f)(A)
    want = f(A.copy())
    np.testing.assert_array_equal(found.to_numpy(), want[0])
    assert best.item() == want[1] and not any(fronts())


# -- random nests -------------------------------------------------------------------------------
class Nest:
    """A nest of two or three loops that reads and writes near the counters."""

    def __init__(self, seed: int) -> None:
        r = self.rng = random.Random(seed)
        self.deep = r.random() < 0.4
        counters = ["t", "i", "j"] if self.deep else ["i", "j"]
        lines = ["def program(A, v, n, m, k):"]
        for depth, name in enumerate(counters):
            extent = {"t": "k", "i": "n", "j": "m"}[name]
            first = "0" if name == "t" else r.choice(["2", "2", "2", *(
                ["i"] if name == "j" and r.random() < 0.3 else [])])
            if name == "i" and self.deep and r.random() < 0.3:
                first = "t + 2"
            header = f"range({first}, {extent} - 2)" if name != "t" else f"range({extent})"
            if name != "t" and r.random() < 0.25:
                header = f"range({extent} - 3, {first} - 1, -{r.choice([1, 1, 2])})"
            lines.append("    " * (depth + 1) + f"for {name} in {header}:")
            if depth == 1:
                lines.append("            #turn")
        indent = "    " * (len(counters) + 1)
        for _ in range(r.choice([1, 1, 2])):
            if r.random() < 0.2:
                lines.append(f"{indent}if {self.read()} < 0.25:")
                lines.append(f"{indent}    {self.write()} = 0.5 * {self.value()}")
            else:
                lines.append(f"{indent}x = {self.value()}")
                lines.append(f"{indent}{self.write()} = x if x < 4.0 else 0.25 * x")
        lines.append("    return A, v")
        self.counters = counters
        self.text = "\n".join(lines)
        self.function: Callable[..., Any] = compiled(self.text, f"<nest {seed}>")
        traced = self.text.replace("#turn", f"TURN[:] = [{counters[0]}, {counters[1]}]")
        self.traced = compiled("TURN = [0, 0]\n" + traced, f"<traced nest {seed}>")

    def near(self, name: str, far: int) -> str:
        by = self.rng.randint(-far, far)
        return name if by == 0 else f"{name} {'-' if by < 0 else '+'} {abs(by)}"

    def read(self) -> str:
        if self.rng.random() < 0.15:
            return f"v[{self.near(self.rng.choice('ij'), 2)}]"
        if self.rng.random() < 0.1:
            return f"A[{self.near('j', 1)}, {self.near('i', 1)}]"
        return f"A[{self.near('i', 2)}, {self.near('j', 2)}]"

    def write(self) -> str:
        if self.rng.random() < 0.1:
            return f"v[{self.near(self.rng.choice('ij'), 1)}]"
        return "A[i, j]" if self.rng.random() < 0.8 else f"A[{self.near('i', 1)}, j]"

    def value(self) -> str:
        return f"0.3 * ({' + '.join(self.read() for _ in range(self.rng.randint(1, 4)))})"

    def arguments(self) -> tuple[Any, ...]:
        rng = np.random.default_rng(self.rng.randint(0, 1000))
        return rng.random((14, 14)), rng.random(14), 13, 13, 4


class Traced:
    """An array that remembers who touched which cell."""

    def __init__(self, array: np.ndarray, turn: list[int], name: str,
                 found: list[tuple[Any, bool, tuple[int, int]]]) -> None:
        self.array, self.turn, self.name, self.found = array, turn, name, found

    def __getitem__(self, at: Any) -> Any:
        self.found.append(((self.name, at), False, (self.turn[0], self.turn[1])))
        return self.array[at]

    def __setitem__(self, at: Any, value: Any) -> None:
        self.found.append(((self.name, at), True, (self.turn[0], self.turn[1])))
        self.array[at] = value


def check_dependences(nest: Nest, front: Wavefront, given: tuple[Any, ...]) -> None:
    """Every two accesses of one cell in different outer turns are as far apart as was said."""
    found: list[tuple[Any, bool, tuple[int, int]]] = []
    turn = nest.traced.__globals__["TURN"]
    A, v = (Traced(x.copy(), turn, n, found) for n, x in zip("Av", given))
    nest.traced(A, v, *given[2:])
    up = [-1 if _header(nest, c).endswith(("-1)", "-2)")) else 1 for c in nest.counters[:2]]
    by_cell: dict[Any, list[tuple[bool, tuple[int, int]]]] = {}
    for cell, writes, at in dict.fromkeys(found):
        by_cell.setdefault(cell, []).append((writes, at))
    for cell, accesses in by_cell.items():
        for (w1, (o1, i1)), (w2, (o2, i2)) in itertools.permutations(accesses, 2):
            if (w1 or w2) and (o2 - o1) * up[0] > 0:  # the first is earlier
                assert front.inner is not None, (nest.text, cell)
                assert (i1 - i2) * up[1] <= front.ahead, (nest.text, cell, o1, i1, o2, i2)


def _header(nest: Nest, counter: str) -> str:
    return next(x for x in nest.text.split("\n") if f"for {counter} in" in x).rstrip(":")


def test_random_nests() -> None:
    seen = 0
    for seed in range(60):
        nest = Nest(seed)
        given = nest.arguments()
        want = nest.function(*[a.copy() if isinstance(a, np.ndarray) else a for a in given])
        found = tr.compute(*tr.loops(nest.function)(*given))
        for a, b in zip(want, found):
            np.testing.assert_array_equal(b.to_numpy(), a, err_msg=nest.text)
        for unit in list(imperative._kernels):
            launch = Launch(unit, {"A": given[0].shape, "v": given[1].shape},
                            dict(zip("nmk", given[2:])))
            front = wavefront(unit, launch, 0)
            if front is not None:
                seen += 1
                check_dependences(nest, front, given)
        imperative._kernels.clear()
    assert seen > 20
