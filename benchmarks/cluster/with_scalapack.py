"""Products by ScaLAPACK's PDGEMM: ``mpirun`` over the nodes of the network."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cluster.data import NETWORK, timed
from cluster.problems import scaled

SYSTEM = "ScaLAPACK"
GRIDS = ((2, 2), (4, 1))
BLOCK = 128
TIMEOUT = 300.0


def main(scale: float, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        program, agent, hosts = (Path(folder) / n for n in ("scalapack", "agent", "hosts"))
        subprocess.run(["mpicc", "-O2", "-o", program, Path(__file__).parent / "scalapack.c",
                        "-lscalapack-openmpi"], check=True)
        agent.write_text(f'#!/bin/sh\nnode=${{1##*.}}\nshift\n'
                         f'exec {NETWORK} at $((node - 1)) sh -c "$*"\n')
        agent.chmod(0o755)
        hosts.write_text("".join(f"10.77.0.{i} slots=1\n" for i in range(2, 6)))
        for name in names:
            kind, sizes = scaled(name, scale)
            for grid in GRIDS if kind == "product" else ():
                run(name, [program, *map(str, (*sizes, *grid, BLOCK))], grid, agent, hosts)


def run(name, command, grid, agent, hosts) -> None:
    started = [
        "mpirun", "--allow-run-as-root", "--hostfile", hosts, "-np", "4", "--bind-to", "none",
        "--mca", "mpi_yield_when_idle", "1",
        "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self", "--mca", "pml", "ob1",
        "--mca", "btl_tcp_if_include", "10.77.0.0/24", "--mca", "oob_tcp_if_include",
        "10.77.0.0/24", "-x", "OPENBLAS_NUM_THREADS=1", "-x", "OMP_NUM_THREADS=1", *command]

    def product() -> str:
        return subprocess.run(started, check=True, capture_output=True, text=True,
                              timeout=TIMEOUT, env={**os.environ}).stdout

    inside: dict[str, float] = {}

    def kept() -> None:
        inside["inside"] = float(product().split()[-1])

    try:
        timed(SYSTEM, name, "x".join(map(str, grid)), kept, counted=lambda: inside["inside"])
    except subprocess.SubprocessError as problem:
        print(getattr(problem, "stderr", problem), file=sys.stderr)


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
