"""Loops over users' storage mappings beside those over built-in formats and C loops by hand.

    python benchmarks/storage/run.py [--scale 3] [--seconds 1] [--only NAME] [--out DIR]

One thread, best times (processor time) of contestants that take turns; results are compared first.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parent.parent
for _path in (_ROOT / "benchmarks", _ROOT / "src"):
    sys.path.insert(0, str(_path))

import tensorel as tr  # noqa: E402
from suite.machine import describe  # noqa: E402

COLUMNS, RANK, OWN_LIMIT, LOOP_LIMIT = 32, 16, 1.05, 1.1
_EXAMPLES = _ROOT / "examples" / "storage"

MATRICES = {
    "csr": ("sum(<i,_> in 0:M) sum(<p,j> in idx(pos(i):pos(i+1))) { (i,j) -> val(p) }", "csr"),
    "csc": ("sum(<j,_> in 0:N) sum(<p,i> in idx(pos(j):pos(j+1))) { (i,j) -> val(p) }", "csc"),
    "dcsr": ("sum(<r,i> in row) sum(<p,j> in idx(pos(r):pos(r+1))) { (i,j) -> val(p) }", "dcsr"),
    "coo": ("sum(<p,i> in row) { (i, col(p)) -> val(p) }", "coo"),
    "ell": (_EXAMPLES / "ell.sdql", None),
    "bsr": (_EXAMPLES / "blocked_csr.sdql", "bsr(4,4)"),
    "dia": (_EXAMPLES / "diagonal.sdql", "dia"),
}
TENSORS = {
    "csf": ("sum(<p,i> in i0) sum(<q,k> in k1(pos1(p):pos1(p+1)))"
            " sum(<s,l> in l2(pos2(q):pos2(q+1))) { (i,k,l) -> val(s) }", "csf"),
    "slices": ("sum(<i,_> in 0:M) sum(<q,k> in k1(pos1(i):pos1(i+1)))"
               " sum(<s,l> in l2(pos2(q):pos2(q+1))) { (i,k,l) -> val(s) }", None),
    "fibres": ("sum(<i,_> in 0:M, <k,_> in 0:N) sum(<s,l> in idx(pos(i*N+k):pos(i*N+k+1)))"
               " { (i,k,l) -> val(s) }", "0,1;2"),
    "coo": ("sum(<p,i> in i0) { (i, k1(p), l2(p)) -> val(p) }", "coo"),
    "dense": ("sum(<i,_> in 0:M, <k,_> in 0:N, <l,_> in 0:L) { (i,k,l) -> val((i*N+k)*L+l) }",
              "dense"),
}
Job = Callable[[], Any]


def library() -> ctypes.CDLL:
    with tempfile.TemporaryDirectory(prefix="tensorel-storage-") as folder:
        path = Path(folder) / "loops.so"
        subprocess.run(["cc", "-O3", "-march=native", "-shared", "-fPIC", str(_HERE / "loops.c"),
                        "-o", str(path)], check=True)
        return ctypes.CDLL(str(path))


def call(function: Any, *args: Any) -> None:
    """Arrays by address, whole numbers as int64, floats as double."""
    function.restype = None
    function(*[ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else
               ctypes.c_double(a) if isinstance(a, float) else ctypes.c_int64(a) for a in args])


def storage(text: str | Path, name: str) -> Any:
    fixed = {"R": 4, "C": 4} if name == "bsr" else {}
    return tr.storage(text if isinstance(text, str) else text.read_text(), f"own_{name}", **fixed)


def matrix(name: str, scale: float) -> Any:
    """Power-law rows; whole diagonals and blocks for the layouts that are made for them."""
    rng = np.random.default_rng(7)
    n = int(60_000 * scale) // 4 * 4
    if name == "dia":
        offsets = [-300, -20, -2, -1, 0, 1, 2, 20, 300]
        return sp.diags([rng.random(n) + 0.5 for _ in offsets], offsets, shape=(n, n), format="csr")
    if name == "bsr":
        lines, (i, j) = n // 4, rng.integers(0, n // 4, (2, 2 * n))  # 8 blocks a line
        small = sp.csr_array((np.ones(i.size), (i, j)), shape=(lines, lines))
        found = sp.kron(small, np.ones((4, 4)), format="csr")
        found.data = rng.random(found.nnz) + 0.5
        return found
    lengths = np.minimum(rng.zipf(1.6, n) + 6, 60)
    rows = np.repeat(np.arange(n), lengths)
    found = sp.csr_array((rng.random(rows.size) + 0.5, (rows, rng.integers(0, n, rows.size))),
                         shape=(n, n))
    found.sum_duplicates()
    return found


def own_arrays(mapping: Any, tensor: Any) -> dict[str, np.ndarray]:
    narrow = {n: np.ascontiguousarray(a, np.int32) if a.dtype.kind == "i" else a
              for n, a in mapping.arrays(tensor).items()}
    return narrow


def layout(name: str, a: dict[str, np.ndarray], m: int, n: int) -> list[Any]:
    """What the C loops of a layout take."""
    match name:
        case "csr" | "csc":
            return [m if name == "csr" else n, a["pos"], a["idx"], a["val"]]
        case "dcsr":
            return [a["row"].size, a["row"], a["pos"], a["idx"], a["val"]]
        case "coo":
            return [a["val"].size, a["row"], a["col"], a["val"]]
        case "ell":
            return [m, int(a["K"][0]), a["len"], a["idx"], a["val"]]
        case "bsr":
            return [m // 4, a["block_pos"], a["block_idx"], a["val"]]
        case _:
            return [m, a["off"].size, a["off"], a["val"]]


Case = tuple[str, Job, Job | None, Job]


def _contestants(program: Callable[[Any], Any], own: Any, twin: Any) -> tuple[Job, Job | None]:
    def run(t: Any) -> Any:
        return program(t).compute().to_numpy()

    return lambda: run(own), None if twin is None else lambda: run(twin)


def matrix_cases(lib: ctypes.CDLL, name: str, scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(8)
    text, twin = MATRICES[name]
    data = matrix(name, scale)
    m, n = data.shape
    mapping = storage(text, name)
    own = tr.asarray(data).to_format(mapping)
    other = None if twin is None else tr.asarray(data).to_format(twin)
    x, wide = rng.random(n), rng.random((n, COLUMNS))
    tx, tw = tr.asarray(x), tr.asarray(wide)
    at = layout(name, own_arrays(mapping, own), m, n)
    extra = [np.empty(m)] if name in ("csc", "coo", "dia") else []

    def loop(kernel: str, shape: Any, given: np.ndarray, more: list[Any]) -> Job:
        def job() -> np.ndarray:
            out = np.empty(shape)
            call(getattr(lib, f"{kernel}_{name}"), *at, given, out, n, m, *more)
            return out

        return job

    programs: dict[str, tuple[Callable[[Any], Any], Job]] = {
        "SpMV": (lambda t: t @ tx, loop("spmv", m, x, [])),
        "SpMM": (lambda t: t @ tw, loop("spmm", (m, COLUMNS), wide, [COLUMNS])),
        "BATAX": (lambda t: 2.0 * ((t.T @ t) @ tx), loop("batax", n, x, [2.0, *extra])),
    }
    for kernel, (program, c) in programs.items():
        yield (f"{kernel} {name}", *_contestants(program, own, other), c)


def tensor_cases(lib: ctypes.CDLL, name: str, scale: float) -> Iterator[Case]:
    rng = np.random.default_rng(9)
    text, twin = TENSORS[name]
    shape = (60, 70, 80) if name == "dense" else (
        300, 400, 500) if name == "fibres" else (3000, 4000, 5000)
    count = int(300_000 * scale)
    if name == "dense":
        data = tr.asarray(rng.random(shape))
    else:
        coords = [rng.integers(0, k, count) for k in shape]
        data = tr.from_coo(coords, rng.random(count) + 0.5, shape, duplicates="sum")
    mapping = storage(text, name)
    own = data.to_format(mapping)
    other = None if twin is None else data.to_format(twin)
    b, c = rng.random((shape[1], RANK)), rng.random((shape[2], RANK))
    tb, tc = tr.asarray(b), tr.asarray(c)
    a = own_arrays(mapping, own)
    at = {
        "csf": lambda: [a["i0"].size, a["i0"], a["pos1"], a["k1"], a["pos2"], a["l2"]],
        "slices": lambda: [shape[0], a["pos1"], a["k1"], a["pos2"], a["l2"]],
        "fibres": lambda: [shape[0], shape[1], a["pos"], a["idx"]],
        "coo": lambda: [a["val"].size, a["i0"], a["k1"], a["l2"]],
        "dense": lambda: list(shape),
    }[name]()

    def job() -> np.ndarray:
        out = np.empty((shape[0], RANK))
        call(getattr(lib, f"mttkrp_{name}"), *at, a["val"], b, c, out, shape[0], RANK)
        return out

    contestants = _contestants(lambda t: tr.einsum("ikl,kr,lr->ir", t, tb, tc), own, other)
    yield (f"MTTKRP {name}", *contestants, job)


def best_times(jobs: list[Job], seconds: float) -> list[float]:
    best = [float("inf")] * len(jobs)
    until, turns = time.perf_counter() + seconds, 0
    while turns < 5 or time.perf_counter() < until:
        for k, job in enumerate(jobs):
            start = time.process_time()
            job()
            best[k] = min(best[k], time.process_time() - start)
        turns += 1
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=3.0)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--out", type=Path, default=_ROOT / "benchmarks" / "results")
    args = parser.parse_args()
    lib = library()
    rows: list[str] = []
    with tr.options(threads=1):
        makers = [(matrix_cases, n) for n in MATRICES] + [(tensor_cases, n) for n in TENSORS]
        for make, layout_name in makers:
            if layout_name not in args.only and args.only.split(" ")[-1] not in layout_name:
                continue
            for name, own, twin, loop in make(lib, layout_name, args.scale):
                if args.only not in name:
                    continue
                jobs = [own, loop] + ([twin] if twin is not None else [])
                for job in jobs[1:]:
                    assert np.allclose(own(), job()), name
                rows.append(_row(name, best_times(jobs, args.seconds)))
                print(rows[-1], flush=True)
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"{date.today()}-storage.md"
    path.write_text(_report(rows))
    print(f"written: {path}")


def _row(name: str, times: list[float]) -> str:
    own, loop, *twin = times
    against = f"{twin[0] * 1e3:.3g} | {own / twin[0]:.2f}" if twin else "- | -"
    fault = (bool(twin) and own > OWN_LIMIT * twin[0]) or own > LOOP_LIMIT * loop
    shown = f"**{name}**" if fault else name
    return f"| {shown} | {own * 1e3:.3g} | {against} | {loop * 1e3:.3g} | {own / loop:.2f} |"


def _report(rows: list[str]) -> str:
    lines = [
        f"# Storage mappings, {date.today()}", "",
        "Written by `python benchmarks/storage/run.py`. Milliseconds on one thread, best of many "
        "turns, processor time. A mapping in SDQLite beside the built-in format of the same layout "
        f"(limit {OWN_LIMIT}) and the C loop by hand, `cc -O3 -march=native` (limit {LOOP_LIMIT}); "
        "in bold what is over a limit.", "", "## Machine", "",
        *(f"- {k}: {v}" for k, v in describe().items()), "", "## Times", "",
        "| case | own mapping | built-in | ratio | C loop | ratio |",
        "| --- | --- | --- | --- | --- | --- |", *rows, ""]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
