"""What a placement costs: the sum of four stages, each as slow as its slowest site.

Fetch input blocks, join, gather partial results, aggregate them: Equation 6 of the paper on
two-phase execution, with the terms that it lacks: what sites send, memory, blocks of different
sizes, partial results added up where they are made, and additions in proportion to what arrives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tensorel.base.records import dataclass
from tensorel.blocks.join_groups.lineage import JoinGroups, Placement, distinct, needed

if TYPE_CHECKING:
    from tensorel.blocks.join_groups.lineage import Floats, Ints


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds: of a byte between two sites, of a flop, of a transfer and of a task before they
    start."""

    byte: float = 1e-9
    flop: float = 2e-11
    transfer: float = 1e-4
    task: float = 1e-5


@dataclass(frozen=True, eq=False, slots=True)
class Cost:
    """Per site: bytes received and sent for joins, flops of joins (with the adding up of partial
    results there), bytes of partial results received and sent, flops of adding what arrived, bytes
    held at once; and the seconds of each stage."""

    received: Floats
    sent: Floats
    joined: Floats
    gathered: Floats
    scattered: Floats
    aggregated: Floats
    held: Floats
    fetch: float
    join: float
    gather: float
    aggregate: float

    @property
    def seconds(self) -> float:
        return self.fetch + self.join + self.gather + self.aggregate

    @property
    def moved(self) -> float:
        """Bytes between sites, in all."""
        return float(self.received.sum() + self.gathered.sum())


def transfers(groups: JoinGroups, placement: Placement,
              sites: int) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Blocks and the sites that fetch them; targets and the sites that make a part of them, with
    the number of join groups that do."""
    block, to = needed(groups, placement.group_site, sites)
    away = placement.home[block] != to
    return block[away], to[away], *distinct(groups.target, placement.group_site, sites)


def moved(groups: JoinGroups, placement: Placement) -> float:
    """Bytes between sites, in all: a block is sent to a site once, a target's partial results
    leave a site as one."""
    sites = 1 + int(placement.group_site.max(initial=0))
    block, _, target, at, _ = transfers(groups, placement, sites)
    parts = target[placement.target_site[target] != at]
    return float(groups.size[block].sum() + groups.made[parts].sum())


def cost_of(groups: JoinGroups, placement: Placement, sites: int, rates: Rates) -> Cost:
    """What it costs to run ``groups`` as placed."""

    def total(at: Ints, weights: Floats | None = None) -> Floats:
        return np.bincount(at, weights, sites).astype(np.float64)

    def busiest(amount: Floats, of_one: float, tasks: Floats, each: float) -> float:
        return float((amount * of_one + tasks * each).max())

    block, to, target, at, count = transfers(groups, placement, sites)
    source, size = placement.home[block], groups.size[block]
    received, sent = total(to, size), total(source, size)
    joined = total(placement.group_site, groups.work)
    joined += total(at, (count - 1) * groups.merge[target])
    finish = placement.target_site[target]
    away = finish != at
    part, origin, finish = target[away], at[away], finish[away]
    gathered, scattered = total(finish, groups.made[part]), total(origin, groups.made[part])
    aggregated = total(finish, groups.merge[part])
    held = total(placement.home, groups.size) + received + scattered
    held += total(placement.target_site, groups.made)
    arrived = total(finish)
    return Cost(
        received, sent, joined, gathered, scattered, aggregated, held,
        fetch=max(busiest(received, rates.byte, total(to), rates.transfer),
                  busiest(sent, rates.byte, total(source), rates.transfer)),
        join=busiest(joined, rates.flop, total(placement.group_site), rates.task),
        gather=max(busiest(gathered, rates.byte, arrived, rates.transfer),
                   busiest(scattered, rates.byte, total(origin), rates.transfer)),
        aggregate=busiest(aggregated, rates.flop, arrived, rates.task))


def paper_cost(groups: JoinGroups, placement: Placement, sites: int, t_join: float,
               t_aggregate: float, t_fetch: float, t_gather: float) -> float:
    """Equation 6 as printed: every join group, aggregation group and tuple alike, receivers alone,
    and a partial result that is not where it is needed moves by itself."""
    _, to, *_ = transfers(groups, placement, sites)
    finish = placement.target_site[groups.target]
    away = finish != placement.group_site
    counts = ((placement.group_site, t_join), (placement.target_site, t_aggregate),
              (to, t_fetch), (finish[away], t_gather))
    return float(sum(np.bincount(at, minlength=sites).max() * t for at, t in counts))
