"""Naive programs against the best plans that experts write: the measuring stick of issue 3."""
