"""Comprehensions beside the same programs with our arrays, and by hand with NumPy and SciPy.

    python benchmarks/comprehensions/run.py [--data FOLDER] [--size 1.0] [--out FILE]

All contestants of a case run in turns, in one process; the fastest call of each counts, since the
machine may have other work. Answers are compared first.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent.parent / "src")]

import tensorel as tr  # noqa: E402
from comprehensions.cases import Case, Run, cases  # noqa: E402


def value(found: Any) -> np.ndarray:
    if isinstance(found, tr.Tensor):
        return found.to_numpy()
    return found.toarray() if hasattr(found, "toarray") else np.asarray(found)


def timed(runs: dict[str, Run], seconds: float, rounds: int) -> dict[str, float]:
    """The fastest call of each, after two warm ones, in turns."""
    best = dict.fromkeys(runs, np.inf)
    for run in (*runs.values(), *runs.values()):
        run()
    gc.collect()
    gc.disable()
    end = time.perf_counter() + seconds
    done = 0
    while done < 3 or (done < rounds and time.perf_counter() < end):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
        done += 1
    gc.enable()
    return best


def line(case: Case, seconds: float, rounds: int) -> str:
    runs = {"text": case.text} | {
        n: r for n, r in (("arrays", case.arrays), ("hand", case.hand)) if r is not None}
    ours = value(case.text())
    for name in ("arrays", "hand"):
        if name in runs:
            np.testing.assert_allclose(ours, value(runs[name]()), rtol=1e-8, atol=1e-8,
                                       err_msg=case.name)
    best = timed(runs, seconds, rounds)
    cells = [case.name, f"{best['text'] * 1e3:.3f}"]
    for name in ("arrays", "hand"):
        cells += [f"{best[name] * 1e3:.3f}", f"{best['text'] / best[name]:.2f}"] \
            if name in best else ["", ""]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with load_data.py: real data")
    parser.add_argument("--size", type=float, default=1.0, help="of the generated data")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each case")
    parser.add_argument("--rounds", type=int, default=200, help="turns at most")
    parser.add_argument("--only", default="", help="cases with this in their name")
    parser.add_argument("--out", type=Path, help="a Markdown file for the table")
    args = parser.parse_args()
    lines = ["| program | comprehension, ms | arrays, ms | ratio | by hand, ms | ratio |",
             "| --- | --: | --: | --: | --: | --: |"]
    print("\n".join(lines))
    for case in cases(args.data, args.size):
        if args.only in case.name:
            lines.append(line(case, args.seconds, args.rounds))
            print(lines[-1], flush=True)
    if args.out is not None:
        args.out.write_text("# Comprehensions, arrays, and programs by hand\n\n"
                            + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
