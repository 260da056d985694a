"""How long it takes to place join groups, and to hand tasks to sites: ``python
benchmarks/cluster/planning.py``. Seconds of the processor, each size in a process of its own."""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

import numpy as np  # noqa: E402

import tensorel as tr  # noqa: E402
from tensorel.blocks.join_groups import cost, placement  # noqa: E402
from tensorel.blocks.join_groups.pilot import Join, Lineage, Scan, pilot  # noqa: E402

SITES = 64
GOALS = {100_000: 2.0, 1_000_000: 20.0}  # join groups: seconds
TASKS = 4000
PER_TASK = 0.3  # milliseconds beyond Ray's own


def product(count: int) -> Lineage:
    side = round(count ** (1 / 3))
    keys = np.stack([i.ravel() for i in np.indices((side, side))], axis=1)
    return pilot([keys, keys], Join(Scan(0), Scan(1), ((1, 0),)), [0, 3])


def sparse(count: int) -> Lineage:
    """A product of matrices with one block in ten."""
    rng = np.random.default_rng(0)
    side = round((100 * count) ** (1 / 3))
    keys = np.argwhere(rng.random((side, side)) < 0.1)
    return pilot([keys, keys], Join(Scan(0), Scan(1), ((1, 0),)), [0, 3])


def chain(count: int) -> Lineage:
    """Three matrices, joined before any sum."""
    side = round(count ** (1 / 4))
    keys = np.stack([i.ravel() for i in np.indices((side, side))], axis=1)
    return pilot([keys] * 3, Join(Join(Scan(0), Scan(1), ((1, 0),)), Scan(2), ((3, 0),)), [0, 5])


KINDS = {"product": product, "sparse product": sparse, "chain of three": chain}


def placed(kind: str, count: int) -> None:
    """Blocks lie anywhere; prints join groups, seconds of the pilot run and of the placement, and
    bytes of memory beside those of an empty process."""
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    lineage = KINDS[kind](count)
    done = time.process_time()
    blocks, made = int(lineage.first[-1]), int(lineage.target.max()) + 1
    home = np.random.default_rng(1).integers(0, SITES, blocks)
    groups = lineage.groups(home, np.full(blocks, 8e6), np.full(len(lineage.keys), 2e9),
                            np.full(made, 8e6), np.full(made, 1e6))
    placement.place(groups, SITES, cost.Rates(), None)
    spent = time.process_time()
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    print(len(lineage.keys), done - begun, spent - done, memory)


def overhead() -> tuple[float, float]:
    """Milliseconds of a task of Ray by itself, and of a tiny block through the engine; the better
    of three turns, taken in turn."""
    engine = tr.engines.ray(nodes=2)
    try:
        import ray

        from tensorel.engines.sites.ray_nodes import bound_to

        nodes = [n["NodeID"] for n in ray.nodes() if n["Alive"] and n["Resources"].get("CPU")]
        remote = [ray.remote(np.ones).options(**bound_to(n)) for n in nodes]
        side = round(TASKS ** 0.5)
        plain, ours = [], []
        for _ in range(3):
            begun = time.perf_counter()
            ray.get([remote[k % len(remote)].remote((4, 4)) for k in range(side * side)])
            plain.append((time.perf_counter() - begun) / side**2)
            tensor = tr.from_blocks(partial(ones), (4 * side, 4 * side), 4, engine=engine)
            begun = time.perf_counter()
            tensor.persist(engine=engine)
            ours.append((time.perf_counter() - begun) / side**2)
            del tensor
        return 1e3 * min(plain), 1e3 * min(ours)
    finally:
        engine.close()


def ones(key: tuple[int, ...]) -> np.ndarray:
    return np.ones((4, 4))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        placed(args.one[0], int(args.one[1]))
        return 0
    text = [
        f"# Planning over {SITES} sites, {time.strftime('%Y-%m-%d')}", "",
        "Made by `make bench-cluster-planning`. Join groups placed one by one: seconds of the "
        "processor for the pilot run on keys and for the placement, and memory beside that of the "
        f"process before. Goal: {' and '.join(f'{n:,} in {s:g} s' for n, s in GOALS.items())}.", "",
        "| program | join groups | pilot run, s | placement, s | memory, MB |",
        "| --- | ---: | ---: | ---: | ---: |"]
    for kind in KINDS:
        for count, goal in GOALS.items():
            found = subprocess.run([sys.executable, __file__, "--one", kind, str(count)],
                                   check=True, capture_output=True, text=True).stdout.split()
            groups, first, second, memory = int(found[0]), *map(float, found[1:])
            late = first + second > goal * groups / count
            shown = f"**{second:.2f}**" if late else f"{second:.2f}"
            text.append(f"| {kind} | {groups:,} | {first:.2f} | {shown} | {memory / 1e6:.0f} |")
            print(text[-1], flush=True)
    plain, ours = overhead()
    beyond = ours - plain
    shown = f"**{beyond:.2f}**" if beyond > PER_TASK else f"{beyond:.2f}"
    text += ["", f"A task of Ray, bound to a node: {plain:.2f} ms. A block of 4 x 4 through the "
                 f"engine, planning included: {ours:.2f} ms, {shown} beyond it; goal {PER_TASK}."]
    report = "\n".join(text) + "\n"
    print(report)
    if args.out:
        args.out.write_text(report)
    return 0


if __name__ == "__main__":
    sys.exit(main())
