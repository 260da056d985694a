"""Array comprehensions: ``tensor(n)(m)[ ((i, j), +/v) | ((i, k), a) <- A, ..., group by (i, j) ]``.

    syntax         the tree that texts, Python functions and loops become
    tokens         words of the text
    parser         text to tree
    printer        tree to text
    python_source  Python functions to tree
    functions      scalar functions and monoids by name
    meaning        what a tree says, over Python dictionaries: the oracle
    things         what names stand for: scalars, tuples, tensors, bags of a group
    scopes         qualifiers: indices, tests, groups
    writing        one cell from each choice: clashes, keys outside, combiners
    to_calculus    expressions to the calculus, through ``language.Builder``
"""
