"""Rules as values and a bottom-up rewriter that counts what fires.

A rule has a name that states its law, a pattern over expressions, a builder and a guard. Patterns
use the calculus itself: ``Var("a")`` matches any expression, ``Lit("c")`` a literal,
``Op("f", args)`` any operator that the guard accepts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tensorel.algebra.ops import Operator
from tensorel.ir.nodes import Call, Const, Expr, Read, Reduce
from tensorel.records import dataclass, field


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
    """Matches a call. ``op``: an operator, or a name that binds whichever operator stands there."""

    op: Operator | str
    args: tuple[Pattern, ...]


Pattern = Var | Lit | Op
Match = dict[str, object]


@dataclass(frozen=True, slots=True)
class Rule:
    """``pattern -> build`` where ``when`` holds. ``law`` names the algebraic reason."""

    name: str
    pattern: Op
    build: Callable[[Match], Expr | None]
    law: str
    when: Callable[[Match], bool] = field(default=lambda m: True)

    @property
    def root(self) -> str | None:
        """The operator at the root, None if any."""
        return self.pattern.op.name if isinstance(self.pattern.op, Operator) else None


def match(pattern: Pattern, e: Expr, found: Match) -> bool:
    """Extend ``found`` so that the pattern is ``e``."""
    match pattern:
        case Var(name):
            return found.setdefault(name, e) is e
        case Lit(name):
            return isinstance(e, Const) and found.setdefault(name, e) is e
        case Op(op, args):
            if not isinstance(e, Call) or len(e.args) != len(args):
                return False
            if isinstance(op, str):
                if found.setdefault(op, e.op) is not e.op:
                    return False
            elif e.op is not op:
                return False
            found["dtype"] = found.get("dtype", e.dtype)
            return all(_match(p, a, found) for p, a in zip(args, e.args))


_match = match


class Rewriter:
    """Applies rules bottom-up until none fires; counts by name."""

    def __init__(self, rules: Iterable[Rule], fired: Callable[[str], None]) -> None:
        self.by_root: dict[str | None, list[Rule]] = {}
        for r in rules:
            self.by_root.setdefault(r.root, []).append(r)
        self.fired = fired
        self.memo: dict[Expr, Expr] = {}

    def run(self, e: Expr) -> Expr:
        found = self.memo.get(e)
        if found is None:
            found = self.memo[e] = self._fix(self._children(e))
        return found

    def _children(self, e: Expr) -> Expr:
        match e:
            case Call():
                return Call(e.op, tuple(self.run(a) for a in e.args))
            case Reduce():
                return Reduce(e.op, e.axes, self.run(e.body))
            case Read():
                return Read(e.tensor, tuple(self.run(i) for i in e.indices))
            case _:
                return e

    def _fix(self, e: Expr) -> Expr:
        """Rules that fire at the root, then below again."""
        while isinstance(e, Call):
            new = self._once(e)
            if new is None:
                return e
            e = self._children(new) if isinstance(new, Call) else new
        return e

    def _once(self, e: Call) -> Expr | None:
        for rule in (*self.by_root.get(e.op.name, ()), *self.by_root.get(None, ())):
            m: Match = {}
            if _match(rule.pattern, e, m) and rule.when(m):
                new: Expr | None = rule.build(m)
                if new is not None and new is not e and new.dtype == e.dtype:
                    self.fired(rule.name)
                    return new
        return None
