"""LLVM text to machine code, through llvmlite, which is loaded when it is first needed."""

from __future__ import annotations

import os
import threading
from functools import cache
from types import ModuleType
from typing import Any

from tensorel.errors import EngineError
from tensorel.kernels.runtime import object_code
from tensorel.kernels.runtime.object_code import LoadedObject
from tensorel.kernels.runtime.symbols import address

ENTRY = "kernel"
#: LLVM's level of optimization for each effort. At level 0 it selects instructions and registers
#: in one pass over the code, which is a sixth of the time.
_EFFORT = {"full": 3, "quick": 0}

#: Level 3 writes loops several times, once for each way that a condition in them may go. Short
#: kernels gain by it (MTTKRP 7%); long ones take a tenth longer to compile and are not faster.
MAX_LEVEL_3_CHARACTERS = 16_000

wanted = False  # somebody has asked for code

#: LLVM is used by one thread at a time. Forks wait for it, so that no child inherits it half-way.
lock = threading.RLock()
os.register_at_fork(
    before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release
)


@cache
def llvm_library() -> ModuleType:
    from llvmlite import binding

    llvm: ModuleType = binding
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm


def _target_machine(effort: str = "full") -> Any:
    llvm = llvm_library()
    target = llvm.Target.from_default_triple()
    features = llvm.get_host_cpu_features().flatten()
    if target.name.startswith("x86"):  # measured: gathers make sparse loops up to 2.5 times slower
        features += ",+prefer-no-gather,+prefer-no-scatter"
    return target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=_EFFORT[effort], reloc="pic",
        codemodel="default",
    )


@cache
def machine_for(effort: str) -> Any:
    return _target_machine(effort)


def host() -> str:
    """The processor that code is made for, as LLVM names it."""
    with lock:
        llvm = llvm_library()
        return f"{llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"


_MASKS = '"llvm.loop.vectorize.predicate.enable", i1 '


def optimized(text: str, effort: str) -> Any:
    llvm, machine = llvm_library(), machine_for(effort)
    if not llvm.get_host_cpu_features().get("avx512vl"):  # masks elsewhere are made of branches
        text = text.replace(f"{_MASKS}true", f"{_MASKS}false")
    try:
        module = llvm.parse_assembly(text)
        module.triple = machine.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise EngineError(f"the native compiler refused a kernel: {error}") from error
    level = min(_EFFORT[effort], 3 if len(text) < MAX_LEVEL_3_CHARACTERS else 2)
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    if effort == "quick":
        builder = llvm.create_pass_builder(machine, tuning)
        passes = llvm.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    else:
        tuning.loop_vectorization = True
        tuning.loop_interleaving = True
        # measured: what these two add to sparse loops is time to compile, up to a third; pairs
        # of real and imaginary parts are what there is to find in straight code
        tuning.loop_unrolling = False
        tuning.slp_vectorization = ".im = alloca" in text
        builder = llvm.create_pass_builder(machine, tuning)
        passes = builder.getModulePassManager()
    passes.run(module, builder)
    return module


def compile_object(text: str, effort: str = "full") -> bytes:
    """Optimized relocatable object code of a module."""
    global wanted
    wanted = True
    with lock:
        code: bytes = machine_for(effort).emit_object(optimized(text, effort))
        return code


def rehearse(text: str) -> None:
    """Load LLVM and, unless somebody waits for it already, compile something."""
    with lock:
        machine = machine_for("full")
        if not wanted:
            machine.emit_object(optimized(text, "full"))


def assembly(text: str) -> str:
    """The machine code of a module as text, for people."""
    with lock:
        listing: str = machine_for("full").emit_assembly(optimized(text, "full"))
        return listing


def load_object(code: bytes) -> LoadedObject:
    """Object code in executable memory."""
    if object_code.is_supported():
        try:
            return object_code.load(code, ENTRY)
        except object_code.Refused:
            pass
    return load_with_llvm(code)


def load_with_llvm(code: bytes) -> LoadedObject:
    """Object code in executable memory, by LLVM's own loader."""
    with lock:
        llvm = llvm_library()
        file = llvm.object_file.ObjectFileRef.from_data(code)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), _target_machine())
        for name in _undefined(code):
            llvm.add_symbol(name, address(name))
        engine.add_object_file(file)
        engine.finalize_object()
        return LoadedObject(engine.get_function_address(ENTRY), engine)


def _undefined(code: bytes) -> tuple[str, ...]:
    """Names that the object code asks for, where they can be read off it."""
    return object_code.undefined(code) if code[:4] == b"\x7fELF" else ()
