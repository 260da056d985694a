"""Joins of the entries of two stored tensors (``algebra.joins``): by equal keys, or by ranges of
sorted keys. The cost grows with the entries and the pairs, never with the cells.

    sides       the entries of one operand, and formulas of them
    meetings    which entries meet
    pairs       all pairs, merged
    sums        sums of merged pairs, which are not made
"""
