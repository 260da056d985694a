"""Random SQL queries against DuckDB: ``python tests/sql/fuzz_sql.py --seed 0 --count 5000``.

A query that differs is printed; the exit code is 1 if there are any."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from sql_compare import difference
from sql_data import duckdb, oracle, relations
from sql_generate import Generator

import tensorel as tr
from tensorel.errors import TensorelError

MOST_ROWS = 200_000  # rows of a result that are compared
refused: Counter[str] = Counter()  # queries that DuckDB does not run, by its reason


def wrong(seed: int) -> str | None:
    """What is wrong with the rows of the query with this seed, None if nothing is. A query that
    DuckDB refuses (a sum of infinities has no variance) is none."""
    generator = Generator(seed)
    text = generator.query()
    try:
        wanted = oracle().execute(text).fetchmany(MOST_ROWS + 1)
    except duckdb.Error as error:
        refused[str(error).partition(":")[0]] += 1
        return None
    if len(wanted) > MOST_ROWS:
        return None
    try:
        found = tr.sql(text, **relations()).rows()
    except TensorelError as error:
        return f"seed {seed}: {text}\n  {error}"
    found_wrong = difference(found, wanted, generator.ordered)
    return None if found_wrong is None else f"seed {seed}: {text}\n  {found_wrong}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=5000)
    arguments = parser.parse_args()
    bad = 0
    with tr.options(effort="quick"):
        for seed in range(arguments.seed, arguments.seed + arguments.count):
            found = wrong(seed)
            if found is not None:
                bad += 1
                print(found, flush=True)
    print(f"{arguments.count} queries, {bad} differ; DuckDB refused {dict(refused)}")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
