"""What languages share: the way from generators, bindings and tests to the calculus.

    scalars         semirings, and scalar expressions with NumPy's conversions
    dictionaries    values of programs: sums of terms
    indices         the indices of a program, and bounds of whole numbers
    solving         terms solved for their indices, so that a join is one index
    data_joins      tests over integer data as sparse matrices
    builder         the operations that a language is lowered to
    comprehension   generators, bindings, guards, group key and head, in any monoid
    choices         what generators have drawn: monoids over it, groups, cells that it writes

A language has a syntax and types of its own; ``base.cursor`` reads its text. It makes values by
``Builder``: ``tensor`` and ``span`` are what generators visit, ``lookup`` reads at a key, ``plus``,
``times``, ``guarded``, ``choice`` and ``entry`` make values of values, ``expr`` is the expression
of a scalar. A flat language says a ``Comprehension``; one whose sums nest says ``Builder.sum`` with
what it knows of the body. ``Builder.result`` is the tensor.
"""
