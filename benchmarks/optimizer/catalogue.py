"""Loads every module that registers cases, in the order of the report."""

from __future__ import annotations

from importlib import import_module

MODULES = ("optimizer.storel", "optimizer.tensors", "optimizer.losses", "optimizer.graphs",
           "optimizer.joins", "optimizer.grams")


def load() -> None:
    for module in MODULES:
        import_module(module)
