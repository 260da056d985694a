"""Random expressions of each type, tests and aggregates over columns: see ``sql_generate``."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

INT, REAL, TEXT, DATE, TIME, BOOL = "int", "real", "text", "date", "time", "bool"
LITERALS: dict[str, list[str]] = {
    INT: ["0", "1", "2", "3", "5", "-1"], REAL: ["0.5", "-1.0", "2.5", "10.0"],
    TEXT: ["'pen'", "'room'", "'ok'", "'Ada'", "''", "'50%'"], BOOL: ["TRUE", "FALSE"],
    DATE: ["DATE '2024-02-10'", "DATE '2024-06-30'", "DATE '1969-12-31'"],
    TIME: ["TIMESTAMP '2024-01-05 10:00:00'", "TIMESTAMP '2024-01-11 00:00:00'"],
}
Columns = list[tuple[str, str]]
_AGGREGATES: list[tuple[str, list[str], str | None]] = [
    ("COUNT(*)", [], INT), ("COUNT", [INT, REAL, TEXT], INT), ("SUM", [INT], INT),
    ("SUM", [REAL], REAL), ("AVG", [REAL], REAL), ("AVG", [INT], REAL), ("MIN", [TEXT], TEXT),
    ("MAX", [TEXT], TEXT), ("MIN", [DATE, TIME, BOOL], None), ("MAX", [DATE, TIME, BOOL], None),
    ("MAX", [REAL], REAL), ("MIN", [REAL], REAL), ("MIN", [INT], INT),
    ("COUNT DISTINCT", [INT, TEXT, DATE, REAL], INT), ("MEDIAN", [REAL], REAL),
    ("BOOL_OR", [BOOL], BOOL), ("BOOL_AND", [BOOL], BOOL), ("VAR_POP", [INT], REAL),
    ("STDDEV", [INT], REAL), ("SUM DISTINCT", [INT], INT), ("AVG DISTINCT", [INT], REAL),
    ("COUNT_IF", [BOOL], INT), ("QUANTILE_CONT", [REAL], REAL), ("STRING_AGG", [TEXT], TEXT),
]


class Expressions:
    """Draws one expression after another."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def pick(self, choices: list[str]) -> str:
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def subquery(self, columns: Columns, depth: int) -> str:
        """A test with a query inside."""
        raise NotImplementedError

    def value_of_query(self, of: str, columns: Columns) -> str:
        """A query of one row in place of a value."""
        raise NotImplementedError

    # -- values --------------------------------------------------------------------------------
    def column(self, of: str, columns: Columns) -> str:
        known = [c for c, t in columns if t == of]
        if not known or self.chance(0.08):
            return "NULL" if self.chance(0.05) and known else self.pick(LITERALS[of])
        return self.pick(known)

    def expression(self, of: str, columns: Columns, depth: int) -> str:
        if depth <= 0 or self.chance(0.45):
            return self.column(of, columns)

        def e(kind: str) -> str:
            return self.expression(kind, columns, depth - 1)

        kind = self.rng.random()
        if of != BOOL and kind < 0.16:
            return self._chosen(of, e, columns)
        if depth > 1 and kind > 0.96 and of in (INT, REAL):
            return self.value_of_query(of, columns)
        makers = {INT: self._whole, REAL: self._real, TEXT: self._text, DATE: self._date,
                  TIME: self._time, BOOL: lambda e: [lambda: f"({self.test(columns, 0)})"]}[of](e)
        return makers[int(self.rng.integers(len(makers)))]()

    def _chosen(self, of: str, e: Callable[[str], str], columns: Columns) -> str:
        kind = self.rng.random()
        if kind < 0.4:
            return f"CASE WHEN {self.test(columns, 0)} THEN {e(of)} ELSE {e(of)} END"
        if kind < 0.55:
            return f"CASE WHEN {self.test(columns, 0)} THEN {e(of)} END"
        if kind < 0.75:
            by = self.pick([INT, TEXT])
            return (f"CASE {e(by)} WHEN {self.pick(LITERALS[by])} THEN {e(of)} "
                    f"WHEN {e(by)} THEN {e(of)} ELSE {e(of)} END")
        if kind < 0.9:
            return f"COALESCE({e(of)}, {e(of)})"
        return f"{self.pick(['GREATEST', 'LEAST'])}({e(of)}, {e(of)})"

    def _whole(self, e: Callable[[str], str]) -> list[Callable[[], str]]:
        part = self.pick(["YEAR", "MONTH", "DAY", "QUARTER", "WEEK", "DAYOFYEAR", "ISODOW"])
        unit = self.pick(["day", "month", "quarter", "year"])
        return [
            lambda: f"({e(INT)} + {e(INT)})", lambda: f"({e(INT)} * {e(INT)})",
            lambda: f"({e(INT)} // {e(INT)})", lambda: f"({e(INT)} % {e(INT)})",
            lambda: f"LENGTH({e(TEXT)})", lambda: f"{part}({e(self.pick([DATE, TIME]))})",
            lambda: f"ABS({e(INT)})", lambda: f"NULLIF({e(INT)}, {e(INT)})",
            lambda: f"({e(DATE)} - {e(DATE)})", lambda: f"-({e(INT)})",
            lambda: f"HOUR({e(TIME)})", lambda: f"CAST({e(BOOL)} AS INTEGER)",
            lambda: f"STRPOS({e(TEXT)}, 'e')", lambda: f"SIGN({e(INT)})",
            lambda: f"DATE_DIFF('{unit}', {e(DATE)}, {e(DATE)})",
            lambda: f"EXTRACT(minute FROM {e(TIME)})"]

    def _real(self, e: Callable[[str], str]) -> list[Callable[[], str]]:
        return [
            lambda: f"({e(REAL)} + {e(REAL)})", lambda: f"({e(REAL)} * {e(INT)})",
            lambda: f"({e(REAL)} - {e(REAL)})", lambda: f"CAST({e(INT)} AS DOUBLE)",
            lambda: f"({e(INT)} / 2)", lambda: f"({e(REAL)} / {e(INT)})",
            lambda: f"FLOOR({e(REAL)})", lambda: f"CEIL({e(REAL)})",
            lambda: f"COALESCE({e(REAL)}, 0.0)", lambda: f"ABS({e(REAL)})",
            lambda: f"SQRT(ABS({e(REAL)}))", lambda: f"NULLIF({e(REAL)}, {e(REAL)})",
            lambda: f"ROUND({e(REAL)}, 1)", lambda: f"POWER({e(REAL)}, 2)"]

    def _text(self, e: Callable[[str], str]) -> list[Callable[[], str]]:
        side, trim = self.pick(["LEFT", "RIGHT"]), self.pick(["TRIM", "LTRIM", "RTRIM"])
        at, length = self.pick(["-2", "0", "1", "2"]), self.pick(["0", "1", "2", "9"])
        form = self.pick(["%Y-%m", "%d", "%A %H"])
        return [
            lambda: f"UPPER({e(TEXT)})", lambda: f"SUBSTRING({e(TEXT)}, {at}, {length})",
            lambda: f"({e(TEXT)} || {e(TEXT)})", lambda: f"COALESCE({e(TEXT)}, 'none')",
            lambda: f"CAST({e(INT)} AS VARCHAR)", lambda: f"REPLACE({e(TEXT)}, 'e', 'x')",
            lambda: f"{side}({e(TEXT)}, {self.rng.integers(-2, 4)})",
            lambda: f"{trim}({e(TEXT)}, 'pe')", lambda: f"LPAD({e(TEXT)}, 4, 'xy')",
            lambda: f"REVERSE({e(TEXT)})", lambda: f"CONCAT({e(TEXT)}, '-', {e(INT)})",
            lambda: f"CAST({e(DATE)} AS VARCHAR)", lambda: f"CAST({e(BOOL)} AS VARCHAR)",
            lambda: f"STRFTIME({e(TIME)}, '{form}')", lambda: f"NULLIF({e(TEXT)}, {e(TEXT)})",
            lambda: f"REPEAT({e(TEXT)}, 2)"]

    def _date(self, e: Callable[[str], str]) -> list[Callable[[], str]]:
        unit = self.pick(["month", "week", "year"])
        return [
            lambda: f"({e(DATE)} + {self.pick(['1', '30', '-5'])})",
            lambda: f"({e(DATE)} - {self.pick(['1', '365'])})",
            lambda: f"LAST_DAY({e(DATE)})", lambda: f"CAST({e(TIME)} AS DATE)",
            lambda: f"CAST(DATE_TRUNC('{unit}', {e(DATE)}) AS DATE)",
            lambda: f"CAST(({e(DATE)} + INTERVAL {self.pick(['1 MONTH', '2 YEAR', '3 DAY'])}) "
                    "AS DATE)"]

    def _time(self, e: Callable[[str], str]) -> list[Callable[[], str]]:
        unit = self.pick(["day", "hour", "minute", "month", "quarter"])
        interval = self.pick(["3 HOUR", "1 MONTH", "90 MINUTE", "1 YEAR"])
        return [
            lambda: f"DATE_TRUNC('{unit}', {e(TIME)})",
            lambda: f"({e(TIME)} {self.pick(['+', '-'])} INTERVAL {interval})",
            lambda: f"CAST({e(DATE)} AS TIMESTAMP)"]

    # -- tests ---------------------------------------------------------------------------------
    def test(self, columns: Columns, depth: int) -> str:
        kind = self.rng.random()
        if kind < 0.12:
            return f"({self.test(columns, depth - 1)} OR {self.test(columns, depth - 1)})"
        if kind < 0.15:
            return f"({self.test(columns, 0)}) = ({self.test(columns, 0)})"
        if kind < 0.2:
            return f"NOT ({self.test(columns, depth - 1)})"
        if kind < 0.42 and depth > 0:
            return self.subquery(columns, depth)
        of = self.pick([INT, INT, REAL, TEXT, DATE, TIME, BOOL])
        value = self.expression(of, columns, 1)
        if kind < 0.5:
            return f"{value} IS {self.pick(['', 'NOT '])}NULL"
        if kind < 0.56:
            count = int(self.rng.integers(1, 4))
            listed = [self.pick(LITERALS[of]) for _ in range(count)]
            if self.chance(0.2):
                listed.append(self.pick(["NULL", self.column(of, columns)]))
            return f"{value} {self.pick(['', 'NOT '])}IN ({', '.join(listed)})"
        if kind < 0.64 and of == TEXT:
            pattern = self.pick(["%e%", "p%", "_n%", "%", "r__m", "", "50%", "%\\%"])
            how = self.pick(["", "NOT "]) + self.pick(["LIKE", "LIKE", "ILIKE"])
            return f"{value} {how} '{pattern}'"
        if kind < 0.68:
            low, high = self.pick(LITERALS[of]), self.pick(LITERALS[of])
            return f"{value} {self.pick(['', 'NOT '])}BETWEEN {low} AND {high}"
        if kind < 0.73:
            how = self.pick(["IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
            return f"{value} {how} {self.expression(of, columns, 0)}"
        sign = self.pick(["=", "<>", "<", "<=", ">", ">="])
        return f"{value} {sign} {self.expression(of, columns, 1)}"

    # -- aggregates ----------------------------------------------------------------------------
    def aggregate(self, columns: Columns) -> tuple[str, str]:
        """A call, and the type that it has."""
        name, types, result = _AGGREGATES[int(self.rng.integers(len(_AGGREGATES)))]
        where = f" FILTER (WHERE {self.test(columns, 0)})" if self.chance(0.15) else ""
        if not types:
            return name + where, INT
        of = self.pick(types)
        inner = self.expression(of, columns, 1)
        if name == "QUANTILE_CONT":
            inner += f", {self.pick(['0.25', '0.9', '0.0', '1.0'])}"
        elif name == "STRING_AGG":
            distinct = self.pick(["", "DISTINCT "])
            return f"STRING_AGG({distinct}{inner}, ';' ORDER BY {inner}){where}", TEXT
        elif name.endswith(" DISTINCT"):
            return f"{name.partition(' ')[0]}(DISTINCT {inner}){where}", result or of
        if name == "COUNT_IF":  # of no rows it is null in DuckDB
            return f"COALESCE(COUNT_IF({inner}){where}, 0)", INT
        return f"{name}({inner}){where}", result or of
