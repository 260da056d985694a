"""Operators as objects with declared properties; rules and planners ask these, never names.

Adding an operator is one statement here: its NumPy meaning, its laws, its printed symbol, and how
it is made of others, unless ``kernels/llvm/operators.py`` has instructions for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tensorel.algebra import repetition
from tensorel.base.records import dataclass, field
from tensorel.errors import TypeError_

DType = np.dtype[np.generic]
Scalar = bool | int | float | complex

#: The dtypes of tensors, in NumPy's promotion order.
DTYPES: tuple[DType, ...] = tuple(
    np.dtype(n)
    for n in (
        "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float32", "float64", "complex64", "complex128",
    )
)
BOOL, INT64, FLOAT64 = np.dtype("bool"), np.dtype("int64"), np.dtype("float64")
COMPLEX128 = np.dtype("complex128")


def check_dtype(dtype: object) -> DType:
    """The supported, native-endian dtype for ``dtype``, or a TypeError_."""
    try:
        found = np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError as error:
        raise TypeError_(f"{dtype!r} is not a dtype") from error
    native: DType = found.newbyteorder("=")
    if native not in DTYPES:
        names = ", ".join(d.name for d in DTYPES)
        raise TypeError_(f"dtype {found} is not supported", hint=f"supported are {names}")
    return native


def _lowest(dtype: DType) -> Scalar:
    if dtype.kind == "b":
        return False
    if dtype.kind in "iu":
        return int(np.iinfo(dtype.name).min)
    return complex(-math.inf, 0) if dtype.kind == "c" else -math.inf


def _highest(dtype: DType) -> Scalar:
    if dtype.kind == "b":
        return True
    if dtype.kind in "iu":
        return int(np.iinfo(dtype.name).max)
    return complex(math.inf, 0) if dtype.kind == "c" else math.inf


@dataclass(frozen=True, eq=False, slots=True, weakref_slot=True)
class Operator:
    """A pointwise operator; as a monoid also the ``op`` of a reduction.

    meaning: NumPy function on arrays, the definition that all back ends must meet.
    identity: for monoids, the neutral element in a dtype.
    annihilators: per argument the value that decides the result alone (0 for ``*``).
    absorbing: values that decide the result at any argument, by being it (inf and -inf for ``+``).
    exact_annihilators: the law holds for every other argument, nan and inf included.
    distributes_over: names of the monoids m with a*(m b) = m(a*b).
    repeat: name of the operator r such that reducing n >= 1 copies of c gives r(c, n), exactly.
    count: of such an operator, n as its second argument for c in a dtype.
    slow: a function that takes as long as many additions.
    formula: the meaning again, as a function made of NumPy's functions that are operators here;
    for dtypes in which a back end has no instructions for it.
    expand: for users' operators, the traced function of expressions.
    recipe: for users' operators, the function and its arguments that make the same one again.
    """

    name: str
    arity: int
    meaning: Callable[..., object]
    symbol: str | None = None
    associative: bool = False
    commutative: bool = False
    idempotent: bool = False
    identity: Callable[[DType], Scalar] | None = None
    annihilators: tuple[Scalar | None, ...] = ()
    absorbing: tuple[Scalar, ...] = ()
    exact_annihilators: bool = False
    distributes_over: frozenset[str] = frozenset()
    repeat: str | None = None
    count: Callable[[DType, int], np.generic] | None = None
    result: Callable[..., DType] | None = None
    slow: bool = False
    formula: Callable[..., Any] | None = None
    expand: Callable[..., object] | None = None
    recipe: tuple[Callable[..., Operator], tuple[object, ...]] | None = None
    _cache: dict[tuple[DType, ...], tuple[tuple[DType, ...], DType]] = field(default_factory=dict)

    @property
    def is_monoid(self) -> bool:
        return self.identity is not None and self.associative

    def decided(self, k: int, value: Scalar, dtype: DType) -> Scalar | None:
        """The result of the operator in ``dtype`` where argument k has this value, whatever the
        others are; None if it depends on them."""
        if k < len(self.annihilators) and self.annihilators[k] is not None \
                and value == self.annihilators[k]:
            return next(z for z in self.annihilators if z is not None)
        return value if dtype.kind == "f" and value in self.absorbing else None

    def copies(self, value: DType, count: int) -> tuple[Operator, np.generic]:
        """The operator r and the number n, as r takes it, with r(c, n) = ``count`` copies of c of
        this dtype under the monoid."""
        assert self.repeat is not None, f"{self.name} cannot be repeated"
        found = _TABLE[self.repeat]
        assert found.count is not None
        return found, found.count(value, count)

    def distributes(self, monoid: Operator, dtype: DType) -> bool:
        """Whether a self m(b) = m(a self b) for the monoid m in this dtype. Sums distribute over
        min and max only while they do not wrap around, so not for integers."""
        if monoid.name not in self.distributes_over:
            return False
        return self.name != "add" or dtype.kind == "f"

    def resolve(self, *dtypes: DType) -> tuple[tuple[DType, ...], DType]:
        """The dtypes that arguments are cast to, and the dtype of the result, as NumPy has it."""
        found = self._cache.get(dtypes)
        if found is None:
            found = self._cache[dtypes] = self._resolve(dtypes)
        return found

    def _resolve(self, dtypes: tuple[DType, ...]) -> tuple[tuple[DType, ...], DType]:
        if self.result is not None:
            return dtypes, self.result(*dtypes)
        if isinstance(self.meaning, np.ufunc):
            try:
                *into, out = self.meaning.resolve_dtypes((*dtypes, None))
            except TypeError as error:
                names = ", ".join(d.name for d in dtypes)
                raise TypeError_(f"{self.name} does not take {names}") from error
            # we have no float16: where NumPy computes small integers in it, we take float32
            *into, out = (np.dtype("float32") if d == np.float16 else d for d in (*into, out))
            return tuple(into), out
        common = np.result_type(*dtypes)
        return (common,) * len(dtypes), common

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def __call__(self, *args: object) -> object:
        return self.meaning(*args)

    def __reduce__(self) -> tuple[Callable[..., Operator], tuple[object, ...]]:
        if self.expand is None:
            return operator, (self.name,)
        if self.recipe is None:
            raise TypeError_(f"operator {self.name} is a Python function, which cannot be sent or "
                             "stored", hint="functions that tr.reduce traces can")
        return self.recipe


_TABLE: dict[str, Operator] = {}


def operator(name: str) -> Operator:
    """The built-in operator of that name."""
    if name in _TABLE:
        return _TABLE[name]
    if name.startswith("cast_"):
        return cast(np.dtype(name[5:]))
    raise TypeError_(f"unknown operator {name!r}")


def operators() -> tuple[Operator, ...]:
    """All built-in operators, in order of declaration."""
    return tuple(_TABLE.values())


def _add(op: Operator) -> Operator:
    _TABLE[op.name] = op
    return op


def _unary(name: str, ufunc: np.ufunc | Callable[..., object], **laws: object) -> Operator:
    return _add(Operator(name, 1, ufunc, **laws))  # type: ignore[arg-type]


def _binary(name: str, ufunc: np.ufunc, symbol: str | None = None, **laws: Any) -> Operator:
    return _add(Operator(name, 2, ufunc, symbol, **laws))


def _laws(identity: Callable[[DType], Scalar], **more: Any) -> dict[str, Any]:
    return {"associative": True, "commutative": True, "identity": identity} | more


# -- arithmetic ------------------------------------------------------------------------------
add = _binary("add", np.add, "+", **_laws(lambda d: 0, repeat="repeat_sum",
              absorbing=(math.inf, -math.inf), distributes_over=frozenset({"minimum", "maximum"})))
subtract = _binary("subtract", np.subtract, "-")
multiply = _binary("multiply", np.multiply, "*", **_laws(lambda d: 1, repeat="repeat_product",
                   annihilators=(0, 0), distributes_over=frozenset({"add"})))
divide = _binary("divide", np.true_divide, "/", annihilators=(0, None))
floor_divide = _binary("floor_divide", np.floor_divide, "//", annihilators=(0, None))
remainder = _binary("remainder", np.remainder, "%", annihilators=(0, None))
power = _binary("power", np.power, "**", slow=True)
minimum = _binary("minimum", np.minimum, **_laws(_highest, idempotent=True,
                  distributes_over=frozenset({"maximum"})))
maximum = _binary("maximum", np.maximum, **_laws(_lowest, idempotent=True,
                  distributes_over=frozenset({"minimum"})))
arctan2 = _binary("arctan2", np.arctan2, slow=True)
hypot = _binary("hypot", np.hypot, slow=True)
copysign = _binary("copysign", np.copysign)


def _logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) without overflow; equal infinities stay, a nan stays."""
    difference = a - b
    larger = np.where(difference > 0, a, b)
    usual = larger + np.log1p(np.exp(-np.absolute(difference)))
    return np.where(a == b, a + math.log(2), usual)


logaddexp = _binary("logaddexp", np.logaddexp, formula=_logaddexp)
nextafter = _binary("nextafter", np.nextafter)


def _repetition(name: str, meaning: Callable[..., object],
                count: Callable[[DType, int], np.generic]) -> Operator:
    def result(value: DType, counts: DType) -> DType:
        if counts != count(value, 1).dtype:
            raise TypeError_(f"{name} of {value.name} does not count in {counts.name}")
        return value

    return _add(Operator(name, 2, meaning, result=result, count=count, slow=True))


repeat_sum = _repetition("repeat_sum", repetition.repeat_sum, repetition.count_of_sum)
repeat_product = _repetition(
    "repeat_product", repetition.repeat_product, repetition.count_of_product)

# -- comparison ------------------------------------------------------------------------------
equal = _binary("equal", np.equal, "==", commutative=True)
not_equal = _binary("not_equal", np.not_equal, "!=", commutative=True)
less = _binary("less", np.less, "<")
less_equal = _binary("less_equal", np.less_equal, "<=")
greater = _binary("greater", np.greater, ">")
greater_equal = _binary("greater_equal", np.greater_equal, ">=")

# -- logic and bits --------------------------------------------------------------------------
logical_and = _binary("logical_and", np.logical_and, "and", **_laws(lambda d: True,
                      idempotent=True, annihilators=(0, 0), exact_annihilators=True,
                      distributes_over=frozenset({"logical_or"})))
logical_or = _binary("logical_or", np.logical_or, "or", **_laws(lambda d: False,
                     idempotent=True, distributes_over=frozenset({"logical_and"})))
logical_xor = _binary("logical_xor", np.logical_xor, commutative=True)
bitwise_and = _binary("bitwise_and", np.bitwise_and, "&", **_laws(
    lambda d: True if d.kind == "b" else int(np.iinfo(d.name).max) if d.kind == "u" else -1,
    idempotent=True, annihilators=(0, 0), exact_annihilators=True))
bitwise_or = _binary("bitwise_or", np.bitwise_or, "|", **_laws(lambda d: 0, idempotent=True))
bitwise_xor = _binary("bitwise_xor", np.bitwise_xor, "^", commutative=True)
left_shift = _binary("left_shift", np.left_shift, "<<", annihilators=(0, None))
right_shift = _binary("right_shift", np.right_shift, ">>", annihilators=(0, None))

# -- unary -----------------------------------------------------------------------------------
negative = _unary("negative", np.negative)
positive = _unary("positive", np.positive)
absolute = _unary("absolute", np.absolute)
sign = _unary("sign", np.sign, formula=lambda x: np.where(
    x > 0, 1, np.where(x < 0, -1, np.where(x == 0, 0, x))))
logical_not = _unary("logical_not", np.logical_not)
invert = _unary("invert", np.invert)
bitwise_count = _unary("bitwise_count", np.bitwise_count)
isnan = _unary("isnan", np.isnan)
isinf = _unary("isinf", np.isinf)
isfinite = _unary("isfinite", np.isfinite, formula=lambda x: np.absolute(x) < math.inf)
signbit = _unary("signbit", np.signbit)
conjugate = _unary("conjugate", np.conjugate)
square = _unary("square", np.square, formula=lambda x: x * x)
reciprocal = _unary("reciprocal", np.reciprocal, formula=lambda x: 1 / x)
sqrt = _unary("sqrt", np.sqrt, slow=True)
cbrt = _unary("cbrt", np.cbrt, slow=True)
exp = _unary("exp", np.exp, slow=True)
exp2 = _unary("exp2", np.exp2, slow=True)
expm1 = _unary("expm1", np.expm1, slow=True)
log = _unary("log", np.log, slow=True)
log2 = _unary("log2", np.log2, slow=True)
log10 = _unary("log10", np.log10, slow=True)
log1p = _unary("log1p", np.log1p, slow=True)
sin = _unary("sin", np.sin, slow=True)
cos = _unary("cos", np.cos, slow=True)
tan = _unary("tan", np.tan, slow=True)
arcsin = _unary("arcsin", np.arcsin, slow=True)
arccos = _unary("arccos", np.arccos, slow=True)
arctan = _unary("arctan", np.arctan, slow=True)
sinh = _unary("sinh", np.sinh, slow=True)
cosh = _unary("cosh", np.cosh, slow=True)
tanh = _unary("tanh", np.tanh, slow=True)
arcsinh = _unary("arcsinh", np.arcsinh, slow=True)
arccosh = _unary("arccosh", np.arccosh, slow=True)
arctanh = _unary("arctanh", np.arctanh, slow=True)
floor = _unary("floor", np.floor)
ceil = _unary("ceil", np.ceil)
trunc = _unary("trunc", np.trunc)
rint = _unary("rint", np.rint)


def _part(dtype: DType) -> DType:
    return np.empty(0, dtype).real.dtype


def _imag(x: object) -> object:
    return np.asarray(x).imag


def _real(x: object) -> object:
    return np.asarray(x).real


real = _unary("real", _real, result=_part)
imag = _unary("imag", _imag, result=_part)


# -- where: the third argument is "zero of the context" when the text leaves it out ------------
def _where_result(p: DType, a: DType, b: DType) -> DType:
    return np.result_type(a, b)


where = _add(Operator("where", 3, np.where, result=_where_result))


@cache
def cast(dtype: DType) -> Operator:
    """The operator that converts to ``dtype`` (complex to real drops the imaginary part)."""

    def convert(x: object) -> object:
        array = np.asarray(x)
        if array.dtype.kind == "c" and dtype.kind not in "cb":
            array = array.real
        with np.errstate(all="ignore"):
            return array.astype(dtype)

    return Operator(f"cast_{dtype.name}", 1, convert, result=lambda d: dtype)


#: Monoids by the names users know.
MONOIDS: dict[str, Operator] = {
    "sum": add, "prod": multiply, "min": minimum, "max": maximum, "any": logical_or,
    "all": logical_and,
}


def user_monoid(
    name: str,
    function: Callable[..., object],
    meaning: Callable[..., object],
    identity: Scalar,
    *,
    commutative: bool = True,
    recipe: tuple[Callable[..., Operator], tuple[object, ...]] | None = None,
) -> Operator:
    """A user's associative operator with its declared identity."""
    return Operator(
        name, 2, meaning, associative=True, commutative=commutative,
        identity=lambda d: identity, expand=function, recipe=recipe,
    )
