"""Builders of pointwise steps: operators on entries, with broadcasting."""

from __future__ import annotations

from tensorel.testing.generate import Draft, Pool, Value

#: Functions that keep whole numbers whole, by the kinds that they take.
_WHOLE = {
    "negative": "iufc", "absolute": "biufc", "square": "iufc", "positive": "iufc",
    "conjugate": "iufc", "invert": "biu", "real": "fc", "imag": "fc",
}
#: Functions that jump: only on exact values.
_JUMPS = {
    "sign": "iuf", "logical_not": "biufc", "floor": "iuf", "ceil": "iuf", "trunc": "iuf",
    "rint": "f", "isnan": "iufc", "isfinite": "iufc", "isinf": "iufc", "signbit": "iu",
}
#: Smooth functions with the range in which they are harmless.
_SMOOTH = {
    "exp": (-20, 20), "expm1": (-20, 20), "exp2": (-20, 20), "sin": (-100, 100),
    "cos": (-100, 100), "tanh": (-100, 100), "sinh": (-10, 10), "cosh": (-10, 10),
    "arctan": (-1e6, 1e6), "arcsinh": (-1e6, 1e6), "log1p": (-0.5, 1e6), "log": (0.5, 1e6),
    "log2": (0.5, 1e6), "log10": (0.5, 1e6), "sqrt": (0.25, 1e6), "cbrt": (0.25, 1e6),
    "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9), "arctanh": (-0.9, 0.9), "arccosh": (1.5, 1e6),
    "tan": (-1, 1),
}
_REAL_ONLY = frozenset({"cbrt", "arccosh", "arctan", "log", "log2", "log10", "sqrt", "log1p"})


def unary(pool: Pool) -> Draft | None:
    v = pool.value()
    if pool.chance(0.45):
        names = [n for n, kinds in _WHOLE.items() if v.kind in kinds]
        return Draft(f"xp.{pool.one(*names)}({{0}})", (v,)) if names else None
    if pool.chance(0.4):
        names = [n for n, kinds in _JUMPS.items() if v.kind in kinds]
        return Draft(f"xp.{pool.one(*names)}({{0}})", (v,)) if names and v.exact else None
    names = [
        n for n, (low, high) in _SMOOTH.items()
        if v.within(low, high) and not (v.kind == "c" and n in _REAL_ONLY)
    ]
    if v.exact and v.within(0, 1e6) and v.kind != "c":
        names += ["sqrt", "sqrt"]
    return Draft(f"xp.{pool.one(*names)}({{0}})", (v,), exact=False) if names else None


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
    if pool.chance(0.3):
        number = _scalar(pool, a)
        text = f"{{0}} {sign} {number}" if pool.chance(0.6) else f"{number} {sign} {{0}}"
        return Draft(text, (a,))
    b = pool.partner(a)
    if b is None:
        return None
    text = f"{{0}} {sign} {{1}}"
    if pool.chance(0.2):
        name = {"+": "add", "-": "subtract", "*": "multiply"}[sign]
        text = f"xp.{name}({{0}}, {{1}})"
    return Draft(text, (a, b) if pool.chance(0.5) else (b, a))


def division(pool: Pool) -> Draft | None:
    a = pool.value()
    b = pool.partner(a)
    if b is None:
        return None
    if not b.away(0.5):
        return Draft("{0} / (abs({1}) + 1)", (a, b), exact=False) if b.kind != "b" else None
    if pool.chance(0.5) or "c" in a.kind + b.kind or not (a.exact and b.exact):
        return Draft("{0} / {1}", (a, b), exact=False)
    return Draft(pool.one("{0} // {1}", "{0} % {1}"), (a, b))


def power(pool: Pool) -> Draft | None:
    a = pool.value()
    if not a.within(-60, 60):
        return None
    if pool.chance(0.6):
        return Draft(f"{{0}} ** {pool.one(2, 2, 3)}", (a,))
    b = pool.partner(a)
    if b is None or b.kind == "c" or not (b.exact and b.within(0, 3)):
        return None
    return Draft("{0} ** {1}", (a, b))


def extremes(pool: Pool) -> Draft | None:
    a = pool.value()
    b = pool.partner(a)
    if b is None or "c" in a.kind + b.kind:
        return None
    if pool.chance(0.25):
        low = pool.whole(0, 1) if a.kind in "ub" else pool.whole(-2, 1)
        return Draft(f"xp.clip({{0}}, {low}, {low + 2})", (a,)) if a.kind != "b" else None
    name = pool.one("minimum", "maximum", "minimum", "maximum", "hypot", "logaddexp", "arctan2")
    if name == "arctan2" and not (a.away(0.5) and b.away(0.5)):
        return None
    smooth = name in ("hypot", "logaddexp", "arctan2")
    return Draft(f"xp.{name}({{0}}, {{1}})", (a, b), exact=not smooth)


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
    return Draft(f"{{0}} {sign} {{1}}", (a, b))


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
    if a.kind in "iu" and b.kind in "iu" and b.within(0, 6) and pool.chance(0.3):
        return Draft(pool.one("{0} << {1}", "{0} >> {1}"), (a, b))
    return Draft(f"{{0}} {pool.one('&', '|', '^')} {{1}}", (a, b))


def where(pool: Pool) -> Draft | None:
    a = pool.value()
    b, c = pool.partner(a), pool.partner(a)
    if b is None or c is None or not c.exact:
        return None
    condition = "{2}" if c.kind == "b" else "{2} != 0" if c.kind == "c" else "{2} > 0"
    if pool.chance(0.3):
        return Draft(f"xp.where({condition}, {{0}}, {_scalar(pool, a)})".replace("{2}", "{1}"),
                     (a, c))
    return Draft(f"xp.where({condition}, {{0}}, {{1}})", (a, b, c))


def astype(pool: Pool) -> Draft | None:
    v = pool.value()
    if v.kind == "c":
        return Draft(pool.one("{0}.astype('complex64')", "{0}.astype('complex128')"), (v,))
    floats = ["float32", "float64", "complex64", "complex128"]
    names = list(floats)
    if v.exact:
        names += ["bool", "int64", "int32", "int8", "int16"] if v.within(-100, 100) else ["bool"]
        names += ["uint8", "uint16", "uint32", "uint64"] if v.within(0, 100) else []
    return Draft(f"{{0}}.astype({pool.one(*names)!r})", (v,))


def mapped(pool: Pool) -> Draft | None:
    """A traced Python function of entries."""
    a = pool.value()
    b = pool.partner(a)
    if b is None or "b" in (a.kind, b.kind) or not (a.within(-1e3, 1e3) and b.within(-1e3, 1e3)):
        return None
    body = pool.one("x * y + x", "x - y * y", "(x + 1) * y", "x * x * y")
    return Draft(f"xp.map(lambda x, y: {body}, {{0}}, {{1}})", (a, b))


