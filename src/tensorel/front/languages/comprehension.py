"""``tr.comprehension``: array comprehensions, as text or as a Python function. The language is
loaded with the first program."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import tensorel.comprehension  # noqa: F401  (the empty package: loaded later, it would replace it)
from tensorel.errors import TypeError_

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


@cache
def _module(name: str) -> Any:
    return import_module(f"tensorel.front.languages.{name}")


def comprehension(program: Any = None, /, **env: Any) -> Any:
    """An array comprehension over named tensors and numbers, as a lazy tensor.

    >>> import tensorel as tr
    >>> A = tr.asarray([[1, 2], [0, 3]])
    >>> tr.comprehension("tensor(2)()[ (i, +/a) | ((i, j), a) <- A, group by i ]", A=A).tolist()
    [3, 3]
    """
    if isinstance(program, str):
        made: Tensor = _module("comprehension_program").tensor_of_text(program, env)
        return made
    functions = _module("comprehension_function")
    if program is None:
        def decorate(function: Callable[..., Any]) -> Callable[..., Tensor]:
            return functions.compiled(function, **env)  # type: ignore[no-any-return]

        return decorate
    if not callable(program):
        raise TypeError_("comprehension: the first argument is a text or a function",
                         hint="e.g. tr.comprehension('+/[ v | (i, v) <- V ]', V=[1, 2])")
    return functions.compiled(program, **env)
