"""Tensor relations: blocks by their keys, and what is done with them."""
