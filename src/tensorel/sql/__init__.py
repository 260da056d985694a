"""SQL over tensors and tables: from a text to a plan of relational algebra.

    types        the types of columns, and what they have in common
    scalars      typed scalar expressions: columns, literals, calls
    functions    the scalar functions by name: types of results, and whether null goes through
    aggregates   the aggregate functions by name
    calls        keys of orders, aggregates and window functions, as operators are told them
    algebra      the operators on relations; a plan is a tree of them, with shared parts
    parsing      sqlglot's syntax tree of a text, and places in the text for errors
    windows      window functions of a query, as columns
    binding      names and types: from the syntax tree to a plan
    unnesting    subqueries as joins, also where they depend on rows around them
    optimizing   rewrites of plans, by laws and by sizes
    tensor_form  the aggregations over joins of tensors that are programs of the calculus

The package knows no data: a ``Catalog`` says what relations there are and how large they are.
"""
