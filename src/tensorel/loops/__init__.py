"""Imperative loops: one syntax for programs in text and for the source of Python functions.

``sources`` makes statements (``syntax``), ``typing`` says what variables hold, ``analysis`` proves
that indices are inside and numbers small, and ``bulk`` makes tensors of the calculus of nests that
carry no dependence. What is left is a ``unit.Unit``: statements that a native kernel runs in order
(``kernels/imperative``), whose definition is ``meaning``.
"""
