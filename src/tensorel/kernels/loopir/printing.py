"""Loop IR as Python-like text."""

from __future__ import annotations

from collections.abc import Iterator

from tensorel.algebra import ops
from tensorel.ir.nodes import Call, Const, Expr, Local, Read, Source
from tensorel.kernels.loopir.statements import (
    Announce,
    Append,
    AppendReserved,
    Assign,
    Await,
    Break,
    Comment,
    Continue,
    For,
    If,
    Kernel,
    Lanes,
    Length,
    Prefetch,
    Reserve,
    Return,
    Stmt,
    Store,
    Table,
    While,
)

#: How tightly operators bind, by symbol, as in Python.
_BINDING = {
    "or": 1, "and": 2, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "^": 6, "&": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "//": 10, "%": 10, "**": 12,
}
_COMPARISON, _POWER, _WHERE = 4, 12, 0
_UPDATES = {ops.add: "+=", ops.multiply: "*="}


def show(kernel: Kernel) -> str:
    """The kernel as text.

    >>> from tensorel.ir.nodes import INT64
    >>> n = Local("n", INT64)
    >>> print(show(Kernel("none", (), frozenset(), (), (), n, n, (Comment("nothing"),))))
    def none(n: int64, n: int64):
        # nothing
    """
    written = kernel.written
    parts = [f"{a.data}: {a.dtype.name}[{'out' if a.data in written else ''}]"
             for a in kernel.arrays]
    parts += [f"{b.name}: {b.dtype.name}[grows]" for b in kernel.buffers]
    parts += [f"{s.name}: {s.dtype.name}" for s in (*kernel.scalars, kernel.lo, kernel.hi)]
    return "\n".join([f"def {kernel.name}({', '.join(parts)}):", *_block(kernel.body, 1)])


def _block(body: tuple[Stmt, ...], depth: int) -> list[str]:
    lines = [line for stmt in body for line in _statement(stmt, depth)]
    return lines or ["    " * depth + "pass"]


def _statement(stmt: Stmt, depth: int) -> Iterator[str]:
    pad = "    " * depth
    match stmt:
        case For():
            note = "  # can be cancelled" if stmt.checked else ""
            bounds = f"{show_expr(stmt.lo)}, {show_expr(stmt.hi)}"
            yield f"{pad}for {stmt.target.name} in range({bounds}):{note}"
            yield from _block(stmt.body, depth + 1)
        case Lanes():
            start = show_expr(stmt.start)
            yield f"{pad}for {stmt.target.name} in lanes({start}, {stmt.count}):"
            yield from _block(stmt.body, depth + 1)
        case While():
            note = "  # can be cancelled" if stmt.checked else ""
            yield f"{pad}while {show_expr(stmt.condition)}:{note}"
            yield from _block(stmt.body, depth + 1)
        case If():
            yield f"{pad}if {show_expr(stmt.condition)}:"
            yield from _block(stmt.then, depth + 1)
            if stmt.otherwise:
                yield f"{pad}else:"
                yield from _block(stmt.otherwise, depth + 1)
        case _:
            yield pad + _simple(stmt)


def _simple(stmt: Stmt) -> str:
    match stmt:
        case Assign():
            return _assignment(stmt.target.name, stmt.target, stmt.value)
        case Store():
            name = f"{stmt.array.data}[{show_expr(stmt.position)}]"
            return _assignment(name, Read(stmt.array, (stmt.position,)), stmt.value)
        case Append():
            return f"{_names(stmt.table)}.append({_values(stmt.values)})"
        case AppendReserved():
            kept = "" if stmt.condition is None else f", keep={show_expr(stmt.condition)}"
            return f"{_names(stmt.table)}.append_reserved({_values(stmt.values)}{kept})"
        case Reserve():
            return f"{_names(stmt.table)}.reserve({show_expr(stmt.count)})"
        case Length():
            return f"{stmt.target.name} = len({stmt.table[0].name})"
        case Break():
            return "break"
        case Continue():
            return "continue"
        case Return():
            return "return"
        case Prefetch():
            return f"prefetch {stmt.array.data}[{show_expr(stmt.position)}]"
        case Await():
            return f"await {stmt.array.data}[{show_expr(stmt.position)}] >= {show_expr(stmt.value)}"
        case Announce():
            return f"announce {stmt.array.data}[{show_expr(stmt.position)}] = " \
                f"{show_expr(stmt.value)}"
        case Comment():
            return f"# {stmt.text}"
        case _:
            return f"<{type(stmt).__name__}>"


def _names(table: Table) -> str:
    names = ", ".join([b.name for b in table])
    return names if len(table) == 1 else f"({names})"


def _values(values: tuple[Expr, ...]) -> str:
    return ", ".join(map(show_expr, values))


def _assignment(name: str, target: Expr, value: Expr) -> str:
    if isinstance(value, Call) and value.op in _UPDATES and value.args[0] is target:
        return f"{name} {_UPDATES[value.op]} {show_expr(value.args[1])}"
    return f"{name} = {show_expr(value)}"


def show_expr(expr: Expr, outer: int = -1) -> str:
    """An expression; in brackets if it binds less tightly than ``outer``."""
    match expr:
        case Const():
            return _literal(expr)
        case Local():
            return expr.name
        case Read(tensor=Source() as array):
            return f"{array.data}[{', '.join(show_expr(i) for i in expr.indices)}]"
        case Call() if expr.op is ops.where:
            test, yes, no = (show_expr(a, _WHERE) for a in expr.args)
            return _bracket(f"{yes} if {test} else {no}", _WHERE, outer)
        case Call() if expr.op.symbol in _BINDING and expr.op.arity == 2:
            return _infix(expr, outer)
        case Call():
            name = expr.op.name.removeprefix("cast_")
            return f"{name}({', '.join(show_expr(a) for a in expr.args)})"
        case _:
            return f"<{type(expr).__name__}>"


def _infix(expr: Call, outer: int) -> str:
    symbol = expr.op.symbol or ""
    binds = _BINDING[symbol]
    left_first = binds not in (_COMPARISON, _POWER)  # a < b < c and a ** b ** c differ
    left = show_expr(expr.args[0], binds - 1 if left_first else binds)
    right = show_expr(expr.args[1], binds)
    return _bracket(f"{left} {symbol} {right}", binds, outer)


def _bracket(text: str, binds: int, outer: int) -> str:
    return f"({text})" if binds <= outer else text


def _literal(node: Const) -> str:
    kind, value = node.dtype.kind, node.value
    if kind == "c":
        return repr(complex(value))
    if kind == "f" and node.dtype.itemsize == 8:
        return repr(float(value))
    if kind == "b" or node.dtype.str[1:] == "i8":
        return str(value)
    return f"{node.dtype.name}({value})"
