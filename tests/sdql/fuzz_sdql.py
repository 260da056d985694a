"""SDQLite at random: ``python tests/sdql/fuzz_sdql.py --count 2000 --seed 0``, programs against
their meaning; ``--texts --count 100000``, texts that are almost programs.

Failures are printed; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter

from sdql_programs import fuzz_sdql
from sdql_texts import check_text, sample_text

import tensorel as tr

RUN_EVERY = 20  # texts that are programs are compiled and run once in so many


def texts(seed: int, numbers: range) -> int:
    """How many texts gave neither a tensor nor a ParseError."""
    seen: Counter[str] = Counter()
    for number in numbers:
        text = sample_text(seed, number)
        try:
            seen[check_text(text, run=number % RUN_EVERY == 0)] += 1
        except Exception:
            seen["failed"] += 1
            print(f"--- text {number}: {text!r}\n{traceback.format_exc(limit=-4)}", flush=True)
    print(dict(seen))
    return seen["failed"]


def programs(seed: int, numbers: range) -> int:
    """How many programs did not give what they mean; kernels check every position."""
    with tr.options(bounds=True):
        refused, wrong = fuzz_sdql(seed, numbers)
    for number, text in wrong:
        print(f"--- program {number}: {text}\n", flush=True)
    print(f"{len(numbers)} programs, {refused} refused, {len(wrong)} different")
    return len(wrong)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--texts", action="store_true")
    args = parser.parse_args()
    start = time.perf_counter()
    numbers = range(args.first, args.first + args.count)
    failed = (texts if args.texts else programs)(args.seed, numbers)
    print(f"{args.count / (time.perf_counter() - start):.0f} per second")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
