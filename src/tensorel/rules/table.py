"""The table of rules: listed, switched and extended through ``tensorel.rules``."""

from __future__ import annotations

from tensorel.errors import TypeError_
from tensorel.rewrite.engine import Rule

_rules: dict[str, Rule] = {}
_disabled: set[str] = set()
_version = 0


def declare(*rules: Rule) -> None:
    for r in rules:
        _rules[r.name] = r


def all() -> tuple[Rule, ...]:
    """Every rule, in order of application."""
    return tuple(_rules.values())


def active() -> tuple[Rule, ...]:
    return tuple(r for r in _rules.values() if r.name not in _disabled)


def version() -> int:
    """Changes whenever rules are added or switched; part of the key of cached plans."""
    return _version


def _known(name: str) -> None:
    if name not in _rules:
        raise TypeError_(f"no rule is called {name!r}", hint="tr.rules.all() lists them")


def disable(name: str) -> None:
    """Switch a rule off by name."""
    global _version
    _known(name)
    _disabled.add(name)
    _version += 1


def enable(name: str) -> None:
    """Switch a rule on again."""
    global _version
    _known(name)
    _disabled.discard(name)
    _version += 1


def add(rule: Rule) -> None:
    """Add a user's rule; it is applied after ours."""
    global _version
    if not isinstance(rule, Rule):
        raise TypeError_(f"{rule!r} is not a Rule", hint="build a tensorel.rewrite.engine.Rule")
    _rules[rule.name] = rule
    _version += 1
