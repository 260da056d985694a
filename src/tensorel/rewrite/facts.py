"""What is known of values beyond their dtype, for laws that fail on nan, inf or negative numbers.

    no_nan     never nan
    finite     never nan nor inf
    positive   greater than zero (and not nan)
    bounded    of magnitude at most 300 (in single precision 40), so that neither exp of it nor a
               product of two such overflows

Integers and booleans are finite by dtype. What leaves have is the caller's to say (statistics);
by default nothing is known and guarded laws stay still. Arithmetic on finite floats may overflow,
so only operators that select or flip values hand facts on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorel.algebra import ops
from tensorel.algebra.ops import DType, Operator
from tensorel.ir.nodes import Call, Const, Expr, Reduce
from tensorel.ir.ranges import subexpressions

Known = frozenset[str]
NOTHING: Known = frozenset()
WHOLE: Known = frozenset(("no_nan", "finite"))
MAX_BOUNDED_VALUE = {8: 300.0, 4: 40.0}

#: Operators whose result is one of their arguments, perhaps with another sign.
_SELECT = frozenset((ops.minimum, ops.maximum))
_FLIP = frozenset((ops.negative, ops.absolute, ops.positive, ops.conjugate))


class Handle(Expr):
    """Stands for a class of equal expressions while a rule builds its result."""

    __slots__ = ("dtype", "facts", "free", "id")
    __match_args__ = ("id", "dtype", "free", "facts")
    id: int
    dtype: DType
    free: frozenset[str]
    facts: Known
    reads = ()

    def __init__(self, id: int, dtype: DType, free: frozenset[str], facts: Known) -> None:
        set_ = object.__setattr__
        set_(self, "id", id)
        set_(self, "dtype", dtype)
        set_(self, "free", free)
        set_(self, "facts", facts)


def _nothing(leaf: Expr) -> Known:
    return NOTHING


class Facts:
    """The fold of facts over expressions; ``leaf`` says what a read, an index, a local has."""

    def __init__(self, leaf: Callable[[Expr], Known] = _nothing) -> None:
        self.leaf = leaf
        self.memo: dict[Expr, Known] = {}

    def of(self, e: Expr) -> Known:
        """What is known of ``e``.

        >>> sorted(Facts().of(Const(b"\\x01", ops.BOOL)))
        ['finite', 'no_nan']
        """
        for x in subexpressions(e) if e not in self.memo else ():
            if x in self.memo:
                continue
            match x:
                case Call():
                    found = self.call(x.op, [self.memo[a] for a in x.args], x.dtype)
                case Reduce():
                    found = self.reduce(x.op, self.memo[x.body], x.dtype)
                case _:
                    found = self.of_leaf(x)
            self.memo[x] = found
        return self.memo[e]

    def of_leaf(self, e: Expr) -> Known:
        if isinstance(e, Handle):
            return e.facts
        found = self.leaf(e) | _of_dtype(e.dtype)
        return found | _of_literal(e) if isinstance(e, Const) else found

    def call(self, op: Operator, args: Sequence[Known], dtype: DType) -> Known:
        common = _of_dtype(dtype)
        if op in _SELECT:
            common |= args[0] & args[1]
        elif op is ops.where:
            common |= args[1] & args[2]
        elif op in _FLIP:
            common |= args[0] - {"positive"}
        elif op is ops.exp and dtype.kind == "f":
            common |= {"no_nan"} & args[0]
            if "bounded" in args[0]:
                common |= {"no_nan", "finite", "positive"}
        return common

    def reduce(self, op: Operator, body: Known, dtype: DType) -> Known:
        return _of_dtype(dtype)


def _of_dtype(dtype: DType) -> Known:
    return WHOLE if dtype.kind in "biu" else NOTHING


def _of_literal(e: Const) -> Known:
    if e.dtype.kind == "c":
        value = abs(complex(e.value))
        return WHOLE if value < float("inf") else NOTHING
    value = e.value.item()
    found = set(_of_dtype(e.dtype))
    if value == value:
        found.add("no_nan")
        if abs(value) < float("inf"):
            found.add("finite")
        if abs(value) <= MAX_BOUNDED_VALUE.get(e.dtype.itemsize, 40.0):
            found.add("bounded")
        if value > 0:
            found.add("positive")
    return frozenset(found)


__all__ = ["Facts", "Handle", "Known"]
