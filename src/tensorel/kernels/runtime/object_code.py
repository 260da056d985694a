"""Loads object code without LLVM: x86-64 ELF, as our compiler writes it.

A kernel from the disk cache then costs a mapping and a few relocations, and a warm process never
loads LLVM's library. Whatever this loader does not know is refused, and LLVM's own loader is used.
Memory is written first and executable afterwards, never both at once.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Iterator

from tensorel.base.records import dataclass
from tensorel.kernels.runtime.symbols import address, libc

_ALLOCATED = 0x2  # section flag: takes memory at run time
_PROGBITS, _SYMTAB, _RELA, _NOBITS = 1, 2, 4, 8
_ABSOLUTE_64, _RELATIVE_32, _CALL_32 = 1, 2, 4
_THROUGH_TABLE = (9, 41, 42)  # GOTPCREL and its relaxable forms
_STUB = b"\xff\x25\x00\x00\x00\x00"  # jmp [rip + 0]: to the address in the next eight bytes
_STUB_SIZE, _STUB_TABLE = 16, 6


class Refused(Exception):
    """Object code of a kind that this loader does not know."""


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    kind: int
    flags: int
    offset: int
    size: int
    link: int
    info: int
    align: int


@dataclass(frozen=True, slots=True)
class _Symbol:
    name: str
    section: int
    value: int


class LoadedObject:
    """Executable memory that lives as long as this object."""

    __slots__ = ("address", "memory")

    def __init__(self, address: int, memory: object) -> None:
        self.address = address
        self.memory = memory


def is_supported() -> bool:
    """Whether this machine runs what this loader loads."""
    return sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32


def load(code: bytes, entry: str) -> LoadedObject:
    """Map relocatable object code and give the address of the function ``entry``."""
    try:
        return _Loader(code).load(entry)
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise Refused(str(error)) from error


def undefined(code: bytes) -> tuple[str, ...]:
    """Names of the functions that the object code calls from outside."""
    file = _Loader(code)
    return tuple(s.name for s in file.symbols if s.section == 0 and s.name)


class _Loader:
    def __init__(self, code: bytes) -> None:
        if code[:6] != b"\x7fELF\x02\x01":
            raise Refused("not a 64-bit little-endian ELF file")
        self.code = code
        self.sections = self._read_sections()
        self.symbols = self._read_symbols()
        self.offsets: dict[int, int] = {}
        self.stubs: dict[str, int] = {}

    def _text(self, offset: int) -> str:
        return self.code[offset : self.code.index(b"\0", offset)].decode()

    def _read_sections(self) -> list[_Section]:
        table = struct.unpack_from("<Q", self.code, 40)[0]
        size, count, names = struct.unpack_from("<HHH", self.code, 58)
        rows = [struct.unpack_from("<IIQQQQIIQQ", self.code, table + k * size)
                for k in range(count)]
        base = rows[names][4]
        return [
            _Section(self._text(base + r[0]), r[1], r[2], r[4], r[5], r[6], r[7], max(r[8], 1))
            for r in rows
        ]

    def _read_symbols(self) -> list[_Symbol]:
        tables = [s for s in self.sections if s.kind == _SYMTAB]
        if len(tables) != 1:
            raise Refused("no symbol table")
        names = self.sections[tables[0].link].offset
        found = []
        for at in range(tables[0].offset, tables[0].offset + tables[0].size, 24):
            name, _, _, section, value, _ = struct.unpack_from("<IBBHQQ", self.code, at)
            found.append(_Symbol(self._text(names + name), section, value))
        return found

    def _relocations(self) -> Iterator[tuple[int, int, int, int, int]]:
        """(section, place in it, type, symbol, addend)"""
        for section in self.sections:
            if section.kind == _RELA and section.info in self.offsets:
                for at in range(section.offset, section.offset + section.size, 24):
                    place, info, addend = struct.unpack_from("<QQq", self.code, at)
                    yield section.info, place, info & 0xFFFFFFFF, info >> 32, addend

    def load(self, entry: str) -> LoadedObject:
        if struct.unpack_from("<HH", self.code, 16) != (1, 62):
            raise Refused("not relocatable x86-64 code")
        end = 0
        for k, section in enumerate(self.sections):
            wanted = section.flags & _ALLOCATED and section.kind in (_PROGBITS, _NOBITS)
            if wanted and section.name != ".eh_frame":
                end = -(-end // section.align) * section.align
                self.offsets[k] = end
                end += section.size
        end = -(-end // _STUB_SIZE) * _STUB_SIZE
        for _, _, _, symbol, _ in self._relocations():
            target = self.symbols[symbol]
            if target.section == 0 and target.name not in self.stubs:
                self.stubs[target.name] = end
                end += _STUB_SIZE
        memory = mmap.mmap(-1, max(end, 1))
        start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        self._fill(memory, start)
        if libc().mprotect(ctypes.c_void_p(start), ctypes.c_size_t(len(memory)),
                           mmap.PROT_READ | mmap.PROT_EXEC):
            raise Refused("executable memory is not allowed here")
        for symbol_ in self.symbols:
            if symbol_.name == entry and symbol_.section in self.offsets:
                place = self.offsets[symbol_.section] + symbol_.value
                return LoadedObject(start + place, memory)
        raise Refused(f"no function {entry}")

    def _fill(self, memory: mmap.mmap, start: int) -> None:
        for k, offset in self.offsets.items():
            section = self.sections[k]
            if section.kind == _PROGBITS:
                memory[offset : offset + section.size] = self.code[
                    section.offset : section.offset + section.size
                ]
        for name, offset in self.stubs.items():
            stub = _STUB + struct.pack("<Q", address(name))
            memory[offset : offset + len(stub)] = stub
        for section_, place, kind, symbol, addend in self._relocations():
            self._relocate(memory, start, self.offsets[section_] + place, kind,
                           self.symbols[symbol], addend)

    def _relocate(
        self, memory: mmap.mmap, start: int, at: int, kind: int, symbol: _Symbol, addend: int
    ) -> None:
        if symbol.section == 0:
            target = self.stubs[symbol.name]
            if kind in _THROUGH_TABLE:
                target += _STUB_TABLE
            elif kind == _ABSOLUTE_64:
                struct.pack_into("<Q", memory, at, address(symbol.name) + addend)
                return
        elif symbol.section in self.offsets and kind not in _THROUGH_TABLE:
            target = self.offsets[symbol.section] + symbol.value
        else:
            raise Refused("a symbol in a section that is not loaded")
        if kind == _ABSOLUTE_64:
            struct.pack_into("<Q", memory, at, start + target + addend)
        elif kind in (_RELATIVE_32, _CALL_32, *_THROUGH_TABLE):
            struct.pack_into("<i", memory, at, target + addend - at)
        else:
            raise Refused(f"relocation of type {kind}")
