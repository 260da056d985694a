"""The slow, obvious meaning of every node on NumPy alone: the oracle of all tests.

Not-stored entries have no special rights here: 0 * inf is nan. The engine lets a structural zero
annihilate (docs/design/annihilation.md); ``tensorel.testing`` decides what is comparable.
"""

from tensorel.reference.interpret import evaluate, evaluate_all, evaluate_expr

__all__ = ["evaluate", "evaluate_all", "evaluate_expr"]
