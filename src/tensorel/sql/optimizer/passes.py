"""All rewrites of a plan, in their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tensorel.base.records import dataclass
from tensorel.sql.algebra import Plan
from tensorel.sql.catalog import Catalog
from tensorel.sql.optimizer.domains import free_of_domains, without_domains
from tensorel.sql.optimizer.eager import aggregate_early
from tensorel.sql.optimizer.estimates import Estimates
from tensorel.sql.optimizer.filters import push_filters
from tensorel.sql.optimizer.joins import order_joins
from tensorel.sql.optimizer.pruning import prune_columns
from tensorel.sql.optimizer.tensors import find_tensor_programs
from tensorel.sql.scalars import Column
from tensorel.sql.scope import Numbers


@dataclass(frozen=True, slots=True)
class Context:
    """What passes may ask: the columns that are wanted, and the relations."""

    kept: tuple[Column, ...]
    catalog: Catalog
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Pass:
    """A function from plan to plan that keeps the rows."""

    name: str
    run: Callable[[Plan, Context], Plan]


PASSES: tuple[Pass, ...] = (
    Pass("push filters into subqueries", lambda p, c: push_filters(p, c.kept)),
    Pass("free subqueries of domains", lambda p, c: free_of_domains(p)),
    Pass("group domains", lambda p, c: without_domains(p)),
    Pass("push filters", lambda p, c: push_filters(p, c.kept)),
    Pass("prune columns", lambda p, c: prune_columns(p, c.kept)),
    Pass("find tensor programs", lambda p, c: find_tensor_programs(p, c.catalog)),
    Pass("aggregate before joins",
         lambda p, c: aggregate_early(p, Estimates(c.catalog), c.numbers)),
    Pass("order joins", lambda p, c: order_joins(p, Estimates(c.catalog))),
    Pass("prune columns of joins", lambda p, c: prune_columns(p, c.kept)),
)


def optimized(plan: Plan, kept: Sequence[Column], catalog: Catalog, numbers: Numbers) -> Plan:
    """The plan after all passes."""
    context = Context(tuple(kept), catalog, numbers)
    for one in PASSES:
        plan = one.run(plan, context)
    return plan
