"""Builds the optional native kernels; everything else about the package is in pyproject.toml.

Without a C++ compiler the package installs all the same and computes in torch. CXXFLAGS and
LDFLAGS are honoured. PACELINE_EMULATE=DIR, where SIMDe's headers lie, builds the paths of newer
CPUs so that they can be tested, slowly, on any with AVX2.
"""

import os
import platform
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

CSRC = Path("paceline/kernels/csrc")
AVX2 = ["-mavx2", "-mfma", "-mf16c"]
AVX512 = [*AVX2, "-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni"]
SIMDE = os.environ.get("PACELINE_EMULATE")
EMULATED = [*AVX2, "-DPACELINE_EMULATE", f"-I{SIMDE}"]
ISA_FLAGS = {
    "kernels_avx2.cpp": AVX2,
    "kernels_avxvnni.cpp": EMULATED if SIMDE else [*AVX2, "-mavxvnni"],
    "kernels_avx512.cpp": EMULATED if SIMDE else AVX512,
    "cpu.cpp": ["-DPACELINE_EMULATE"] if SIMDE else [],
}
# Results must have the same bits on every path: the compiler may not fuse or reorder.
FLAGS = ["-std=c++17", "-O3", "-g0", "-fPIC", "-pthread", "-fvisibility=hidden"]
# GCC 12 warns of the undefined operands in its own intrinsics.
FLAGS += ["-ffp-contract=off", "-Wno-psabi"]
FLAGS += ["-Wno-uninitialized", "-Wno-maybe-uninitialized"]
X86 = platform.machine().lower() in {"x86_64", "amd64"}


class BuildNative(build_ext):
    """Compiles each source with its own instruction set into a library for ctypes."""

    def get_ext_filename(self, fullname):
        """No Python module: no interpreter's tag."""
        return str(Path(*fullname.split("."))) + ".so"

    def build_extension(self, ext):
        """With the x86 paths where the compiler knows them, else the portable one alone."""
        try:
            objects = self._compile(ext, ISA_FLAGS if X86 else {})
        except CompileError:
            if not X86:
                raise
            objects = self._compile(ext, {})
        self.compiler.link_shared_object(
            objects,
            self.get_ext_fullpath(ext.name),
            extra_postargs=["-pthread", *shlex.split(os.environ.get("LDFLAGS", ""))],
            target_lang="c++",
        )

    def _compile(self, ext, isa_flags):
        skipped = set() if isa_flags else set(ISA_FLAGS) - {"cpu.cpp"}
        macros = [("PL_X86", None)] if isa_flags else []

        def one(source):
            flags = [*FLAGS, *isa_flags.get(Path(source).name, [])]
            flags += shlex.split(os.environ.get("CXXFLAGS", ""))
            return self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=macros,
                extra_postargs=flags,
                depends=ext.depends,
            )

        sources = [source for source in ext.sources if Path(source).name not in skipped]
        with ThreadPoolExecutor(os.cpu_count()) as threads:
            return [obj for objs in threads.map(one, sources) for obj in objs]


native = Extension(
    "paceline.kernels.libpaceline",
    sources=sorted(map(str, CSRC.glob("*.cpp"))),
    depends=sorted(map(str, CSRC.glob("*.h"))),
    language="c++",
    optional=True,
)
setup(ext_modules=[native], cmdclass={"build_ext": BuildNative})
