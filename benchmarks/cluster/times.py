"""Seconds and bytes of programs on four nodes with slow links: this engine beside dask.array, Ray
by hand and ScaLAPACK. ``sudo -E python benchmarks/cluster/times.py``; needs root for the network.

All systems are up at once, and take turns program by program, so that other load on the machine
meets all of them. What is not installed is left out and said. One thread a node."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

from cluster.data import NETWORK  # noqa: E402
from cluster.problems import PROBLEMS  # noqa: E402

NODES, RATE, MEMORY = 4, "200mbit", 4_000_000_000
OTHERS = {"Ray by hand": "with_ray", "dask.array": "with_dask", "ScaLAPACK": "with_scalapack"}
SYSTEMS = {"Tensorel": "with_tensorel", **OTHERS}
SCHEDULER = "10.77.0.1:8786"
GOAL = 1.1  # times the best of the others, for products
HALF = 0.5  # of dask's bytes, for programs of several steps
ITERATION = 27e6  # bytes of an iteration of the factorization, after the first


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHON": sys.executable, "MEMORY": str(MEMORY),
            "PYTHONPATH": os.pathsep.join(sys.path[:2]), "DASK_SCHEDULER": SCHEDULER,
            "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def missing(system: str) -> str:
    """Why a system is not here."""
    if system == "dask.array" and not importlib.util.find_spec("distributed"):
        return "distributed is not installed"
    if system == "ScaLAPACK" and not (shutil.which("mpicc") and shutil.which("mpirun")):
        return "no mpicc (Debian: libscalapack-openmpi-dev, openmpi-bin)"
    return ""


@contextmanager
def network(env: dict[str, str]):
    subprocess.run([NETWORK, "down"], env=env, check=True)
    try:
        subprocess.run([NETWORK, "up", str(NODES), RATE], env=env, check=True,
                       stdout=subprocess.DEVNULL)
        yield
    finally:
        subprocess.run([NETWORK, "down"], env=env, check=False)


@contextmanager
def dask_workers(env: dict[str, str]):
    """A scheduler at the head and a worker with one thread at each node."""
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": env,
             "start_new_session": True}
    started = [subprocess.Popen([NETWORK, "at", "0", sys.executable, "-m", "distributed.cli."
                                 "dask_scheduler", "--no-dashboard", "--host",
                                 SCHEDULER.split(":")[0], "--port", "8786"], **quiet)]
    for node in range(1, NODES + 1):
        started.append(subprocess.Popen(
            [NETWORK, "at", str(node), sys.executable, "-m", "distributed.cli.dask_worker",
             f"tcp://{SCHEDULER}", "--nthreads", "1", "--no-dashboard", "--memory-limit",
             str(MEMORY), "--local-directory", f"/tmp/tensorel-network/dask{node}",
             "--host", f"10.77.0.{node + 1}"], **quiet))
    try:
        yield
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def measured(system: str, scale: float, name: str, env: dict[str, str], limit: float
             ) -> list[dict[str, Any]]:
    """The lines of one system for one program."""
    command = [NETWORK, "run", sys.executable, "-m", f"cluster.{SYSTEMS[system]}", str(scale), name]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, start_new_session=True)
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        err = f"not done after {limit:.0f} s; {err[-300:]}"
    found = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    if process.returncode:
        print(f"{system}: {err[-1500:]}", file=sys.stderr)
    return found


def best(lines: list[dict[str, Any]], system: str, name: str) -> dict[str, Any] | None:
    """The fastest way of a system; of iterations, the last: others come after the first."""
    mine = [x for x in lines if x["system"] == system and x["program"] == name]
    if PROBLEMS[name][0] == "factorization":
        return mine[-1] if mine else None
    return min(mine, key=lambda x: x["seconds"], default=None)


def cell(x: dict[str, Any] | None) -> str:
    if x is None:
        return "-"
    how = f" ({x['how']})" if x["how"] else ""
    inside = x["counted"] if x["system"] == "ScaLAPACK" else x["seconds"]
    return f"{inside:.1f} / {x['moved'] / 1e6:,.0f}{how}"


def seconds(x: dict[str, Any]) -> float:
    """Of ScaLAPACK those inside of it: starting its processes is not counted."""
    return float(x["counted"] if x["system"] == "ScaLAPACK" else x["seconds"])


def verdict(lines: list[dict[str, Any]], name: str) -> tuple[str, str]:
    """Time and bytes by those of the best of the others; in bold where the goal is missed."""
    mine = best(lines, "Tensorel", name)
    others = [x for x in (best(lines, s, name) for s in OTHERS) if x is not None]
    if mine is None or not others:
        return "**none**" if mine is None else "-", "-"
    time_ratio = seconds(mine) / min(map(seconds, others))
    byte_ratio = mine["moved"] / min(x["moved"] for x in others)
    several = PROBLEMS[name][0] != "product"
    slow = not several and time_ratio > GOAL
    much = byte_ratio > (HALF if several else GOAL)
    if PROBLEMS[name][0] == "factorization":
        much = mine["moved"] > ITERATION
    return (f"**{time_ratio:.2f}**" if slow else f"{time_ratio:.2f}",
            f"**{byte_ratio:.2f}**" if much else f"{byte_ratio:.2f}")


def written(lines: list[dict[str, Any]], left_out: dict[str, str], args: argparse.Namespace,
            loads: list[float]) -> str:
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, text=True,
                            capture_output=True, check=False).stdout.strip() or "unknown"
    text = [
        f"# Programs on four nodes with links of 200 Mbit/s, {time.strftime('%Y-%m-%d')}", "",
        f"Commit {commit}. Made by `make bench-cluster-time`, on {os.cpu_count()} cores which the "
        f"four nodes share, one thread each; load of the machine {min(loads):.1f} to "
        f"{max(loads):.1f}. Extents are {args.scale:g} of those named. Seconds / MB that all nodes "
        "sent, counted by the kernel, messages included; operands come into being in the run. "
        "Systems take turns program by program; each is shown at its fastest way to cut. Ratios "
        "are to the best of the others, and bold where they miss the goal: "
        f"{GOAL} for products, {HALF} of the bytes of dask.array for programs of several steps, "
        f"{ITERATION / 1e6:.0f} MB for an iteration of the factorization.", "",
        f"| program | {' | '.join(SYSTEMS)} | time | bytes | foretold, MB |",
        "| --- |" + " ---: |" * (len(SYSTEMS) + 3)]
    for name in PROBLEMS:
        if any(x["program"] == name for x in lines):
            mine = best(lines, "Tensorel", name)
            told = f"{mine['foretold'] / 1e6:,.1f}" if mine else "-"
            row = [cell(best(lines, s, name)) for s in SYSTEMS]
            text.append(f"| {name} | {' | '.join(row)} | {' | '.join(verdict(lines, name))} | "
                        f"{told} |")
    text += ["", *[f"{s} was left out: {why}." for s, why in left_out.items()]]
    text += ["", "## All runs", "", "| program | system | cut | seconds | MB |",
             "| --- | --- | --- | ---: | ---: |"]
    text += [f"| {x['program']} | {x['system']} | {x['how'] or '-'} | {seconds(x):.1f} | "
             f"{x['moved'] / 1e6:,.1f} |" for x in lines]
    return "\n".join(text) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--only", default="", help="programs with this in their name")
    parser.add_argument("--systems", nargs="*", default=list(SYSTEMS))
    parser.add_argument("--limit", type=float, default=900, help="seconds of one system's turn")
    args = parser.parse_args()
    left_out = {s: why for s in args.systems if (why := missing(s))}
    env, lines, loads = environment(), [], []
    with ExitStack() as stack:
        stack.enter_context(network(env))
        if "dask.array" in args.systems and "dask.array" not in left_out:
            stack.enter_context(dask_workers(env))
        for name in PROBLEMS:
            if args.only not in name:
                continue
            for system in args.systems:
                if system in left_out or (PROBLEMS[name][0] != "product"
                                          and system in ("Ray by hand", "ScaLAPACK")):
                    continue
                loads.append(os.getloadavg()[0])
                lines += measured(system, args.scale, name, env, args.limit)
                for x in lines[-1:]:
                    print(f"{name}: {system} {cell(x)}", flush=True)
            if args.out:
                args.out.write_text(written(lines, left_out, args, loads))
    print(written(lines, left_out, args, loads))
    return 0


if __name__ == "__main__":
    sys.exit(main())
