"""Window functions: what each row is told of the rows of its partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tensorel.sql.aggregates import AGGREGATES
from tensorel.sql.algebra import Bound, SortKey, Window, WindowCall
from tensorel.sql.functions import Function, takes
from tensorel.sql.grouping import CALLS
from tensorel.sql.parsing import Node, kind
from tensorel.sql.scalars import Column, Literal, Scalar
from tensorel.sql.types import Type

if TYPE_CHECKING:
    from tensorel.sql.expressions import Expressions

_RANK = Function(0, 0, lambda t: Type.INTEGER)
_SHARE = Function(0, 0, lambda t: Type.DOUBLE)
_SAME = Function(1, 1, lambda t: None if t[0] in (Type.INTERVAL, Type.MATRIX) else t[0],
                 partial=True)
_NTH = Function(2, 2, lambda t: _SAME.result(t[:1]) if t[1] is Type.INTEGER else None,
                partial=True)
#: Functions of windows alone, by the class of their nodes.
_NODES = {"RowNumber": "row_number", "Rank": "rank", "DenseRank": "dense_rank",
          "PercentRank": "percent_rank", "CumeDist": "cume_dist", "Ntile": "ntile", "Lag": "lag",
          "Lead": "lead", "FirstValue": "first_value", "LastValue": "last_value",
          "NthValue": "nth_value"}
FUNCTIONS: Mapping[str, Function] = {
    "row_number": _RANK, "rank": _RANK, "dense_rank": _RANK, "percent_rank": _SHARE,
    "cume_dist": _SHARE, "ntile": Function(1, 1, takes(Type.INTEGER, (Type.INTEGER,))),
    "lag": _SAME, "lead": _SAME, "first_value": _SAME, "last_value": _SAME, "nth_value": _NTH,
    **{n: AGGREGATES[n] for n in ("count", "sum", "avg", "min", "max", "bool_and", "bool_or",
                                  "count_if", "product")},
}


def windows_in(node: Node) -> Iterator[Node]:
    """The window functions of an expression, not those of subqueries."""
    if kind(node) == "Window":
        yield node
    elif kind(node) not in ("Select", "Union", "Intersect", "Except", "Subquery"):
        for child in node.iter_expressions():
            yield from windows_in(child)


class Windows:
    """The window functions of one query. They see groups where the query has these."""

    def __init__(self, bind: Expressions, node: Node) -> None:
        self.bind = bind
        self.places = bind.places
        self.named = {str(w.this.name).lower(): w for w in node.args.get("windows") or ()}

    def run(self, parts: Sequence[Node]) -> None:
        """The plan of the scope with a column for each window function in these nodes."""
        nodes = [w for p in parts for w in windows_in(p)]
        scope = self.bind.scope
        made: dict[WindowCall, Column] = {}
        columns: dict[int, Column] = {}
        for n in nodes:
            call, type_, nullable = self._call(n)
            if call not in made:
                made[call] = scope.numbers.new(type_, call.function, nullable)
            columns[id(n)] = made[call]
        if made:
            scope.plan = Window(scope.plan, tuple([(c, w) for w, c in made.items()]))
            scope.aggregates.update(columns)

    def _of(self, node: Node) -> Scalar:
        inner = next(windows_in(node), None)
        if inner is not None:
            self.places.fail("a window function inside of a window function", inner,
                             "compute the inner one in a subquery")
        return self.bind.scope.grouped(self.bind.of(node), node)

    def _call(self, node: Node) -> tuple[WindowCall, Type, bool]:
        self.places.only(node, "this", "partition_by", "order", "spec", "alias", "over")
        function, where = node.this, None
        if kind(function) == "Filter":
            condition = function.expression.this
            where = self.bind.scope.grouped(self.bind.test(condition), condition)
            function = function.this
        name, args = self._function(function)
        given = FUNCTIONS[name].result([a.type for a in args[:_ARGUMENTS.get(name, 2)]])
        if given is None:
            shown = ", ".join(a.type.value for a in args)
            self.places.fail(f"{name} does not take ({shown})", function)
        if given is Type.MATRIX:
            self.places.outside(f"{name} of matrices in a window", function)
        partition, order, spec = self._parts(node)
        keys = tuple([self._of(p) for p in partition])
        if any(k.type is Type.MATRIX for k in keys):
            self.places.outside("a partition by matrices", node)
        by = tuple([self._sort_key(o) for o in (order.expressions if order is not None else ())])
        start, end = self._frame(spec, bool(by), name)
        offset = 1
        if name in ("lag", "lead", "nth_value", "ntile"):
            args, offset = self._with_offset(name, args, function)
        call = WindowCall(name, tuple(args), keys, by, start, end, where, offset)
        return call, given, FUNCTIONS[name].partial

    def _parts(self, node: Node) -> tuple[Sequence[Node], Node | None, Node | None]:
        """Partition, order and frame, where they are written."""
        found = [node.args.get(k) for k in ("partition_by", "order", "spec")]
        alias = node.args.get("alias")
        if alias is not None:
            named = self.named.get(str(alias.name).lower())
            if named is None:
                self.places.fail(f"there is no window {alias.name!r}", node,
                                 "name it: ... WINDOW w AS (ORDER BY x)")
            found = [a or b for a, b in zip(found, self._parts(named))]
        return found[0] or [], found[1], found[2]

    def _function(self, node: Node) -> tuple[str, list[Scalar]]:
        name = _NODES.get(kind(node)) or CALLS.get(kind(node), "")
        if kind(node) == "Anonymous":
            name = str(node.this).lower()
        if name not in FUNCTIONS:
            shown = name or node.key.upper()
            self.places.outside(f"{shown} as a window function", node)
        if name in _NODES.values():
            self.places.only(node, "this", "offset", "default")
            nodes = [node.args.get(k) for k in ("this", "offset", "default")]
        else:
            nodes = [node.this] if kind(node) != "Anonymous" else list(node.expressions)
        inner = nodes[0]
        if kind(inner) in ("Distinct", "Order", "IgnoreNulls") or kind(node) == "IgnoreNulls":
            self.places.outside(f"{name} with {kind(inner).upper()} in a window", node)
        if kind(inner) == "Star":
            nodes = []
        return name, [self._of(n) for n in nodes if n is not None]

    def _with_offset(self, name: str, args: list[Scalar], node: Node) -> tuple[list[Scalar], int]:
        """The arguments that are values of rows, and the number among them."""
        at = 0 if name == "ntile" else 1
        if len(args) <= at:
            return args, 1
        offset = args[at]
        if not isinstance(offset, Literal) or not isinstance(offset.value, int):
            self.places.outside(f"{name} with a number that is no literal", node)
        if name in ("ntile", "nth_value") and offset.value < 1:
            self.places.fail(f"{name} counts from 1", node)
        rest = [*args[:at], *args[at + 1:]]
        if len(rest) == 2:  # the value where there is no such row
            rest[1] = self.bind.typed.cast(rest[1], rest[0].type, node)
        return rest, int(offset.value)

    def _sort_key(self, node: Node) -> SortKey:
        value = self._of(node.this)
        if value.type is Type.MATRIX:
            self.places.outside("an order of matrices", node)
        return SortKey(value, bool(node.args.get("desc")), bool(node.args.get("nulls_first")))

    # -- frames --------------------------------------------------------------------------------
    def _frame(self, spec: Node | None, ordered: bool, name: str) -> tuple[Bound, Bound]:
        """From where to where the rows go that a function sees."""
        if spec is None or name in _WHOLE:
            return Bound(None), Bound(None) if not ordered else Bound(0, True)
        self.places.only(spec, "kind", "start", "start_side", "end", "end_side")
        rows = str(spec.args["kind"]).upper()
        if rows not in ("ROWS", "RANGE"):
            self.places.outside(f"a frame of {rows}", spec)
        start = self._bound(spec, "start", rows == "RANGE")
        end = Bound(0, rows == "RANGE")
        if spec.args.get("end") is not None:
            end = self._bound(spec, "end", rows == "RANGE")
        return start, end

    def _bound(self, spec: Node, which: str, peers: bool) -> Bound:
        value, side = spec.args[which], str(spec.args.get(f"{which}_side") or "").upper()
        if value == "UNBOUNDED":
            if (side == "PRECEDING") != (which == "start"):
                self.places.fail(f"a frame does not {which} with UNBOUNDED {side}", spec)
            return Bound(None)
        if value == "CURRENT ROW":
            return Bound(0, peers)
        offset = self.bind.of(value)
        if peers:
            self.places.outside("a RANGE of values", spec, "say ROWS")
        if not isinstance(offset, Literal) or not isinstance(offset.value, int) or (
                offset.value < 0):
            self.places.outside("a frame whose bound is no whole number", spec)
        return Bound(-offset.value if side == "PRECEDING" else offset.value)


#: How many arguments decide the type.
_ARGUMENTS = {"lag": 1, "lead": 1}
#: Functions that see the whole partition, whatever frame is said.
_WHOLE = frozenset({"row_number", "rank", "dense_rank", "percent_rank", "cume_dist", "ntile",
                    "lag", "lead"})
