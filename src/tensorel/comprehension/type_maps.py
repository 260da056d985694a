"""Type maps as storage mappings in SDQLite.

    typemap low(n: Int): matrix { def view(a: Array) =
      [ ((i,j), a[i*(i+1)/2 + j]) | i <- 0..(n-1), j <- 0..i ] }

    sum(<i,_> in 0:n, <j,_> in 0:i+1) { (i,j) -> a(i*(i+1)/2 + j) }

The view says where each cell lies. Store, its inverse, is derived from it, and so is the packer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tensorel.comprehension import syntax as s

Fail = Callable[[str, int, str | None], NoReturn]


def as_mapping(m: s.TypeMap, fail: Fail) -> str:
    """The text of the mapping in SDQLite."""
    return _Writer(m, fail).text()


class _Writer:
    def __init__(self, made: s.TypeMap, fail: Fail) -> None:
        self.map = made
        self.fail = fail

    def text(self) -> str:
        view = self.map.view
        head = view.head
        if not isinstance(head, s.Tuple) or len(head.items) != 2:
            self.fail("a view is a list of keys and values", head.at, "[ (i, a[i]) | ... ]")
        keys, value = head.items
        listed = keys.items if isinstance(keys, s.Tuple) else (keys,)
        found = f"{{ ({', '.join(map(self.expr, listed))}) -> {self.expr(value)} }}"
        for q in reversed(view.qualifiers):
            found = self.around(q, found)
        return found

    def around(self, q: s.Qualifier, inside: str) -> str:
        match q:
            case s.Draw(pattern=s.Bind(name=name), source=s.Range(low=low, high=high)):
                return f"sum(<{name},_> in ({self.expr(low)}):({self.after(high)})) {inside}"
            case s.Let(pattern=s.Bind(name=name), value=value):
                return f"let {name} = {self.expr(value)} in {inside}"
            case s.Test():
                return f"if ({self.expr(q.condition)}) then {inside}"
        self.fail("a view has generators over ranges, let and conditions", q.at,
                  "i <- 0..(n-1)")

    def after(self, e: s.Expr) -> str:
        """One more."""
        if isinstance(e, s.Binary) and e.op == "-" and e.right == s.Number(1):
            return self.expr(e.left)
        return f"{self.expr(e)}+1"

    def expr(self, e: s.Expr) -> str:
        match e:
            case s.Number():
                return str(e.value).lower()
            case s.Name():
                return e.name
            case s.Unary():
                return f"({e.op}{self.expr(e.arg)})"
            case s.Binary():
                return f"({self.expr(e.left)} {e.op} {self.expr(e.right)})"
            case s.Access(target=s.Name(name=name), keys=keys):
                if name not in self.map.arrays:
                    self.fail(f"{name!r} is no array of the view", e.at,
                              f"its arrays are {', '.join(self.map.arrays)}")
                return f"{name}({', '.join(map(self.expr, keys))})"
            case s.If():
                parts = self.expr(e.test), self.expr(e.then), self.expr(e.otherwise)
                return "(if ({}) then {} else {})".format(*parts)
            case s.Call():
                return f"{e.function}({', '.join(map(self.expr, e.args))})"
        self.fail("a view reads cells of its arrays at places made of numbers", e.at, None)
