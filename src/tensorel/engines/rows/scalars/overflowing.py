"""Where whole arithmetic of a row has more than 64 bits."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tensorel.algebra import ops
from tensorel.algebra.ops import FLOAT64
from tensorel.ir.build import convert
from tensorel.ir.nodes import INT64, Call, Expr, const
from tensorel.ir.overflows import is_lowest, wrapped, wrapped_product
from tensorel.sql.scalars import Scalar

_LONG = 60


def overflow(function: str, args: Sequence[Expr], result: Expr) -> Expr:
    """Whether a result has wrapped around."""
    a, b = convert(args[0], INT64), convert(args[-1], INT64)
    match function:
        case "+" | "-":
            return wrapped(ops.add if function == "+" else ops.subtract, a, b, result)
        case "*":
            return wrapped_product(a, b, result)
        case "//":
            back = Call(ops.equal, (b, const(-1, INT64)))
            return Call(ops.bitwise_and, (is_lowest(a), back))
        case "round":
            moved = Call(ops.subtract, (convert(a, FLOAT64), convert(result, FLOAT64)))
            return Call(ops.greater, (Call(ops.absolute, (moved,)), const(2.0**62)))
    return is_lowest(a)


def written(e: Scalar) -> str:
    """An expression as errors show it: columns by their names."""
    text = re.sub(r"#\d+", "", str(e))
    return text if len(text) <= _LONG else text[:_LONG] + "..."
