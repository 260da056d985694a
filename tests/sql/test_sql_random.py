"""Random queries give the rows that DuckDB gives; ``make fuzz-sql`` tries more of them."""

from __future__ import annotations

import os

import pytest
from fuzz_sql import wrong

#: Queries, in groups of ten. TENSOREL_SQL_QUERIES says how many.
COUNT = int(os.environ.get("TENSOREL_SQL_QUERIES", "100"))


@pytest.mark.parametrize("first", range(10_000, 10_000 + COUNT, 10))
def test_rows(first: int) -> None:
    assert [w for seed in range(first, first + 10) if (w := wrong(seed))] == []
