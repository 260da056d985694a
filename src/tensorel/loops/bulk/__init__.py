"""Nests of loops as tensors of the calculus: dependences, and what is left to run in order."""
