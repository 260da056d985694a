"""A text for each expression, by which factors and terms are ordered the same way everywhere.

Tensors go by their own names; those without one by identity, which orders them the same way within
a process. Text only orders: equality is that of the expressions.
"""

from __future__ import annotations

from typing import Any

from tensorel.ir.given import Given
from tensorel.ir.interning import Memo
from tensorel.ir.nodes import (
    Call,
    Const,
    Expr,
    GivenConst,
    Index,
    Local,
    Read,
    Reduce,
    Source,
    Tensor,
)
from tensorel.rewrite.names import postorder

_texts = Memo[str]("_text")


def spell(e: Expr) -> str:
    """The text of ``e``; kept as long as the expression lives."""
    found = _texts.get(e)
    if found is None:
        for x in postorder(e):
            if x not in _texts:
                _texts[x] = _spell(x)
        found = _texts[e]
    return found


def spell_extent(n: Any) -> str:
    """The text of an extent."""
    return f"{n.at}given" if type(n) is Given else str(n)


def _spell(x: Expr) -> str:
    match x:
        case GivenConst():
            return f"{x.dtype.char}{x.value.at}given"
        case Const():
            return f"{x.dtype.char}{x.value!r}"
        case Index():
            return x.name
        case Local():
            return f"${x.name}"
        case Read():
            return f"{_tensor(x.tensor)}[{','.join([spell(i) for i in x.indices])}]"
        case Call():
            return f"{x.op.name}({','.join([_texts[a] for a in x.args])})"
        case Reduce():
            axes = ",".join([f"{a.name}<{spell_extent(a.extent)}" for a in x.axes])
            return f"{x.op.name}{{{axes}}}({_texts[x.body]})"
        case _:
            return f"{type(x).__name__}@{id(x)}"


def _tensor(t: Tensor) -> str:
    if isinstance(t, Source):
        name = t.data if isinstance(t.data, str) else getattr(t.data, "name", None)
        if isinstance(name, str):
            return name
    return f"@{id(t)}"


__all__ = ["spell", "spell_extent"]
