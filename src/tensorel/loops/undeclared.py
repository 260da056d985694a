"""Arrays that a program in text writes and nobody has given: as large as what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import DType
from tensorel.loops.analysis.bounds import Analysis
from tensorel.loops.origin import Origin
from tensorel.loops.syntax import Allocate, Body, Store, assigned_names, number, walk
from tensorel.loops.types import ArrayOf, Type
from tensorel.loops.typing import Typing


def undeclared(origin: Origin, body: Body, given: Mapping[str, Type],
               shapes: Mapping[str, tuple[int, ...]], numbers: Mapping[str, Any]
               ) -> tuple[Allocate, ...]:
    """Statements that make them, filled with zeros of the dtype of what is written."""
    made = assigned_names(body)
    stores = [s for s in walk(body) if isinstance(s, Store)
              and s.array not in given and s.array not in made]
    names = list(dict.fromkeys(s.array for s in stores))
    if not names:
        return ()
    first = {s.array: s for s in reversed(stores)}
    dtypes: dict[str, DType] = dict.fromkeys(names, ops.BOOL)
    before: dict[str, DType] | None = None
    while dtypes != before:  # what is written may depend on what was written
        before = dict(dtypes)
        types = {n: ArrayOf(d, len(first[n].indices)) for n, d in dtypes.items()}
        typing = Typing(origin, body, {**given, **types})
        for s in stores:
            dtypes[s.array] = np.result_type(dtypes[s.array], typing.number(s.value).dtype)
    fixed = {n: v for n, v in numbers.items() if n not in made}
    analysis = Analysis(typing, fixed, dict(shapes))
    analysis.run(body)
    found = []
    for name in names:
        ends = [analysis.reach[name][k] for k in range(len(first[name].indices))]
        if any(e is None for axis in ends for e in axis):
            origin.refuse(f"how large {name} is cannot be seen", first[name].line,
                          f"declare it: var {name} := zeros(n), or give it as an argument")
        line = first[name].line
        extents = tuple([number(max(0, *[e + 1 for e in axis if e is not None]), line)
                         for axis in ends])
        found.append(Allocate(name, extents, None, number(0, line), dtypes[name], None, line))
    return tuple(found)
