"""Expressions, tensors and programs as text; ``parser.parse`` reads it back to the same node.

The grammar stands at the top of ``parser.py``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

from tensorel.algebra import ops
from tensorel.ir.analysis import sources
from tensorel.ir.lexer import IDENTIFIER, KEYWORDS
from tensorel.ir.literals import DTYPE_NAMES, show_literal
from tensorel.ir.nodes import (
    Axis,
    Bulk,
    Call,
    Const,
    Index,
    Lambda,
    Local,
    Node,
    Operator,
    Read,
    Reduce,
    Tensor,
    children,
    const,
    postorder,
)

#: Binding strength of infix symbols; prefix forms (sum, [i in n] ->) bind least.
LEVELS: dict[str, int] = {"or": 1, "and": 2}
LEVELS |= dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), 4)
LEVELS |= {"|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8, "+": 9, "-": 9}
LEVELS |= dict.fromkeys(("*", "/", "//", "%"), 10)
LEVELS |= {"**": 12}
NOT, COMPARE, SIGN, POWER, ATOM = 3, 4, 11, 12, 13

PREFIXES: dict[Operator, str] = {ops.negative: "-", ops.invert: "~", ops.logical_not: "not "}

#: Text with more nodes than this is cut into lines; there a subexpression gets its own line
#: when it has more nodes than the second, or than the third and stands in several places.
MAX_LINE_NODES, MAX_INLINE_NODES, MAX_REPEATED_NODES = 2000, 200, 40

_MONOID_NAMES: dict[Operator, str] = {op: name for name, op in ops.MONOIDS.items()}
_CASTS: dict[Operator, str] = {ops.cast(d): name for name, d in DTYPE_NAMES.items()}

Text = tuple[str, int]  # what is printed, and how strongly it binds


def quote(name: str) -> str:
    """An index or tensor name; names that are not identifiers stand in backquotes."""
    if IDENTIFIER.fullmatch(name) and name not in KEYWORDS:
        return name
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def show(node: Node, names: Mapping[Tensor, str] | None = None) -> str:
    """``node`` on one line; tensors in ``names`` print as their name, other sources as A, B, ...

    >>> show(Call(ops.multiply, (Call(ops.add, (Index("i"), const(1))), Index("j"))))
    '(i + 1) * j'
    """
    known = name_tensors(node, given=names)
    if _unfolded(node, known) > MAX_LINE_NODES:
        return show_program([node], names)
    return _render(node, _named(known))


def show_program(roots: Sequence[Node], names: Mapping[Tensor, str] | None = None) -> str:
    """One line ``name = ...`` for each formula or whole-tensor operator, then what is returned."""
    known = name_tensors(*roots, given=names)
    fresh = _fresh("t", _taken(*roots) | set(known.values()))
    lines: list[str] = []
    texts = _named(known)
    for node in _definitions(roots, known):
        name = next(fresh)
        lines.append(f"{name} = {_render(node, texts)}")
        texts[node] = name, ATOM
    last = ", ".join(_render(r, texts) for r in roots)
    return "\n".join([*lines, f"return {last}"])


def name_tensors(*roots: Node, given: Mapping[Tensor, str] | None = None) -> dict[Tensor, str]:
    """Names of all stored tensors: those given, then A, B, C, ... by first appearance."""
    names = dict(given or {})
    fresh = _letters(_taken(*roots) | set(names.values()))
    for source in sources(*roots):
        if source not in names:
            names[source] = next(fresh)
    return names


def _taken(*roots: Node) -> set[str]:
    """Names that indices have."""
    found: set[str] = set()
    for node in postorder(*roots):
        if isinstance(node, Index):
            found.add(node.name)
        elif isinstance(node, (Reduce, Lambda)):
            found.update(a.name for a in node.axes)
    return found


def _letters(taken: set[str]) -> Iterator[str]:
    for number in count():
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ":
            name = letter if number == 0 else f"{letter}{number}"
            if name not in taken:
                yield name


def _fresh(stem: str, taken: set[str]) -> Iterator[str]:
    return (f"{stem}{n}" for n in count(1) if f"{stem}{n}" not in taken)


# -- what gets a line of its own --------------------------------------------------------------
def _unfolded(root: Node, known: Mapping[Tensor, str]) -> int:
    sizes: dict[Node, int] = {}
    for node in postorder(root):
        named = isinstance(node, Tensor) and node in known
        sizes[node] = 1 if named else 1 + sum(sizes[k] for k in children(node))
    return sizes[root]


def _definitions(roots: Sequence[Node], known: Mapping[Tensor, str]) -> list[Node]:
    """Tensors in order, operands first, and subexpressions that would blow up the text."""
    order = postorder(*roots)
    parents: Counter[Node] = Counter(k for n in order for k in children(n))
    sizes: dict[Node, int] = {}
    defined: list[Node] = []
    for node in order:
        sizes[node] = 1 + sum(sizes[k] for k in children(node))
        if isinstance(node, Tensor):
            if node in known:
                sizes[node] = 1
                continue
            worth = True
        else:
            worth = sizes[node] > (MAX_REPEATED_NODES if parents[node] > 1 else MAX_INLINE_NODES)
        if worth:
            defined.append(node)
            sizes[node] = 1
    return defined


# -- text of nodes ---------------------------------------------------------------------------
def _named(known: Mapping[Tensor, str]) -> dict[Node, Text]:
    return {node: (quote(name), ATOM) for node, name in known.items()}


def _render(root: Node, texts: dict[Node, Text]) -> str:
    """The text of ``root``; nodes in ``texts`` stand as they are there, the others unfold."""
    stack: list[Node] = [root]
    while stack:
        node = stack[-1]
        missing = [k for k in children(node) if k not in texts] if node not in texts else []
        if missing:
            stack.extend(reversed(missing))
            continue
        if node not in texts:
            texts[node] = _text(node, texts)
        stack.pop()
    return texts[root][0]


def _text(node: Node, texts: Mapping[Node, Text]) -> Text:
    match node:
        case Const():
            text = show_literal(node)
            return text, SIGN if text.startswith("-") else ATOM
        case Index():
            return quote(node.name), ATOM
        case Local():
            return f"${quote(node.name)}:{node.dtype.name}", ATOM
        case Read():
            indices = ", ".join(texts[i][0] for i in node.indices)
            return f"{_wrap(texts[node.tensor], ATOM)}[{indices}]", ATOM
        case Call():
            return _call(node, texts)
        case Reduce():
            return _reduce(node, texts[node.body][0])
        case Lambda():
            return f"[{_axes(node.axes)}] -> {texts[node.body][0]}", 0
        case Bulk():
            return _bulk(node, texts)
        case _:
            return f"<{type(node).__name__}>", ATOM


def _wrap(text: Text, least: int) -> str:
    return text[0] if text[1] >= least else f"({text[0]})"


def _axes(axes: Sequence[Axis]) -> str:
    return ", ".join(f"{quote(a.name)} in {a.extent}" for a in axes)


def _call(node: Call, texts: Mapping[Node, Text]) -> Text:
    op, args = node.op, [texts[a] for a in node.args]
    if op.symbol in LEVELS and op.arity == 2 and ops_by_symbol(op.symbol) is op:
        level = LEVELS[op.symbol]
        left = level + 1 if level in (COMPARE, POWER) else level
        right = level if level == POWER else level + 1
        return f"{_wrap(args[0], left)} {op.symbol} {_wrap(args[1], right)}", level
    if op in PREFIXES:
        level = NOT if op is ops.logical_not else SIGN
        # -2.5 is a literal, so the sign of a literal stands outside parentheses.
        literal = isinstance(node.args[0], Const)
        return f"{PREFIXES[op]}{_wrap(args[0], ATOM + 1 if literal else level)}", level
    shown = [a[0] for a in args]
    if op is ops.where and node.args[2] is const(0, node.args[1].dtype):
        shown.pop()
    return f"{quote(_CASTS.get(op, op.name))}({', '.join(shown)})", ATOM


_SYMBOLS: dict[str, Operator] = {o.symbol: o for o in ops.operators() if o.symbol}


def ops_by_symbol(symbol: str) -> Operator:
    """The built-in operator with an infix symbol."""
    return _SYMBOLS[symbol]


def _reduce(node: Reduce, body: str) -> Text:
    name = _MONOID_NAMES.get(node.op)
    if name is not None:
        return f"{name}({_axes(node.axes)}) {body}", 0
    parts = [quote(node.op.name), *([_axes(node.axes)] if node.axes else []), body]
    return f"reduce({', '.join(parts)})", ATOM


def _bulk(node: Bulk, texts: Mapping[Node, Text]) -> Text:
    args = ", ".join(texts[a][0] for a in node.args)
    params = ", ".join(_param(p) for p in node.params)
    return f"{quote(node.op.name)}({args};{' ' if params else ''}{params})", ATOM


def _param(value: object) -> str:
    if isinstance(value, tuple):
        inner = ", ".join(_param(v) for v in value)
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return repr(value)
