"""All public names, gathered for ``import tensorel as tr``: each chapter of the front end says
which are its own."""

from __future__ import annotations

from tensorel.front.array import create, info
from tensorel.front.array.alternatives import alternatives
from tensorel.front.array.convert import asarray, from_coo, tensor
from tensorel.front.array.create import *  # noqa: F403
from tensorel.front.array.files import read, write
from tensorel.front.array.info import *  # noqa: F403
from tensorel.front.array.tensor import Tensor
from tensorel.front.array.together import compute, explain, persist
from tensorel.front.array.trace import map, reduce
from tensorel.front.database.database import Database, connect
from tensorel.front.functions import (
    convolution,
    diagonals,
    elementwise,
    joining,
    nan_reductions,
    products,
    reductions,
    shaping,
    sorting,
    ufuncs,
)
from tensorel.front.functions.convolution import *  # noqa: F403
from tensorel.front.functions.diagonals import *  # noqa: F403
from tensorel.front.functions.einsum import einsum
from tensorel.front.functions.elementwise import *  # noqa: F403
from tensorel.front.functions.joining import *  # noqa: F403
from tensorel.front.functions.nan_reductions import *  # noqa: F403
from tensorel.front.functions.products import *  # noqa: F403
from tensorel.front.functions.reductions import *  # noqa: F403
from tensorel.front.functions.relations import relation
from tensorel.front.functions.shaping import *  # noqa: F403
from tensorel.front.functions.sorting import *  # noqa: F403
from tensorel.front.functions.ufuncs import *  # noqa: F403
from tensorel.front.labels.from_table import from_table
from tensorel.front.languages.comprehension import comprehension
from tensorel.front.languages.loops import loops
from tensorel.front.languages.sdql import sdql
from tensorel.front.languages.sql import sql
from tensorel.front.languages.storage_mappings import storage
from tensorel.front.tools.advise import advise
from tensorel.front.tools.calibrate import calibrate

#: NumPy's spelling of the same function.
concatenate = joining.concat
__array_api_version__ = info.api_version

__all__ = [
    "Database", "Tensor", "__array_api_version__", "advise", "alternatives", "asarray",
    "calibrate", "comprehension", "compute", "concatenate", "connect", "einsum", "explain",
    "from_coo", "from_table", "loops", "map", "persist", "read", "reduce", "relation", "sdql",
    "sql", "storage", "tensor", "write",
]
__all__ += create.__all__
__all__ += info.__all__
__all__ += convolution.__all__
__all__ += diagonals.__all__
__all__ += elementwise.__all__
__all__ += joining.__all__
__all__ += nan_reductions.__all__
__all__ += products.__all__
__all__ += reductions.__all__
__all__ += shaping.__all__
__all__ += sorting.__all__
__all__ += ufuncs.__all__
