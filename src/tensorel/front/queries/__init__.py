"""SQL for users: what they hand in as relations, and results as relations.

    given            tensors, tables and relations as sources of columns
    tensor_programs  aggregations over joins of tensors, run as programs of the calculus
    query            a text bound, planned and run when rows are asked for
"""
