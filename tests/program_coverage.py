"""Which public functions and methods random programs reach."""

from __future__ import annotations

import ast
import inspect
import itertools

import numpy as np

import tensorel as tr
from tensorel.testing.programs.fuzzing import BUILDERS
from tensorel.testing.programs.generate import Pool, Value, random_step
from tensorel.testing.programs.leaves import random_leaf
from tensorel.testing.programs.program import Step, is_exact, watched

_BINARY = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift", ast.BitAnd: "and",
    ast.BitOr: "or", ast.BitXor: "xor", ast.MatMult: "matmul",
}
_COMPARED = {ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt",
             ast.GtE: "ge"}
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}

#: What programs do not reach, and why.
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(("read", "write", "T.write", "connect"), "files: tests/io, tests/catalog"),
    **dict.fromkeys(("options", "explain", "advise", "calibrate", "formats"),
                    "about programs, not part of them"),
    **dict.fromkeys(("can_cast", "finfo", "iinfo", "isdtype", "result_type",
                     "__array_namespace_info__"), "about dtypes"),
    **dict.fromkeys(("nansum", "nanprod", "nanmin", "nanmax", "nanmean", "argwhere", "flatnonzero",
                     "T.dot", "T.take", "T.repeat", "T.searchsorted"),
                    "formulas over functions that programs reach: tests/front/test_numpy_edges.py"),
    **dict.fromkeys(("from_blocks", "persist", "T.persist"),
                    "at the sites of an engine: tests/sites"),
    "relation": "values of their own, with blocks: tests/blocks",
    "loops": "a language of its own: tests/loops/random_loops.py",
    **dict.fromkeys(("windows", "convolve", "correlate"),
                    "not in NumPy for more axes: tests/front/test_convolution.py"),
    "sdql": "a language of its own: tests/sdql/fuzz_sdql.py",
    "sql": "a language of its own, of relations: tests/sql/fuzz_sql.py",
    **dict.fromkeys(("T.join", "T.cross", "T.drop_empty", "T.group_by"),
                    "results depend on which cells are the fill: tests/relational"),
    "comprehension": "a language of its own: tests/comprehension/fuzz_comprehensions.py",
    "empty": "values that nobody promises: tests/front",
    **dict.fromkeys(("tensor", "from_coo", "storage"), "ways to hand in leaves"),
    **dict.fromkeys(("from_table", "T.to_table", "T.named"), "tables and labels: tests/tables"),
    **dict.fromkeys(("T.to_numpy", "T.to_coo", "T.refresh"),
                    "what running a program does"),
    **dict.fromkeys(("T.explain", "T.forget", "T.get_node", "T.to_device"), "no new values"),
    **dict.fromkeys(("T.item", "T.tolist", "T.to_scipy", "T.to_pydata"), "exports: tests/sharing"),
    **dict.fromkeys(("T.__rdivmod__", "T.__rmatmul__"), "of arrays beside tensors: tests/front"),
}


def public_names() -> set[str]:
    """The public functions, methods ``T.name`` and operators ``T.__name__`` that give tensors."""
    names = {n for n in tr.__all__
             if callable(getattr(tr, n)) and not inspect.isclass(getattr(tr, n))}
    methods = {f"T.{n}" for n in dir(tr.Tensor)
               if not n.startswith("_") and inspect.isfunction(getattr(tr.Tensor, n))}
    signs = [*_BINARY.values(), *_COMPARED.values(), *_UNARY.values(), "abs", "divmod", "getitem"]
    signs += [f"r{sign}" for sign in (*_BINARY.values(), "divmod")]
    operators = {f"T.__{sign}__" for sign in signs if hasattr(tr.Tensor, f"__{sign}__")}
    return names | methods | operators


def reached(seed: int, tries: int) -> set[str]:
    """The names in steps that the builders of the generator make of random tensors."""
    found: set[str] = set()
    names = (f"t{n}" for n in itertools.count())
    rng = np.random.default_rng(seed)
    with watched():
        for number in range(tries):
            if number % 10 == 0:
                leaves = [random_leaf(rng, name, (1, 2, 3)) for name in "ABCD"]
            values = [Value(leaf.name, leaf.array, is_exact(leaf.array)) for leaf in leaves]
            for _, builder in BUILDERS:
                step = random_step(Pool(rng, values), builder, names)
                if step is not None:
                    found |= used(step)
    return found


def used(step: Step) -> set[str]:
    """The functions, methods and operators of a step."""
    nodes = ast.walk(ast.parse(step.code, mode="eval"))
    return set().union(*(_names(node) for node in nodes))


def _names(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Attribute):
        owner = node.value.id if isinstance(node.value, ast.Name) else ""
        return {node.attr} if owner == "xp" else {f"T.{node.attr}"}
    if isinstance(node, ast.BinOp):
        sign = _BINARY[type(node.op)]
        reflected = isinstance(node.left, ast.Constant)
        return {f"T.__r{sign}__" if reflected else f"T.__{sign}__"}
    if isinstance(node, ast.UnaryOp) and type(node.op) in _UNARY:
        return {f"T.__{_UNARY[type(node.op)]}__"}
    if isinstance(node, ast.Compare):
        return {f"T.__{_COMPARED[type(op)]}__" for op in node.ops if type(op) in _COMPARED}
    if isinstance(node, ast.Subscript):
        return {"T.__getitem__"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return {f"T.__{node.func.id}__"}
    return set()
