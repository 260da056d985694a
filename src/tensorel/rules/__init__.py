"""Rewrite rules as data, each with its law and its precondition."""

from tensorel.rules import simplify as _simplify  # declares the built-in rules
from tensorel.rules.table import active, add, all, disable, enable, version

__all__ = ["active", "add", "all", "disable", "enable", "version"]
del _simplify
