"""Nodes that die at random moments: ``python benchmarks/cluster/faults.py``.

A program of several steps runs on four nodes of this machine, undisturbed and with a node killed,
in turn. Answers are compared, and time and bytes with the undisturbed run before."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402

import tensorel as tr  # noqa: E402
from tensorel.engines.sites.ray_cluster import RayCluster  # noqa: E402
from tensorel.engines.sites.sites_engine import SitesEngine  # noqa: E402

NODES, STEPS = 4, 6
LIMIT = 1.5  # of the undisturbed time, beside that until the loss is known; and of the bytes


@dataclass
class Run:
    """``work``: seconds of all tasks. ``killed_at``: which part of the tasks was done. ``known``:
    seconds from the kill until Ray says that the node is dead."""

    right: bool
    seconds: float
    moved: int
    tasks: int
    work: float
    killed_at: float = 0.0
    known: float = 0.0

    @property
    def load(self) -> float:
        """Seconds of a task: tasks take longer where the machine has other work."""
        return self.work / self.tasks


def blocks(size: int, tile: int, name: int, engine: SitesEngine) -> tr.Tensor:
    def block(key: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng([name, *key]).random((tile, tile)) / size

    return tr.from_blocks(block, (size, size), tile, engine=engine)


def program(size: int, engine: SitesEngine) -> tr.Tensor:
    """Products of all that is there so far; each step reads what the last one left."""
    tile = size // 8
    a = blocks(size, tile, 1, engine)
    x = blocks(size, tile, 2, engine)
    for k in range(STEPS):
        x = tr.maximum(a @ x, 0.1 * k / size) + x
    return x


def run(size: int, cluster: RayCluster, expected: np.ndarray | None,
        kill: tuple[float, int, int] | None) -> tuple[Run, np.ndarray]:
    """``kill``: after which part of so many tasks which site."""
    engine = SitesEngine(cluster)
    found: dict[str, float] = {}

    def killing() -> None:
        part, tasks, site = kill
        while engine.stats()["tasks"] < part * tasks:
            time.sleep(0.01)
        node, begun = cluster._nodes[site], time.perf_counter()
        cluster._local_nodes.kill(site)
        while any(n["NodeID"] == node and n["Alive"] for n in cluster._ray.nodes()):
            time.sleep(0.02)
        found["known"] = time.perf_counter() - begun

    thread = threading.Thread(target=killing, daemon=True) if kill else None
    result = program(size, engine)
    engine.reset()
    begun = time.perf_counter()
    if thread:
        thread.start()
    kept = result.persist(engine=engine)
    seconds, stats = time.perf_counter() - begun, engine.stats()
    if thread:
        thread.join()
    answer = kept.compute().to_numpy()
    right = expected is None or bool(np.allclose(answer, expected, rtol=1e-9))
    return Run(right, seconds, stats["bytes_moved"], stats["tasks"], sum(stats["work"]),
               kill[0] if kill else 0.0, found.get("known", 0.0)), answer


def peak(cluster: RayCluster, stop: threading.Event, found: list[int]) -> None:
    """The most bytes that processes of tasks of a node hold for themselves, beside its store."""
    import psutil

    while not stop.wait(0.5):
        for site, node in enumerate(cluster._local_nodes.workers):
            held = 0
            for raylet in node.all_processes.get("raylet", []):
                try:
                    for child in psutil.Process(raylet.process.pid).children():
                        if "ray::" in child.name() or "ray::" in " ".join(child.cmdline()):
                            info = child.memory_info()
                            held += info.rss - info.shared
                except psutil.Error:
                    continue
            found[site] = max(found[site], held)


def written(pairs: list[tuple[Run, Run]], size: int, memory: int, private: list[int],
            load: float) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, text=True,
                            capture_output=True, check=False).stdout.strip() or "unknown"
    times = [d.seconds / u.seconds for u, d in pairs]
    beyond = [(d.seconds - d.known) / u.seconds for u, d in pairs]
    loads = [d.load / u.load for u, d in pairs]
    moved = [d.moved / u.moved for u, d in pairs]
    again = [d.tasks / u.tasks for u, d in pairs]
    good = sum(b <= LIMIT for b in beyond), sum(m <= LIMIT for m in moved)
    text = [
        f"# Nodes that die, {time.strftime('%Y-%m-%d')}", "",
        f"Commit {commit}. Made by `make bench-cluster-faults`: {STEPS} steps of products and sums "
        f"of matrices of {size} x {size} on {NODES} nodes of one machine with {os.cpu_count()} "
        "cores. A node is killed at a random moment, as by a loss of power; each run stands beside "
        "the undisturbed one before it. Time beyond the report: without the seconds until Ray says "
        "that the node is dead. Bytes between nodes, as the engine counts them.", "",
        f"- right answers: {sum(d.right for _, d in pairs)} of {len(pairs)}",
        f"- time beyond the report at most {LIMIT} of the undisturbed: {good[0]} of {len(pairs)}; "
        f"median {np.median(beyond):.2f}, most {max(beyond):.2f}; with the report: median "
        f"{np.median(times):.2f}, most {max(times):.2f}",
        f"- a task took as long as undisturbed: median {np.median(loads):.2f}, most "
        f"{max(loads):.2f} times; above 1 the machine had other work, as nodes that are left have "
        "more of its cores",
        f"- bytes at most {LIMIT} of the undisturbed: {good[1]} of {len(pairs)}; median "
        f"{np.median(moved):.2f}, most {max(moved):.2f}",
        f"- tasks done, also again: median {np.median(again):.2f} of the undisturbed, "
        f"most {max(again):.2f}",
        f"- load of the machine while it was measured: up to {load:.0f}, on {os.cpu_count()} cores",
        f"- object store of a node: {memory / 1e6:.0f} MB; what its processes hold beside, at "
        f"most {max(private) / 1e6:.0f} MB", "",
        "| killed at, of the tasks | known after, s | undisturbed, s | with the loss, s "
        "| beyond the report | a task took | bytes | right |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |"]
    for (u, d), b, q, m in zip(pairs, beyond, loads, moved):
        shown = [f"{x:.2f}" if x <= LIMIT else f"**{x:.2f}**" for x in (b, m)]
        right = "yes" if d.right else "**no**"
        text.append(f"| {d.killed_at:.2f} | {d.known:.1f} | {u.seconds:.1f} | {d.seconds:.1f} | "
                    f"{shown[0]} | {q:.2f} | {shown[1]} | {right} |")
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--size", type=int, default=1600)
    parser.add_argument("--memory", type=int, default=400 << 20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    rng = np.random.default_rng(args.seed)
    first = RayCluster(nodes=NODES, memory=args.memory)
    nodes: Any = first._local
    pairs: list[tuple[Run, Run]] = []
    private = [0] * NODES
    expected, load = None, 0.0
    try:
        for k in range(args.runs):
            cluster = RayCluster()  # joins by the connection that is open
            cluster._local_nodes = nodes  # type: ignore[attr-defined]
            stop = threading.Event()
            watch = threading.Thread(target=peak, args=(cluster, stop, private), daemon=True)
            watch.start()
            _, answer = run(args.size, cluster, None, None)  # a new node compiles its kernels
            expected = answer if expected is None else expected
            usual, _ = run(args.size, cluster, expected, None)
            site = int(rng.integers(NODES))
            hurt, _ = run(args.size, cluster, expected,
                          (float(rng.uniform()), usual.tasks, site))
            stop.set()
            watch.join()
            cluster.close()
            pairs.append((usual, hurt))
            load = max(load, os.getloadavg()[0])
            print(f"{k + 1}: {usual.seconds:.2f} s, site {site} killed at {hurt.killed_at:.2f}, "
                  f"known after {hurt.known:.2f}: {hurt.seconds:.2f} s, bytes "
                  f"{hurt.moved / usual.moved:.2f}, right {hurt.right}", flush=True)
            if args.out:
                args.out.write_text(written(pairs, args.size, args.memory, private, load))
            nodes.renew(site)
    finally:
        first.close()
    print(written(pairs, args.size, args.memory, private, load))
    return 0 if all(d.right for _, d in pairs) else 1


if __name__ == "__main__":
    sys.exit(main())
