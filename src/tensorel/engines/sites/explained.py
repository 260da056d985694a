"""What a plan over sites says of itself."""

from __future__ import annotations

import html
from typing import Any

from tensorel.base.records import dataclass
from tensorel.blocks.planning.block_plan import BlockPlan
from tensorel.storage.limits import show_bytes


@dataclass
class BlockExplanation:
    """A placement, printable. ``stats``: what was counted, if it was run."""

    plan: BlockPlan
    inputs: dict[str, str]
    stats: dict[str, Any] | None = None

    @property
    def predicted_moved(self) -> int:
        """Bytes between sites."""
        return round(self.plan.moved)

    def to_dict(self) -> dict[str, Any]:
        return {"inputs": self.inputs, "sites": self.plan.sites,
                "predicted_moved": self.predicted_moved,
                "steps": [s.name for s in self.plan.steps], "stats": self.stats}

    def __str__(self) -> str:
        lines = [f"inputs: {', '.join(f'{n} = {t}' for n, t in self.inputs.items()) or 'none'}",
                 f"{self.plan.sites} sites", str(self.plan)]
        if self.stats is not None:
            lines.append(f"actual: {show_bytes(self.stats['bytes_moved'])} moved, "
                         f"{self.stats['tasks']} tasks, {self.stats['seconds']:.3f} s")
        return "\n".join(lines)

    __repr__ = __str__

    def html(self) -> str:
        """A page."""
        return f"<!doctype html><meta charset='utf-8'><pre>{html.escape(str(self))}</pre>"

    _repr_html_ = html
