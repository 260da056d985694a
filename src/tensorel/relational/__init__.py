"""Predicates over attributes as text: the syntax of selections, join conditions, keys and HAVING.

A text becomes a tree, and a tree is evaluated over whatever has Python's operators: traced scalars
make it an expression of the calculus, NumPy's arrays make it a mask of rows.
"""
