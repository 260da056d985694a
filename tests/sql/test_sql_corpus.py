"""Queries give the rows that DuckDB gives."""

from __future__ import annotations

from pathlib import Path

import pytest
from sql_compare import difference
from sql_data import oracle, relations

import tensorel as tr


def queries() -> list[tuple[str, str]]:
    found = []
    for file in sorted((Path(__file__).parent / "queries").glob("*.sql")):
        lines = [line for line in file.read_text().splitlines() if not line.startswith("--")]
        texts = [t.strip() for t in "\n".join(lines).split(";") if t.strip()]
        found += [(f"{file.stem}-{k}", t) for k, t in enumerate(texts)]
    return found


QUERIES = queries()


def test_there_are_a_hundred() -> None:
    assert len(QUERIES) >= 100


@pytest.mark.parametrize("text", [t for _, t in QUERIES], ids=[n for n, _ in QUERIES])
def test_rows(text: str) -> None:
    wanted = oracle().execute(text).fetchall()
    found = tr.sql(text, **relations()).rows()
    top = text.rpartition(")")[2] if text.rstrip().endswith("END") else text
    assert difference(found, wanted, "ORDER BY" in top.rpartition("FROM")[2]) is None
