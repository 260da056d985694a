"""``tr.linalg``: linear algebra, as the Array API standard names it, and NumPy where it goes on.

    products         what is a formula: products, norms, powers, traces
    decompositions   what needs the whole matrix: solutions, inverses, factors, eigenvalues
"""

from tensorel.front.functions.products import cross, matmul, tensordot, vecdot
from tensorel.front.linalg import decompositions, formulas
from tensorel.front.linalg.decompositions import *  # noqa: F403
from tensorel.front.linalg.formulas import *  # noqa: F403

__all__ = ["cross", "matmul", "tensordot", "vecdot"]
__all__ += decompositions.__all__
__all__ += formulas.__all__
