"""``compute(check=True)``: other plans of the same program must agree with the result.

The other plans run on a sub-problem: a sample of the result's coordinates on each axis, which
the planner pushes down like any selection. A plan that does not fit into memory, or would take far
longer than the whole computation, is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tensorel.config import Config
from tensorel.engines.protocol import Engine
from tensorel.errors import EngineError, MemoryLimitError
from tensorel.ir.nodes import Axis, Index, Lambda, Read, Source, Tensor
from tensorel.storage.convert import from_dense, to_dense
from tensorel.storage.stored import Stored

COMPARED_CELLS = 4096  # cells of a result that are compared
#: A plan is tried if it costs at most so many times the chosen one, or less than the second number.
MAX_SLOWDOWN, ALLOWED_COST = 20.0, 1e8

#: Other ways to run a program: what is switched off in each.
OTHERS: tuple[tuple[str, dict[str, object]], ...] = (
    ("as written", {"optimize": False}),
    ("in one nest", {"disabled": frozenset({"order_contractions", "expand"})}),
    ("with inner sums stored", {"disabled": frozenset({"flatten_reductions", "split_pieces"})}),
)


def check(engine: Engine, nodes: Sequence[Tensor], results: Sequence[Stored], config: Config
          ) -> None:
    """Compare results with other plans; raise EngineError where one differs."""
    quiet = replace(config, check=False)
    for node, result in zip(nodes, results):
        if result.shape and 0 in result.shape:
            continue
        places = _sample(result.shape)
        source = Source(result, result.shape, result.dtype, result.fill_const)
        found = to_dense(engine.evaluate([_at(source, places)], quiet, ["dense"])[0])
        part = _at(node, places)
        chosen = engine.prepare([part], quiet, ["dense"]).plan.cost
        for name, changes in OTHERS:
            changes = {k: v | config.disabled if k == "disabled" else v  # type: ignore[operator]
                       for k, v in changes.items()}
            _compare(engine, part, found, name, replace(quiet, **changes), chosen)  # type: ignore[arg-type]


def _compare(engine: Engine, part: Tensor, found: np.ndarray, name: str, config: Config,
             chosen: float) -> None:
    limit = max(MAX_SLOWDOWN * chosen, ALLOWED_COST)
    if engine.prepare([part], config, ["dense"]).plan.cost > limit:
        return
    try:
        other = to_dense(engine.evaluate([part], config, ["dense"])[0])
    except MemoryLimitError:
        return
    wrong = ~_close(found, other)
    if wrong.any():
        at = tuple(int(k) for k in np.argwhere(wrong)[0])
        raise EngineError(
            f"two plans of one program disagree: the one that ran gives {found[at]}, the plan "
            f"{name!r} {other[at]}, in {int(wrong.sum())} of {wrong.size} cells compared",
            hint="this is a bug in tensorel: please report the program with T.explain(); "
            "tr.options(optimize=False) runs it as written")


def _close(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if a.dtype.kind not in "fc":
        return np.asarray(a == b)
    with np.errstate(all="ignore"):
        finite = np.abs(a[np.isfinite(a)])
        scale = float(finite.max()) if finite.size else 1.0
        room = 1e5 * float(np.finfo(a.dtype).eps)
        near = np.abs(a - b) <= room * (scale + np.abs(a))
        return np.asarray((a == b) | near | (np.isnan(a) & np.isnan(b)))


def _sample(shape: tuple[int, ...]) -> list[np.ndarray]:
    """Ascending coordinates of each axis, the same in every run."""
    rng = np.random.default_rng(0)
    each = max(int(COMPARED_CELLS ** (1.0 / max(len(shape), 1))), 1)
    return [np.sort(rng.choice(n, each, replace=False)) if n <= 2**20 and n > each
            else np.unique(rng.integers(0, n, each)) if n > each else np.arange(n)
            for n in shape]


def _at(tensor: Tensor, places: list[np.ndarray]) -> Tensor:
    """The tensor at chosen coordinates of each axis."""
    axes, indices = [], []
    for k, chosen in enumerate(places):
        stored = from_dense(chosen.astype(np.int64))
        source = Source(stored, stored.shape, stored.dtype, stored.fill_const)
        axes.append(Axis(f"i{k}", chosen.size))
        indices.append(Read(source, (Index(f"i{k}"),)))
    return Lambda(tuple(axes), Read(tensor, tuple(indices)))
