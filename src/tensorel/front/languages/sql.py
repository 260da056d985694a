"""``tr.sql``: queries over tensors and tables. The language is loaded with the first query."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import tensorel.sql  # noqa: F401  (the package: loaded later, it would replace the function)
from tensorel.errors import TypeError_

if TYPE_CHECKING:
    from tensorel.front.queries.query import Query


def sql(text: str, /, **relations: object) -> Query:
    """The rows of an SQL query over named tensors, tables and other relations, lazily. A tensor is
    the relation of its entries that differ from the fill: columns ``i0, i1, ...`` and ``val``.

    >>> import tensorel as tr
    >>> A = tr.asarray([[1, 2], [0, 3]])
    >>> tr.sql("SELECT i0, SUM(val) AS total FROM A GROUP BY i0 ORDER BY i0", A=A).rows()
    [(0, 3), (1, 3)]
    """
    if not isinstance(text, str):
        raise TypeError_(f"sql: the first argument is the text of the query, not a "
                         f"{type(text).__name__}",
                         hint="e.g. tr.sql('SELECT i0, val FROM A', A=A)")
    found: Query = import_module("tensorel.front.queries.query").query(text, relations)
    return found
