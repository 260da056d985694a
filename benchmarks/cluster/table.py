"""Bytes that plans move, beside the best known algorithms: ``python benchmarks/cluster/table.py``.

Plans of 4 to 512 sites are made without data. Small programs also run, on sites that are threads,
and what is counted there stands beside what the plan foretold."""

from __future__ import annotations

import argparse
import math
import multiprocessing
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

import tensorel as tr  # noqa: E402
from cluster.programs import PROGRAMS, Program  # noqa: E402

SITES = (4, 8, 16, 64, 512)
COUNTED = (4, 8)
TILES = 16  # of an operand, for each site
LOSS = 1.1


@dataclass
class Line:
    program: str
    sites: int
    planned: float
    best: float
    how: str
    seconds: float
    plan: str
    failed: str = ""

    @property
    def ratio(self) -> float:
        return self.planned / self.best if self.best else 1.0 if not self.planned else math.inf


def tiles(shape: tuple[int, ...], parts: object, sites: int) -> list[list[int]]:
    """Sizes of tiles: as many parts as are asked for, or about cubes of a 16th of a share."""
    if parts is None:
        return [[n] for n in shape]
    if not isinstance(parts, tuple):
        side = (math.prod(shape) / (TILES * sites)) ** (1 / len(shape))
        parts = [2 ** max(round(math.log2(n / side)), 0) if n > side else 1 for n in shape]
    return [[len(x) for x in np.array_split(np.arange(n), min(p, n))]
            for n, p in zip(shape, parts)]


def never(key: tuple[int, ...]) -> Any:
    raise AssertionError("a plan needs no data")


def study(program: Program, sites: int) -> Line:
    """What a plan would move."""
    with tr.engines.local(sites=sites) as engine:
        def make(shape: tuple[int, ...], parts: object = "any") -> tr.Tensor:
            return tr.from_blocks(never, shape, tiles(shape, parts, sites), engine=engine)

        results = program.build(make, sites)
        best, how = program.best(sites)
        begun = time.perf_counter()
        found = tr.explain(*results, engine=engine)
        spent = time.perf_counter() - begun
        return Line(program.name, sites, found.predicted_moved, best, how, spent, str(found))


def counted(program: Program, sites: int) -> tuple[int, int]:
    """Bytes foretold and counted of a small run on threads."""
    with tr.engines.local(sites=sites) as engine:
        return counted_on(engine, program)[:2]


def counted_on(engine: Any, program: Program) -> tuple[int, int, list[tr.Tensor]]:
    """Bytes foretold and counted of a small run, and its results."""
    rng, sites = np.random.default_rng(1), engine.stats()["sites"]

    def make(shape: tuple[int, ...], parts: object = "any") -> tr.Tensor:
        whole = rng.random(shape)
        sizes = tiles(shape, parts, sites)
        edges = [np.cumsum([0, *s]) for s in sizes]
        return tr.from_blocks(partial(part, whole, edges), shape, sizes, engine=engine)

    results = program.small(make, sites)
    foretold = tr.explain(*results, engine=engine).predicted_moved
    engine.reset()
    found = list(tr.compute(*results, engine=engine))
    return foretold, engine.stats()["bytes_moved"], found


def part(whole: np.ndarray, edges: list[np.ndarray], key: tuple[int, ...]) -> np.ndarray:
    return whole[tuple([slice(e[k], e[k + 1]) for e, k in zip(edges, key)])]


def _in_child(number: int, sites: int, real: bool, out: Any) -> None:
    program = PROGRAMS[number]
    try:
        out.put(counted(program, sites) if real else study(program, sites))
    except Exception as error:
        traceback.print_exc()
        out.put(error)


def alone(number: int, sites: int, real: bool, limit: float) -> Any:
    """In a process of its own, which is ended after so many seconds."""
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    child = context.Process(target=_in_child, args=(number, sites, real, out))
    child.start()
    try:
        found = out.get(timeout=limit)
    except Exception:
        found = TimeoutError(f"not done after {limit:.0f} s")
    child.kill()
    child.join()
    return found


def size(count: float) -> str:
    return f"{count / 1e6:,.1f}" if count < 1e8 else f"{count / 1e6:,.0f}"


def shortened(plan: str, most: int = 30) -> str:
    lines = plan.split("\n")
    cut = lines if len(lines) <= most else [*lines[:most - 6], "...", *lines[-5:]]
    return "\n".join(x if len(x) < 160 else f"{x[:150]} ..." for x in cut)


def written(lines: list[Line], runs: list[tuple[str, int, Any]], args: argparse.Namespace) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, text=True,
                            capture_output=True, check=False).stdout.strip() or "unknown"
    lost = [x for x in lines if x.failed or x.ratio > LOSS]
    text = [
        f"# Bytes between sites, {time.strftime('%Y-%m-%d')}", "",
        f"Commit {commit}. Made by `make bench-cluster`. Operands are float64 and come into being "
        "in blocks; sparse ones are held by the driver and cut by the plan. MB moved: by the plan, "
        "and by the best of broadcast, co-partitioned, 2-D, 2.5-D and 3-D algorithms, over all "
        "grids with as many cells as sites. Programs of several steps: by the best grids of their "
        "steps, moves between the layouts of steps not counted. Below 1: the plan uses fewer "
        f"sites, or other cuts. Losses (more than {LOSS} times the best) are bold.", "",
        f"{len(lines) - len(lost)} of {len(lines)} plans are within {LOSS} times the best.", "",
        "| program | sites | MB by the plan | MB by the best | ratio | the best | planning, s |",
        "| --- | ---: | ---: | ---: | ---: | --- | ---: |"]
    for x in lines:
        if x.failed:
            text.append(f"| **{x.program}** | {x.sites} | {x.failed} | | **none** | | |")
            continue
        ratio = f"**{x.ratio:.2f}**" if x.ratio > LOSS else f"{x.ratio:.2f}"
        text.append(f"| {x.program} | {x.sites} | {size(x.planned)} | {size(x.best)} | {ratio} | "
                    f"{x.how} | {x.seconds:.2f} |")
    text += ["", "## Foretold and counted", "",
             "The programs at a small size, run on sites that are threads. Fewer bytes are counted "
             "where what was sent for one step serves another.", "",
             "| program | sites | bytes foretold | bytes counted | counted / foretold |",
             "| --- | ---: | ---: | ---: | ---: |"]
    for name, sites, found in runs:
        if isinstance(found, Exception):
            text.append(f"| **{name}** | {sites} | {type(found).__name__} | | **none** |")
            continue
        told, really = found
        ratio = really / told if told else 1.0 if not really else math.inf
        shown = f"{ratio:.3f}" if abs(ratio - 1) <= 0.05 else f"**{ratio:.3f}**"
        text.append(f"| {name} | {sites} | {told:,} | {really:,} | {shown} |")
    if lost:
        text += ["", "## Plans of the losses"]
        for x in lost:
            if x.plan and x.sites <= args.shown:
                text += ["", f"{x.program}, {x.sites} sites:", "", "```text", shortened(x.plan),
                         "```"]
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--sites", type=int, nargs="*", default=SITES)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--limit", type=float, default=60, help="seconds of a plan")
    parser.add_argument("--shown", type=int, default=8, help="print plans of losses up to these")
    args = parser.parse_args()
    lines: list[Line] = []
    runs: list[tuple[str, int, Any]] = []
    wanted = [(k, n, real) for k, program in enumerate(PROGRAMS) if args.only in program.name
              for real in (False, True) for n in args.sites if not real or n in COUNTED]
    with ThreadPoolExecutor(args.jobs) as pool:
        for (k, n, real), found in zip(wanted, pool.map(
                lambda case: alone(*case, args.limit), wanted)):
            name = PROGRAMS[k].name
            if real:
                runs.append((name, n, found))
            else:
                if isinstance(found, Exception):
                    found = Line(name, n, 0, 0, "", 0, "", str(found) or repr(found))
                lines.append(found)
                found = found.failed or f"{found.ratio:.3f}, {found.seconds:.2f} s"
            print(f"{name}, {n}{', counted' if real else ''}: {found}", flush=True)
            if args.out:
                args.out.write_text(written(lines, runs, args))
    if not args.out:
        print(written(lines, runs, args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
