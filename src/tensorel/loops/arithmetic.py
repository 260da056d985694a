"""Operators and functions of numbers, as Python and NumPy have them."""

from __future__ import annotations

import numpy as np

from tensorel.algebra import ops
from tensorel.algebra.ops import BOOL, FLOAT64, INT64, DType
from tensorel.ir import overflows
from tensorel.ir.build import convert
from tensorel.ir.nodes import Call, Const, Expr, const
from tensorel.loops import functions, syntax, wrong
from tensorel.loops.analysis.facts import Fact
from tensorel.loops.expressions import Expressions
from tensorel.loops.types import PY_INT, Scalar, taken
from tensorel.loops.wrong import Wrong, call

_LARGEST_SHIFT = 62
_LARGEST_LITERAL = 2**61


class Arithmetic(Expressions):
    """Lowers calls."""

    def apply(self, e: syntax.Apply) -> Expr:
        name = e.function
        if name == "not":
            return self.truth(e)
        if name in ("min", "max"):
            return self._extreme(e)
        if name in functions.COMPARISONS:
            return self._compare(e)
        if name in functions.TEXT:
            return self._text(e)
        if name in functions.BINARY:
            if all(self.type(a).weak for a in e.args):
                return self._python(e)
            return self._numpy(e, functions.BINARY[name])
        if name == "np.where":
            test, *values = e.args
            dtypes = taken(*[self.type(v) for v in values])
            return Call(ops.where, (self.truth(test), *[
                self.operand(v, d) for v, d in zip(values, dtypes)]))
        if name in functions.NUMPY:
            return self._numpy(e, functions.NUMPY[name])
        if name.startswith("math."):
            return self._math(e)
        return self._unary(e)

    # -- NumPy's numbers ---------------------------------------------------------------------
    def _numpy(self, e: syntax.Apply, op: ops.Operator) -> Expr:
        dtypes = taken(*[self.type(a) for a in e.args])
        args = [self.operand(a, d) for a, d in zip(e.args, dtypes)]
        if op is ops.power and all(d.kind in "iub" for d in dtypes):
            power = args[1]
            if power.dtype.kind == "i" and not (isinstance(power, Const) and power.value >= 0) \
                    and not self.has(e.args[1], Fact.NATURAL):
                power = self.hold(power)
                self.check(wrong.negative(power), Wrong.NEGATIVE, e.line)
                args[1] = power
        return convert(Call(op, tuple(args)), self.type(e).dtype)

    def _text(self, e: syntax.Apply) -> Expr:
        types = [self.type(a) for a in e.args]
        whole = all(t.dtype.kind in "biu" for t in types)
        op = functions.TEXT[e.function][not whole]
        if not all(t.weak for t in types):
            return self._numpy(e, op)
        dtype = INT64 if whole else FLOAT64
        return Call(op, tuple([convert(self.value(a), dtype) for a in e.args]))

    def _compare(self, e: syntax.Apply) -> Expr:
        op = functions.COMPARISONS[e.function]
        types = [self.type(a) for a in e.args]
        kinds = {t.dtype.kind for t in types}
        if kinds <= {"b", "i", "u"}:  # exact, whatever the dtypes
            dtypes = [INT64 if t.weak else t.dtype for t in types]
        elif all(t.weak for t in types):
            dtypes = [t.dtype if "c" in kinds else FLOAT64 for t in types]
            for a, t in zip(e.args, types):
                if t.dtype.kind == "i" and not isinstance(a, syntax.Number) and \
                        not self.has(a, Fact.SMALL):
                    found = self.hold(self.value(a))
                    self.check(wrong.misses(found), Wrong.EXACT, a.line, "double", found)
        else:
            dtypes = taken(*types)
        args = [convert(self.value(a), d) for a, d in zip(e.args, dtypes)]
        return Call(op, tuple(args))

    def _extreme(self, e: syntax.Apply) -> Expr:
        """min gives its second argument where that is smaller: what nan does follows."""
        t = self.type(e)
        a, b = [self.hold(self.joined(x, t)) for x in e.args]
        if t.dtype.kind in "iub":
            return Call(ops.minimum if e.function == "min" else ops.maximum, (a, b))
        test = call(ops.less if e.function == "min" else ops.greater, b, a)
        return call(ops.where, test, b, a)

    # -- Python's numbers --------------------------------------------------------------------
    def _python(self, e: syntax.Apply) -> Expr:
        t, name = self.type(e), e.function
        if t.dtype.kind == "i":
            return self._whole(e, name)
        if t.dtype.kind == "c":
            return Call(functions.BINARY[name], tuple([
                convert(self.value(a), t.dtype) for a in e.args]))
        if t.dtype == BOOL:
            return Call(functions.BINARY[name], tuple([self.value(a) for a in e.args]))
        a, b = [convert(self.value(x), FLOAT64) for x in e.args]
        if name in ("/", "//", "%"):
            for x in e.args if name == "/" else ():
                if self.type(x).dtype.kind == "i" and not self.has(x, Fact.SMALL) and \
                        not isinstance(x, syntax.Number):
                    whole = self.hold(self.value(x))
                    self.check(wrong.misses(whole), Wrong.EXACT, x.line, "double", whole)
            b = self._divisor(e, b)
        if name == "**":
            return self._power(e, a, b)
        return Call(functions.BINARY[name], (a, b))

    def _divisor(self, e: syntax.Apply, b: Expr) -> Expr:
        """A divisor that is not zero."""
        if (isinstance(b, Const) and b.value != 0) or self.has(e.args[1], Fact.POSITIVE) or \
                self.has(e.args[1], Fact.NEGATIVE):
            return b
        b = self.hold(b)
        self.check(wrong.is_zero(b), Wrong.ZERO, e.line)
        return b

    def _whole(self, e: syntax.Apply, name: str) -> Expr:
        op = functions.BINARY[name]
        fits = self.has(e, Fact.FITS)
        factor, added, inner = (1, 0, e) if fits else self._linear(e)
        if inner is not e and factor:
            return self._multiple(factor, added, inner, e.line)
        a, b = [convert(self.value(x), INT64) for x in e.args]
        if name == "%" and self.has(e, Fact.ONCE):
            a = self.hold(a)
            less = call(ops.where, call(ops.greater_equal, a, b), call(ops.subtract, a, b), a)
            return call(ops.where, wrong.negative(a), call(ops.add, a, b), less)
        if name in ("//", "%"):
            b = self._divisor(e, b)
            if name == "//" and not fits and not self.has(e.args[0], Fact.FITS) and \
                    not self.has(e.args[1], Fact.POSITIVE) and not (
                    isinstance(b, Const) and b.value != -1):
                a, b = self.hold(a), self.hold(b)
                last = call(ops.equal, b, const(-1, INT64))
                bad = call(ops.logical_and, overflows.is_lowest(a), last)
                self.check(bad, Wrong.OVERFLOW, e.line)
            return Call(op, (a, b))
        if name in ("&", "|", "^") or (fits and name in ("+", "-", "*")):
            return Call(op, (a, b))
        a, b = self.hold(a), self.hold(b)
        if name in ("+", "-"):
            found = self.hold(Call(op, (a, b)))
            self.check(overflows.wrapped(op, a, b, found), Wrong.OVERFLOW, e.line)
            return found
        if name in ("<<", ">>"):
            return self._shift(e, op, a, b)
        if name == "**" and not (isinstance(b, Const) and b.value >= 0):
            self.check(wrong.negative(b), Wrong.NEGATIVE, e.line)
        self.check(wrong.too_large(Call(op, (convert(a, FLOAT64), convert(b, FLOAT64)))),
                   Wrong.OVERFLOW, e.line)
        return Call(op, (a, b))

    def _linear(self, e: syntax.Expr) -> tuple[int, int, syntax.Expr]:
        """``factor * inner + added`` for what is written with literals, in any way."""
        found: tuple[int, int, syntax.Expr] = 1, 0, e
        if isinstance(e, syntax.Apply) and self.type(e) == PY_INT and all(
                self.type(a) == PY_INT for a in e.args):
            match e.function, e.args:
                case "neg", (a,):
                    c, d, x = self._linear(a)
                    found = -c, -d, x
                case "+" | "-" | "*" as op, (a, syntax.Number(value=int() as v)):
                    c, d, x = self._linear(a)
                    found = (c * v, d * v, x) if op == "*" else (c, d + (v if op == "+" else -v), x)
                case "+" | "-" | "*" as op, (syntax.Number(value=int() as v), b):
                    c, d, x = self._linear(b)
                    found = (c * v, d * v, x) if op == "*" else (
                        (c, d + v, x) if op == "+" else (-c, v - d, x))
        return found if max(abs(found[0]), abs(found[1])) < _LARGEST_LITERAL else (1, 0, e)

    def _multiple(self, factor: int, added: int, inner: syntax.Expr, line: int) -> Expr:
        """``factor * inner + added``. Numbers wrap around on the way, which does no harm if the end
        fits."""
        x = self.hold(convert(self.value(inner), INT64))
        self.check(wrong.too_far(x, factor, added), Wrong.OVERFLOW, line)
        if abs(factor) != 1:
            x = call(ops.multiply, x, const(factor, INT64))
        elif factor < 0:
            return call(ops.subtract, const(added, INT64), x)
        return call(ops.add, x, const(added, INT64)) if added else x

    def _shift(self, e: syntax.Apply, op: ops.Operator, a: Expr, b: Expr) -> Expr:
        if not self.has(e.args[1], Fact.NATURAL) and not isinstance(b, Const):
            self.check(wrong.negative(b), Wrong.SHIFT, e.line)
        found = self.hold(Call(op, (a, b)))
        if op is ops.left_shift:
            back = call(ops.not_equal, call(ops.right_shift, found, b), a)
            wide = call(ops.logical_and, call(ops.greater, b, const(_LARGEST_SHIFT, INT64)),
                        call(ops.not_equal, a, const(0, INT64)))
            self.check(call(ops.logical_or, back, wide), Wrong.OVERFLOW, e.line)
        return found

    def _power(self, e: syntax.Apply, a: Expr, b: Expr) -> Expr:
        if isinstance(b, Const) and b.value in (1.0, 2.0):
            found = self.hold(a if b.value == 1.0 else call(ops.multiply, self.hold(a), a))
            self._finite(found, [a], e)
            return found
        a, b = self.hold(a), self.hold(b)
        zero = const(0.0)
        if not (isinstance(b, Const) and b.value == np.floor(b.value)):
            uneven = call(ops.not_equal, call(ops.floor, b), b)
            finite = call(ops.isfinite, a)
            self.check(call(ops.logical_and, call(ops.logical_and, call(ops.less, a, zero), finite),
                            uneven), Wrong.COMPLEX, e.line)
        if not (isinstance(b, Const) and b.value >= 0):
            self.check(call(ops.logical_and, wrong.is_zero(a), call(ops.less, b, zero)),
                       Wrong.ZERO, e.line)
        found = self.hold(Call(ops.power, (a, b)))
        self._finite(found, [a, b], e)
        return found

    def _finite(self, found: Expr, args: list[Expr], e: syntax.Apply) -> None:
        """Finite arguments have a finite result."""
        bad: Expr = call(ops.isinf, found)
        for a in args:
            if not isinstance(a, Const):
                bad = call(ops.logical_and, bad, call(ops.isfinite, a))
        self.check(bad, Wrong.RANGE, e.line, e.function)

    # -- functions ---------------------------------------------------------------------------
    def _math(self, e: syntax.Apply) -> Expr:
        name = e.function
        if name in functions.MATH_WHOLE and self.type(e.args[0]).dtype.kind in "biu":
            return convert(self.value(e.args[0]), INT64)
        args = [self.hold(convert(self.value(a), FLOAT64)) for a in e.args]
        if name in functions.MATH_TESTS:
            return Call(functions.MATH_TESTS[name], tuple(args))
        if name in functions.MATH_WHOLE:
            return self._to_whole(Call(functions.MATH_WHOLE[name], tuple(args)), e.line)
        found = self.hold(Call(functions.MATH[name], tuple(args)))
        if name not in _TOTAL:
            bad: Expr = call(ops.isnan, found)
            for a in args:
                bad = call(ops.logical_and, bad, call(ops.equal, a, a))
            self.check(bad, Wrong.DOMAIN, e.line, name)
            if name not in _BOUNDED:
                self._finite(found, args, e)
        return found

    def _to_whole(self, found: Expr, line: int) -> Expr:
        found = self.hold(found)
        size = call(ops.absolute, found)
        self.check(call(ops.logical_not, call(ops.less, size, const(2.0**63))), Wrong.WHOLE, line)
        return convert(found, INT64)

    def _unary(self, e: syntax.Apply) -> Expr:
        name, (arg,) = e.function, e.args
        t, own = self.type(e), self.type(arg)
        if name == "bool":
            return self.truth(arg)
        if name in ("int", "round"):
            found = self.value(arg)
            if found.dtype.kind in "biu":
                return convert(found, INT64)
            whole = Call(ops.rint if name == "round" else ops.trunc, (found,))
            return self._to_whole(convert(whole, FLOAT64), e.line)
        if name == "float":
            return convert(self.value(arg), FLOAT64)
        if name in functions.CASTS:
            return self._cast(arg, own, t.dtype)
        value = self.value(arg)
        if own.weak:
            value = convert(value, t.dtype if t.dtype.kind != "f" else own.dtype)
        op = functions.UNARY.get(name, ops.absolute)
        if t == PY_INT and op in (ops.negative, ops.absolute) and not self.has(e, Fact.FITS) and \
                not self.has(arg, Fact.FITS):
            value = self.hold(value)
            self.check(overflows.is_lowest(value), Wrong.OVERFLOW, e.line)
        return Call(op, (value,))

    def _cast(self, arg: syntax.Expr, own: Scalar, dtype: DType) -> Expr:
        """NumPy's scalar types: a Python number must fit, another is converted."""
        found = self.value(arg)
        if not own.weak or dtype.kind not in "iu":
            return convert(found, dtype)
        if found.dtype.kind == "f":
            return convert(self._to_whole(call(ops.trunc, found), arg.line), dtype)
        return self.fitted(arg, convert(found, INT64), dtype)

    def stored(self, e: syntax.Expr, dtype: DType) -> Expr:
        """A value as an array of this dtype takes it."""
        own = self.type(e)
        if own.weak and dtype.kind in "iu":
            return self._cast(e, own, dtype)
        return convert(self.value(e), dtype)


#: Functions of ``math`` that are defined everywhere, and those whose results are never infinite.
_TOTAL = frozenset(f"math.{n}" for n in ("fabs", "copysign", "atan", "tanh", "atan2", "asinh"))
_BOUNDED = frozenset(f"math.{n}" for n in ("sqrt", "sin", "cos", "tan", "asin", "acos", "cbrt"))
