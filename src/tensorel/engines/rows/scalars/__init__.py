"""Scalars of SQL in kernels.

    lowering      scalars as expressions of the calculus, with nulls and three-valued tests
    comparing     numbers, where nan is above all others
    dictionaries  texts as numbers of words, and tables over dictionaries
    texts         functions of texts on Python's values
    times         dates and times by whole arithmetic
"""
