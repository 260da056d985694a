"""Dictionaries as sums of terms over the calculus.

A term says ``sum over indices, where the guards hold, { k1 -> { k2 -> ... value } }``; a value of
a program, a scalar or a dictionary from whole numbers to values, is a sum of terms.
"""

from __future__ import annotations

from collections.abc import Callable

from tensorel.base.records import dataclass
from tensorel.ir.nodes import Expr, Index
from tensorel.language.scalars import Semiring


@dataclass(frozen=True, slots=True)
class Term:
    """``over``: the summed indices, their ranges known to ``Indices``. ``unique``: for the first
    keys, whether the program says that no other entry has the same."""

    over: tuple[str, ...]
    guards: tuple[Expr, ...]
    keys: tuple[Expr, ...]
    value: Expr
    unique: tuple[bool, ...] = ()

    @property
    def distinct(self) -> bool:
        """Other values of the summed indices have other keys: each is a key, or a key that is
        unique is made of it."""
        known = {k.name for k in self.keys if isinstance(k, Index)}
        return known.union(*[k.free for k, one in zip(self.keys, self.unique) if one]).issuperset(
            self.over)

    def guarded(self, *guards: Expr) -> Term:
        """The term where these guards hold too."""
        return Term(self.over, guards + self.guards, self.keys, self.value, self.unique)


@dataclass(frozen=True, slots=True)
class Domain:
    """The positions low <= k < high of a total dictionary, none unless the guards hold."""

    low: Expr
    high: Expr
    guards: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar (depth 0), or a dictionary of so many keys. Terms of a total one, which has a
    domain, say its values inside the domain only. Keys are below the ``extents``, where these are
    declared. ``kind``: the semiring that sums of its entries are made in."""

    kind: Semiring
    depth: int
    terms: tuple[Term, ...]
    domain: Domain | None = None
    extents: tuple[int, ...] = ()

    @property
    def is_plainly_keyed(self) -> bool:
        """One term, whose keys are all that it sums over: one scalar at each key."""
        return len(self.terms) == 1 and set(self.terms[0].over) <= {
            k.name for k in self.terms[0].keys if isinstance(k, Index)}

    def mapped(self, f: Callable[[Expr], Expr], kind: Semiring | None = None) -> Value:
        """A linear function of every entry."""
        terms = [Term(t.over, t.guards, t.keys, f(t.value), t.unique) for t in self.terms]
        return Value(kind or self.kind, self.depth, tuple(terms), self.domain)


def scalar(e: Expr, kind: Semiring) -> Value:
    return Value(kind, 0, (Term((), (), (), e),))
