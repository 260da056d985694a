"""Tables as labelled tensors, beside pandas' ``groupby(...).sum()`` alone:
``python benchmarks/tables/run.py [--rows 10000000] [--out FILE]``.

Each case runs in a process of its own. Times are the best of the rounds, in processor time and in
elapsed time; memory is what the first conversion takes at its peak beyond what was there before."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import tensorel as tr
from tensorel.base import memory_regions

USERS, ITEMS, ROUNDS = 100_000, 20_000, 2
CASES = ["whole numbers", "wide whole numbers", "texts", "long texts", "categories", "dates",
         "texts of polars", "texts of Arrow in pieces", "Parquet"]


def frame(case: str, rows: int) -> pd.DataFrame:
    """Ratings with a key of the case."""
    rng = np.random.default_rng(0)
    user = rng.integers(0, USERS, rows)
    key: Any = user
    if case == "wide whole numbers":
        key = np.random.default_rng(1).integers(-2**60, 2**60, USERS)[user]
    elif case == "dates":
        key = np.datetime64("1900-01-01") + (user % 40_000).astype("m8[D]")
    elif case != "whole numbers":
        long = " of a name that is longer" if case == "long texts" else ""
        texts = pa.array([f"user{k:07d}{long}" for k in range(USERS)])
        key = pd.Series(texts.take(pa.array(user)), dtype="str")
        if case == "categories":
            key = key.astype("category")
    return pd.DataFrame({"user": key, "item": rng.integers(0, ITEMS, rows),
                         "rating": rng.random(rows)})


def handed(case: str, df: pd.DataFrame) -> Any:
    """The table as users of the case have it."""
    if case == "texts of polars":
        return pl.from_pandas(df)
    if case == "texts of Arrow in pieces":
        table = pa.Table.from_pandas(df, preserve_index=False)
        return pa.Table.from_batches(table.to_batches(max_chunksize=122_880))
    if case == "Parquet":
        path = "/tmp/tensorel-benchmark.parquet"
        pq.write_table(pa.Table.from_pandas(df, preserve_index=False), path)
        return path
    return df


def megabytes(field: str) -> float:
    with open("/proc/self/status") as file:
        found = dict(line.split(":", 1) for line in file)
    return int(found[field].split()[0]) / 1024


def best(run: Callable[[], object]) -> tuple[float, float]:
    """The least processor time and the least elapsed time."""
    found = []
    for _ in range(ROUNDS):
        elapsed, used = time.perf_counter(), time.process_time()
        run()
        found.append((time.process_time() - used, time.perf_counter() - elapsed))
    return min(f[0] for f in found), min(f[1] for f in found)


def measure(case: str, rows: int) -> dict[str, Any]:
    keys = ["user", "item"]
    small = tr.from_table(handed(case, frame(case, 300_000)), keys=keys, value="rating")
    small.to_table()  # kernels are compiled
    df = frame(case, rows)
    table = handed(case, df)
    memory_regions.REGIONS.release()
    Path("/proc/self/clear_refs").write_text("5")
    before = megabytes("VmRSS")
    T = tr.from_table(table, keys=keys, value="rating")
    peak = megabytes("VmHWM") - before
    held = (pa.Table.from_pandas(df).nbytes if case != "categories"
            else int(df.memory_usage(deep=True).sum())) / 2**20
    return {"case": case, "peak": peak, "table": held, "tensor": T.nbytes / 2**20, "nnz": T.nnz,
            "from_table": best(lambda: tr.from_table(table, keys=keys, value="rating")),
            "to_table": best(T.to_table),
            "pandas": best(lambda: df.groupby(keys, observed=True).rating.sum())}


def text(found: list[dict[str, Any]], rows: int) -> str:
    lines = [f"# Tables as labelled tensors: {rows:,} rows", "",
             "Seconds of the processor, elapsed seconds in brackets; pandas does `groupby` of two "
             "keys and `sum` alone. Memory in MB: the peak beyond the table, and the limit, the "
             "table and the tensor.", "",
             "| key | from_table | to_table | pandas | pandas / both | peak | table + tensor |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for f in found:
        shown = [f"{f[k][0]:.2f} ({f[k][1]:.2f})" for k in ("from_table", "to_table", "pandas")]
        ratio = f["pandas"][0] / (f["from_table"][0] + f["to_table"][0])
        lines.append(f"| {f['case']} | {' | '.join(shown)} | {ratio:.1f} | {f['peak']:.0f} | "
                     f"{f['table'] + f['tensor']:.0f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    if args.case:
        print(json.dumps(measure(args.case, args.rows)))
        return
    found = []
    for case in CASES:
        ran = subprocess.run([sys.executable, __file__, "--case", case, "--rows", str(args.rows)],
                             capture_output=True, text=True, check=True)
        found.append(json.loads(ran.stdout.splitlines()[-1]))
        print(found[-1], flush=True)
    said = text(found, args.rows)
    print(said)
    if args.out:
        args.out.write_text(said)


if __name__ == "__main__":
    main()
