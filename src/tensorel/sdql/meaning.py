"""What a core program means, over Python dicts: the oracle of the tests, slow and obvious.

A scalar is a NumPy scalar of its kind; a dictionary maps whole numbers to values and may hold
zeros. Only sums tell an entry that is zero from one that is not there: they visit every entry of
a total dictionary, and those that are not zero of any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from tensorel.algebra import ops
from tensorel.sdql import syntax as s
from tensorel.sdql.functions import OPERATORS, ROUNDING, SEMIRINGS
from tensorel.sdql.typing import COMPARISONS, Type, Types, is_zero

Value: TypeAlias = Any  # a NumPy scalar, or a dict from int to Value

_DTYPES = {"bool": np.dtype(bool), "int": np.dtype("int64")}
_COMPARE = {"==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal,
            ">": np.greater, ">=": np.greater_equal}


def meaning(root: s.Expr, env: Mapping[str, Value], types: Types) -> Value:
    """The value of a core expression.

    >>> from tensorel.sdql.parser import parse
    >>> core = parse("sum(<k, v> in A) { k + 1 -> v * v }")
    >>> meaning(core, {"A": table([3, 0, 2])}, Types(core, {"A": Type("int", 1)}, ""))
    {1: np.int64(9), 3: np.int64(4)}
    """
    with np.errstate(all="ignore"):
        return _Interpreter(types).of(root, dict(env))


def table(array: object) -> Value:
    """The nested dict of an array."""
    found = np.asarray(array)
    if found.ndim:
        return {k: table(row) for k, row in enumerate(found)}
    return convert(found[()], {"b": "bool", "i": "int", "u": "int"}.get(found.dtype.kind, "real"))


def dense(value: Value, shape: tuple[int, ...], zero: object = 0) -> Any:
    """The array of a nested dict; KeyError if a key with a value is outside of the shape."""
    if not shape:
        return value
    found = {k: dense(v, shape[1:], zero) for k, v in value.items()}
    found = {k: v for k, v in found.items() if np.any(v != zero)}
    if any(not 0 <= k < shape[0] for k in found):
        raise KeyError(f"keys {sorted(found)} outside of {shape}")
    blank = np.full(shape[1:], zero)
    return np.stack([found.get(k, blank) for k in range(shape[0])]) if shape[0] else (
        np.zeros(shape))


def zero_of(kind: str) -> Value:
    """The zero of the scalars of a kind."""
    return convert(SEMIRINGS[kind].zero, kind) if kind in SEMIRINGS else convert(0, kind)


def convert(x: Value, kind: str) -> Value:
    dtype = _DTYPES.get(kind)
    if dtype is None:
        dtype = np.result_type(np.asarray(x).dtype, np.float64)
    return ops.cast(dtype)(x)[()]  # type: ignore[index]


def even_bits(x: int) -> int:
    """Bits 0, 2, 4, ... of the 64 of x, side by side."""
    return sum((int(x) >> (2 * k) & 1) << k for k in range(32))


class _Interpreter:
    def __init__(self, types: Types) -> None:
        self.types = types

    def of(self, e: s.Expr, env: dict[str, Value]) -> Value:
        match e:
            case s.Number():
                return convert(e.value, e.kind)
            case s.Name():
                return env[e.name]
            case s.Unary():
                return self.negated(e, self.of(e.arg, env))
            case s.Binary():
                return self.binary(e, env)
            case s.Call():
                return self.call(e, [self.of(a, env) for a in e.args])
            case s.Range():
                low, high = self.of(e.low, env), self.of(e.high, env)
                return {k: np.int64(k) for k in range(int(low), int(high))}
            case s.Apply():
                target, key = self.of(e.target, env), self.of(e.keys[0], env)
                return target.get(int(key), self.zero(self.types[e]))
            case s.Slice():
                target = self.of(e.target, env)
                low, high = self.of(e.low, env), self.of(e.high, env)
                blank = self.zero(Type(self.types[e].kind, self.types[e].depth - 1))
                return {k: target.get(k, blank) for k in range(int(low), int(high))}
            case s.If():
                return self.branch(e, env)
            case s.Let():
                (name, value), = e.bindings
                return self.of(e.body, env | {name: self.of(value, env)})
            case s.Sum():
                return self.sum(e, env)
            case s.Dict():
                key = self.of(e.entries[0].keys[0], env)
                return {int(key): self.of(e.entries[0].value, env)}
            case s.Promote():
                return convert(self.of(e.body, env), self.types[e].kind)
            case _:
                raise TypeError(f"{type(e).__name__} is not of the core")

    def zero(self, found: Type) -> Value:
        return {} if found.depth else zero_of(found.kind)

    def is_zero(self, value: Value, kind: str) -> bool:
        if isinstance(value, dict):
            return all(self.is_zero(v, kind) for v in value.values())
        return bool(value == zero_of(kind))

    def sum(self, e: s.Sum, env: dict[str, Value]) -> Value:
        (g,) = e.generators
        source = self.types[g.source]
        result = self.types[e]
        found = self.zero(result)
        for key, value in self.of(g.source, env).items():
            if source.total or not self.is_zero(value, source.kind):
                term = self.of(e.body, env | {g.keys[0]: np.int64(key), g.value: value})
                found = self.plus(found, term, result.kind)
        return found

    def branch(self, e: s.If, env: dict[str, Value]) -> Value:
        taken = e.then if self.of(e.test, env) != 0 else e.otherwise
        if taken is None or (is_zero(taken) and self.types[taken] != self.types[e]):
            return self.zero(self.types[e])
        return self.cast(self.of(taken, env), self.types[e].kind)

    def cast(self, value: Value, kind: str) -> Value:
        if isinstance(value, dict):
            return {k: self.cast(v, kind) for k, v in value.items()}
        return convert(value, kind)

    # -- operators ---------------------------------------------------------------------------
    def plus(self, a: Value, b: Value, kind: str) -> Value:
        if isinstance(a, dict):
            both = {k: self.plus(a[k], b[k], kind) for k in a if k in b}
            return self.cast(a, kind) | self.cast(b, kind) | both
        a, b = convert(a, kind), convert(b, kind)
        if kind == "bool":
            return a | b
        return SEMIRINGS[kind].add(a, b) if kind in SEMIRINGS else a + b

    def times(self, a: Value, b: Value, kind: str) -> Value:
        if isinstance(a, dict) and isinstance(b, dict):
            return {k: self.times(a[k], b[k], kind) for k in a if k in b}
        if isinstance(a, dict):
            return {k: self.times(v, b, kind) for k, v in a.items()}
        if isinstance(b, dict):
            return {k: self.times(a, v, kind) for k, v in b.items()}
        a, b = convert(a, kind), convert(b, kind)
        if kind == "bool":
            return a & b
        if kind not in SEMIRINGS:
            return a * b
        zero = zero_of(kind)
        return zero if zero in (a, b) else SEMIRINGS[kind].mul(a, b)

    def negated(self, e: s.Unary, value: Value) -> Value:
        if e.op == "!":
            return np.bool_(value == 0)
        if isinstance(value, dict):
            return {k: self.negated(e, v) for k, v in value.items()}
        return -convert(value, self.types[e].kind)

    def divided(self, op: str, a: Value, b: Value, kind: str) -> Value:
        if isinstance(a, dict):  # a key without a value has none afterwards, whatever b is
            return {k: self.divided(op, v, b, kind) for k, v in a.items()
                    if not self.is_zero(v, kind)}
        a, b = convert(a, kind), convert(b, kind)
        if op == "%":
            return np.remainder(a, b)
        return np.floor_divide(a, b) if kind == "int" else a / b

    def binary(self, e: s.Binary, env: dict[str, Value]) -> Value:
        a, b = self.of(e.left, env), self.of(e.right, env)
        kind = self.types[e].kind
        match e.op:
            case "&&":
                return np.bool_(a != 0 and b != 0)
            case "||":
                return np.bool_(a != 0 or b != 0)
            case "*":
                return self.times(a, b, kind)
            case "/" | "%":
                return self.divided(e.op, a, b, kind)
        left, right = self.types[e.left], self.types[e.right]
        if is_zero(e.left) and left != right:
            a, left = self.zero(right), right
        elif is_zero(e.right) and left != right:
            b = self.zero(left)
        if e.op in COMPARISONS:
            return _COMPARE[e.op](a, b)
        return self.plus(a, b if e.op == "+" else self.minus(b, kind), kind)

    def minus(self, value: Value, kind: str) -> Value:
        if isinstance(value, dict):
            return {k: self.minus(v, kind) for k, v in value.items()}
        return -convert(value, kind)

    def call(self, e: s.Call, args: list[Value]) -> Value:
        kind = self.types[e].kind
        args = [convert(a, kind) for a in args]
        if e.function == "even_bits":
            return np.int64(even_bits(args[0]))
        if e.function == "odd_bits":
            return np.int64(even_bits(args[0] >> 1))
        if e.function in ("int", "real") or (e.function in ROUNDING and kind == "int"):
            return args[0]
        return OPERATORS[e.function](*args)
