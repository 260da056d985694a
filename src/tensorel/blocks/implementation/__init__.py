"""Plans over (key, block, site): operators, their laws, rules, costs, and the search for the best.

>>> from tensorel.blocks.implementation import ADD, MATMUL, Input, logical, optimize, translate
>>> A = Input("A", (32, 32), (500, 500), free=True)
>>> B = Input("B", (32, 32), (500, 500), free=True)
>>> product = logical.Aggregate(logical.Join(A, B, (1,), (0,), MATMUL), (0, 2), ADD)
>>> optimize(translate(product, 8), 8).best.plan.relation.extents
(32, 32)
"""

from tensorel.blocks.implementation import logical
from tensorel.blocks.implementation.cost import Cost, Rates, plan_cost
from tensorel.blocks.implementation.evaluate import Simulation, evaluate, gathered
from tensorel.blocks.implementation.functions import (
    ADD,
    KEEP,
    MATMUL,
    MAXIMUM,
    MULTIPLY,
    TRANSPOSE,
    Kernel,
    KeyMap,
    Predicate,
    computed,
    insert,
    same_key,
    select,
)
from tensorel.blocks.implementation.nodes import (
    Broadcast,
    Input,
    LocalAggregate,
    LocalFilter,
    LocalJoin,
    LocalMap,
    Node,
    Relation,
    Shuffle,
)
from tensorel.blocks.implementation.optimize import Choice, Choices, neighbours, optimize, replaced
from tensorel.blocks.implementation.partitions import Partition
from tensorel.blocks.implementation.printing import show
from tensorel.blocks.implementation.rules import RULES, Rule
from tensorel.blocks.implementation.translate import translate

__all__ = [
    "ADD", "KEEP", "MATMUL", "MAXIMUM", "MULTIPLY", "RULES", "TRANSPOSE", "Broadcast", "Choice",
    "Choices", "Cost", "Input", "Kernel", "KeyMap", "LocalAggregate", "LocalFilter", "LocalJoin",
    "LocalMap", "Node", "Partition", "Predicate", "Rates", "Relation", "Rule", "Shuffle",
    "Simulation", "computed", "evaluate", "gathered", "insert", "logical", "neighbours", "optimize",
    "plan_cost", "replaced", "same_key", "select", "show", "translate",
]
