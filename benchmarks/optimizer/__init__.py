"""Naive programs against the best plans that experts write: the optimizer's measuring stick."""
