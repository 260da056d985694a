"""Programs of a language over named tensors: from a text to one tensor of the calculus."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from tensorel.errors import ExtentWarning
from tensorel.front.array.base import from_stored
from tensorel.front.array.convert import asarray
from tensorel.front.languages.given_data import GivenData, settled
from tensorel.ir import nodes as ir
from tensorel.language.builder import HINTS, Builder, Hints

if TYPE_CHECKING:
    from tensorel.front.array.tensor import Tensor

#: What a language makes of a program over the tensors that are given.
Lower: TypeAlias = "Callable[[Builder, Mapping[str, Tensor]], ir.Tensor]"


def lowered(language: str, text: str, tensors: Mapping[str, object], lower: Lower,
            hints: Hints = HINTS) -> ir.Tensor:
    """The node of a program. Tensors about whose data it asks are replaced by copies, and it is
    built again over these, unless the last time has told which they are."""
    names = _asked(language, text)
    given = {name: _settled(asarray(x)) if name in names else asarray(x)
             for name, x in tensors.items()}
    data = GivenData()
    builder = Builder(text, data, hints)
    node, asked = lower(builder, given), data.asked
    more = {name: t for name, t in given.items()
            if t.given is not None and asked.get(t.given, t.given) is not t.given}
    if more:
        names.update(more)
        builder = Builder(text, GivenData(), hints)
        node = lower(builder, given | {name: _settled(t) for name, t in more.items()})
    for (a, b), (m, n) in builder.indices.unequal.items():
        warnings.warn(f"{language}: {a} has {m} indices and is joined with {b}, which has {n}; "
                      "those that only one of them has count as absent", ExtentWarning,
                      stacklevel=4)
    return node


@lru_cache(maxsize=256)
def _asked(language: str, text: str) -> set[str]:
    """Names of tensors about whose data a program has asked."""
    return set()


def _settled(t: Tensor) -> Tensor:
    """The tensor as it is now."""
    return t if t.given is None else from_stored(settled(t.given))
