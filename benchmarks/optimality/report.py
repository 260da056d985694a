"""The report of a run: the distribution, and the worst plans beside the best."""

from __future__ import annotations

import platform
from datetime import date
from typing import Any

import numpy as np

TARGETS = ((1.2, 0.9), (2.0, 0.99))
WORST = 10


CUT = """## What is counted, and what is not

- Instructions are counted in the optimized code of every kernel, block by block; conversions,
  sorted lists, BLAS and the start of a step (20 us) are charged at rates measured once. Caches and
  mispredicted branches do not enter.
- The space: every order of contraction, sums stored or evaluated where they are asked for, factors
  stored or not, BLAS or loops, loop orders, conversions of operands, assemblies, searches (as
  chosen, none, all). The way to write the program (expanded, factored, shared sums) is that of the
  chosen plan. Definitions that are used up inside another's loops are in chosen plans, not in the
  rivals, which store all definitions; nor are dense operands stored again for the rivals' loops.
- Left out by estimates: steps and loops that are estimated at 5 times the best plan known by then.
  An estimate that is more than 5 times too high hides a better plan.
- Programs are drawn again until their estimated work is between 30 us and 3 ms, so a seed gives
  other programs when the costs change."""


def write(done: list[dict[str, Any]], seed: int, state: str) -> str:
    """Markdown. ``state``: the commit that ran."""
    ratios = np.array([d["ratio"] for d in done])
    lines = [
        "# Near-optimality of plans", "",
        f"{date.today()}, {platform.machine()}, {_processor()}, Python "
        f"{platform.python_version()}; commit {state}, seed {seed}, {len(done)} random "
        "programs.", "",
        "Chosen plan against the best of all plans of the program, in counted instructions "
        "(benchmarks/optimality/counting.py says what is counted).", "",
        "| within | share | target |", "| ---: | ---: | ---: |"]
    targets = dict(TARGETS)
    for limit in (1.0001, 1.05, 1.1, 1.2, 1.5, 2.0, 3.0, 5.0):
        share = float((ratios <= limit).mean())
        wanted = f"{targets[limit]:.0%}" if limit in targets else ""
        lines.append(f"| {limit:.2f} | {share:.1%} | {wanted} |")
    plans = np.array([d["plans"] for d in done])
    lines += [
        "", f"Mean {ratios.mean():.3f}, geometric mean {np.exp(np.log(ratios).mean()):.3f}, worst "
        f"{ratios.max():.2f}. Plans that were followed to their end per program: median "
        f"{np.median(plans):,.0f}, most {plans.max():,.0f}; the others were left once they cost "
        f"more than the best so far. Distinct steps executed: {sum(d['executed'] for d in done):,}."
        f" Steps not run because they were estimated at 5 times the best plan: "
        f"{sum(d['hopeless'] for d in done):,}. Programs with more than 60 logical forms were "
        f"drawn again: {sum(d['redrawn'] for d in done)}.", "",
        CUT, "", "## The worst", ""]
    for d in sorted(done, key=lambda d: -d["ratio"])[:WORST]:
        lines += [f"### {d['ratio']:.2f}: program {d['number']}", "", d["text"], "", "```",
                  f"chosen: {d['chosen']['cost']:,.0f}", *d["chosen"]["steps"], "",
                  f"best: {d['best']['cost']:,.0f}", *d["best"]["steps"], "```", ""]
    return "\n".join(lines)


def _processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor()
