"""How many rows operators give, about."""

from __future__ import annotations

from collections.abc import Mapping

from tensorel.sql.algebra import (
    Aggregate,
    Domain,
    Filter,
    Join,
    Limit,
    Plan,
    Project,
    Scan,
    SetOperation,
    Sort,
    TensorProgram,
    Values,
    Window,
)
from tensorel.sql.catalog import Catalog
from tensorel.sql.scalars import Call, Column, Literal, Scalar, columns_of

#: The share of rows for which a test holds where nothing is known.
SHARES: Mapping[str, float] = {
    "<": 0.3, "<=": 0.3, ">": 0.3, ">=": 0.3, "<>": 0.9, "like": 0.1, "ilike": 0.1,
    "is null": 0.1, "contains": 0.1, "starts_with": 0.1, "in": 0.2,
}
_UNKNOWN_SHARE, _UNKNOWN_EQUAL = 0.3, 0.1


class Estimates:
    """Sizes of the plans of one catalog; each operator is asked once."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._rows: dict[int, tuple[Plan, float]] = {}
        self._distinct: dict[Column, float | None] = {}

    def rows(self, plan: Plan) -> float:
        found = self._rows.get(id(plan))
        if found is None:
            found = self._rows[id(plan)] = plan, max(self._count(plan), 1.0)
        return found[1]

    def _count(self, plan: Plan) -> float:
        match plan:
            case Scan():
                self._learn(plan)
                return float(self.catalog[plan.source].rows)
            case Values():
                return float(len(plan.rows))
            case Filter():
                found = self.rows(plan.input)
                for t in plan.tests:
                    found *= self.share(t)
                return found
            case Project():
                found = self.rows(plan.input)
                for c, e in plan.items:
                    if isinstance(e, Column):
                        self._distinct[c] = self._distinct.get(e)
                return found
            case Join():
                return self._joined(plan)
            case Aggregate() | Domain():
                return self._groups(plan)
            case Limit():
                rows = self.rows(plan.input)
                return rows if plan.count is None else min(rows, plan.count)
            case Sort() | Window():
                return self.rows(plan.input)
            case SetOperation():
                left, right = (self.rows(i) for i in plan.inputs)
                return left + right if plan.kind == "union" else left
            case TensorProgram():
                return self._groups(plan.of)
        return 1.0

    def _learn(self, scan: Scan) -> None:
        known = self.catalog[scan.source]
        by_name = {f.name: f for f in known.fields}
        for c, name in scan.fields:
            self._distinct[c] = by_name[name].distinct

    def distinct(self, column: Column, rows: float) -> float:
        """How many values a column has in so many rows."""
        known = self._distinct.get(column)
        return max(min(rows, rows if known is None else float(known)), 1.0)

    def share(self, test: Scalar) -> float:
        """The share of rows for which a test holds."""
        if isinstance(test, Literal):
            return 1.0 if test.value else 0.0
        if not isinstance(test, Call):
            return 0.5
        match test.function:
            case "and":
                found = 1.0
                for a in test.args:
                    found *= self.share(a)
                return found
            case "or":
                return min(sum(self.share(a) for a in test.args), 1.0)
            case "not":
                return 1.0 - self.share(test.args[0])
            case "=" | "is":
                for a in test.args:
                    known = self._distinct.get(a) if isinstance(a, Column) else None
                    if known:
                        return 1.0 / known
                return _UNKNOWN_EQUAL
            case "in":
                first = test.args[0]
                known = self._distinct.get(first) if isinstance(first, Column) else None
                return min((len(test.args) - 1) / known, 1.0) if known else SHARES["in"]
        return SHARES.get(test.function, _UNKNOWN_SHARE)

    def _joined(self, plan: Join) -> float:
        left, right = self.rows(plan.left), self.rows(plan.right)
        pairs = left * right
        for t in plan.on:
            pairs *= self.pair_share(t, plan, left, right)
        match plan.kind:
            case "semi":
                return min(left, pairs)
            case "anti":
                return max(left - pairs, left * 0.1)
            case "mark" | "single":
                return left
            case "left":
                return max(left, pairs)
            case "full":
                return max(left + right, pairs)
        return pairs

    def pair_share(self, test: Scalar, plan: Join, left: float, right: float) -> float:
        """The share of pairs for which a test holds."""
        if isinstance(test, Call) and test.function in ("=", "is"):
            a, b = test.args
            ours = set(plan.left.columns)
            sizes = []
            for e in (a, b):
                rows = left if columns_of(e) <= ours else right
                sizes.append(self.distinct(e, rows) if isinstance(e, Column) else rows)
            return 1.0 / max(sizes)
        return self.share(test)

    def _groups(self, plan: Aggregate | Domain) -> float:
        rows = self.rows(plan.input)
        keys = plan.keys if isinstance(plan, Aggregate) else plan.items
        found = 1.0
        for c, e in keys:
            size = self.distinct(e, rows) if isinstance(e, Column) else rows ** 0.5
            self._distinct[c] = size
            found *= size
        return min(found, rows)
