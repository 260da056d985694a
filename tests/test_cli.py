"""The command line, through a process of its own where that matters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tensorel
from tensorel.cli import main
from tensorel.io.files import read, write
from tensorel.storage.convert import from_coo, from_dense, to_dense, to_format


def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tensorel", *map(str, arguments)]
    source = Path(__file__).parents[1] / "src"
    environment = os.environ | {"PYTHONPATH": str(source)}
    return subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=300, **options,  # type: ignore[call-overload]
    )


@pytest.fixture
def matrix(tmp_path: Path) -> Path:
    dense = np.diag([1.0, 2.0, 3.0])
    dense[0, 2] = -4
    write(tmp_path / "a.mtx", to_format(from_dense(dense), "csr"))
    return tmp_path / "a.mtx"


def test_process(matrix: Path, tmp_path: Path) -> None:
    done = run("convert", matrix, tmp_path / "b.npz", "--format", "csc", "--dtype", "float32")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    stored = read(tmp_path / "b.npz")
    assert stored.format.name == "csc" and stored.dtype == np.float32
    done = run("info", tmp_path / "b.npz", "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0 and done.stderr == ""
    assert facts["shape"] == [3, 3] and facts["nnz"] == 4 and facts["format"] == "csc"


def test_process_errors(tmp_path: Path) -> None:
    done = run("info", tmp_path / "none.mtx")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("tensorel: error: ") and done.stderr.count("\n") == 1
    assert run("info").returncode == 2
    assert run().returncode == 2
    assert run("nonsense").returncode == 2
    version = run("--version")
    assert version.returncode == 0 and version.stdout.startswith("tensorel ")


def test_broken_pipe(matrix: Path) -> None:
    source = Path(__file__).parents[1] / "src"
    command = f"{sys.executable} -m tensorel info {matrix} | true"
    done = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=300,
        env=os.environ | {"PYTHONPATH": str(source)},
    )
    assert "Traceback" not in done.stderr


def test_info_text(matrix: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(matrix)]) == 0
    text = capsys.readouterr().out
    for part in ("3 x 3", "float64", "csr", "4 unlike", "-4.0 to 3.0", "3 of 3", "symmetric  no",
                 "0 below, 2 above"):
        assert part in text, text


def facts(path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    assert main(["info", str(path), "--json", *more]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_info_is_the_same_for_every_storage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    for shape in ((6, 6), (5, 7), (3, 4, 2), (4,), (3, 0)):
        dense = np.where(rng.random(shape) < 0.3, rng.integers(-5, 9, shape), 0).astype(float)
        if shape == (6, 6):
            dense += dense.T
        seen = []
        for name in ("dense", "dense_f", "coo", "csf"):
            write(tmp_path / "a.npz", to_format(from_dense(dense), name))
            found = facts(tmp_path / "a.npz", capsys)
            seen.append({k: v for k, v in found.items() if k not in ("format", "stored", "bytes")})
        assert all(s == seen[0] for s in seen), seen


def test_info_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    symmetric = np.array([[1.0, 2, 0], [2, 0, 3], [0, 3, np.nan]])
    write(tmp_path / "s.npz", to_format(from_dense(symmetric), "csr"))
    found = facts(tmp_path / "s.npz", capsys)
    assert found["symmetric"] is True and found["nan"] == 1 and found["bandwidth"] == [1, 1]
    filled = from_coo([[1, 2]], [5, 7], (4,), fill=7)
    write(tmp_path / "f.npz", filled)
    found = facts(tmp_path / "f.npz", capsys)
    assert (found["stored"], found["nnz"], found["fill"], found["range"]) == (2, 1, 7, [5, 7])
    write(tmp_path / "e.npz", from_dense(np.empty((0, 3))))
    assert facts(tmp_path / "e.npz", capsys)["range"] is None
    write(tmp_path / "z.npy", from_dense(np.array([3 + 4j, 0])))
    assert facts(tmp_path / "z.npy", capsys)["range"] == [0.0, 5.0]
    (tmp_path / "t.tns").write_text("1 2 3 4.5\n")
    assert facts(tmp_path / "t.tns", capsys, "--shape", "2,2x3")["shape"] == [2, 2, 3]
    write(tmp_path / "scalar.npy", from_dense(np.float64(np.inf)))
    assert facts(tmp_path / "scalar.npy", capsys)["range"] == ["inf", "inf"]


@pytest.mark.parametrize("suffix", ["npy", "npz", "mtx", "mtx.gz", "tns", "tns.gz"])
def test_convert_between_all_kinds(matrix: Path, tmp_path: Path, suffix: str) -> None:
    out = tmp_path / f"out.{suffix}"
    assert main(["convert", str(matrix), str(out)]) == 0
    assert main(["convert", str(out), str(tmp_path / "back.mtx"), "--format", "csr"]) == 0
    assert (tmp_path / "back.mtx").read_bytes() == matrix.read_bytes()


def test_convert_for_scipy(matrix: Path, tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    assert main(["convert", str(matrix), str(tmp_path / "s.npz"), "--scipy"]) == 0
    loaded = sparse.load_npz(tmp_path / "s.npz").toarray()
    assert np.array_equal(loaded, to_dense(read(matrix)))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["IN", "OUT.csv"], ".mtx.gz"), (["IN", "OUT.npz", "--format", "cssr"], "'csr'"),
        (["IN", "OUT.npz", "--dtype", "float99"], "float99"),
        (["IN", "OUT.npz", "--shape", "3,3"], "shape"), (["IN.npz", "OUT.npz"], "IN.npz"),
        (["IN", "no/such/folder/OUT.npz"], "No such file"),
    ],
)
def test_convert_errors(
    matrix: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str],
    reason: str, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(matrix) if a == "IN" else a for a in arguments]
    assert main(["convert", *given]) == 1
    captured = capsys.readouterr()
    assert reason in captured.err and captured.err.count("\n") == 1 and not captured.out
    assert not list(tmp_path.glob("OUT*"))


def test_complex_to_real(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "c.npy", from_dense(np.array([1 + 1j])))
    write(tmp_path / "r.npy", from_dense(np.array([2 + 0j])))
    out = str(tmp_path / "o.npy")
    assert main(["convert", str(tmp_path / "c.npy"), out, "--dtype", "float64"]) == 1
    assert "imaginary" in capsys.readouterr().err
    assert main(["convert", str(tmp_path / "r.npy"), out, "--dtype", "float64"]) == 0
    assert np.load(out).tolist() == [2.0]


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--help"])
    text = capsys.readouterr().out
    assert caught.value.code == 0
    assert all(name in text for name in ("convert", "info", "demo", ".mtx.gz"))


def test_demo_small() -> None:
    done = run("demo", "--size", "20000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "A * (U @ V.T)" in done.stdout and "plan" in done.stdout
    assert "3 of 3 programs gave the right result" in done.stdout


# -- programs ----------------------------------------------------------------------------------
SPMV = "// a product\nsum(<(i, j), a> in A, <j, v> in x) { i -> a * v }\n"


@pytest.fixture
def program(matrix: Path, tmp_path: Path) -> list[str]:
    """The arguments of a product of the matrix with a vector."""
    (tmp_path / "spmv.sdql").write_text(SPMV)
    np.save(tmp_path / "x.npy", np.asarray([1.0, 2.0, 3.0]))
    return [str(tmp_path / "spmv.sdql"), "--tensor", f"A={matrix}",
            "--tensor", f"x={tmp_path / 'x.npy'}"]


def test_run_a_program(
    program: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "y.npy")
    assert main(["run", *program, "--out", out]) == 0
    assert capsys.readouterr().out == ""
    assert np.load(out).tolist() == [-11.0, 4.0, 9.0]
    assert main(["run", *program]) == 0
    assert capsys.readouterr().out == "[-11.   4.   9.]\n"
    assert main(["run", *program, "--explain", "--out", out]) == 0
    plan = capsys.readouterr().out
    assert "csr (3, 3)" in plan and main(["explain", *program]) == 0
    assert capsys.readouterr().out == plan
    assert main(["run", *program, "--analyze", "--memory", "1GB"]) == 0
    assert "actual" in capsys.readouterr().out
    assert main(["explain", *program, "--level", "code"]) == 0
    assert "for " in capsys.readouterr().out


def test_run_over_a_database(
    program: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tensorel.connect(tmp_path / "db") as db:
        db["A"] = tensorel.read(program[2][2:])
        db.execute("CREATE real ARRAY x(3)")
        db["x"] = [1, 2, 3]
    assert main(["run", program[0], "--db", str(tmp_path / "db")]) == 0
    assert capsys.readouterr().out == "[-11.   4.   9.]\n"
    assert main(["run", program[0], "--db", str(tmp_path / "db"), *program[3:]]) == 0


def test_run_refuses_axes_of_unequal_extents(
    program: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.save(tmp_path / "short.npy", np.array([1.0, 2.0]))
    short = [*program[:-1], f"x={tmp_path / 'short.npy'}"]
    for command in ("run", "explain"):
        assert main([command, *short]) == 1
        assert "joined with axis" in capsys.readouterr().err
    assert main(["run", *short, "--unequal"]) == 0


def test_run_from_a_pipe(program: list[str]) -> None:
    done = run("run", "-", *program[1:], input=SPMV)
    assert (done.returncode, done.stdout) == (0, "[-11.   4.   9.]\n"), done.stderr


def test_run_says_what_is_wrong(
    program: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.sdql").write_text("sum(<i, x> in")
    (tmp_path / "bytes.sdql").write_bytes(b"\xff\xfe")
    wrong = (
        (["run", str(tmp_path / "bad.sdql")], "line 1"),
        (["run", str(tmp_path / "bytes.sdql")], "not a text"),
        (["run", str(tmp_path / "none.sdql")], "No such file"),
        (["run", *program[:3]], "x"),
        (["run", *program, "--tensor", program[2]], "twice"),
        (["run", *program, "--out", "y.nonsense"], "ending"),
        (["run", *program, "--memory", "many"], "size"),
        (["run", program[0], "--db", str(tmp_path / "nowhere")], "No such file"),
    )
    for arguments, message in wrong:
        assert main(arguments) == 1, arguments
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1, error
    for text in ("A", "=a.mtx", "A=", "1=a.mtx"):
        with pytest.raises(SystemExit):
            main(["run", program[0], "--tensor", text])
