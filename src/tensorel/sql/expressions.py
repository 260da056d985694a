"""Scalar expressions of a query: from sqlglot's nodes to typed scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tensorel.sql.functions import FIELDS, FUNCTIONS, UNITS
from tensorel.sql.parsing import Node, Places, kind
from tensorel.sql.scalars import Call, Literal, Scalar, compare, is_null, negated
from tensorel.sql.typed import Typed
from tensorel.sql.types import Type

if TYPE_CHECKING:
    from tensorel.sql.scope import Scope
    from tensorel.sql.subqueries import Subqueries

#: Nodes that are functions of their parts, by class: the name, and the parts in order.
CALLS: dict[str, tuple[str, tuple[str, ...]]] = {
    "Add": ("+", ()), "Sub": ("-", ()), "Mul": ("*", ()), "Div": ("/", ()), "IntDiv": ("//", ()),
    "Mod": ("%", ()), "EQ": ("=", ()), "NEQ": ("<>", ()), "LT": ("<", ()), "LTE": ("<=", ()),
    "GT": (">", ()), "GTE": (">=", ()), "And": ("and", ()), "Or": ("or", ()),
    "NullSafeEQ": ("is", ()), "NullSafeNEQ": ("is not", ()), "RegexpLike": ("matches", ()),
    "Pow": ("power", ()), "Nullif": ("nullif", ()), "Left": ("left", ()), "Right": ("right", ()),
    "StartsWith": ("starts_with", ()), "EndsWith": ("ends_with", ()),
    "Contains": ("contains", ()), "Not": ("not", ("this",)), "Neg": ("negative", ("this",)),
    "Abs": ("abs", ("this",)), "Sign": ("sign", ("this",)), "Sqrt": ("sqrt", ("this",)),
    "Cbrt": ("cbrt", ("this",)), "Ln": ("ln", ("this",)), "Exp": ("exp", ("this",)),
    "Floor": ("floor", ("this",)), "Ceil": ("ceil", ("this",)), "Trunc": ("trunc", ("this",)),
    "Sin": ("sin", ("this",)), "Cos": ("cos", ("this",)), "Tan": ("tan", ("this",)),
    "Asin": ("asin", ("this",)), "Acos": ("acos", ("this",)), "Atan": ("atan", ("this",)),
    "Sinh": ("sinh", ("this",)), "Cosh": ("cosh", ("this",)), "Tanh": ("tanh", ("this",)),
    "IsNan": ("is nan", ("this",)), "Pi": ("pi", ("none",)),
    "Round": ("round", ("this", "decimals")), "Upper": ("upper", ("this",)),
    "Lower": ("lower", ("this",)), "Length": ("length", ("this",)),
    "Reverse": ("reverse", ("this",)), "Substring": ("substring", ("this", "start", "length")),
    "StrPosition": ("position", ("this", "substr")), "Repeat": ("repeat", ("this", "times")),
    "Replace": ("replace", ("this", "expression", "replacement")),
    "TimeToStr": ("strftime", ("this", "format")), "LastDay": ("last_day", ("this",)),
    "DateFromParts": ("make_date", ("year", "month", "day")),
    "Dayname": ("dayname", ("this",)), "Monthname": ("monthname", ("this",)),
    "Year": ("year", ("this",)), "Quarter": ("quarter", ("this",)), "Month": ("month", ("this",)),
    "Week": ("week", ("this",)), "WeekOfYear": ("week", ("this",)), "Day": ("day", ("this",)),
    "DayOfMonth": ("day", ("this",)), "DayOfWeek": ("dayofweek", ("this",)),
    "DayOfWeekIso": ("isodow", ("this",)), "DayOfYear": ("dayofyear", ("this",)),
    "Hour": ("hour", ("this",)), "Minute": ("minute", ("this",)), "Second": ("second", ("this",)),
    "TimeToUnix": ("epoch", ("this",)),
}
_NAMED = {"prefix": "starts_with", "suffix": "ends_with", "instr": "position", "ceiling": "ceil"}
_FIELDS = {"dow": "dayofweek", "doy": "dayofyear", "weekofyear": "week", "dayofmonth": "day",
           **{f: f for f in FIELDS}}
_TYPES = {
    "INT": Type.INTEGER, "BIGINT": Type.INTEGER, "SMALLINT": Type.INTEGER,
    "TINYINT": Type.INTEGER, "INT128": Type.INTEGER, "UINT": Type.INTEGER,
    "USMALLINT": Type.INTEGER, "UTINYINT": Type.INTEGER, "UBIGINT": Type.INTEGER,
    "DOUBLE": Type.DOUBLE, "FLOAT": Type.FLOAT, "DECIMAL": Type.DOUBLE, "BOOLEAN": Type.BOOLEAN,
    "VARCHAR": Type.TEXT, "TEXT": Type.TEXT, "CHAR": Type.TEXT, "NVARCHAR": Type.TEXT,
    "DATE": Type.DATE, "TIMESTAMP": Type.TIMESTAMP, "DATETIME": Type.TIMESTAMP,
    "TIMESTAMPNTZ": Type.TIMESTAMP,
}
_INTERVALS = {"year": (12, 0, 0), "quarter": (3, 0, 0), "month": (1, 0, 0), "week": (0, 7, 0),
              "day": (0, 1, 0), "hour": (0, 0, 3_600_000_000), "minute": (0, 0, 60_000_000),
              "second": (0, 0, 1_000_000)}


class Expressions:
    """Binds the expressions of one query in a scope."""

    def __init__(self, places: Places, scope: Scope, subqueries: Subqueries) -> None:
        self.places = places
        self.scope = scope
        self.subqueries = subqueries
        self.typed = Typed(places)

    def of(self, node: Node) -> Scalar:
        """The typed scalar of a node."""
        known = self.scope.aggregates.get(id(node))
        if known is not None:
            return known
        name = kind(node)
        special: Callable[[Node], Scalar] | None = getattr(self, f"_{name.lower()}", None)
        if special is not None:
            return special(node)
        if name in CALLS:
            function, parts = CALLS[name]
            self.places.only(node, *(parts or ("this", "expression")))
            return self.call(function, node, self._parts(node, parts))
        if hasattr(node, "sql_names"):
            self.places.outside(f"the function {node.sql_names()[0].lower()}", node)
        self.places.outside(node.key.upper(), node)

    def call(self, function: str, node: Node, args: list[Node]) -> Scalar:
        """A function of the values of nodes."""
        return self.typed.call(function, [self.of(a) for a in args], node)

    def _parts(self, node: Node, names: tuple[str, ...]) -> list[Node]:
        found = [node.args.get(n) for n in names or ("this", "expression")]
        return [f for f in found if f is not None]

    def test(self, node: Node) -> Scalar:
        """A condition."""
        found = self.of(node)
        if found.type is Type.NULL:
            return Literal(None, Type.BOOLEAN)
        if found.type is not Type.BOOLEAN:
            self.places.fail(f"a condition is wanted, this is a {found.type.value}", node,
                             "compare it, e.g. x <> 0")
        return found

    # -- names and literals --------------------------------------------------------------------
    def _column(self, node: Node) -> Scalar:
        self.places.only(node, "this", "table")
        if kind(node.this) == "Star":
            self.places.fail("* stands for columns of a SELECT list", node)
        aliases = self.scope.aliases
        if not node.table and node.name.lower() in aliases and self.scope.find(node) is None:
            named = aliases.pop(node.name.lower())  # a name is not explained by itself
            try:
                return self.of(named)
            finally:
                aliases[node.name.lower()] = named
        return self.scope.column(node)

    def _literal(self, node: Node) -> Scalar:
        if node.is_string:
            return Literal(node.this, Type.TEXT)
        if node.this.isdigit() and int(node.this) < 2**63:
            return Literal(int(node.this), Type.INTEGER)
        return Literal(float(node.this), Type.DOUBLE)

    def _boolean(self, node: Node) -> Scalar:
        return Literal(bool(node.this), Type.BOOLEAN)

    def _null(self, node: Node) -> Scalar:
        return Literal(None, Type.NULL)

    def _neg(self, node: Node) -> Scalar:
        inner = self.of(node.this)
        if isinstance(inner, Literal) and isinstance(inner.value, (int, float)):
            return Literal(-inner.value, inner.type)
        return self.typed.call("negative", [inner], node)

    def _paren(self, node: Node) -> Scalar:
        return self.of(node.this)

    def _interval(self, node: Node) -> Scalar:
        unit = node.args.get("unit")
        name = "" if unit is None else str(unit.this).lower().rstrip("s")
        value = self.of(node.this)
        number = value.value if isinstance(value, Literal) else None
        if isinstance(number, str):
            words = number.split()
            if len(words) == 2 and not name:
                name = words[1].lower().rstrip("s")
            number = int(words[0]) if words and words[0].lstrip("+-").isdigit() else None
        if not isinstance(number, int) or name not in _INTERVALS:
            self.places.outside("an interval that is no whole number of a unit", node)
        months, days, micros = _INTERVALS[name]
        return Literal((months * number, days * number, micros * number), Type.INTERVAL)

    # -- tests ---------------------------------------------------------------------------------
    def _not(self, node: Node) -> Scalar:
        inner = node.this
        while kind(inner) == "Paren":
            inner = inner.this
        if kind(inner) == "In" and inner.args.get("query") is not None:
            return self.subqueries.is_in(self, inner, False)
        return negated(self.test(node.this))

    def _is(self, node: Node) -> Scalar:
        value, what = self.of(node.this), node.expression
        if kind(what) == "Null":
            return is_null(value) if value.nullable else Literal(False, Type.BOOLEAN)
        if kind(what) == "Boolean" and value.type is Type.BOOLEAN:
            return compare("is", value, Literal(bool(what.this), Type.BOOLEAN))
        self.places.outside("IS with anything but NULL, TRUE and FALSE", node)

    def _between(self, node: Node) -> Scalar:
        self.places.only(node, "this", "low", "high")
        value = self.of(node.this)
        tests = [self.typed.call(">=", [value, self.of(node.args["low"])], node),
                 self.typed.call("<=", [value, self.of(node.args["high"])], node)]
        return self.typed.call("and", tests, node)

    def _in(self, node: Node) -> Scalar:
        self.places.only(node, "this", "query", "expressions")
        if node.args.get("query") is not None:
            return self.subqueries.is_in(self, node, True)
        if kind(node.this) == "Tuple":
            self.places.outside("IN of tuples", node)
        args = self.typed.alike([self.of(node.this), *map(self.of, node.expressions)], "IN", node)
        return Call("in", tuple(args), Type.BOOLEAN, any(a.nullable for a in args))

    def _like(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expression", "negate")
        found = self.call(kind(node).lower(), node, [node.this, node.expression])
        return negated(found) if node.args.get("negate") else found

    _ilike = _like

    def _escape(self, node: Node) -> Scalar:
        """A character that makes the next one of a pattern stand for itself."""
        like = node.this
        if kind(like) not in ("Like", "ILike"):
            self.places.outside(f"{like.key.upper()} with ESCAPE", node)
        self.places.only(like, "this", "expression", "negate")
        found = self.call(kind(like).lower(), node, [like.this, like.expression, node.expression])
        return negated(found) if like.args.get("negate") else found

    def _window(self, node: Node) -> Scalar:
        self.places.fail("a window function stands in SELECT, QUALIFY and ORDER BY", node,
                         "compute it in a subquery")

    def _exists(self, node: Node) -> Scalar:
        return self.subqueries.exists(self, node.this)

    def _subquery(self, node: Node) -> Scalar:
        return self.subqueries.single(self, node.this)

    def _select(self, node: Node) -> Scalar:
        return self.subqueries.single(self, node)

    # -- choices -------------------------------------------------------------------------------
    def _case(self, node: Node) -> Scalar:
        self.places.only(node, "this", "ifs", "default")
        subject = None if node.this is None else self.of(node.this)
        tests, values = [], []
        for branch in node.args["ifs"]:
            if subject is None:
                tests.append(self.test(branch.this))
            else:
                tests.append(self.typed.call("=", [subject, self.of(branch.this)], branch))
            values.append(self.of(branch.args["true"]))
        default = node.args.get("default")
        values.append(Literal(None, Type.NULL) if default is None else self.of(default))
        return self._chosen(tests, values, node)

    def _if(self, node: Node) -> Scalar:
        self.places.only(node, "this", "true", "false")
        other = node.args.get("false")
        values = [self.of(node.args["true"]),
                  Literal(None, Type.NULL) if other is None else self.of(other)]
        return self._chosen([self.test(node.this)], values, node)

    def _chosen(self, tests: list[Scalar], values: list[Scalar], node: Node) -> Scalar:
        values = self.typed.alike(values, "CASE", node)
        args = [x for pair in zip(tests, values) for x in pair] + [values[-1]]
        return Call("case", tuple(args), values[-1].type, any(v.nullable for v in values))

    def _coalesce(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expressions")
        return self.call("coalesce", node, [node.this, *node.expressions])

    def _greatest(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expressions")
        return self.call("greatest", node, [node.this, *node.expressions])

    def _least(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expressions")
        return self.call("least", node, [node.this, *node.expressions])

    # -- conversions and functions ---------------------------------------------------------------
    def _cast(self, node: Node, lenient: bool = False) -> Scalar:
        wanted = node.args["to"]
        into = _TYPES.get(wanted.this.name if hasattr(wanted.this, "name") else "")
        if into is None:
            self.places.outside(f"the type {wanted.sql()}", node)
        return self.typed.cast(self.of(node.this), into, node, lenient)

    def _trycast(self, node: Node) -> Scalar:
        return self._cast(node, True)

    def _date(self, node: Node) -> Scalar:
        return self.typed.cast(self.of(node.this), Type.DATE, node)

    def _log(self, node: Node) -> Scalar:
        """``log(x)`` is decadic, ``log(b, x)`` to base b."""
        base, of = (None, node.this) if node.expression is None else (node.this, node.expression)
        if base is None or (kind(base) == "Literal" and base.this in ("10", "2")):
            name = "log10" if base is None or base.this == "10" else "log2"
            return self.call(name, node, [of])
        over = [self.call("ln", node, [x]) for x in (of, base)]
        return self.typed.call("/", over, node)

    def _concat(self, node: Node) -> Scalar:
        """Nulls count as empty."""
        empty = Literal("", Type.TEXT)
        found: Scalar = empty
        for part in node.expressions:
            value = self.typed.cast(self.of(part), Type.TEXT, part)
            if value.nullable:
                value = self.typed.call("coalesce", [value, empty], part)
            found = value if found == empty else self.typed.call("||", [found, value], part)
        return found

    def _dpipe(self, node: Node) -> Scalar:
        parts = [self.typed.cast(self.of(p), Type.TEXT, p) for p in (node.this, node.expression)]
        return self.typed.call("||", parts, node)

    def _trim(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expression")
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(node.args.get("position"), "trim")
        return self.call(name, node, self._parts(node, ("this", "expression")))

    def _pad(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expression", "fill_pattern")
        name = "lpad" if node.args.get("is_left") else "rpad"
        return self.call(name, node, self._parts(node, ("this", "expression", "fill_pattern")))

    def _extract(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expression")
        return self._field(str(node.this.this), node.expression, node)

    def _field(self, name: str, of: Node, node: Node) -> Scalar:
        field = _FIELDS.get(name.lower())
        if field is None:
            self.places.outside(f"the part {name} of a time", node)
        return self.call(field, node, [of])

    def _unit(self, node: Node) -> str:
        unit = str(node.args["unit"].this).lower()
        if unit not in UNITS:
            self.places.outside(f"the unit {unit}", node)
        return unit

    def _timestamptrunc(self, node: Node) -> Scalar:
        self.places.only(node, "this", "unit")
        when = self.of(node.this)
        if when.type is Type.DATE:
            when = self.typed.cast(when, Type.TIMESTAMP, node)
        return self.typed.call(f"trunc {self._unit(node)}", [when], node)

    _datetrunc = _timestamptrunc

    def _datediff(self, node: Node) -> Scalar:
        self.places.only(node, "this", "expression", "unit")
        unit = self._unit(node)
        times = [self.typed.cast(self.of(x), Type.TIMESTAMP, x)
                 if self.of(x).type is Type.DATE and unit in ("hour", "minute", "second")
                 else self.of(x) for x in (node.expression, node.this)]
        return self.typed.call(f"{unit}s between", self.typed.alike(times, "date_diff", node), node)

    def _dateadd(self, node: Node) -> Scalar:
        return self.call("+", node, [node.this, node.expression])

    def _datesub(self, node: Node) -> Scalar:
        return self.call("-", node, [node.this, node.expression])

    def _anonymous(self, node: Node) -> Scalar:
        name = str(node.this).lower()
        if name in ("date_part", "datepart") and len(node.expressions) == 2:
            return self._field(str(node.expressions[0].this), node.expressions[1], node)
        values = [self.of(a) for a in node.expressions]
        if any(v.type is Type.MATRIX for v in values):
            return Call(f"matrix {name}", tuple(values), Type.MATRIX, False)
        function = _NAMED.get(name, name)
        if function not in FUNCTIONS or not function[0].isalpha() or " " in function:
            self.places.outside(f"the function {name}", node)
        return self.typed.call(function, values, node)
