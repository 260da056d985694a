"""The syntax tree as text; ``parser.parse`` reads it back to an equal tree."""

from __future__ import annotations

from tensorel.sdql import syntax as s
from tensorel.sdql.parser import ATOM, COMPARE, LEVELS, NOT, RANGE, SIGN


def show(node: s.Expr) -> str:
    """The text of an expression, on one line.

    >>> from tensorel.sdql.parser import parse
    >>> show(parse("sum( <(i,j),v> in A ) {i->v*(1+x)}"))
    'sum(<(i, j), v> in A) { i -> v * (1 + x) }'
    """
    return _text(node, 0)


def show_script(script: s.Script) -> str:
    """Statements, each on a line, and the result."""
    lines = [f"{show_statement(one)};" for one in script.statements]
    return "\n".join([*lines, *([] if script.result is None else [show(script.result)])])


def show_statement(statement: s.Statement) -> str:
    """The text of a statement, without the semicolon."""
    if isinstance(statement, s.CreatePhysical):
        listed = ", ".join(_declared(statement.form, d) for d in statement.declared)
        return f"CREATE {statement.kind} {statement.form} {listed}"
    assert isinstance(statement, s.CreateTensor)
    extents = "" if statement.extents is None else f"({_listed(statement.extents)})"
    return f"CREATE TENSOR {statement.name}{extents} AS {show(statement.definition)}"


def _declared(form: str, declared: s.Declaration) -> str:
    if form == "TRIE":
        return declared.name + "".join(f"({show(e)})" for e in declared.extents)
    return declared.name + (f"({_listed(declared.extents)})" if declared.extents else "")


def _text(node: s.Expr, least: int) -> str:
    """The text where something that binds as strongly as ``least`` is wanted."""
    text, level = _bare(node)
    return text if level >= least else f"({text})"


def _listed(nodes: tuple[s.Expr, ...]) -> str:
    return ", ".join(_text(n, 0) for n in nodes)


def _bare(node: s.Expr) -> tuple[str, int]:
    match node:
        case s.Number():
            return _number(node), ATOM
        case s.Name():
            return node.name, ATOM
        case s.Unary():
            level = SIGN if node.op == "-" else NOT
            return node.op + _text(node.arg, level), level
        case s.Binary():
            level = LEVELS[node.op]
            left = _text(node.left, level + (level == COMPARE))
            return f"{left} {node.op} {_text(node.right, level + 1)}", level
        case s.Call():
            return f"{node.function}({_listed(node.args)})", ATOM
        case s.Range():
            return f"{_text(node.low, RANGE + 1)}:{_text(node.high, RANGE + 1)}", RANGE
        case s.Apply():
            return f"{_text(node.target, ATOM)}({_listed(node.keys)})", ATOM
        case s.Slice():
            inner = f"{_text(node.low, RANGE + 1)}:{_text(node.high, RANGE + 1)}"
            return f"{_text(node.target, ATOM)}({inner})", ATOM
        case s.Dict():
            return f"{{ {', '.join(map(_entry, node.entries))} }}", ATOM
        case s.Promote():
            return f"promote[{node.semiring}]({_text(node.body, 0)})", ATOM
        case _:
            return _prefix(node), 0


def _prefix(node: s.Expr) -> str:
    """Forms that reach to the end of the text."""
    match node:
        case s.If(otherwise=None):
            return f"if ({_text(node.test, 0)}) then {_text(node.then, 0)}"
        case s.If():
            assert node.otherwise is not None
            # An else belongs to the nearest if: forms that could end in one are in parentheses.
            then, otherwise = _text(node.then, 1), _text(node.otherwise, 0)
            return f"if ({_text(node.test, 0)}) then {then} else {otherwise}"
        case s.Let():
            bound = ", ".join(f"{name} = {_text(value, 0)}" for name, value in node.bindings)
            return f"let {bound} in {_text(node.body, 0)}"
        case s.Sum():
            generators = ", ".join(map(_generator, node.generators))
            return f"sum({generators}) {_text(node.body, 0)}"
        case s.Merge():
            sources = f"{_text(node.left, RANGE)}, {_text(node.right, RANGE)}"
            bound = ", ".join((*node.keys, node.value))
            return f"merge(<{bound}> in <{sources}>) {_text(node.body, 0)}"
        case _:
            raise TypeError(f"{type(node).__name__} has no text")


def _number(node: s.Number) -> str:
    if node.kind == "bool":
        return "true" if node.value else "false"
    return repr(node.value)


def _generator(g: s.Generator) -> str:
    keys = g.keys[0] if len(g.keys) == 1 else f"({', '.join(g.keys)})"
    return f"<{keys}, {g.value}> in {_text(g.source, 0)}"


def _entry(entry: s.Entry) -> str:
    marks = "".join(f"@{m} " for m in entry.marks)
    # A key in parentheses before the arrow would read as a tuple of one, which is the same.
    keys = _text(entry.keys[0], 0) if len(entry.keys) == 1 else f"({_listed(entry.keys)})"
    return f"{marks}{keys} -> {_text(entry.value, 0)}"
