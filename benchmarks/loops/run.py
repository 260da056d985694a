"""``tr.loops`` beside the Python loops it replaces, Numba on the same loops, and the array form.

    python benchmarks/loops/run.py [--out FILE] [--only NAME ...]

Every contender works on the same arrays in one process; rounds take turns, and the best of each is
reported. Numba and ``tr.loops`` are given what they would change as fresh copies. First calls are
made when both compilers are loaded, without any cache on disk. Loops that carry dependences have
one thread, as Numba's do, and are timed by the clock of the processor, which other work beside
disturbs little; bulk loops by the clock on the wall.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import scipy.sparse as sp

import tensorel as tr

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "loops"))
from programs import PROGRAMS

ROUNDS = 7
Rng = np.random.Generator


def grid(rng: Rng, n: int) -> Any:
    return rng.random((n, n))


#: Programs whose loops carry dependences: arguments to compare with Python, and with Numba.
CARRIED: dict[str, tuple[Callable[[Rng], tuple[Any, ...]], Callable[[Rng], tuple[Any, ...]]]] = {
    "edit_distance": (lambda r: (r.integers(0, 4, 500), r.integers(0, 4, 500)),
                      lambda r: (r.integers(0, 4, 3000), r.integers(0, 4, 3000))),
    "edit_distance_in_two_rows": (lambda r: (r.integers(0, 4, 500), r.integers(0, 4, 500)),
                                  lambda r: (r.integers(0, 4, 3000), r.integers(0, 4, 3000))),
    "smith_waterman": (lambda r: (r.integers(0, 4, 400), r.integers(0, 4, 400)),
                       lambda r: (r.integers(0, 4, 2500), r.integers(0, 4, 2500))),
    "gauss_seidel": (lambda r: (grid(r, 200), 10), lambda r: (grid(r, 700), 10)),
    "recurrence": (lambda r: (r.random(500_000),), lambda r: (r.random(4_000_000),)),
    "running_sums": (lambda r: (r.random(500_000),), lambda r: (r.random(4_000_000),)),
    "floyd_warshall": (lambda r: (grid(r, 80),), lambda r: (grid(r, 200),)),
    "knapsack": (lambda r: (r.integers(1, 50, 100), r.random(100), 5_000),
                 lambda r: (r.integers(1, 50, 400), r.random(400), 40_000)),
    "game_of_life": (lambda r: ((grid(r, 100) < 0.3).astype(np.int64), 3),
                     lambda r: ((grid(r, 500) < 0.3).astype(np.int64), 5)),
    "k_means": (lambda r: (r.random((3_000, 4)), 5, 3), lambda r: (r.random((50_000, 4)), 8, 5)),
    "lu": (lambda r: (grid(r, 100) + 100 * np.eye(100),),
           lambda r: (grid(r, 300) + 300 * np.eye(300),)),
    "longest_increasing": (lambda r: (r.random(1_000),), lambda r: (r.random(6_000),)),
    "matrix_chain": (lambda r: (r.integers(1, 50, 120),), lambda r: (r.integers(1, 50, 200),)),
    "mandelbrot": (lambda r: (100, 150, 100), lambda r: (400, 600, 200)),
    "collatz": (lambda r: (8_000,), lambda r: (100_000,)),
    "histogram": (lambda r: (r.integers(0, 500_000, 500_000), r.random(500_000)),
                  lambda r: (r.integers(0, 100_000, 3_000_000), r.random(3_000_000))),
    "bubble_sort": (lambda r: (r.random(800),), lambda r: (r.random(2_000),)),
}


def sparse(rng: Rng, n: int, density: float) -> Any:
    return sp.random(n, n, density, format="csr", random_state=1)


#: Bulk programs: arguments, and the array form.
BULK: dict[str, tuple[Callable[[Rng], tuple[Any, ...]], Callable[..., Any]]] = {
    "matrix_product": (lambda r: (tr.asarray(grid(r, 600)), tr.asarray(grid(r, 600))),
                       lambda A, B: A @ B),
    "matrix_vector_product": (lambda r: (tr.asarray(sparse(r, 20_000, 1e-3)),
                                         tr.asarray(r.random(20_000))), lambda A, x: A @ x),
    "scaled_sum": (lambda r: (tr.asarray(r.random(3_000_000)), tr.asarray(r.random(3_000_000))),
                   lambda x, y: 2.5 * x + y),
    "dot": (lambda r: (tr.asarray(r.random(3_000_000)), tr.asarray(r.random(3_000_000))),
            lambda x, y: (x * y).sum()),
    "symmetrized": (lambda r: (tr.asarray(grid(r, 1_500)),), lambda A: (A + A.T) / 2),
    "row_norms": (lambda r: (tr.asarray(grid(r, 1_500)),),
                  lambda A: tr.sqrt((A * A).sum(axis=1))),
    "squared_distances": (lambda r: (tr.asarray(r.random((600, 8))),), lambda X: (
        (X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)),
    "positive_part": (lambda r: (tr.asarray(grid(r, 1_500)),), lambda A: tr.where(A > 0, A, 0.0)),
}


def as_tuple(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


def best(*contenders: Callable[[], Any], rounds: int = ROUNDS,
         clock: Callable[[], float] = time.process_time) -> list[float]:
    """The best time of each, in turns."""
    found = [float("inf")] * len(contenders)
    for _ in range(rounds):
        for k, run in enumerate(contenders):
            began = clock()
            run()
            found[k] = min(found[k], clock() - began)
    return found


def copies(given: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([a.copy() if isinstance(a, np.ndarray) else a for a in given])


def ours(loops: Any, given: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: tr.compute(*as_tuple(loops(*given)))


def seconds(run: Callable[[], Any]) -> float:
    began = time.process_time()
    run()
    return time.process_time() - began


def carried(name: str) -> dict[str, float]:
    function = PROGRAMS[name][0]
    rng = np.random.default_rng(0)
    small, large = (make(rng) for make in CARRIED[name])
    loops, fast = tr.loops(function), numba.njit(function)
    with tr.options(disk_cache=False, threads=1):
        first = seconds(ours(loops, small))
        other = seconds(lambda: fast(*copies(small)))
        python = seconds(lambda: function(*copies(small)))
        (mine_small,) = best(ours(loops, small))
        mine, peer = best(ours(loops, large), lambda: fast(*copies(large)))
    return {"python": python, "small": mine_small, "mine": mine, "numba": peer,
            "first": max(first - mine_small, 1e-9), "numba first": other}


def bulk(name: str) -> dict[str, float]:
    function = PROGRAMS[name][0]
    given = BULK[name][0](np.random.default_rng(0))
    loops, array = tr.loops(function), BULK[name][1]

    def formed() -> Any:
        return tr.compute(*as_tuple(array(*given)))

    formed(), ours(loops, given)()
    mine, peer = best(ours(loops, given), formed, rounds=5 * ROUNDS, clock=time.perf_counter)
    return {"mine": mine, "array": peer}


def warm_up() -> None:
    """Both compilers are loaded."""
    x = np.ones(3)
    ours(tr.loops(PROGRAMS["horner"][0]), (x, 3))()
    numba.njit(PROGRAMS["horner"][0])(x, 3)


def report(only: list[str]) -> str:
    warm_up()
    lines = [
        f"# Loops, {datetime.date.today()}", "",
        f"{platform.machine()}, {platform.python_implementation()} {platform.python_version()}, "
        f"NumPy {np.__version__}, Numba {numba.__version__}. Times are the best of {ROUNDS} "
        "rounds in turns; arguments are copied by both, as neither may change them. Loops that "
        "carry dependences: one thread, processor time. \"Compiled\" is the first call of the "
        "small case less a later one: where it has little to do, code is quickly made, and better "
        "code when more has been done.", "",
        "## Loops that carry dependences", "",
        "| program | Python | tr.loops | times as fast | tr.loops, large | Numba, large | of Numba "
        "| compiled | Numba compiled | times as fast |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = []
    for name in CARRIED:
        if not only or name in only:
            print(name, file=sys.stderr, flush=True)
            rows.append((name, carried(name)))
    for name, r in rows:
        lines.append(
            f"| {name.replace('_', ' ')} | {1e3 * r['python']:.0f} ms | {1e3 * r['small']:.2f} ms "
            f"| {r['python'] / r['small']:.0f} | {1e3 * r['mine']:.2f} ms "
            f"| {1e3 * r['numba']:.2f} ms | {r['mine'] / r['numba']:.2f} "
            f"| {1e3 * r['first']:.0f} ms | {1e3 * r['numba first']:.0f} ms "
            f"| {r['numba first'] / r['first']:.1f} |")
    if rows:
        lines += ["", _means(rows), ""]
    lines += ["## Bulk loops beside the array form", "",
              "| program | tr.loops | array form | ratio |", "| --- | --- | --- | --- |"]
    for name in BULK:
        if not only or name in only:
            r = bulk(name)
            lines.append(f"| {name.replace('_', ' ')} | {1e3 * r['mine']:.2f} ms "
                         f"| {1e3 * r['array']:.2f} ms | {r['mine'] / r['array']:.2f} |")
    return "\n".join(lines) + "\n"


def _means(rows: list[tuple[str, dict[str, float]]]) -> str:
    def mean(top: str, below: str) -> float:
        return float(np.exp(np.mean([np.log(r[top] / r[below]) for _, r in rows])))

    return (f"Geometric means: {mean('python', 'small'):.0f} times as fast as Python, "
            f"{mean('mine', 'numba'):.2f} of Numba's time, compiled "
            f"{mean('numba first', 'first'):.1f} times as fast.")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    options = parser.parse_args()
    text = report(options.only)
    print(text)
    if options.out is not None:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
