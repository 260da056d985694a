"""Terms as polynomials over atoms (names, reads of arrays, quotients, ...): two terms are equal if
their polynomials are. Sound, not complete: ``n / 2 * 2`` and ``n - n % 2`` are held different."""

from __future__ import annotations

from collections import Counter

from tensorel.sdql.syntax import Binary, Expr, Unary, mapped
from tensorel.storage.mapped.terms import add, literal, multiply, number

#: Monomial (atoms, sorted by their text) to coefficient, none of which is 0.
Polynomial = dict[tuple[Expr, ...], int]


def polynomial(e: Expr) -> Polynomial:
    value = literal(e)
    if value is not None:
        return {(): value} if value else {}
    match e:
        case Unary(op="-", arg=arg):
            return {m: -k for m, k in polynomial(arg).items()}
        case Binary(op="+" | "-" as op, left=left, right=right):
            sign = 1 if op == "+" else -1
            return _sum([*polynomial(left).items(),
                         *((m, sign * k) for m, k in polynomial(right).items())])
        case Binary(op="*", left=left, right=right):
            return _sum([(tuple(sorted((*m, *n), key=repr)), j * k)
                         for m, j in polynomial(left).items()
                         for n, k in polynomial(right).items()])
        case _:
            return {(mapped(e, normal),): 1}  # equal atoms have equal parts


def _sum(terms: list[tuple[tuple[Expr, ...], int]]) -> Polynomial:
    total: Counter[tuple[Expr, ...]] = Counter()
    for monomial, k in terms:
        total[monomial] += k
    return {m: k for m, k in total.items() if k}


def normal(e: Expr) -> Expr:
    """The normal form of a term: its monomials in the order of their texts."""
    total: Expr = number(0)
    for monomial, k in sorted(polynomial(e).items(), key=repr):
        product: Expr = number(k)
        for atom in monomial:
            product = multiply(product, atom)
        total = add(total, product)
    return total


def same(a: Expr, b: Expr) -> bool:
    """Whether two terms are surely equal, whatever their names stand for."""
    return a == b or polynomial(a) == polynomial(b)
