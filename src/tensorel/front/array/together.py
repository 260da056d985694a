"""Several tensors at once: planned together, so that what they share is done once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensorel import config as settings
from tensorel.engines.registry import engine_for
from tensorel.front.array.base import from_stored, wrap
from tensorel.front.array.convert import asarray, run, wanted_formats
from tensorel.front.array.tensor import Tensor
from tensorel.storage.format import FormatLike


def compute(*tensors: object, formats: Sequence[FormatLike | None] | None = None,
            **options: object) -> tuple[Tensor, ...]:
    """The stored results of several tensors, shared work done once.

    >>> import tensorel as tr
    >>> A = tr.asarray([1.0, 2.0])
    >>> [t.item() for t in tr.compute(A.sum(), (A * A).sum())]
    [3.0, 5.0]
    """
    lazy = [asarray(t) for t in tensors]
    config = settings.with_overrides(settings.current(), **options)
    wanted = [None] * len(lazy) if formats is None else list(formats)
    return tuple(from_stored(s) for s in run(lazy, config, wanted))


def persist(*tensors: object, **options: object) -> tuple[Tensor, ...]:
    """The results of several tensors, left at the sites of an engine; planned together, shared work
    done once.

    >>> import tensorel as tr
    >>> with tr.engines.local(sites=2) as e:
    ...     A = tr.asarray([[1.0, 2.0], [3.0, 4.0]])
    ...     B, C = tr.persist(A @ A, A + 1, engine=e)
    ...     (B * C).sum().item()
    214.0
    """
    nodes = [asarray(t).node for t in tensors]
    config = settings.with_overrides(settings.current(), **options)
    return tuple(wrap(p.source) for p in engine_for(config.engine, nodes).persist(nodes, config))


def explain(*tensors: object, level: str = "physical", analyze: bool = False,
            **options: object) -> Any:
    """The plan that computes several tensors together."""
    config = settings.with_overrides(settings.current(), **options)
    given = [asarray(t) for t in tensors]
    nodes = [t.node for t in given]
    return engine_for(config.engine, nodes).explain(
        nodes, config, level, analyze, **wanted_formats(given))
