"""Dates and times in kernels: numbers of days and of microseconds since 1970, by whole arithmetic
alone (Hinnant, chrono-compatible low-level date algorithms)."""

from __future__ import annotations

from tensorel.algebra import ops
from tensorel.ir.build import as_expr, convert
from tensorel.ir.nodes import INT64, Call, Expr, const
from tensorel.sql.types import Type

DAY = 86_400_000_000  # microseconds
_SECONDS = {"hour": 3600, "minute": 60, "second": 1}


def _op(op: ops.Operator, a: Expr, b: Expr | int) -> Expr:
    return Call(op, (a, as_expr(b)))


def add(a: Expr, b: Expr | int) -> Expr:
    return _op(ops.add, a, b)


def sub(a: Expr, b: Expr | int) -> Expr:
    return _op(ops.subtract, a, b)


def mul(a: Expr, b: Expr | int) -> Expr:
    return _op(ops.multiply, a, b)


def div(a: Expr, b: Expr | int) -> Expr:
    """Rounded down."""
    return _op(ops.floor_divide, a, b)


def mod(a: Expr, b: Expr | int) -> Expr:
    return _op(ops.remainder, a, b)


def days_of(e: Expr, type: Type) -> Expr:
    return div(e, DAY) if type is Type.TIMESTAMP else e


def civil(days: Expr) -> tuple[Expr, Expr, Expr]:
    """Year, month and day of the month."""
    z = add(days, 719468)
    era = div(z, 146097)
    doe = sub(z, mul(era, 146097))
    yoe = div(sub(add(sub(doe, div(doe, 1460)), div(doe, 36524)), div(doe, 146096)), 365)
    doy = sub(doe, sub(add(mul(yoe, 365), div(yoe, 4)), div(yoe, 100)))
    mp = div(add(mul(doy, 5), 2), 153)
    day = add(sub(doy, div(add(mul(mp, 153), 2), 5)), 1)
    month = Call(ops.where, (_op(ops.less, mp, 10), add(mp, 3), sub(mp, 9)))
    year = add(add(yoe, mul(era, 400)), convert(_op(ops.less_equal, month, 2), INT64))
    return year, month, day


def days_from(year: Expr, month: Expr, day: Expr) -> Expr:
    """The day of a date."""
    early = _op(ops.less_equal, month, 2)
    y = sub(year, convert(early, INT64))
    era = div(y, 400)
    yoe = sub(y, mul(era, 400))
    shifted = add(month, Call(ops.where, (early, const(9, INT64), const(-3, INT64))))
    doy = sub(add(div(add(mul(shifted, 153), 2), 5), day), 1)
    doe = add(sub(add(mul(yoe, 365), div(yoe, 4)), div(yoe, 100)), doy)
    return sub(add(mul(era, 146097), doe), 719468)


def _weekday(days: Expr) -> Expr:
    """0 on Sundays."""
    return mod(add(days, 4), 7)


def _iso_week(days: Expr) -> Expr:
    """The week that has the year's first Thursday is the first."""
    thursday = add(sub(days, mod(add(days, 3), 7)), 3)
    year, _, _ = civil(thursday)
    first = days_from(year, const(1, INT64), const(1, INT64))
    return add(div(sub(thursday, first), 7), 1)


def field(name: str, e: Expr, type: Type) -> Expr:
    """A part of a date or time by its name."""
    days = days_of(e, type)
    match name:
        case "year" | "month" | "day":
            return civil(days)[("year", "month", "day").index(name)]
        case "quarter":
            return add(div(sub(civil(days)[1], 1), 3), 1)
        case "dayofweek":
            return _weekday(days)
        case "isodow":
            return add(mod(add(days, 3), 7), 1)
        case "dayofyear":
            first = days_from(civil(days)[0], const(1, INT64), const(1, INT64))
            return add(sub(days, first), 1)
        case "week":
            return _iso_week(days)
    seconds = div(e, 1_000_000) if type is Type.TIMESTAMP else mul(e, 86400)
    if name == "epoch":
        return seconds
    within = {"hour": 24, "minute": 60, "second": 60}[name]
    return mod(div(seconds, _SECONDS[name]), within)


def truncated(unit: str, e: Expr) -> Expr:
    """The start of the unit that a time lies in."""
    if unit in _SECONDS:
        size = _SECONDS[unit] * 1_000_000
        return mul(div(e, size), size)
    days = div(e, DAY)
    one = const(1, INT64)
    year, month, _ = civil(days)
    match unit:
        case "year":
            found = days_from(year, one, one)
        case "quarter":
            found = days_from(year, add(mul(div(sub(month, 1), 3), 3), 1), one)
        case "month":
            found = days_from(year, month, one)
        case "week":
            found = sub(days, mod(add(days, 3), 7))
        case _:
            found = days
    return mul(found, DAY)


def count(unit: str, e: Expr, type: Type) -> Expr:
    """Units since 1970: differences count the bounds of units between two times."""
    if unit in _SECONDS:
        return div(e, _SECONDS[unit] * 1_000_000) if type is Type.TIMESTAMP else div(
            mul(e, 86400), _SECONDS[unit])
    days = days_of(e, type)
    year, month, _ = civil(days)
    months = add(mul(year, 12), sub(month, 1))
    return {"year": year, "quarter": div(months, 3), "month": months,
            "week": div(add(days, 3), 7), "day": days}[unit]


def month_length(year: Expr, month: Expr) -> Expr:
    """Days of a month."""
    following = add(month, 1)
    over = _op(ops.greater, following, 12)
    one = const(1, INT64)
    end = days_from(add(year, convert(over, INT64)), Call(ops.where, (over, one, following)), one)
    return sub(end, days_from(year, month, one))


def shifted(e: Expr, interval: tuple[int, int, int], sign: int) -> Expr:
    """A timestamp moved by months, days and microseconds; the day of the month is cut."""
    months, days, micros = (sign * n for n in interval)
    if months:
        day, time = div(e, DAY), mod(e, DAY)
        year, month, in_month = civil(day)
        total = add(sub(add(mul(year, 12), month), 1), months)
        year, month = div(total, 12), add(mod(total, 12), 1)
        in_month = Call(ops.minimum, (in_month, month_length(year, month)))
        e = add(mul(days_from(year, month, in_month), DAY), time)
    return add(e, days * DAY + micros)
