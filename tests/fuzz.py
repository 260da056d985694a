"""Random programs against NumPy: ``python tests/fuzz.py --count 20000 --seed 0 --jobs 2``.

Failures print as runnable programs, shrunk; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed

from tensorel.testing import Report, fuzz


def _chunk(seed: int, first: int, last: int, most: int, shrinking: bool,
           effort: str | None) -> Report:
    return fuzz(seed, range(first, last), most=most, shrinking=shrinking, effort=effort)


def run(seed: int, first: int, count: int, jobs: int, most: int, shrinking: bool,
        effort: str | None = None) -> Report:
    """All programs, in chunks over processes; stops early after ``most`` failures."""
    size = max(1, min(200, count // (jobs * 4) or 1))
    starts = range(first, first + count, size)
    total, begin, shown = Report(), time.perf_counter(), 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = [
            pool.submit(_chunk, seed, s, min(s + size, first + count), most, shrinking, effort)
            for s in starts
        ]
        for done in as_completed(futures):
            total.merge(done.result())
            for number, wrong, program in total.failures[shown:]:
                print(f"\n--- program {number}: {wrong}\n{program.text}\n", flush=True)
            shown = len(total.failures)
            rate = total.programs / (time.perf_counter() - begin)
            print(
                f"{total.programs}/{count} programs, {shown} different, "
                f"{total.skipped_share:.1%} not comparable, {rate:.0f} per second", flush=True,
            )
            if shown >= most:
                pool.shutdown(cancel_futures=True)
                break
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=20, help="stop after so many failures")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--effort", choices=("full", "quick"),
                        help="of compiling; otherwise full for one program in eight")
    args = parser.parse_args()
    report = run(args.seed, args.first, args.count, args.jobs, args.most, not args.no_shrink,
                 args.effort)
    print(f"{report.programs} programs, {len(report.failures)} different")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
