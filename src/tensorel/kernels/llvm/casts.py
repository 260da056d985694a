"""Conversion between all dtypes, as NumPy converts; never poison, whatever the value."""

from __future__ import annotations

from typing import cast as typed

from tensorel.kernels.llvm.instructions import (
    PARTS,
    TYPES,
    Assembler,
    Value,
    literal_float,
    literal_int,
)

_FLOAT_WIDTH = {"f4": 4, "f8": 8}


def truth(asm: Assembler, code: str, value: Value) -> str:
    """Whether the value is not zero; nan is true."""
    if isinstance(value, tuple):
        part = PARTS[code]
        first, second = truth(asm, part, value[0]), truth(asm, part, value[1])
        return asm.op(f"or i1 {first}, {second}")
    if code == "b1":
        return value
    kind = TYPES[code]
    if code[0] == "f":
        return asm.op(f"fcmp une {kind} {value}, 0.0")
    return asm.op(f"icmp ne {kind} {value}, 0")


def cast(asm: Assembler, value: Value, source: str, target: str) -> Value:
    """``value`` of dtype ``source`` in dtype ``target``; complex to real drops the imaginary."""
    if source == target:
        return value
    if target == "b1":
        return truth(asm, source, value)
    if isinstance(value, tuple):
        part = PARTS[source]
        if target in PARTS:
            into = PARTS[target]
            first, second = cast(asm, value[0], part, into), cast(asm, value[1], part, into)
            return typed(str, first), typed(str, second)
        return cast(asm, value[0], part, target)
    if target in PARTS:
        return typed(str, cast(asm, value, source, PARTS[target])), literal_float(0.0)
    if source[0] == "f":
        return _from_float(asm, value, source, target)
    return _from_integer(asm, value, source, target)


def _from_integer(asm: Assembler, value: str, source: str, target: str) -> str:
    old, new = TYPES[source], TYPES[target]
    signed = source[0] == "i"
    if target[0] == "f":
        number = literal_int(value)
        if number is not None and abs(number) < 2**24:  # exact in both float dtypes
            return literal_float(float(number))
        return asm.op(f"{'sitofp' if signed else 'uitofp'} {old} {value} to {new}")
    if old == new:
        return value
    if source != "b1" and int(target[1]) < int(source[1]):
        return asm.op(f"trunc {old} {value} to {new}")
    return asm.op(f"{'sext' if signed else 'zext'} {old} {value} to {new}")


def _from_float(asm: Assembler, value: str, source: str, target: str) -> str:
    old, new = TYPES[source], TYPES[target]
    if target[0] == "f":
        step = "fpext" if _FLOAT_WIDTH[target] > _FLOAT_WIDTH[source] else "fptrunc"
        return asm.op(f"{step} {old} {value} to {new}")
    if target == "u8":
        return _to_uint64(asm, value, old)
    # C compilers convert narrow integers through int32 and uint32 through int64.
    wide = "i64" if target in ("i8", "u4") else "i32"
    result = _to_signed(asm, value, old, wide)
    return result if wide == new else asm.op(f"trunc {wide} {result} to {new}")


def _to_signed(asm: Assembler, value: str, old: str, wide: str) -> str:
    """Truncation; the lowest integer for nan and out of range, as the x86 instruction gives."""
    bits = int(wide[1:])
    low, high = literal_float(-(2.0 ** (bits - 1))), literal_float(2.0 ** (bits - 1))
    if bits == 32 and old == "double":  # -2**31 - 0.5 still truncates to -2**31
        low, above = literal_float(-(2.0**31) - 1.0), "ogt"
    else:
        above = "oge"
    fits = asm.op(f"fcmp {above} {old} {value}, {low}")
    below = asm.op(f"fcmp olt {old} {value}, {high}")
    inside = asm.op(f"and i1 {fits}, {below}")
    # A select does not take over the poison of the operand that it leaves out.
    safe = asm.op(f"select i1 {inside}, {old} {value}, {old} {literal_float(0.0)}")
    result = asm.op(f"fptosi {old} {safe} to {wide}")
    return asm.op(f"select i1 {inside}, {wide} {result}, {wide} {-(2 ** (bits - 1))}")


def _to_uint64(asm: Assembler, value: str, old: str) -> str:
    """The sequence of C compilers for x86: values from 2**63 on are shifted down first."""
    edge = literal_float(2.0**63)
    large = asm.op(f"fcmp oge {old} {value}, {edge}")
    shifted = asm.op(f"fsub {old} {value}, {edge}")
    chosen = asm.op(f"select i1 {large}, {old} {shifted}, {old} {value}")
    signed = _to_signed(asm, chosen, old, "i64")
    top = asm.op(f"select i1 {large}, i64 {-(2**63)}, i64 0")
    return asm.op(f"xor i64 {signed}, {top}")
