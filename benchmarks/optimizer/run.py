"""Naive programs against SciPy, PyData/Sparse, PyTorch, DuckDB and hand-written loops.

    python benchmarks/optimizer/run.py [--scale 0.1] [--only NAME] [--gaps FILE]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

from optimizer import catalogue, report  # noqa: E402
from optimizer.children import repeated, results  # noqa: E402
from optimizer.contest import Timing  # noqa: E402
from suite import data, machine  # noqa: E402
from suite.case import all_cases  # noqa: E402


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the data")
    parser.add_argument("--only", action="append", default=[], metavar="NAME",
                        help="cases whose name contains NAME; may be repeated")
    parser.add_argument("--threads", default="", metavar="1,2",
                        help="numbers of threads for ours; default 1 and all cores")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each case")
    parser.add_argument("--best", action="store_true",
                        help="fastest calls instead of medians, for a machine with other work")
    parser.add_argument("--cpu", action="store_true",
                        help="time of the processor, all threads together; the same")
    parser.add_argument("--data", type=Path, default=_scratch(),
                        help="folder that keeps the generated data")
    parser.add_argument("--gaps", type=Path, help="write the cases with a fault, with their plans")
    parser.add_argument("--out", type=Path, default=HERE.parent / "results",
                        help="folder of the results")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    return parser.parse_args()


def _scratch() -> Path:
    """A folder of data made by these very generators."""
    sources = (HERE / "data.py", HERE.parent / "suite" / "data.py")
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in sources)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"tensorel-optimizer-{os.getuid()}-{digest}"


def main() -> int:
    options = arguments()
    warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
    options.data.mkdir(parents=True, exist_ok=True)
    os.environ[data.FOLDER] = str(options.data)
    catalogue.load()
    cases = [c for c in all_cases()
             if not options.only or any(part in c.name for part in options.only)]
    if options.list or not cases:
        print("\n".join(c.name for c in all_cases()))
        return 0 if options.list else 2
    counts = options.threads or f"1,{machine.cores()}"
    threads = tuple(sorted({int(t) for t in counts.split(",")}))
    timing = Timing(threads, options.seconds, options.best, options.cpu)
    start = time.perf_counter()
    result = report.Report(machine.describe(), timing, options.scale)
    print(report.heading(threads))
    for row in results(cases, options.scale, timing):
        result.rows.append(row)
        result.seconds = time.perf_counter() - start
        print(report.line(row, threads), flush=True)
        if not options.only:
            report.write(result, options.out)  # each time: what is measured is not lost
    result.rows = repeated(cases, result.rows, options.scale, timing)
    result.seconds = time.perf_counter() - start
    print("short cases, medians over processes:")
    for row in result.rows:
        if row.processes > 1:
            print(report.line(row, threads), flush=True)
    print(report.summary(result))
    if options.gaps:
        options.gaps.write_text(report.gaps(result) + "\n")
    if not options.only:
        print(f"written: {report.write(result, options.out)}")
    return 1 if any(row.wrong for row in result.rows) else 0


if __name__ == "__main__":
    sys.exit(main())
