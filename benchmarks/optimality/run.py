"""How near the chosen plans are to the best: ``python benchmarks/optimality/run.py``.

Random small programs; of each, all plans are enumerated and executed in counted instructions, and
the chosen one is compared with the best."""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

from optimality.counting import counting  # noqa: E402
from optimality.programs import cases  # noqa: E402
from optimality.report import write  # noqa: E402
from optimality.space import Explorer, Outcome  # noqa: E402
from tensorel.config import current  # noqa: E402


def explore(seed: int, number: int) -> dict[str, Any]:
    """What the space of one program held, as plain data."""
    start = time.perf_counter()
    config = replace(current(), threads=1, disk_cache=False)
    for redrawn, program in enumerate(cases(seed, number)):
        with counting():
            outcome = Explorer(program.tensor.node, config).run()
        if outcome is not None:
            return _data(number, program.text, redrawn, outcome, time.perf_counter() - start)
    raise AssertionError("programs are drawn for ever")


def _data(number: int, text: str, redrawn: int, outcome: Outcome, seconds: float
          ) -> dict[str, Any]:
    gc.collect()
    return {"number": number, "text": text, "ratio": outcome.ratio,
            "redrawn": redrawn, "seconds": seconds, **asdict(outcome)}


def _commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=HERE, text=True,
                           capture_output=True, check=False)
    return found.stdout.strip() or "unknown"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, help="the report; default: print it")
    parser.add_argument("--json", type=Path, help="all outcomes as data")
    parser.add_argument("--again", type=Path, help="write the report of such data, run nothing")
    parser.add_argument("--state", default=_commit(), help="the commit that ran")
    args = parser.parse_args()
    numbers = range(args.first, args.first + (0 if args.again else args.count))
    done: list[dict[str, Any]] = json.loads(args.again.read_text()) if args.again else []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=context) as pool:
        for outcome in pool.map(explore, [args.seed] * len(numbers), numbers):
            done.append(outcome)
            print(f"{outcome['number']:4d} {outcome['ratio']:6.2f} {outcome['plans']:9,.0f} plans "
                  f"{outcome['executed']:4d} steps {outcome['seconds']:6.1f} s  "
                  f"{outcome['text'][:90]}", flush=True)
            if args.json:
                args.json.write_text(json.dumps(done))
    text = write(done, args.seed, args.state)
    if args.out:
        args.out.write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
