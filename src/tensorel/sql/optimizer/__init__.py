"""Rewrites of plans.

    passes     all of them, in their order
    filters    tests go down to where their columns are made, and become joins
    domains    subqueries are freed of the combinations that they are asked for
    joins      the order of inner joins, by estimated sizes
    pruning    columns that nobody uses are not made
    estimates  how many rows operators give
    tensors    aggregations over joins of tensors become programs of the calculus
    printing   plans as text
"""
