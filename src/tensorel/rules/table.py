"""The table of rules: listed, switched and extended through ``tensorel.rules``.

Families: ``simplify`` holds what always improves and is applied in place; ``explore`` holds laws
that are used both ways by equality saturation, where cost decides.
"""

from __future__ import annotations

from collections.abc import Iterator

from tensorel.errors import TypeError_
from tensorel.rewrite.engine import EXPLORE, SIMPLIFY, Rule

RULES: dict[str, Rule] = {}
DISABLED: set[str] = set()
ADDED: set[str] = set()
_version = 0
FAMILIES = (SIMPLIFY, EXPLORE)


def declare(*rules: Rule) -> None:
    for r in rules:
        assert r.name not in RULES, f"two rules are called {r.name}"
        assert r.family in FAMILIES
        RULES[r.name] = r


def _of(families: tuple[str, ...]) -> Iterator[Rule]:
    for name in families:
        if name not in FAMILIES:
            raise TypeError_(f"no family of rules is called {name!r}",
                             hint=f"there are {' and '.join(FAMILIES)}")
    return (r for r in RULES.values() if not families or r.family in families)


def all(*families: str) -> tuple[Rule, ...]:
    """Every rule (of these families), in order of application."""
    return tuple(_of(families))


def active(*families: str, strict: bool = False) -> tuple[Rule, ...]:
    """The rules that are switched on, of the family ``simplify`` unless others are named;
    ``strict`` leaves out those that reassociate floats."""
    return tuple(r for r in _of(families or (SIMPLIFY,))
                 if r.name not in DISABLED and not (strict and r.reassociates))


def version() -> int:
    """Changes whenever rules are added or switched; part of the key of cached plans."""
    return _version


def _known(name: str) -> None:
    if name not in RULES:
        raise TypeError_(f"no rule is called {name!r}", hint="tr.rules.all() lists them")


def disable(name: str) -> None:
    """Switch a rule off by name."""
    global _version
    _known(name)
    DISABLED.add(name)
    _version += 1


def enable(name: str) -> None:
    """Switch a rule on again."""
    global _version
    _known(name)
    DISABLED.discard(name)
    _version += 1


def add(rule: Rule) -> None:
    """Add a user's rule; it is applied after ours. ``tensorel.rules.text.rule`` reads one
    from text."""
    global _version
    if not isinstance(rule, Rule):
        raise TypeError_(f"{rule!r} is not a Rule",
                         hint="tensorel.rules.text.rule('-(-a) -> a', law='...') makes one")
    if rule.family not in FAMILIES:
        raise TypeError_(f"rule {rule.name!r} is of an unknown family {rule.family!r}",
                         hint=f"there are {' and '.join(FAMILIES)}")
    RULES[rule.name] = rule
    ADDED.add(rule.name)
    DISABLED.discard(rule.name)
    _version += 1


def added(*families: str) -> tuple[Rule, ...]:
    """Users' rules that are switched on."""
    return tuple(r for r in active(*families) if r.name in ADDED)
