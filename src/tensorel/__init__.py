"""Tensorel: an embedded engine for tensor programs over any storage."""

from tensorel import errors
from tensorel.config import options
from tensorel.front.array import Tensor, compute, explain
from tensorel.front.convert import asarray, from_coo, tensor
from tensorel.front.einsum import einsum

__all__ = [
    "Tensor", "asarray", "compute", "einsum", "errors", "explain", "from_coo", "options",
    "tensor",
]
