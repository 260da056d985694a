"""Rules as values and a bottom-up rewriter that counts what fires.

A rule has a name that states its law, a pattern over expressions, a builder and a guard. Patterns
use the calculus itself: ``Var("a")`` matches any expression, ``Lit("c")`` a literal,
``Op("f", args)`` any operator that the guard accepts, ``Red("m", "axes", body)`` a reduction.

The same rule serves two engines. ``Rewriter`` replaces terms, arguments in the order written;
``egraph.EGraph`` keeps all forms, and there arguments of commutative operators match in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from tensorel.algebra.ops import Operator
from tensorel.base.records import dataclass, field
from tensorel.ir.nodes import Call, Const, Expr, Reduce
from tensorel.ir.replacing import with_parts
from tensorel.rewrite.facts import Facts


@dataclass(frozen=True, slots=True)
class Var:
    """Matches any expression; the same name matches the same expression."""

    name: str


@dataclass(frozen=True, slots=True)
class Lit:
    """Matches a literal."""

    name: str


@dataclass(frozen=True, slots=True)
class Op:
    """Matches a call. ``op``: an operator, or a name that binds whichever operator stands there,
    that ``when`` accepts and that ``under`` accepts below the operator at the root of the
    pattern. Both are asked before anything else, so they are cheaper than a guard."""

    op: Operator | str
    args: tuple[Pattern, ...]
    when: Callable[[Operator], bool] | None = None
    under: Callable[[Operator, Operator], bool] | None = None


@dataclass(frozen=True, slots=True)
class Red:
    """Matches a reduction; ``op`` as for ``Op``, ``axes`` is the name that binds its axes."""

    op: Operator | str
    axes: str
    body: Pattern
    when: Callable[[Operator], bool] | None = None
    under: Callable[[Operator, Operator], bool] | None = None


Pattern = Var | Lit | Op | Red
Match = dict[str, object]

SIMPLIFY, EXPLORE = "simplify", "explore"


@dataclass(frozen=True, slots=True)
class Rule:
    """``pattern -> build`` where ``when`` holds. ``law`` names the algebraic reason.

    family: ``simplify`` for what always improves, ``explore`` for laws used both ways.
    reassociates: on floats the law holds for real numbers, so up to rounding, signs of zero and
    overflow; left out for floats where results must be exact. On integers and booleans it is
    exact (modulo 2**n).
    """

    name: str
    pattern: Op | Red
    build: Callable[[Match], Expr | None]
    law: str
    when: Callable[[Match], bool] = field(default=lambda m: True)
    family: str = SIMPLIFY
    reassociates: bool = False

    @property
    def root(self) -> str | None:
        """The operator at the root, None if any."""
        return self.pattern.op.name if isinstance(self.pattern.op, Operator) else None

    def applies(self, e: Expr, strict: bool) -> bool:
        """Whether the rule may touch an expression of this dtype at all."""
        return not (strict and self.reassociates and e.dtype.kind in "fc")




def match(pattern: Pattern, e: Expr, found: Match) -> bool:
    """Extend ``found`` so that the pattern is ``e``."""
    match pattern:
        case Var(name):
            return found.setdefault(name, e) is e
        case Lit(name):
            return isinstance(e, Const) and found.setdefault(name, e) is e
        case Op(_, args):
            if not isinstance(e, Call) or len(e.args) != len(args):
                return False
            if not _operator(pattern, e.op, found):
                return False
            found["dtype"] = found.get("dtype", e.dtype)
            return all(_match(p, a, found) for p, a in zip(args, e.args))
        case Red(_, axes, body):
            if not isinstance(e, Reduce) or not _operator(pattern, e.op, found):
                return False
            found["dtype"] = found.get("dtype", e.dtype)
            return found.setdefault(axes, e.axes) == e.axes and _match(body, e.body, found)


_match = match


def _operator(pattern: Op | Red, op: Operator, found: Match) -> bool:
    if isinstance(pattern.op, Operator):
        return pattern.op is op
    if found.setdefault(pattern.op, op) is not op or not (pattern.when is None or pattern.when(op)):
        return False
    return pattern.under is None or pattern.under(cast(Operator, found["root"]), op)


class Given:
    """What a rule may ask beyond its match; found under ``given`` in the match."""

    def __init__(self, facts: Facts | None = None) -> None:
        self.facts = facts or Facts()

    def has(self, fact: str, e: Expr) -> bool:
        return fact in self.facts.of(e)

    def expand(self, e: Expr) -> Expr:
        """``e`` without handles: an expression that indices can be renamed in."""
        return e


class Rewriter:
    """Applies rules bottom-up until none fires; ``fired`` hears their names."""

    def __init__(self, rules: Iterable[Rule], fired: Callable[[str], None], *,
                 facts: Facts | None = None, strict: bool = False) -> None:
        self.by_root: dict[str | None, list[Rule]] = {}
        for r in rules:
            self.by_root.setdefault(r.root, []).append(r)
        self.fired = fired
        self.given = Given(facts)
        self.strict = strict
        self.memo: dict[Expr, Expr] = {}

    def run(self, e: Expr) -> Expr:
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._fix(with_parts(e, self.run))
        return found

    def _fix(self, e: Expr) -> Expr:
        """Rules that fire at the root, then below again."""
        while isinstance(e, (Call, Reduce)):
            new = self._once(e)
            if new is None:
                return e
            e = with_parts(new, self.run) if isinstance(new, (Call, Reduce)) else new
        return e

    def _once(self, e: Call | Reduce) -> Expr | None:
        for rule in (*self.by_root.get(e.op.name, ()), *self.by_root.get(None, ())):
            m: Match = {"given": self.given, "root": e.op}
            if _match(rule.pattern, e, m) and rule.applies(e, self.strict) and rule.when(m):
                new: Expr | None = rule.build(m)
                if new is not None and new is not e and new.dtype == e.dtype:
                    self.fired(rule.name)
                    return new
        return None
