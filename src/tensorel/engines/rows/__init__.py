"""Plans of relational algebra run on rows.

    vectors      columns that are there: arrays, masks of nulls, dictionaries of texts
    frames       rows that are not made yet: where they come from, and columns as expressions
    pipelines    one kernel that visits the rows of a frame, and what it does with them
    compacting   rows counted: what is left of a frame when tests and pairs are done
    scalars/     scalars of SQL as expressions of the calculus, with nulls
    keys         several columns as one number
    equations    what joins look rows up by
    joining, grouping, ordering, combining   the operators
    ordered_aggregates   medians, modes, first and last
    windows      functions of the rows around a row
    matrices     columns of blocks, and kernels on them
    executing    a whole plan

A frame is a kernel to be: filters, projections and lookups in the other side of a join are written
into one loop, which ends where rows have to be known: a sort, a hash table, a result.
"""
