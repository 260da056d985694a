"""Builders of pointwise steps: operators on entries, with broadcasting."""

from __future__ import annotations

from tensorel.testing.programs.generate import Draft, Pool, Value

#: Functions that keep whole numbers whole, by the kinds that they take.
_WHOLE = {
    "negative": "iufc", "absolute": "biufc", "abs": "biufc", "square": "iufc", "positive": "iufc",
    "conjugate": "iufc", "conj": "iufc", "invert": "biu", "bitwise_invert": "biu",
    "bitwise_not": "biu", "real": "fc", "imag": "fc",
}
#: The same as operators and methods of tensors: by kinds, with the text for NumPy.
_SPELLED = {
    "-{0}": "iufc", "+{0}": "iufc", "abs({0})": "biufc", "~{0}": "biu", "{0}.conj()": "iufc",
    "{0}.conjugate()": "iufc",
    "{0}.real": "fc", "{0}.imag": "fc",
}
#: Functions that jump: only on exact values.
_JUMPS = {
    "sign": "iuf", "logical_not": "biufc", "floor": "iuf", "ceil": "iuf", "trunc": "iuf",
    "rint": "f", "signbit": "iu", "round": "iuf",
}
#: Questions about nan and inf.
_ASKS = {"isnan": "iufc", "isfinite": "iufc", "isinf": "iufc", "nan_to_num": "f"}
#: Smooth functions with the range in which they are harmless.
_SMOOTH = {
    "exp": (-20, 20), "expm1": (-20, 20), "exp2": (-20, 20), "sin": (-100, 100),
    "cos": (-100, 100), "tanh": (-100, 100), "sinh": (-10, 10), "cosh": (-10, 10),
    "arctan": (-1e6, 1e6), "arcsinh": (-1e6, 1e6), "log1p": (-0.5, 1e6), "log": (0.5, 1e6),
    "log2": (0.5, 1e6), "log10": (0.5, 1e6), "sqrt": (0.25, 1e6), "cbrt": (0.25, 1e6),
    "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9), "arctanh": (-0.9, 0.9), "arccosh": (1.5, 1e6),
    "tan": (-1, 1), "reciprocal": (0.5, 1e6), "atan": (-1e6, 1e6), "asinh": (-1e6, 1e6),
    "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "atanh": (-0.9, 0.9), "acosh": (1.5, 1e6),
}
_REAL_ONLY = frozenset({"cbrt", "arccosh", "arctan", "log", "log2", "log10", "sqrt", "log1p",
                        "acosh", "atan", "reciprocal"})
_SIGNS = {
    "+": ("add",), "-": ("subtract",), "*": ("multiply",), "/": ("divide", "true_divide"),
    "//": ("floor_divide",), "%": ("remainder", "mod"), "**": ("power", "pow"), "==": ("equal",),
    "!=": ("not_equal",), "<": ("less",), "<=": ("less_equal",), ">": ("greater",),
    ">=": ("greater_equal",), "&": ("bitwise_and",), "|": ("bitwise_or",), "^": ("bitwise_xor",),
    "<<": ("left_shift", "bitwise_left_shift"), ">>": ("right_shift", "bitwise_right_shift"),
}


def _written(pool: Pool, sign: str) -> str:
    """A binary operator, as a sign or as a function."""
    if pool.chance(0.7):
        return f"{{0}} {sign} {{1}}"
    return f"xp.{pool.one(*_SIGNS[sign])}({{0}}, {{1}})"


def unary(pool: Pool) -> Draft | None:
    v = pool.value()
    if pool.chance(0.12):
        names = [n for n, kinds in _ASKS.items() if v.kind in kinds]
        return Draft(f"xp.{pool.one(*names)}({{0}})", (v,), safe=True) if names else None
    if pool.chance(0.45):
        texts = [f"xp.{n}({{0}})" for n, kinds in _WHOLE.items() if v.kind in kinds]
        texts += [text for text, kinds in _SPELLED.items() if v.kind in kinds]
        return Draft(pool.one(*texts), (v,)) if texts else None
    if pool.chance(0.4):
        names = [n for n, kinds in _JUMPS.items() if v.kind in kinds]
        names += ["signbit"] if v.kind == "f" and v.away(0.5) else []
        if not names or not v.exact:
            return None
        if pool.chance(0.1) and v.kind in "iuf":
            return Draft(f"{{0}}.round({pool.one('', '1')})", (v,))
        return Draft(f"xp.{pool.one(*names)}({{0}})", (v,))
    if pool.chance(0.5):
        return _brought_into_range(pool, v)
    names = [
        n for n, (low, high) in _SMOOTH.items()
        if v.within(low, high) and not (v.kind == "c" and n in _REAL_ONLY)
    ]
    if v.exact and v.within(0, 1e6) and v.kind != "c":
        names += ["sqrt", "sqrt"]
    return Draft(f"xp.{pool.one(*names)}({{0}})", (v,), exact=False) if names else None


def _brought_into_range(pool: Pool, v: Value) -> Draft | None:
    """Any smooth function, of values that are changed to lie where it is harmless."""
    name = pool.one(*_SMOOTH)
    low, high = _SMOOTH[name]
    if v.kind == "b" or (v.kind == "c" and name in _REAL_ONLY) or not v.within(-1e3, 1e3):
        return None
    operand = "(abs({0}) + 2)" if low > 0 else f"({{0}} / {1000 if high <= 1 else 100})"
    return Draft(f"xp.{name}({operand})", (v,), exact=False)


def _scalar(pool: Pool, v: Value) -> str:
    """A Python number that NumPy takes beside ``v``."""
    if v.kind == "b":
        return str(pool.one("True", "False", "2"))
    if v.kind == "u":
        return str(pool.whole(0, 3))
    if v.kind == "i":
        return str(pool.one("-1", "1", "2", "3", "0", "2.5"))
    return str(pool.one("-1", "0", "1", "2", "0.5", "2.0", "-3.0"))


def arithmetic(pool: Pool) -> Draft | None:
    a = pool.value()
    sign = pool.one("+", "-", "*", "*", "+")
    linear = "*" if sign == "*" else "+"
    if pool.chance(0.3):
        number = _scalar(pool, a)
        text = f"{{0}} {sign} {number}" if pool.chance(0.6) else f"{number} {sign} {{0}}"
        return Draft(text, (a,), measure=f"{{0}} {linear} {number.lstrip('-')}")
    b = pool.partner(a)
    if b is None:
        return None
    args = (a, b) if pool.chance(0.5) else (b, a)
    return Draft(_written(pool, sign), args, measure=f"{{0}} {linear} {{1}}")


def division(pool: Pool) -> Draft | None:
    a = pool.value()
    b = pool.partner(a)
    if pool.chance(0.2) and a.kind in "iuf" and a.exact:
        return Draft(f"{pool.one(1, 7, 12)} {pool.one('//', '%')} (abs({{0}}) + 1)", (a,))
    if pool.chance(0.15) and a.kind != "b" and a.away(0.5):
        return Draft(f"{pool.one(1, 2.5)} / {{0}}", (a,), exact=False)
    if b is None:
        return None
    if not b.away(0.5) and b.kind != "b":
        if a.exact and b.exact and "c" not in a.kind + b.kind and pool.chance(0.5):
            text = _written(pool, pool.one("//", "%")).replace("{1}", "(abs({1}) + 1)")
            return Draft(text, (a, b))
        return Draft("{0} / (abs({1}) + 1)", (a, b), exact=False)
    if not b.away(0.5):
        return None
    if pool.chance(0.5) or "c" in a.kind + b.kind or not (a.exact and b.exact):
        return Draft(_written(pool, "/"), (a, b), exact=False)
    if pool.chance(0.15):
        return Draft(f"divmod({{0}}, {{1}})[{pool.whole(0, 1)}]", (a, b))
    return Draft(_written(pool, pool.one("//", "%")), (a, b))


def power(pool: Pool) -> Draft | None:
    a = pool.value()
    if not a.within(-60, 60):
        return None
    if pool.chance(0.2) and a.exact and a.kind in "iuf" and a.within(0, 4):
        return Draft("2 ** {0}", (a,))
    if pool.chance(0.6):
        return Draft(f"{{0}} ** {pool.one(2, 2, 3)}", (a,))
    b = pool.partner(a)
    if b is None or b.kind == "c" or not (b.exact and b.within(0, 3)):
        return None
    return Draft(_written(pool, "**"), (a, b))


def extremes(pool: Pool) -> Draft | None:
    a = pool.value()
    b = pool.partner(a)
    if b is None or "c" in a.kind + b.kind:
        return None
    if pool.chance(0.25):
        low = pool.whole(0, 1) if a.kind in "ub" else pool.whole(-2, 1)
        ends = pool.one(f"{low}, {low + 2}", f"None, {low}", f"min={low}")
        if a.kind == "b":
            return None
        return Draft(pool.one(f"xp.clip({{0}}, {ends})", f"{{0}}.clip({ends})"), (a,))
    name = pool.one("minimum", "maximum", "minimum", "maximum", "hypot", "logaddexp", "arctan2",
                    "atan2", "copysign", "nextafter")
    if name in ("arctan2", "atan2", "copysign") and not (a.away(0.5) and b.away(0.5)):
        return None
    if name == "nextafter" and not (a.exact and b.exact):
        return None
    whole = name in ("minimum", "maximum", "copysign")
    return Draft(f"xp.{name}({{0}}, {{1}})", (a, b), exact=whole)


def comparison(pool: Pool) -> Draft | None:
    a = pool.value()
    if not a.exact:
        return None
    sign = pool.one("==", "!=") if a.kind == "c" else pool.one("==", "!=", "<", "<=", ">", ">=")
    if pool.chance(0.5):
        return Draft(f"{{0}} {sign} {pool.whole(0, 2)}", (a,))
    b = pool.partner(a)
    if b is None or not b.exact or (b.kind == "c" and sign not in ("==", "!=")):
        return None
    if pool.chance(0.1):
        name = pool.one("isclose", "allclose", "array_equal")
        if name == "isclose":
            return Draft("xp.isclose({0}, {1})", (a, b))
        return Draft(f"xp.asarray(xp.{name}({{0}}, {{1}}))", (a, b), settled=True)
    return Draft(_written(pool, sign), (a, b))


def logic(pool: Pool) -> Draft | None:
    a = pool.value()
    b = pool.partner(a)
    if b is None or not (a.exact and b.exact):
        return None
    if pool.chance(0.4):
        name = pool.one("logical_and", "logical_or", "logical_xor")
        return Draft(f"xp.{name}({{0}}, {{1}})", (a, b))
    if a.kind not in "biu" or b.kind not in "biu":
        return None
    if a.kind in "iu" and b.kind in "iu" and pool.chance(0.5):
        if pool.chance(0.3):
            return Draft(f"{pool.one(1, 100)} {pool.one('<<', '>>')} ({{0}} & 3)", (b,))
        text = _written(pool, pool.one("<<", ">>"))
        return Draft(text if b.within(0, 6) else text.replace("{1}", "({1} & 3)"), (a, b))
    sign = pool.one("&", "|", "^")
    if pool.chance(0.3) and a.kind in "iu":
        return Draft(f"{pool.one(1, 6)} {sign} {{0}}", (a,))
    return Draft(_written(pool, sign), (a, b))


def where(pool: Pool) -> Draft | None:
    a = pool.value()
    b, c = pool.partner(a), pool.partner(a)
    if b is None or c is None or not c.exact:
        return None
    condition = "{2}" if c.kind == "b" else "{2} != 0" if c.kind == "c" else "{2} > 0"
    if pool.chance(0.3):
        number = _scalar(pool, a)
        return Draft(f"xp.where({condition}, {{0}}, {number})".replace("{2}", "{1}"), (a, c),
                     measure=f"xp.maximum({{0}}, {number}) + 0 * {{1}}")
    return Draft(f"xp.where({condition}, {{0}}, {{1}})", (a, b, c), safe=True,
                 measure="xp.maximum({0}, {1}) + 0 * {2}")


def astype(pool: Pool) -> Draft | None:
    v = pool.value()
    text = pool.one("{{0}}.astype({!r})", "xp.astype({{0}}, {!r})")
    if v.kind == "c":
        return Draft(text.format(pool.one("complex64", "complex128")), (v,))
    floats = ["float32", "float64", "complex64", "complex128"]
    names = list(floats)
    if v.exact:
        names += ["bool", "int64", "int32", "int8", "int16"] if v.within(-100, 100) else ["bool"]
        names += ["uint8", "uint16", "uint32", "uint64"] if v.within(0, 100) else []
    return Draft(text.format(pool.one(*names)), (v,))


def mapped(pool: Pool) -> Draft | None:
    """A traced Python function of entries."""
    a = pool.value()
    b = pool.partner(a)
    if b is None or "b" in (a.kind, b.kind) or not (a.within(-1e3, 1e3) and b.within(-1e3, 1e3)):
        return None
    body = pool.one("x * y + x", "x - y * y", "(x + 1) * y", "x * x * y")
    return Draft(f"xp.map(lambda x, y: {body}, {{0}}, {{1}})", (a, b),
                 measure="xp.map(lambda x, y: " + body.replace("-", "+") + ", {0}, {1})")
