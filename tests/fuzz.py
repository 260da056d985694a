"""Random programs against NumPy: ``python tests/fuzz.py --size medium --seed 0 --jobs 2``.

Failures print as runnable programs, shrunk; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from tensorel.testing import Report, fuzz
from tensorel.testing.programs.running import reasons
from tensorel.testing.programs.sizes import SIZES

#: A program that prints longer than this is cut.
LONGEST = 20_000


def _chunk(seed: int, first: int, last: int, options: dict[str, Any]) -> Report:
    return fuzz(seed, range(first, last), **options)


def run(seed: int, first: int, count: int, jobs: int, options: dict[str, Any]) -> Report:
    """All programs, in chunks over processes; stops early after ``most`` failures."""
    size = max(1, min(200, count // (jobs * 4) or 1))
    starts = range(first, first + count, size)
    total, begin, shown = Report(), time.perf_counter(), 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        futures = [
            pool.submit(_chunk, seed, s, min(s + size, first + count), options) for s in starts
        ]
        for done in as_completed(futures):
            total.merge(done.result())
            for number, wrong, program in total.failures[shown:]:
                text = program.text
                cut = text if len(text) < LONGEST else text[:LONGEST] + " ..."
                print(f"\n--- {options['size']} program {seed}:{number}: {wrong}\n{cut}\n",
                      flush=True)
            shown = len(total.failures)
            rate = total.programs / (time.perf_counter() - begin)
            print(
                f"{total.programs}/{count} programs, {shown} different, "
                f"{total.skipped_share:.1%} not comparable, "
                f"{total.refused.total()} refused, {rate:.1f} per second", flush=True,
            )
            if shown >= options["most"]:
                pool.shutdown(cancel_futures=True)
                break
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--count", type=int, help="100,000 small, 10,000 medium or 1,000 large")
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--most", type=int, default=20, help="stop after so many failures")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--effort", choices=("full", "quick"),
                        help="of compiling; otherwise full for one program in eight")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--unchecked", action="store_const", const=False, dest="checked",
                       help="all as users run them; otherwise one program in four")
    which.add_argument("--checked", action="store_const", const=True, dest="checked",
                       help="all with a check of every position and every stored tensor")
    args = parser.parse_args()
    options = {"size": args.size, "most": args.most, "shrinking": not args.no_shrink,
               "effort": args.effort, "checked": args.checked}
    count = SIZES[args.size].count if args.count is None else args.count
    report = run(args.seed, args.first, count, args.jobs, options)
    for line in reasons(report.refused):
        print(f"refused: {line}")
    print(f"{report.programs} {args.size} programs, {len(report.failures)} different")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
