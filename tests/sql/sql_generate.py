"""Random queries from a grammar: joins of tensors and tables, expressions of all types, groups,
subqueries, set operations, orders. Every one is valid, and its rows do not depend on choices that
SQL leaves open: what is limited is ordered by all columns."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

INT, REAL, TEXT, DATE, TIME, BOOL = "int", "real", "text", "date", "time", "bool"
#: Columns of the relations by type.
SCHEMA: dict[str, dict[str, str]] = {
    "A": {"i0": INT, "i1": INT, "val": REAL},
    "B": {"i0": INT, "i1": INT, "val": REAL},
    "C": {"i0": INT, "i1": INT, "val": REAL},
    "G": {"i0": INT, "i1": INT, "val": INT},
    "T": {"i0": INT, "i1": INT, "i2": INT, "val": REAL},
    "V": {"i0": INT, "val": REAL},
    "F": {"i0": INT, "i1": INT, "val": REAL},
    "M": {"i0": INT, "i1": INT, "val": BOOL},
    "E": {"i0": INT, "i1": INT, "val": REAL},
    "items": {"id": INT, "name": TEXT, "kind": TEXT, "price": REAL, "stock": INT, "added": DATE},
    "sales": {"id": INT, "item": INT, "day": DATE, "amount": REAL, "qty": INT, "note": TEXT,
              "sold": TIME, "paid": BOOL},
    "people": {"id": INT, "name": TEXT, "boss": INT, "axis": INT},
}
_TENSORS = ["A", "B", "C", "G", "T", "V", "F", "M", "E"]
_LITERALS: dict[str, list[str]] = {
    INT: ["0", "1", "2", "3", "5", "-1"], REAL: ["0.5", "-1.0", "2.5", "10.0"],
    TEXT: ["'pen'", "'room'", "'ok'", "'Ada'", "''"], BOOL: ["TRUE", "FALSE"],
    DATE: ["DATE '2024-02-10'", "DATE '2024-06-30'"],
    TIME: ["TIMESTAMP '2024-01-05 10:00:00'", "TIMESTAMP '2024-01-11 00:00:00'"],
}
Columns = list[tuple[str, str]]


class Generator:
    """Draws one query after another."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.aliases = 0

    def pick(self, choices: list[str]) -> str:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    # -- queries -------------------------------------------------------------------------------
    def query(self) -> str:
        self.aliases = 0
        kind = self.rng.random()
        if kind < 0.12:
            return self.set_operation()
        if kind < 0.3:
            return self.contraction()
        text, types = self.select(2)
        if kind < 0.45:
            return self.around(text, types)
        return text + self.order(len(types))

    def order(self, count: int) -> str:
        """An order by all columns, sometimes with a limit."""
        if self.chance(0.6):
            return ""
        keys = [f"{k + 1}{self.pick(['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])}"
                for k in self.rng.permutation(count).tolist()]
        limit = f" LIMIT {self.rng.integers(0, 9)}" if self.chance(0.5) else ""
        if limit and self.chance(0.3):
            limit += f" OFFSET {self.rng.integers(0, 4)}"
        return f" ORDER BY {', '.join(keys)}{limit}"

    def set_operation(self) -> str:
        types = [self.pick([INT, REAL, TEXT, DATE]) for _ in range(self.rng.integers(1, 3))]
        op = self.pick(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL", "EXCEPT ALL"])
        sides = []
        for _ in range(2):
            source, columns = self.source(1)
            items = [self.expression(t, columns, 1) for t in types]
            sides.append(f"SELECT {', '.join(items)} FROM {source}{self.where(columns, 1)}")
        return f" {op} ".join(sides) + self.order(len(types))

    def around(self, text: str, types: list[str]) -> str:
        """A query over the columns of another one, by WITH or in FROM."""
        columns: Columns = [(f"q.c{k}", t) for k, t in enumerate(types)]
        names = ", ".join(f"c{k}" for k in range(len(types)))
        item, grouped = self.items(columns)
        source = f"({text}) q({names})"
        prefix = ""
        if self.chance(0.5):
            prefix, source = f"WITH q({names}) AS ({text}) ", "q"
            if self.chance(0.4):
                k = int(self.rng.integers(len(types)))
                source = f"q JOIN q r ON q.c{k} = r.c{k}"
        return f"{prefix}SELECT {', '.join(item)} FROM {source}{self.where(columns, 1)}{grouped}"

    def contraction(self) -> str:
        """An aggregate over a join of tensors on their indices."""
        chosen = [self.pick(_TENSORS[:6]) for _ in range(self.rng.integers(2, 4))]
        axes = {n: [c for c in SCHEMA[n] if c != "val"] for n in chosen}
        tests, source = [], f"{chosen[0]} t0"
        for k, name in enumerate(chosen[1:], 1):
            other = int(self.rng.integers(k))
            tests.append(f"t{other}.{self.pick(axes[chosen[other]])} = "
                         f"t{k}.{self.pick(axes[name])}")
            if self.chance(0.3):
                tests.append(f"t{other}.{self.pick(axes[chosen[other]])} "
                             f"{self.pick(['=', '<', '<>'])} t{k}.{self.pick(axes[name])}")
            source += f", {name} t{k}"
        if self.chance(0.3):
            tests.append(f"t0.val {self.pick(['>', '<', '<>'])} 0.5")
        keys = list(dict.fromkeys(
            f"t{k}.{self.pick(axes[n])}" for k, n in enumerate(chosen) if self.chance(0.6)))
        product = " * ".join(f"t{k}.val" for k in range(len(chosen)))
        values = [product, f"{product} + t0.val", "t0.val", f"t1.{axes[chosen[1]][0]} + t0.val"]
        calls = [f"{self.pick(['SUM', 'SUM', 'COUNT', 'AVG', 'MIN', 'MAX'])}({self.pick(values)})"
                 for _ in range(self.rng.integers(1, 3))]
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = " HAVING COUNT(*) > 1" if self.chance(0.2) else ""
        return (f"SELECT {', '.join([*keys, *calls])} FROM {source} "
                f"WHERE {' AND '.join(tests)}{group}{having}")

    def select(self, depth: int) -> tuple[str, list[str]]:
        source, columns = self.source(int(self.rng.integers(1, 4)))
        item, grouped = self.items(columns)
        types = self.types
        distinct = "DISTINCT " if not grouped and self.chance(0.2) else ""
        return (f"SELECT {distinct}{', '.join(item)} FROM {source}"
                f"{self.where(columns, depth)}{grouped}"), types

    def items(self, columns: Columns) -> tuple[list[str], str]:
        """A select list, and GROUP BY if there is one; ``types``: of its columns."""
        if self.chance(0.45):
            kinds = [self.pick([INT, REAL, TEXT, BOOL, DATE])
                     for _ in range(self.rng.integers(1, 4))]
            self.types = kinds
            return [self.expression(k, columns, 2) for k in kinds], ""
        keys = [self.pick([INT, TEXT, DATE, BOOL]) for _ in range(self.rng.integers(0, 3))]
        made = [self.expression(k, columns, 1) for k in keys]
        calls = [self.aggregate(columns) for _ in range(self.rng.integers(1, 4))]
        self.types = [*keys, *[t for _, t in calls]]
        group = f" GROUP BY {', '.join(str(k + 1) for k in range(len(made)))}" if made else ""
        if made and self.chance(0.3):
            group += f" HAVING COUNT(*) {self.pick(['>', '<=', '='])} {self.rng.integers(1, 4)}"
        return [*made, *[c for c, _ in calls]], group or " "

    def aggregate(self, columns: Columns) -> tuple[str, str]:
        name, of, result = [
            ("COUNT(*)", "", INT), ("COUNT", self.pick([INT, REAL, TEXT]), INT),
            ("SUM", INT, INT), ("SUM", REAL, REAL), ("AVG", REAL, REAL), ("MIN", TEXT, TEXT),
            ("MAX", TEXT, TEXT), ("MIN", DATE, DATE), ("MAX", REAL, REAL), ("MIN", INT, INT),
            ("COUNT DISTINCT", self.pick([INT, TEXT, DATE]), INT), ("MEDIAN", REAL, REAL),
            ("BOOL_OR", BOOL, BOOL), ("VAR_POP", REAL, REAL),
        ][int(self.rng.integers(14))]
        if not of:
            return name, result
        inner = self.expression(of, columns, 1)
        if name == "COUNT DISTINCT":
            return f"COUNT(DISTINCT {inner})", result
        where = f" FILTER (WHERE {self.test(columns, 0)})" if self.chance(0.15) else ""
        return f"{name}({inner}){where}", result

    # -- relations -----------------------------------------------------------------------------
    def source(self, count: int) -> tuple[str, Columns]:
        text, columns = "", Columns()
        for _ in range(count):
            name, alias = self.pick(list(SCHEMA)), f"r{self.aliases}"
            self.aliases += 1
            fresh = [(f"{alias}.{c}", t) for c, t in SCHEMA[name].items()]
            if not columns:
                text, columns = f"{name} {alias}", fresh
                continue
            how = self.pick(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN",
                             "SEMI JOIN", "ANTI JOIN"])
            test = self.equation(columns, fresh)
            if self.chance(0.25):
                test += f" AND {self.test(columns + fresh, 0)}"
            text += f" {how} {name} {alias} ON {test}"
            if how not in ("SEMI JOIN", "ANTI JOIN"):
                columns = columns + fresh
        return text, columns

    def equation(self, left: Columns, right: Columns) -> str:
        ints = [[c for c, t in side if t == INT] for side in (left, right)]
        texts = [[c for c, t in side if t == TEXT] for side in (left, right)]
        if all(texts) and self.chance(0.4):
            return f"{self.pick(texts[0])} = {self.pick(texts[1])}"
        return f"{self.pick(ints[0])} = {self.pick(ints[1])}"

    def where(self, columns: Columns, depth: int) -> str:
        if self.chance(0.4):
            return ""
        tests = [self.test(columns, depth) for _ in range(self.rng.integers(1, 3))]
        return f" WHERE {' AND '.join(tests)}"

    # -- expressions ---------------------------------------------------------------------------
    def column(self, of: str, columns: Columns) -> str:
        known = [c for c, t in columns if t == of]
        if not known or self.chance(0.08):
            return "NULL" if self.chance(0.03) and known else self.pick(_LITERALS[of])
        return self.pick(known)

    def expression(self, of: str, columns: Columns, depth: int) -> str:
        if depth <= 0 or self.chance(0.45):
            return self.column(of, columns)

        def e(kind: str) -> str:
            return self.expression(kind, columns, depth - 1)

        makers: dict[str, list[Callable[[], str]]] = {
            INT: [lambda: f"({e(INT)} + {e(INT)})", lambda: f"({e(INT)} * {e(INT)})",
                  lambda: f"({e(INT)} // {e(INT)})", lambda: f"({e(INT)} % {e(INT)})",
                  lambda: f"LENGTH({e(TEXT)})", lambda: f"YEAR({e(DATE)})",
                  lambda: f"MONTH({e(DATE)})", lambda: f"ABS({e(INT)})",
                  lambda: f"COALESCE({e(INT)}, {e(INT)})", lambda: f"NULLIF({e(INT)}, {e(INT)})",
                  lambda: f"({e(DATE)} - {e(DATE)})", lambda: f"-({e(INT)})",
                  lambda: f"HOUR({e(TIME)})", lambda: f"CAST({e(BOOL)} AS INTEGER)"],
            REAL: [lambda: f"({e(REAL)} + {e(REAL)})", lambda: f"({e(REAL)} * {e(INT)})",
                   lambda: f"({e(REAL)} - {e(REAL)})", lambda: f"CAST({e(INT)} AS DOUBLE)",
                   lambda: f"({e(INT)} / 2)", lambda: f"FLOOR({e(REAL)})",
                   lambda: f"COALESCE({e(REAL)}, 0.0)", lambda: f"ABS({e(REAL)})"],
            TEXT: [lambda: f"UPPER({e(TEXT)})", lambda: f"SUBSTRING({e(TEXT)}, 2, 2)",
                   lambda: f"({e(TEXT)} || {e(TEXT)})", lambda: f"COALESCE({e(TEXT)}, 'none')",
                   lambda: f"CAST({e(INT)} AS VARCHAR)", lambda: f"REPLACE({e(TEXT)}, 'e', 'x')"],
            DATE: [lambda: f"({e(DATE)} + {self.pick(['1', '30', '-5'])})",
                   lambda: f"LAST_DAY({e(DATE)})", lambda: f"CAST({e(TIME)} AS DATE)",
                   lambda: f"COALESCE({e(DATE)}, {e(DATE)})"],
            TIME: [lambda: f"DATE_TRUNC('day', {e(TIME)})",
                   lambda: f"({e(TIME)} + INTERVAL 3 HOUR)",
                   lambda: f"CAST({e(DATE)} AS TIMESTAMP)"],
            BOOL: [lambda: f"({self.test(columns, 0)})"],
        }
        if of != BOOL and self.chance(0.12):
            return f"CASE WHEN {self.test(columns, 0)} THEN {e(of)} ELSE {e(of)} END"
        makers_of = makers[of]
        return makers_of[int(self.rng.integers(len(makers_of)))]()

    # -- tests ---------------------------------------------------------------------------------
    def test(self, columns: Columns, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.12:
            return f"({self.test(columns, depth - 1)} OR {self.test(columns, depth - 1)})"
        if kind < 0.18:
            return f"NOT ({self.test(columns, depth - 1)})"
        if kind < 0.42 and depth > 0:
            return self.subquery(columns, depth)
        of = self.pick([INT, INT, REAL, TEXT, DATE])
        value = self.expression(of, columns, 1)
        if kind < 0.5:
            return f"{value} IS {self.pick(['', 'NOT '])}NULL"
        if kind < 0.56:
            listed = ", ".join(self.pick(_LITERALS[of]) for _ in range(3))
            return f"{value} {self.pick(['', 'NOT '])}IN ({listed})"
        if kind < 0.62 and of == TEXT:
            pattern = self.pick(["%e%", "p%", "_n%", "%", "r__m"])
            return f"{value} {self.pick(['', 'NOT '])}LIKE '{pattern}'"
        if kind < 0.68:
            low, high = self.pick(_LITERALS[of]), self.pick(_LITERALS[of])
            return f"{value} BETWEEN {low} AND {high}"
        if kind < 0.73:
            how = self.pick(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
            return f"{value} {how} {self.expression(of, columns, 0)}"
        sign = self.pick(["=", "<>", "<", "<=", ">", ">="])
        return f"{value} {sign} {self.expression(of, columns, 1)}"

    def subquery(self, columns: Columns, depth: int) -> str:
        name, alias = self.pick(list(SCHEMA)), f"r{self.aliases}"
        self.aliases += 1
        fresh = [(f"{alias}.{c}", t) for c, t in SCHEMA[name].items()]
        ints = [c for c, t in columns if t == INT] or ["1"]
        inner = [c for c, t in fresh if t == INT]
        tests = []
        if self.chance(0.6):
            tests.append(f"{self.pick(inner)} {self.pick(['=', '=', '=', '<'])} {self.pick(ints)}")
        if self.chance(0.5):
            tests.append(self.test(fresh, depth - 1))
        where = f" WHERE {' AND '.join(tests)}" if tests else ""
        source = f"{name} {alias}{where}"
        kind = self.rng.random()
        if kind < 0.35:
            return f"{self.pick(['', 'NOT '])}EXISTS (SELECT 1 FROM {source})"
        if kind < 0.65:
            value = self.expression(INT, columns, 1)
            how = self.pick(["IN", "NOT IN"])
            return f"{value} {how} (SELECT {self.pick(inner)} FROM {source})"
        call = self.pick([f"MAX({self.pick(inner)})", "COUNT(*)", f"SUM({self.pick(inner)})"])
        sign = self.pick(["=", "<", ">", "<>"])
        return f"{self.expression(INT, columns, 1)} {sign} (SELECT {call} FROM {source})"
