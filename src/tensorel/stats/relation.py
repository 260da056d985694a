"""Relations over named indices and what can be done with them, in one place."""

from __future__ import annotations

from tensorel.stats.combine import extend, join, union
from tensorel.stats.pointset import Relation, everything, nothing, rename
from tensorel.stats.reading import of_read, of_relation
from tensorel.stats.reduction import project, reduce_over, restrict

__all__ = [
    "Relation", "everything", "extend", "join", "nothing", "of_read", "of_relation", "project",
    "reduce_over", "rename", "restrict", "union",
]
