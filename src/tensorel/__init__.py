"""Tensorel: an embedded engine for tensor programs over any storage.

>>> import tensorel as tr
>>> A = tr.asarray([[0.0, 2.0], [3.0, 0.0]])
>>> (A @ A).sum().item()
12.0
"""

from tensorel import engines, errors, rules
from tensorel.config import options
from tensorel.front import linalg, namespace
from tensorel.front.namespace import *  # noqa: F403
from tensorel.storage.registry import names as formats

__version__ = "0.1.0"
__all__ = ["__version__", "engines", "errors", "formats", "linalg", "options", "rules"]
__all__ += namespace.__all__
