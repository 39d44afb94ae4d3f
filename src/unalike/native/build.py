"""Programs compiled by the C++ compiler of this machine, and kept in the user's cache."""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

FLAGS = (
    "-std=c++17",
    "-O3",
    "-march=native",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fopenmp-simd",  # loops say which of their sums may be made in vectors
    "-fwrapv",  # random numbers are products of integers that overflow
    "-shared",
    "-fPIC",
)
PATIENCE = 120  # seconds
HEADER = Path(__file__).with_name("step.hpp")


class NotBuilt(Exception):
    """Why there is no program."""


@cache
def compiler() -> str | None:
    """The path of a C++ compiler: what CXX names, or the first that is found."""
    if sys.platform == "win32":
        return None
    for name in (os.environ.get("CXX", ""), "g++", "c++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    return None


@cache
def _this_machine() -> str:
    """What a compiled program depends on beside its text."""
    found = compiler()
    assert found is not None, "nothing is compiled without a compiler"
    version = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
    try:
        about = Path("/proc/cpuinfo").read_text(encoding="utf-8").partition("\n\n")[0]
        lines = about.splitlines()
        cpu = [x for x in lines if x.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        cpu = [platform.processor()]
    return "\n".join([version.stdout, platform.machine(), *cpu, *FLAGS])


def folder() -> Path:
    """Where compiled programs are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "unalike" / "native"


def built(text: str) -> Any:
    """The function of a program; compiled if this machine has not done so before."""
    if compiler() is None:
        raise NotBuilt("there is no C++ compiler (g++, c++ or clang++)")
    whole = HEADER.read_text(encoding="utf-8") + text
    digest = hashlib.blake2b((whole + _this_machine()).encode(), digest_size=16).hexdigest()
    try:
        place = folder()
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = place / f"{digest}.so"
        if not path.is_file():
            _compile(text, path)
        try:
            run = ctypes.CDLL(str(path)).run
        except (OSError, AttributeError):  # damaged
            path.unlink()
            _compile(text, path)
            run = ctypes.CDLL(str(path)).run
    except OSError as error:
        raise NotBuilt(str(error)) from None
    pointers = ctypes.POINTER(ctypes.c_int64)
    run.argtypes = [pointers, pointers, pointers, ctypes.c_void_p, pointers]
    run.restype = ctypes.c_int
    return run


def _compile(text: str, path: Path) -> None:
    """Another process may do the same at the same time: the last one to be done is taken."""
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        source, out = Path(work) / "step.cpp", Path(work) / "step.so"
        source.write_text(text, encoding="utf-8")
        command = [str(compiler()), *FLAGS, f"-I{HEADER.parent}", str(source), "-o", str(out)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=PATIENCE, check=False
            )
        except subprocess.TimeoutExpired:
            raise NotBuilt(f"the C++ compiler took more than {PATIENCE} seconds") from None
        if done.returncode:
            first = next(
                iter(x for x in done.stderr.splitlines() if "error" in x), done.stderr[:200]
            )
            raise NotBuilt(f"the C++ compiler said: {first}")
        out.replace(path)
