"""A tree of attributes over values with Python's operators: traced scalars, or arrays of rows."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from tensorel.base.records import dataclass
from tensorel.errors import ParseError, TensorelError
from tensorel.relational.syntax import (
    Arithmetic,
    Compare,
    Function,
    Logical,
    Name,
    Number,
    Term,
    Text,
)

COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod,
}
_TURNED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Scope:
    """What a text may mention. ``attribute``: the value of a name, None if there is none;
    ``known``: the names, for messages; ``functions``: by name; ``is_truth``: whether a value is a
    boolean; ``compare_text``: (comparison, name, text) as a boolean, where a name has labels."""

    text: str
    attribute: Callable[[str], Any]
    known: str
    functions: Mapping[str, Callable[..., Any]]
    is_truth: Callable[[Any], bool]
    compare_text: Callable[[str, str, str], Any] | None = None

    def fail(self, message: str, term: Term, hint: str | None = None) -> NoReturn:
        raise ParseError(message, text=self.text, position=term.token.position, hint=hint)


def evaluate(term: Term, scope: Scope) -> Any:
    """The value of a tree; errors mark their place in the text."""
    return _value(term, scope)


def _value(term: Term, scope: Scope) -> Any:
    match term:
        case Number():
            return term.value
        case Text():
            scope.fail("a text stands where a number is needed", term,
                       "texts are compared with labels, e.g. item = 'pen'")
        case Name():
            found = scope.attribute(term.name)
            if found is None:
                scope.fail(f"there is no attribute {term.name!r}", term,
                           f"attributes are {scope.known}")
            return found
        case Arithmetic():
            return _arithmetic(term, scope)
        case Function():
            return _function(term, scope)
        case Compare():
            return compare(term, scope, scope)
        case Logical():
            return _logical(term, scope)
    raise AssertionError(term)


def _arithmetic(term: Arithmetic, scope: Scope) -> Any:
    values = [_number(p, scope) for p in term.operands]
    if len(values) == 1:
        return -values[0]
    return _marked(_ARITHMETIC[term.op], values, term, scope)


def _function(term: Function, scope: Scope) -> Any:
    function = scope.functions.get(term.name.lower())
    if function is None:
        scope.fail(f"there is no function {term.name!r}", term,
                   f"functions are {', '.join(sorted(scope.functions))}")
    return _marked(function, [_number(p, scope) for p in term.operands], term, scope)


def _number(term: Term, scope: Scope) -> Any:
    if isinstance(term, Compare | Logical):
        scope.fail("a condition stands where a number is needed", term)
    return _value(term, scope)


def compare(term: Compare, left: Scope, right: Scope) -> Any:
    """A comparison, each side in a scope of its own."""
    for op, name, text, scope in ((term.op, term.left, term.right, left),
                                  (_TURNED[term.op], term.right, term.left, right)):
        if isinstance(text, Text) and isinstance(name, Name) and scope.compare_text is not None:
            if scope.attribute(name.name) is None:
                _value(name, scope)  # refuses
            return scope.compare_text(op, name.name, text.value)
    values = [_number(term.left, left), _number(term.right, right)]
    return _marked(COMPARE[term.op], values, term, left)


def _logical(term: Logical, scope: Scope) -> Any:
    found: Any = None
    for part in term.operands:
        value = _value(part, scope)
        if not scope.is_truth(value):
            scope.fail(f"{term.op!r} is of conditions, and this is a number", part,
                       "compare it, e.g. val != 0")
        if term.op == "not":
            return (not value) if isinstance(value, bool) else ~value
        found = value if found is None else found & value if term.op == "and" else found | value
    return found


def _marked(function: Callable[..., Any], values: list[Any], term: Term, scope: Scope) -> Any:
    try:
        return function(*values)
    except TensorelError as error:
        scope.fail(error.message, term, error.hint)
    except (TypeError, ArithmeticError) as error:
        scope.fail(str(error), term)
