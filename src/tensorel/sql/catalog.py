"""What plans know of relations: names and types of fields, and how large they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tensorel.base.records import dataclass
from tensorel.sql.types import Type


@dataclass(frozen=True, slots=True)
class Field:
    """``axis``: which index of a tensor it is, or stands for: then ``labels`` says by which labels,
    equal ones by equal numbers. ``distinct``: how many values it has at most. ``hidden``: ``*``
    leaves it out."""

    name: str
    type: Type
    nullable: bool = True
    distinct: int | None = None
    axis: int | None = None
    hidden: bool = False
    labels: int | None = None

    @property
    def is_index(self) -> bool:
        """Whether its values are the index itself."""
        return self.axis is not None and self.labels is None


class RelationFacts(Protocol):
    """A relation as planning sees it."""

    @property
    def fields(self) -> Sequence[Field]: ...

    @property
    def rows(self) -> int: ...

    @property
    def is_tensor(self) -> bool:
        """Whether rows are the entries of a tensor with a fill of zero, which differ from it: its
        indices identify them."""


Catalog = Mapping[str, RelationFacts]
