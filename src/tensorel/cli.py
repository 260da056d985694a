"""The command line: ``tensorel run``, ``explain``, ``sql``, ``convert``, ``info``, ``demo``,
``calibrate``.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 an
error (one line says which), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

import tensorel
from tensorel.algebra.ops import cast, check_dtype
from tensorel.demo import run_demo
from tensorel.errors import (
    ExtentWarning,
    ParseError,
    ShapeError,
    StorageError,
    TensorelError,
    TypeError_,
)
from tensorel.front.array.base import from_stored
from tensorel.io.describe import Facts, describe
from tensorel.io.files import SUFFIXES, read, suffix_of, write
from tensorel.io.tables.sources import is_table
from tensorel.sql.parsing import names_in
from tensorel.storage.convert import from_coo, to_coo, to_format
from tensorel.storage.entries import make_fill
from tensorel.storage.limits import show_bytes
from tensorel.storage.registry import names
from tensorel.storage.stored import Stored

_SILENT_SECONDS = 0.5  # seconds of silence before progress is shown


class _Progress:
    """A line on the terminal that says how much of a file is read; silent in pipes."""

    def __init__(self, path: str) -> None:
        self.path, self.start, self.shown = path, time.monotonic(), -1
        self.active = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        percent = 100 * done // max(total, 1)
        late = time.monotonic() - self.start > _SILENT_SECONDS
        if self.active and late and percent != self.shown:
            self.shown = percent
            print(f"\rreading {self.path}: {percent}%", end="", file=sys.stderr, flush=True)

    def finish(self) -> None:
        if self.shown >= 0:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _shape(text: str) -> tuple[int, ...]:
    """A shape as users write it: 3,4,5 or 3x4x5."""
    parts = text.replace("x", ",").split(",")
    if not all(p.strip().isdigit() for p in parts):
        raise argparse.ArgumentTypeError(f"{text!r} is not a shape; write e.g. 3,4,5")
    return tuple(int(p) for p in parts)


def _read(path: str, format: str | None = None, shape: tuple[int, ...] | None = None) -> Stored:
    progress = _Progress(path)
    try:
        return read(path, format, shape=shape, progress=progress)
    finally:
        progress.finish()


# -- convert -----------------------------------------------------------------------------------
def as_dtype(stored: Stored, dtype: str) -> Stored:
    """The tensor with its values in another dtype; an imaginary part is never dropped."""
    wanted = check_dtype(dtype)
    if wanted == stored.dtype:
        return stored
    coo = to_coo(stored)
    if stored.dtype.kind == "c" and wanted.kind != "c":
        if bool(np.any(np.imag(coo.values))) or stored.fill.imag:
            raise TypeError_(
                f"{stored.dtype.name} values with imaginary parts do not fit in {wanted.name}",
                hint="convert to complex64 or complex128",
            )
    values = cast(wanted).meaning(coo.values)
    fill = make_fill(stored.fill.real if wanted.kind != "c" else stored.fill, wanted)
    made = from_coo(coo.coords, values, stored.shape, fill=fill, format=stored.format.text)
    return to_format(made, stored.format.text)


def _convert(arguments: argparse.Namespace) -> int:
    suffix_of(arguments.output)  # refuse before the work
    stored = _read(arguments.input, None if arguments.dtype else arguments.format, arguments.shape)
    if arguments.dtype:
        stored = as_dtype(stored, arguments.dtype)
        stored = to_format(stored, arguments.format) if arguments.format else stored
    write(arguments.output, stored, scipy=arguments.scipy)
    return 0


# -- info --------------------------------------------------------------------------------------
def _lines(facts: Facts) -> list[tuple[str, str]]:
    shape = " x ".join(map(str, facts["shape"])) or "scalar"
    span, band = facts["range"], facts["bandwidth"]
    rows = [
        ("shape", shape),
        ("dtype", facts["dtype"]),
        ("format", facts["format"]),
        ("fill", str(facts["fill"])),
        ("stored", f"{facts['stored']:,}"),
        ("nnz", f"{facts['nnz']:,} unlike the fill"),
        ("density", f"{facts['density']:.4g}"),
        ("bytes", f"{facts['bytes']:,} ({show_bytes(facts['bytes'])})"),
        ("values", "none" if span is None else f"{span[0]} to {span[1]}"),
    ]
    if facts["nan"]:
        rows.append(("nan", f"{facts['nan']:,}"))
    for axis, (count, extent) in enumerate(zip(facts["nonempty"], facts["shape"])):
        rows.append((f"axis {axis}", f"{count:,} of {extent:,} indices used"))
    if facts["symmetric"] is not None:
        rows.append(("symmetric", "yes" if facts["symmetric"] else "no"))
    if band is not None:
        rows.append(("band", f"{band[0]} below, {band[1]} above the diagonal"))
    return rows


def _info(arguments: argparse.Namespace) -> int:
    facts = describe(_read(arguments.file, shape=arguments.shape))
    if arguments.json:
        print(json.dumps({"file": arguments.file, **facts}))
        return 0
    rows = [("file", arguments.file), *_lines(facts)]
    print("\n".join(f"{name:<10} {text}" for name, text in rows))
    return 0


# -- run and explain ---------------------------------------------------------------------------
def _named(text: str) -> tuple[str, str]:
    """A tensor of a program: NAME=FILE."""
    name, _, path = text.partition("=")
    if not name.isidentifier() or not path:
        raise argparse.ArgumentTypeError(f"{text!r} does not name a tensor; write e.g. A=a.mtx")
    return name, path


def _program(path: str) -> str:
    """The text of a program file, or of standard input."""
    try:
        if path == "-":
            return sys.stdin.read()
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise StorageError(f"{path} is not a text", hint="programs are UTF-8 files") from None


def _lazy(arguments: argparse.Namespace) -> tensorel.Tensor:
    """The program over its tensors, not computed."""
    text = _program(arguments.program)
    given = {name: from_stored(_read(path)) for name, path in arguments.tensor}
    if len(given) < len(arguments.tensor):
        raise TypeError_("a tensor is given twice", hint="give each name once")
    query = tensorel.sdql if arguments.db is None else tensorel.connect(
        arguments.db, read_only=True).query
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if arguments.unequal else "error", ExtentWarning)
        try:
            return query(text, **given)
        except ExtentWarning as warning:
            raise ShapeError(str(warning), hint="allow it with --unequal") from None


def _run(arguments: argparse.Namespace) -> int:
    if arguments.out is not None:
        suffix_of(arguments.out)  # refuse before the work
    with tensorel.options(**({"memory": arguments.memory} if arguments.memory else {})):
        lazy = _lazy(arguments)
        if arguments.explain or arguments.analyze:
            print(lazy.explain(analyze=arguments.analyze))
        result = lazy.compute()
        if arguments.out is not None:
            write(arguments.out, result.stored)
        elif not arguments.explain and not arguments.analyze:
            print(result)
    return 0


def _explain(arguments: argparse.Namespace) -> int:
    with tensorel.options(**({"memory": arguments.memory} if arguments.memory else {})):
        print(_lazy(arguments).explain(level=arguments.level, analyze=arguments.analyze))
    return 0


def _sql(arguments: argparse.Namespace) -> int:
    """A query over files: of tensors by their endings, and of tables (Parquet, CSV)."""
    given: dict[str, object] = {}
    for name, path in arguments.table:
        given[name] = path if is_table(path) else from_stored(_read(path))
    text = arguments.query if arguments.query != "-" else sys.stdin.read()
    # FROM 'sales.parquet' names a file that is a relation without being given
    given = {name: name for name in names_in(text) if is_table(name)} | given
    query = tensorel.sql if arguments.db is None else tensorel.connect(
        arguments.db, read_only=True).sql
    with tensorel.options(**({"memory": arguments.memory} if arguments.memory else {})):
        found = query(text, **given)
        print(found.explain() if arguments.explain else found)
    return 0


def _demo(arguments: argparse.Namespace) -> int:
    return run_demo(arguments.size, arguments.seed)


def _calibrate(arguments: argparse.Namespace) -> int:
    print(tensorel.calibrate(save=not arguments.dry_run))
    return 0


# -- the parser --------------------------------------------------------------------------------
def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive whole number")
    return int(text)


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line; each command is a function of its arguments."""
    parser = argparse.ArgumentParser(
        prog="tensorel",
        description="Tensor programs over any storage: run them, files in and out.",
        epilog=f"Kinds of files, by their ending: {', '.join(SUFFIXES)}.",
    )
    parser.add_argument("--version", action="version", version=f"tensorel {tensorel.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _add_run(commands)
    _add_explain(commands)
    _add_sql(commands)
    _add_convert(commands)
    _add_info(commands)
    _add_demo(commands)
    _add_calibrate(commands)
    return parser


def _add(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, summary: str,
    run: Callable[[argparse.Namespace], int], *, epilog: str | None = None,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=summary, description=summary, epilog=epilog)
    command.set_defaults(run=run)
    return command


def _add_shape(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--shape", type=_shape, metavar="N,N,...",
        help="shape of a .tns file, which does not say its own (default: the largest indices)",
    )


def _add_program(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "program", metavar="PROGRAM",
        help="file with an SDQLite program: CREATE statements, if any, and one expression; "
        "- for standard input")
    command.add_argument(
        "--tensor", type=_named, action="append", default=[], metavar="NAME=FILE",
        help="a tensor that the program names; may be given several times")
    command.add_argument(
        "--db", metavar="FOLDER", help="a database whose tensors the program may name")
    command.add_argument(
        "--analyze", action="store_true", help="run, and print the plan with what happened")
    command.add_argument(
        "--unequal", action="store_true",
        help="join axes of different extents: indices that one of them lacks count as absent")
    command.add_argument("--memory", metavar="SIZE", help="memory limit, e.g. 4GB")


def _add_run(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(
        commands, "run", "Run an SDQLite program over tensor files.", _run,
        epilog="Example: tensorel run spmv.sdql --tensor A=a.mtx --tensor x=x.npy --out y.npy")
    _add_program(command)
    command.add_argument(
        "--out", metavar="FILE", help="file for the result (default: print it)")
    command.add_argument("--explain", action="store_true", help="print the plan first")


def _add_explain(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(
        commands, "explain", "Print the plan of an SDQLite program over tensor files.", _explain)
    _add_program(command)
    command.add_argument(
        "--level", choices=("logical", "physical", "code"), default="physical",
        help="what to print (default: physical)")


def _add_sql(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(
        commands, "sql", "Run an SQL query over files of tensors and tables.", _sql,
        epilog='Example: tensorel sql "SELECT i0, SUM(val) FROM A GROUP BY i0" --table A=a.mtx')
    command.add_argument("query", metavar="QUERY", help="the query; - for standard input")
    command.add_argument(
        "--table", type=_named, action="append", default=[], metavar="NAME=FILE",
        help="a relation: a file of a tensor, a .parquet or .csv file, or a folder of .parquet "
             "files; may be given several times")
    command.add_argument("--db", metavar="FOLDER", help="a database whose tensors are relations")
    command.add_argument("--explain", action="store_true", help="print the plan instead")
    command.add_argument("--memory", metavar="SIZE", help="memory limit, e.g. 4GB")


def _add_convert(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(
        commands, "convert", "Convert a tensor file to another kind, format or dtype.", _convert,
        epilog=f"Formats: {', '.join(names())}. Example: tensorel convert a.mtx.gz a.npz "
        "--format csc --dtype float32",
    )
    command.add_argument("input", metavar="IN", help="file to read")
    command.add_argument("output", metavar="OUT", help="file to write; its ending says the kind")
    command.add_argument("--format", help="storage format of the result, e.g. csr, csc, coo, csf")
    command.add_argument("--dtype", help="dtype of the result, e.g. float32")
    command.add_argument(
        "--scipy", action="store_true", help="write an .npz as scipy.sparse.load_npz reads it"
    )
    _add_shape(command)


def _add_info(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(
        commands, "info", "Say what a tensor file holds: shape, dtype, entries, structure.", _info
    )
    command.add_argument("file", metavar="FILE", help="file to read")
    command.add_argument("--json", action="store_true", help="print one JSON object")
    _add_shape(command)


def _add_demo(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(
        commands, "demo",
        "Run naive tensor programs on a sparse matrix; show plan, result, time beside SciPy's.",
        _demo,
    )
    command.add_argument(
        "--size", type=_positive, default=2_000_000, metavar="N",
        help="nonzeros of the matrix (default: 2000000)",
    )
    command.add_argument("--seed", type=int, default=0, help="seed of the data (default: 0)")


def _add_calibrate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    command = _add(
        commands, "calibrate",
        "Measure what work costs on this machine; later processes choose plans by it.", _calibrate,
    )
    command.add_argument("--dry-run", action="store_true", help="measure and print, do not keep")


def _fail(message: str) -> int:
    print(f"tensorel: error: {message}", file=sys.stderr)
    return 1


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; the result is the exit code.

    >>> main(["info", "missing.mtx"])
    1
    """
    arguments = build_parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
        sys.stdout.flush()
        return code
    except TensorelError as error:
        place = ""
        if isinstance(error, ParseError) and error.text:
            place = f" at line {error.line}, column {error.column}"
        hint = f" ({error.hint})" if error.hint else ""
        return _fail(" ".join(f"{error.message}{place}{hint}".split()))
    except BrokenPipeError:  # the reader of a pipe went away: nothing to say, nobody to hear it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{error.filename or 'file'}: {error.strerror or error}")
    except MemoryError:
        return _fail("the machine's memory is exhausted")
    except KeyboardInterrupt:
        print("tensorel: interrupted", file=sys.stderr)
        return 130
