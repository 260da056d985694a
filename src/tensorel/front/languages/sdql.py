"""``tr.sdql``: programs in SDQLite. The language is loaded with the first program."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

import tensorel.sdql  # noqa: F401  (the empty package: loaded later, it would replace the function)
from tensorel.errors import TypeError_
from tensorel.front.array.base import wrap

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor


def sdql(text: str, /, **tensors: object) -> Tensor:
    """The value of an SDQLite program over named tensors, as a lazy tensor.

    >>> import tensorel as tr
    >>> A = tr.asarray([[1, 2], [0, 3]])
    >>> tr.sdql("sum(<(i, j), a> in A, <j, x> in X) { i -> a * x }", A=A, X=[10, 1]).to_numpy()
    array([12,  3])
    """
    if not isinstance(text, str):
        raise TypeError_("sdql: the first argument is the text of the program",
                         hint="e.g. tr.sdql('sum(<i, x> in X) x', X=[1, 2])")
    return wrap(import_module("tensorel.front.languages.sdql_program").node_of(text, tensors))
