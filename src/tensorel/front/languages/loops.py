"""``tr.loops``: imperative programs, as text and as Python functions. The language is loaded with
the first program."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

import tensorel.loops  # noqa: F401  (the empty package: loaded later, it would replace the function)
from tensorel.errors import TypeError_

if TYPE_CHECKING:
    from tensorel.front.languages.loops_program import Loops


def loops(program: str | Callable[..., Any], /, **tensors: object) -> Any:
    """An imperative program over arrays, as text or as a Python function.

    Of a function, with ``for`` and ``while`` over indices: a function of the same parameters whose
    results are lazy tensors; its arguments are never changed. Of a text over named tensors: a
    dictionary of what it writes.

    >>> import tensorel as tr
    >>> @tr.loops
    ... def running(x):
    ...     y = x.copy()
    ...     for i in range(1, len(y)):
    ...         y[i] = y[i - 1] + y[i]
    ...     return y
    >>> running([1, 2, 3]).to_numpy()
    array([1, 3, 6])
    >>> tr.loops("for i = 0, 2 do y[i] := 2 * x[i]", x=[1, 2, 3], y=[0, 0, 0])["y"].tolist()
    [2, 4, 6]
    """
    module = import_module("tensorel.front.languages.loops_program")
    if isinstance(program, str):
        found: dict[str, Any] = module.run_text(program, tensors)
        return found
    if tensors or not callable(program):
        raise TypeError_("loops: the first argument is a function or the text of the program",
                         hint="@tr.loops before def, or tr.loops('for i = 0, n-1 do ...', n=3)")
    made: Loops = module.Loops(program)
    return made
