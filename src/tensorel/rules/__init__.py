"""Rewrite rules as data, each with its law and its precondition.

The order of the imports is the order of application. ``tensorel.rules.text.rule`` reads users'
rules from text; it is imported by those who need it, because of the parser.
"""

from tensorel.rules import simplify as _simplify  # isort: skip
from tensorel.rules import collapse as _collapse  # isort: skip
from tensorel.rules import lattice as _lattice  # isort: skip
from tensorel.rules import choices as _choices  # isort: skip
from tensorel.rules import arithmetic as _arithmetic  # isort: skip
from tensorel.rules import distribute as _distribute  # isort: skip
from tensorel.rules import reductions as _reductions  # isort: skip
from tensorel.rules.table import active, add, added, all, disable, enable, version

__all__ = ["active", "add", "added", "all", "disable", "enable", "version"]
del _arithmetic, _choices, _collapse, _distribute, _lattice, _reductions, _simplify
