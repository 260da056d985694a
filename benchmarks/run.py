"""Side by side with SciPy, NumPy and PyData/Sparse.

    python benchmarks/run.py [--quick] [--only NAME] [--threads 1,2]
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import tensorel as tr  # noqa: E402
from suite import catalogue, children, data, machine, report, small, values  # noqa: E402
from suite.case import Case, Job, Problem, all_cases  # noqa: E402
from suite.compare import difference  # noqa: E402
from suite.single import run as run_ours  # noqa: E402
from suite.timing import interleave  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="data and time scaled down by ten")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="cases whose name contains NAME; may be repeated")
    parser.add_argument("--threads", default="", metavar="1,2",
                        help="numbers of threads for ours; default 1 and all cores")
    parser.add_argument("--seconds", type=float, default=6.0, help="time for each case")
    parser.add_argument("--no-children", action="store_true",
                        help="leave out first calls, memory and import time")
    parser.add_argument("--out", type=Path, default=HERE / "results", help="folder of the results")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    return parser.parse_args()


def _threaded(problem: Problem, threads: int) -> Any:
    with tr.options(threads=threads):
        return run_ours(problem)


def _contest(problem: Problem, threads: tuple[int, ...]) -> dict[str, Job]:
    jobs: dict[str, Job] = {f"ours {t}": partial(_threaded, problem, t) for t in threads}
    return jobs | {p.label: p.job for p in problem.peers if p.job is not None}


def _verify(problem: Problem) -> str:
    """What is different between ours and the first peer that runs; empty when nothing is."""
    for peer in problem.peers:
        if peer.job is not None:
            theirs = peer.job()
            read = peer.read(theirs) if peer.read else theirs
            return difference(run_ours(problem), read)
    return "no peer to compare with"


def measure(case: Case, scale: float, threads: tuple[int, ...], seconds: float) -> report.Row:
    """Check, then time."""
    row = report.Row(case.name, case.program)
    try:
        problem = case.setup(scale)
        row.wrong = _verify(problem)
    except Exception as error:
        row.wrong = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        return row
    row.notes = [f"{p.label} not run: {p.skip}" for p in problem.peers if p.skip]
    for name, times in interleave(_contest(problem, threads), seconds).items():
        if times.median is None:
            row.notes.append(f"{name} not timed: {times.skipped}")
        elif name.startswith("ours "):
            row.ours[int(name.split()[1])] = times.median
        else:
            row.peers[name] = times.median
        row.rounds[name] = len(times.seconds)
    return row


def _first(case: Case, scale: float) -> dict[str, Any]:
    try:
        return children.first_calls(case.name, scale)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> int:
    options = arguments()
    catalogue.load()
    cases = [c for c in all_cases()
             if not options.only or any(part in c.name for part in options.only)]
    if options.list or not cases:
        print("\n".join(c.name for c in all_cases()))
        return 0 if options.list else 2
    counts = options.threads or f"1,{machine.cores()}"
    threads = tuple(sorted({int(t) for t in counts.split(",")}))
    scale = 0.1 if options.quick else 1.0
    seconds = options.seconds * (0.2 if options.quick else 1.0)
    start = time.perf_counter()
    result = report.Report(machine.describe(), threads, scale)
    print(report.heading(threads))
    with tempfile.TemporaryDirectory(prefix="tensorel-data-") as folder:
        os.environ[data.FOLDER] = folder
        for case in cases:
            row = measure(case, scale, threads, seconds)
            reads_file = case.name.startswith("read ")  # nothing there is planned
            if not options.no_children and not row.wrong and not reads_file:
                row.first = _first(case, scale)
            result.rows.append(row)
            print(report.line(row, threads), flush=True)
    if not options.no_children:
        result.small = small.measure()
        result.values = values.measure()
        result.import_seconds = children.import_seconds()
        print("\n".join(f"{n:<28} {s * 1e6:8.1f} us" for n, s in result.small.items()))
        print(f"{'import tensorel':<28} {result.import_seconds * 1e3:8.1f} ms")
    result.seconds = time.perf_counter() - start
    print(report.summary(result))
    if not options.only:
        print(f"written: {report.write(result, options.out)}")
    return 1 if any(row.wrong for row in result.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
