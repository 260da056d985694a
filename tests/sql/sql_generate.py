"""Random queries from a grammar: joins of tensors and tables, expressions of all types, groups,
subqueries, set operations, orders. Every one is valid, and its rows do not depend on choices that
SQL leaves open: what is limited is ordered by all columns."""

from __future__ import annotations

from sql_expressions import BOOL, DATE, INT, REAL, TEXT, TIME, Columns, Expressions

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
    "nums": {"k": INT, "g": INT, "x": REAL, "f": REAL, "b": BOOL, "t": TEXT, "d": DATE,
             "ts": TIME},
    "void": {"k": INT, "x": REAL, "t": TEXT, "d": DATE, "b": BOOL},
    "people": {"id": INT, "name": TEXT, "boss": INT, "axis": INT},
}
_TENSORS = ["A", "B", "C", "G", "T", "V", "F", "M", "E"]


class Generator(Expressions):
    """Draws one query after another. ``ordered``: the rows of the last one have an order."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.aliases = 0
        self.ordered = False

    # -- queries -------------------------------------------------------------------------------
    def query(self) -> str:
        self.aliases = 0
        self.ordered = False
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
        self.ordered = True
        keys = [f"{k + 1}{self.pick(['', ' DESC', ' NULLS FIRST', ' DESC NULLS LAST'])}"
                for k in self.rng.permutation(count).tolist()]
        limit = f" LIMIT {self.rng.integers(0, 9)}" if self.chance(0.5) else ""
        if limit and self.chance(0.3):
            limit += f" OFFSET {self.rng.integers(0, 4)}"
        return f" ORDER BY {', '.join(keys)}{limit}"

    def set_operation(self) -> str:
        types = [self.pick([INT, REAL, TEXT, DATE, TIME, BOOL])
                 for _ in range(self.rng.integers(1, 3))]
        text = self.side(types)
        for _ in range(self.rng.integers(1, 3)):
            op = self.pick(["UNION", "UNION ALL", "INTERSECT", "EXCEPT", "INTERSECT ALL",
                            "EXCEPT ALL"])
            text = f"({text}) {op} {self.side(types)}"
        if self.chance(0.2):
            columns = [(f"q.c{k}", t) for k, t in enumerate(types)]
            names = ", ".join(f"c{k}" for k in range(len(types)))
            item, grouped = self.items(columns)
            return f"SELECT {', '.join(item)} FROM ({text}) q({names}){grouped}"
        return text + self.order(len(types))

    def side(self, types: list[str]) -> str:
        """A query of columns of these types."""
        source, columns = self.source(int(self.rng.integers(1, 3)))
        items = [self.expression(t, columns, 1) for t in types]
        return f"SELECT {', '.join(items)} FROM {source}{self.where(columns, 1)}"

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
                how = self.pick(["JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"])
                source = f"q {how} q r ON q.c{k} = r.c{k}"
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
            kinds = [self.pick([INT, REAL, TEXT, BOOL, DATE, TIME])
                     for _ in range(self.rng.integers(1, 4))]
            self.types = kinds
            made = [self.expression(k, columns, 2) for k in kinds]
            if self.chance(0.15):
                call, kind = self.window(columns)
                self.types, made = [*kinds, kind], [*made, call]
            return made, ""
        keys = [self.pick([INT, TEXT, DATE, BOOL, TIME]) for _ in range(self.rng.integers(0, 3))]
        made = [self.expression(k, columns, 1) for k in keys]
        calls = [self.aggregate(columns) for _ in range(self.rng.integers(1, 4))]
        self.types = [*keys, *[t for _, t in calls]]
        group = f" GROUP BY {', '.join(str(k + 1) for k in range(len(made)))}" if made else ""
        if made and self.chance(0.3):
            call = "COUNT(*)"
            if self.chance(0.5):
                call = f"{self.pick(['SUM', 'MIN'])}({self.expression(INT, columns, 1)})"
            group += f" HAVING {call} {self.pick(['>', '<=', '='])} {self.rng.integers(1, 4)}"
        return [*made, *[c for c, _ in calls]], group or " "

    def window(self, columns: Columns) -> tuple[str, str]:
        """A window function, and its type. Where the order of peers counts, rows that are peers are
        equal."""
        count = int(self.rng.integers(0, 3))
        part = ", ".join(self.expression(self.pick([INT, TEXT, DATE, BOOL]), columns, 1)
                         for _ in range(count))
        part = f"PARTITION BY {part}" if part else ""
        whole = [columns[k][0] for k in self.rng.permutation(len(columns)).tolist()]
        some = [self.expression(self.pick([INT, TEXT, REAL, DATE]), columns, 1)
                for _ in range(self.rng.integers(1, 3))]

        def order(keys: list[str]) -> str:
            how = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]
            return "ORDER BY " + ", ".join(k + self.pick(how) for k in keys)

        of = self.pick([INT, REAL])
        value = self.expression(of, columns, 1)
        kind = self.rng.random()
        if kind < 0.2:
            return f"{self.pick(['RANK', 'DENSE_RANK'])}() OVER ({part} {order(some)})", INT
        if kind < 0.28:
            return f"{self.pick(['PERCENT_RANK', 'CUME_DIST'])}() OVER ({part} {order(some)})", REAL
        if kind < 0.4:
            call = self.pick(["ROW_NUMBER()", "NTILE(3)"])
            return f"{call} OVER ({part} {order(whole)})", INT
        if kind < 0.55:
            call = self.pick([f"LAG({value})", f"LEAD({value}, 2)", f"LAG({value}, 1, 0)"])
            return f"{call} OVER ({part} {order(whole)})", of
        call = self.pick([f"SUM({value})", f"MIN({value})", f"MAX({value})", f"COUNT({value})",
                          "COUNT(*)", f"FIRST_VALUE({value})", f"LAST_VALUE({value})",
                          f"NTH_VALUE({value}, 2)"])
        result = INT if call.startswith("COUNT") else of
        if kind < 0.7 and not call.startswith(("FIRST", "LAST", "NTH")):
            return f"{call} OVER ({part} {order(some) if self.chance(0.5) else ''})", result
        frame = self.pick([
            "", "ROWS UNBOUNDED PRECEDING", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            "ROWS BETWEEN 2 FOLLOWING AND 3 FOLLOWING", "ROWS 2 PRECEDING",
            "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
            "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"])
        return f"{call} OVER ({part} {order(whole)} {frame})", result

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
                             "SEMI JOIN", "ANTI JOIN", "LEFT JOIN"])
            test = self.equation(columns, fresh)
            if how != "FULL JOIN" and self.chance(0.15):
                test = self.test(columns + fresh, 0)
            elif self.chance(0.3):
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
        sign = "=" if self.chance(0.93) else "IS NOT DISTINCT FROM"
        found = f"{self.pick(ints[0])} {sign} {self.pick(ints[1])}"
        if self.chance(0.15):
            of = self.pick([INT, DATE, REAL, BOOL])
            sides = [[c for c, t in side if t == of] for side in (left, right)]
            if all(sides):
                found += f" AND {self.pick(sides[0])} = {self.pick(sides[1])}"
        return found

    def where(self, columns: Columns, depth: int) -> str:
        if self.chance(0.4):
            return ""
        tests = [self.test(columns, depth) for _ in range(self.rng.integers(1, 3))]
        return f" WHERE {' AND '.join(tests)}"

    # -- subqueries --------------------------------------------------------------------------------
    def subquery(self, columns: Columns, depth: int) -> str:
        source, fresh = self.inner(columns, depth)
        kind = self.rng.random()
        if kind < 0.35:
            return f"{self.pick(['', 'NOT '])}EXISTS (SELECT 1 FROM {source})"
        of = self.pick([INT, INT, INT, TEXT, DATE])
        if kind < 0.65 and any(t == of for _, t in fresh):
            value, how = self.expression(of, columns, 1), self.pick(["IN", "NOT IN"])
            return f"{value} {how} (SELECT {self.expression(of, fresh, 1)} FROM {source})"
        sign = self.pick(["=", "<", ">", "<>"])
        return f"{self.expression(INT, columns, 1)} {sign} {self._call(INT, fresh, source)}"

    def value_of_query(self, of: str, columns: Columns) -> str:
        source, fresh = self.inner(columns, 1)
        return self._call(of, fresh, source)

    def _call(self, of: str, fresh: Columns, source: str) -> str:
        call = self.pick([f"MAX({self.column(of, fresh)})", f"SUM({self.column(of, fresh)})",
                          f"MIN({self.expression(of, fresh, 1)})",
                          "COUNT(*)" if of == INT else f"AVG({self.column(of, fresh)})"])
        return f"(SELECT {call} FROM {source})"

    def inner(self, columns: Columns, depth: int) -> tuple[str, Columns]:
        """FROM and WHERE of a query inside, which may depend on columns around it."""
        text, fresh = self.source(1 if self.chance(0.8) else 2)
        ints = [c for c, t in columns if t == INT] or ["1"]
        inner = [c for c, t in fresh if t == INT]
        tests = []
        if self.chance(0.6):
            tests.append(f"{self.pick(inner)} {self.pick(['=', '=', '=', '<', '<>'])} "
                         f"{self.pick(ints)}")
        if self.chance(0.5):
            tests.append(self.test(fresh, depth - 1))
        if self.chance(0.1):
            tests.append(self.test(columns + fresh, 0))
        return text + (f" WHERE {' AND '.join(tests)}" if tests else ""), fresh
