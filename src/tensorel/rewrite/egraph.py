"""Equality saturation over expressions: all forms that the rules reach, in one shared graph.

A class holds nodes that are equal for all values of their free indices; a node is an operator (or
a reduction with its axes) over classes, or a leaf: a read, a literal, an index. Reads are leaves
with their indices. Names of bound indices are part of the nodes, so callers give equal names to
equal reductions and different names to others (``names.rename_bound``); rules that move an
expression over a binder ask for its free indices.

Arguments of commutative operators are one node in either order; the order that was added first is
the one that comes out. Everything is ordered by insertion: the same program gives the same graph
in every process, unless a limit in seconds is set.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tensorel.algebra.ops import DType, Operator
from tensorel.errors import TensorelError
from tensorel.ir.analysis import apply
from tensorel.ir.nodes import Axis, Call, Const, Expr, Reduce, const
from tensorel.ir.replacing import with_parts
from tensorel.rewrite.ematch import Bound, Kids
from tensorel.rewrite.facts import Facts, Handle, Known
from tensorel.rewrite.names import postorder

Head = Operator | Bound | Expr


class Term(NamedTuple):
    """A node as analyses and costs see it: a leaf, or an operator (of a reduction, if there are
    axes) over classes."""

    op: Operator | None
    axes: tuple[Axis, ...]
    leaf: Expr | None
    kids: Kids
    dtype: DType
    free: frozenset[str]


class Analysis(NamedTuple):
    """A caller's fold: a value for a node from its children's values, and the join of the values
    of two nodes that turned out equal. Joins must not run in circles (a semilattice)."""

    make: Callable[[Term, list[Any]], Any]
    join: Callable[[Any, Any], Any]


class EClass:
    """Nodes known to be equal, and what is known of their value."""

    __slots__ = ("calls", "const", "dtype", "exact", "facts", "free", "handle", "leaves", "parents",
                 "reduces", "values")

    def __init__(self, dtype: DType, free: frozenset[str], literal: Const | None, facts: Known,
                 values: dict[str, Any], exact: bool) -> None:
        self.calls: dict[Operator, dict[Kids, None]] = {}
        self.reduces: dict[Bound, dict[Kids, None]] = {}
        self.leaves: dict[Expr, None] = {}
        self.parents: list[tuple[Head, Kids, int]] = []
        self.dtype = dtype
        self.exact = exact  # floats of a strict graph
        self.free = free
        self.const = literal
        self.facts = facts
        self.values = values
        self.handle: Expr | None = None


class EGraph:
    """The graph. ``strict``: floats are equal to the last bit, so nothing reassociates them, and
    min and max, which choose between zeros of both signs by position, do not commute."""

    def __init__(self, facts: Facts | None = None, analyses: Mapping[str, Analysis] | None = None,
                 strict: bool = False) -> None:
        self.classes: list[EClass] = []
        self.up: list[int] = []
        self.table: dict[tuple[Head, Kids], int] = {}
        self.origin: list[tuple[Head, Kids]] = []  # the node that a class was made for
        self.facts = facts or Facts()
        self.analyses = dict(analyses or {})
        self.strict = strict
        self.size = 0
        self.pending: list[int] = []  # classes that went into others
        self.stale: dict[int, None] = {}  # classes of which more is known
        self.changed: dict[int, None] = {}  # classes, since the last search
        self.fresh: set[tuple[Head, Kids]] = set()  # nodes, since the last search
        self.learned: dict[int, None] = {}  # classes that guards above may see with other eyes

    # -- classes -----------------------------------------------------------------------------
    def find(self, c: int) -> int:
        up = self.up
        while up[c] != c:
            up[c] = up[up[c]]
            c = up[c]
        return c

    def __getitem__(self, c: int) -> EClass:
        return self.classes[self.find(c)]

    def handle(self, c: int) -> Expr:
        """The class as an expression that rules can build with: its literal, if it has one."""
        c = self.find(c)
        cls = self.classes[c]
        found = cls.handle
        if found is None:
            found = cls.const or Handle(c, cls.dtype, cls.free, cls.facts)
            cls.handle = found
        return found

    def ids(self) -> list[int]:
        return [c for c, up in enumerate(self.up) if c == up]

    def equal(self, a: Expr, b: Expr) -> bool:
        """Whether two expressions are known to be equal."""
        return self.find(self.add(a)) == self.find(self.add(b))

    # -- adding ------------------------------------------------------------------------------
    def add(self, e: Expr) -> int:
        """The class of ``e``, with classes for all that is below."""
        memo: dict[Expr, int] = {}
        for x in postorder(e):
            match x:
                case Handle():
                    memo[x] = self.find(x.id)
                case Call():
                    memo[x] = self.make(x.op, tuple([self.find(memo[a]) for a in x.args]))
                case Reduce():
                    memo[x] = self.make(_bound(x), (self.find(memo[x.body]),))
                case _:
                    memo[x] = self.make(x, ())
        return self.find(memo[e])

    def add_small(self, e: Expr) -> int:
        """As ``add`` for the few nodes that a rule builds over handles."""
        kind = type(e)
        if kind is Handle:
            return self.find(e.id)  # type: ignore[attr-defined]
        if kind is Call:
            args = e.args  # type: ignore[attr-defined]
            kids = tuple([self.add_small(a) for a in args])
            if self.pending:  # folding a literal merged classes meanwhile
                kids = tuple([self.find(k) for k in kids])
            return self.make(e.op, kids)  # type: ignore[attr-defined]
        if kind is Reduce:
            return self.make(_bound(e), (self.add_small(e.body),))  # type: ignore[arg-type,attr-defined]
        return self.make(e, ())

    def _key(self, head: Head, kids: Kids) -> tuple[Head, Kids]:
        if len(kids) == 2 and kids[1] < kids[0] and isinstance(head, Operator) \
                and head.commutative and not (head.idempotent and self.classes[kids[0]].exact):
            return head, (kids[1], kids[0])
        return head, kids

    def make(self, head: Head, kids: Kids) -> int:
        """The class of a node over canonical children."""
        key = self._key(head, kids)
        found = self.table.get(key)
        if found is not None:
            return self.find(found)
        dtype, free, literal, facts, values = self._data(head, kids)
        c = len(self.classes)
        exact = self.strict and dtype.kind in "fc"
        self.classes.append(EClass(dtype, free, literal, facts, values, exact))
        self.up.append(c)
        self.origin.append((head, kids))
        self.table[key] = c
        self._insert(c, head, kids)
        for k in kids:
            self.classes[k].parents.append((head, kids, c))
        self.changed[c] = None
        if literal is not None and head is not literal:
            c = self.union(c, self.make(literal, ()))
        return c

    def _insert(self, c: int, head: Head, kids: Kids) -> None:
        cls = self.classes[c]
        self.size += 1
        self.fresh.add((head, kids))
        if isinstance(head, Operator):
            cls.calls.setdefault(head, {})[kids] = None
        elif isinstance(head, tuple):
            cls.reduces.setdefault(head, {})[kids] = None
        else:
            cls.leaves[head] = None

    def _remove(self, c: int, head: Head, kids: Kids) -> None:
        cls = self.classes[c]
        nodes: dict[Kids, None] | None = None
        if isinstance(head, Operator):
            nodes = cls.calls.get(head)
        elif isinstance(head, tuple):
            nodes = cls.reduces.get(head)
        if nodes is not None and kids in nodes:
            del nodes[kids]
            self.size -= 1

    # -- what is known -----------------------------------------------------------------------
    def term(self, head: Head, kids: Kids) -> Term:
        below = [self.classes[k] for k in kids]
        if isinstance(head, Operator):
            dtype = head.resolve(*[b.dtype for b in below])[1]
            return Term(head, (), None, kids, dtype, frozenset().union(*[b.free for b in below]))
        if isinstance(head, tuple):
            op, axes = head
            free = below[0].free.difference([a.name for a in axes])
            return Term(op, axes, None, kids, below[0].dtype, free)
        return Term(None, (), head, kids, head.dtype, head.free)

    def _data(self, head: Head, kids: Kids
              ) -> tuple[DType, frozenset[str], Const | None, Known, dict[str, Any]]:
        t = self.term(head, kids)
        below = [self.classes[k] for k in kids]
        literal: Const | None = None
        if t.leaf is not None:
            facts = self.facts.of_leaf(t.leaf)
            literal = t.leaf if isinstance(t.leaf, Const) else None
        elif t.axes or isinstance(head, tuple):
            assert t.op is not None
            facts = self.facts.reduce(t.op, below[0].facts, t.dtype)
        else:
            assert t.op is not None
            facts = self.facts.call(t.op, [b.facts for b in below], t.dtype)
            literal = _fold(t.op, [b.const for b in below])
        values = {
            name: a.make(t, [b.values[name] for b in below]) for name, a in self.analyses.items()}
        return t.dtype, t.free, literal, facts, values

    def _learn(self, c: int, free: frozenset[str], literal: Const | None, facts: Known,
               values: dict[str, Any]) -> bool:
        """Join knowledge into a class; whether anything was new. Of two sets of free indices the
        smaller holds, and a node that has it stays: the value depends on no other index."""
        cls = self.classes[c]
        new = False
        if free < cls.free:
            cls.free, new = free, True
        if cls.const is None and literal is not None:
            cls.const, new = literal, True
        if not facts <= cls.facts:
            cls.facts, new = cls.facts | facts, True
        for name, a in self.analyses.items():
            joined = a.join(cls.values[name], values[name])
            if joined != cls.values[name]:
                cls.values[name], new = joined, True
        if new:
            cls.handle = None
            self.stale[c] = None
        return new

    # -- merging -----------------------------------------------------------------------------
    def union(self, a: int, b: int) -> int:
        """Make two classes one; ``rebuild`` must follow before the next search."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return a
        if b < a:
            a, b = b, a
        into, gone = self.classes[a], self.classes[b]
        assert into.dtype == gone.dtype, "equal expressions have one dtype"
        self.up[b] = a
        for op, nodes in gone.calls.items():
            into.calls.setdefault(op, {}).update(nodes)
        for bound, nodes in gone.reduces.items():
            into.reduces.setdefault(bound, {}).update(nodes)
        into.leaves.update(gone.leaves)
        if not self._learn(a, gone.free, gone.const, gone.facts, gone.values) and (
                (into.free, into.const, into.facts, into.values)
                != (gone.free, gone.const, gone.facts, gone.values)):
            self.stale[a] = None  # for the parents of the one that is gone
        into.handle = None
        self.pending.append(b)
        self.changed[a] = None
        return a

    def rebuild(self) -> None:
        """Restore that equal nodes are one node and that knowledge is up to date."""
        while self.pending or self.stale:
            while self.pending:
                gone = self.classes[self.pending.pop()]
                for head, kids, c in gone.parents:
                    self._repair(head, kids, c)
                gone.parents = []
                gone.calls, gone.reduces, gone.leaves = {}, {}, {}
            if self.stale:
                stale, self.stale = self.stale, {}
                for c in dict.fromkeys([self.find(c) for c in stale]):
                    self._refresh(self.find(c))

    def _repair(self, head: Head, kids: Kids, c: int) -> None:
        c = self.find(c)
        old = self._key(head, kids)
        if old in self.table:
            del self.table[old]
        self._remove(c, head, kids)
        new = tuple([self.find(k) for k in kids])
        key = self._key(head, new)
        found = self.table.get(key)
        if found is not None:
            found = self.find(found)
            if found != c:
                self.union(found, c)
            return
        self.table[key] = c
        self._insert(c, head, new)
        for k in dict.fromkeys(new):
            self.classes[k].parents.append((head, new, c))
        self.changed[c] = None

    def _refresh(self, c: int) -> None:
        """Parents of a class of which more is known learn from it."""
        literal = self.classes[c].const
        if literal is not None and literal not in self.classes[c].leaves:
            c = self.union(c, self.make(literal, ()))
        for head, kids, parent in list(self.classes[c].parents):
            kids = tuple([self.find(k) for k in kids])
            parent = self.find(parent)
            _, *data = self._data(head, kids)
            self._learn(parent, *data)  # type: ignore[arg-type]
        self.learned[c] = None

    # -- reading back ------------------------------------------------------------------------
    def nodes(self, c: int) -> list[tuple[Head, Kids]]:
        """All nodes of a class, leaves first, in order of insertion."""
        cls = self[c]
        found: list[tuple[Head, Kids]] = [(leaf, ()) for leaf in cls.leaves]
        found.extend((op, k) for op, nodes in cls.calls.items() for k in nodes)
        found.extend((bound, k) for bound, nodes in cls.reduces.items() for k in nodes)
        return found

    def first(self, c: int) -> Expr:
        """The expression that class ``c`` was made for (``c`` as it was then)."""
        return spelled(c, self.origin.__getitem__)

    def expand(self, e: Expr) -> Expr:
        """``e`` with each handle replaced by the expression that its class was made for."""
        return self.first(e.id) if isinstance(e, Handle) else with_parts(e, self.expand)


def _bound(e: Reduce) -> Bound:
    return e.op, tuple(sorted(e.axes)) if e.op.commutative and len(e.axes) > 1 else e.axes


def build(head: Head, kids: list[Expr]) -> Expr:
    """The expression of a node over expressions."""
    if isinstance(head, Operator):
        return Call(head, tuple(kids))
    if isinstance(head, tuple):
        return Reduce(head[0], head[1], kids[0])
    return head


def spelled(root: int, node_of: Callable[[int], tuple[Head, Kids]]) -> Expr:
    """The expression that the nodes spell of which one is chosen for each class."""
    done: dict[int, Expr] = {}
    stack = [root]
    while stack:
        c = stack[-1]
        head, kids = node_of(c)
        missing = [k for k in kids if k not in done]
        if missing:
            stack.extend(missing)
            continue
        stack.pop()
        done[c] = build(head, [done[k] for k in kids])
    return done[root]


def _fold(op: Operator, args: list[Const | None]) -> Const | None:
    known = [a for a in args if a is not None]
    if len(known) < len(args) or op.expand is not None:
        return None
    try:
        return const(apply(op, *(a.value for a in known)))
    except (ValueError, TypeError, ZeroDivisionError, TensorelError):
        return None
