"""What differs from turn to turn of a loop, and whether many turns can run at once.

A whole number that grows by the same amount with each turn is a *place*: it is kept for the first
turn alone, and what is read at a place that grows by one is a vector of neighbours. Everything else
that depends on the turn is a *vector*. All that remains is the same in every turn.
"""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.base.records import dataclass
from tensorel.ir.build import int_value
from tensorel.ir.nodes import INT64, Call, Const, Expr, Local, Read, postorder
from tensorel.kernels.loopir.queries import expressions, statements
from tensorel.kernels.loopir.statements import Assign, Comment, For, Stmt, Store

#: Operators that vectors have, by kinds of what they work on.
_ANY = frozenset((ops.where,))
_FLOATS = frozenset((
    ops.add, ops.subtract, ops.multiply, ops.divide, ops.negative, ops.square, ops.sqrt,
    ops.absolute, ops.minimum, ops.maximum, ops.floor, ops.ceil, ops.isnan, ops.equal,
    ops.not_equal, ops.less, ops.less_equal, ops.greater, ops.greater_equal))
_INTEGERS = frozenset((
    ops.add, ops.subtract, ops.multiply, ops.negative, ops.square, ops.minimum, ops.maximum,
    ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor, ops.equal, ops.not_equal, ops.less,
    ops.less_equal, ops.greater, ops.greater_equal))
_TRUTHS = frozenset((
    ops.add, ops.multiply, ops.minimum, ops.maximum, ops.logical_and, ops.logical_or,
    ops.logical_not, ops.logical_xor, ops.bitwise_and, ops.bitwise_or, ops.bitwise_xor))
_OPERATORS = {"f": _FLOATS, "i": _INTEGERS, "u": _INTEGERS, "b": _TRUTHS}
#: Operators that may leave an operand unevaluated, whose reads might be out of range.
_LAZY = (ops.where, ops.logical_and, ops.logical_or)


@dataclass(frozen=True, slots=True, eq=False)
class Varying:
    """``places``: by how much whole numbers grow with each turn, where they do. ``vectors``: other
    locals that differ from turn to turn."""

    places: dict[Local, int]
    vectors: set[Local]

    def growth(self, e: Expr) -> int | None:
        """By how much a value grows with each turn; None: it differs otherwise."""
        found: dict[object, int | None] = {}
        for x in postorder(e):
            match x:
                case Local():
                    found[x] = None if x in self.vectors else self.places.get(x, 0)
                case Read():
                    found[x] = 0 if all(found[i] == 0 for i in x.indices) else None
                case Call():
                    found[x] = _growth_of(x, [found[a] for a in x.args])
                case Const():
                    found[x] = 0
                case _:
                    continue
        return found[e]

    def differs(self, e: Expr) -> bool:
        """The value is a vector."""
        return self.growth(e) is None


def _growth_of(e: Call, by: list[int | None]) -> int | None:
    if not any(n != 0 for n in by):
        return 0
    if e.dtype != INT64 or any(a.dtype != INT64 for a in e.args):
        return None
    match e.op, by:
        case ops.add, [int(a), int(b)]:
            return a + b
        case ops.subtract, [int(a), int(b)]:
            return a - b
        case ops.multiply, [int(a), int(b)]:
            for factor, other in ((e.args[0], b), (e.args[1], a)):
                k = int_value(factor)
                if k is not None:
                    return k * other
    return None


def varying(body: tuple[Stmt, ...], target: Local) -> Varying:
    """What differs from turn to turn of ``for target in ...: body``."""
    found = Varying({target: 1}, set())
    known: dict[Local, int] = {}
    settled = False
    while not settled:
        settled = True
        for s in statements(body):
            if not isinstance(s, Assign) or s.target in found.vectors:
                continue
            by = found.growth(s.value)
            if by is None or (by and s.target.dtype != INT64) or known.get(s.target, by) != by:
                found.vectors.add(s.target)
                found.places.pop(s.target, None)
                settled = False
            elif s.target not in known:
                known[s.target] = by
                settled = False
                if by:
                    found.places[s.target] = by
    return found


def runs_at_once(body: tuple[Stmt, ...], found: Varying) -> bool:
    """Whether vectors can do what the body does: reads of neighbours or of one place for all,
    operators that vectors have, each result at a place of its own, once."""
    written = [s.array for s in statements(body) if isinstance(s, Store)]
    read = {e.tensor for s in statements(body) for e in postorder(*expressions(s))
            if isinstance(e, Read)}
    return len(set(written)) == len(written) and read.isdisjoint(written) and all(
        _fits_statement(s, found) for s in statements(body))


def _fits_statement(s: Stmt, found: Varying) -> bool:
    match s:
        case Assign(target=target, value=value):
            return target not in found.vectors or _is_vector(value, found)
        case Store(position=at, value=value):
            return found.growth(at) == 1 and _is_vector(value, found)
        case For(lo=lo, hi=hi):
            return found.growth(lo) == 0 == found.growth(hi)
        case _:
            return isinstance(s, Comment)


def _is_vector(root: Expr, found: Varying) -> bool:
    """Whether a value that may differ from turn to turn can be computed in a vector."""
    stack = [root]
    while stack:
        e = stack.pop()
        by = found.growth(e)
        if by == 0:
            continue
        if by is not None or e.dtype.kind not in _OPERATORS or not _fits(e, found):
            return False
        if isinstance(e, Call):
            stack.extend(e.args)
    return True


def _fits(e: Expr, found: Varying) -> bool:
    match e:
        case Local():
            return True
        case Read(indices=(at,)):
            return found.growth(at) == 1
        case Call(op=op, args=args):
            into = op.resolve(*[a.dtype for a in args])[0]
            if op.name.startswith("cast_"):
                return e.dtype.kind != "b" and _casts(args[0].dtype.kind, e.dtype.kind)
            if op in _LAZY and any(isinstance(x, Read) for x in postorder(*args)):
                return False
            if op is ops.where:
                return args[0].dtype.kind == "b" and all(a.dtype == e.dtype for a in args[1:])
            return all(a.dtype == d for a, d in zip(args, into)) \
                and op in _OPERATORS.get(into[0].kind, _ANY)
        case _:
            return False


def _casts(old: str, new: str) -> bool:
    return new != "c" and (old in "biu" or (old, new) == ("f", "f"))
