"""``tr.windows``, ``tr.convolve`` and their like beside SciPy and PyTorch.

    python benchmarks/windows/run.py [--out FILE] [--size 1.0] [--only TEXT]

All work on the same arrays in one process; rounds take turns, and the best of each is reported.
What they give is compared first. Kernels are compiled before.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import torch
from cases import Case, cases, sparse_images

import tensorel as tr

ROUNDS, SECONDS = 7, 2.5  # at most, but two at least


def array(found: Any) -> np.ndarray:
    """Whatever a library gives, as an array."""
    if isinstance(found, tr.Tensor):
        with tr.options(densify="2GB"):
            return found.to_numpy()
    if hasattr(found, "toarray"):
        return found.toarray()
    return np.asarray(found)


def compare(case: Case, other: Callable[[], Any]) -> None:
    found, wanted = array(case.ours()), array(other())
    scale = float(np.abs(wanted).max())
    worst = float(np.abs(found - wanted).max()) / max(scale, 1e-300)
    assert worst <= case.tolerance, (case.name, worst)


def best(*contenders: Callable[[], Any]) -> list[float]:
    """The best time of each, in turns."""
    found = [float("inf")] * len(contenders)
    start = time.perf_counter()
    for round_ in range(ROUNDS):
        if round_ > 1 and time.perf_counter() - start > SECONDS:
            break
        for k, run in enumerate(contenders):
            began = time.perf_counter()
            run()
            found[k] = min(found[k], time.perf_counter() - began)
    return found


def lines(found: Iterator[Case], only: str) -> Iterator[str]:
    yield "| case | tensorel | others | of the best |"
    yield "| --- | --- | --- | --- |"
    for case in found:
        if only not in case.name:
            continue
        for other in case.others.values():
            compare(case, other)
        mine, *others = best(case.ours, *case.others.values())
        beside = ", ".join(f"{name} {t * 1e3:.2f} ms" for name, t in zip(case.others, others))
        row = f"| {case.name} | {mine * 1e3:.2f} ms | {beside} | {mine / min(others):.2f} |"
        print(row, flush=True)
        yield row


def report(size: float, only: str) -> Iterator[str]:
    yield f"# Windows and convolutions, {datetime.date.today()}"
    yield ""
    yield (f"{platform.machine()}, CPython {platform.python_version()}, NumPy {np.__version__}, "
           f"SciPy {scipy.__version__}, PyTorch {torch.__version__}. The best of 2 to {ROUNDS} "
           f"rounds in turns; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores "
           "when it began. "
           "The last column is our time over that of the best other one.")
    for dtype in ("float32", "float64"):
        for threads in (1, 2):
            torch.set_num_threads(threads)
            with tr.options(threads=threads):
                yield from ("", f"## {dtype}, threads: {threads}", "")
                print(dtype, threads, flush=True)
                yield from lines(cases(dtype, size), only)
    torch.set_num_threads(1)
    with tr.options(threads=1):
        yield from ("", "## Sparse images of 4000 x 4000, 3 x 3 means, one thread", "")
        yield from lines(sparse_images(size), only)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--size", type=float, default=1.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    text = "\n".join(report(given.size, given.only)) + "\n"
    if given.out:
        given.out.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
