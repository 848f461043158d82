#!/usr/bin/env bash
# Builds the native kernels with AddressSanitizer and UBSan and runs their tests, on every path
# that this CPU runs; those it lacks are emulated where SIMDe's headers (package simde-py) are.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
command -v "${CXX:-c++}" >/dev/null || { echo "No C++ compiler, so no native code to sanitize."; exit; }
BUILD=$(mktemp -d)
trap 'rm -rf "$BUILD"' EXIT

if ! grep -qw avx512_vnni /proc/cpuinfo && [ -z "${PACELINE_EMULATE:-}" ]; then
  PACELINE_EMULATE=$("$PYTHON" -c 'import simde_py; print(simde_py.get_include())' 2>/dev/null || true)
  [ -z "$PACELINE_EMULATE" ] && unset PACELINE_EMULATE || export PACELINE_EMULATE
fi
SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all"
CXXFLAGS="$SANITIZE -O1 -g1 -fno-omit-frame-pointer" LDFLAGS="$SANITIZE" \
  "$PYTHON" setup.py --quiet build_ext --build-lib "$BUILD" --build-temp "$BUILD/objects"

LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
ASAN_OPTIONS=detect_leaks=0 \
PACELINE_LIBRARY="$BUILD/paceline/kernels/libpaceline.so" \
  "$PYTHON" -m pytest tests/parity/test_native_*.py tests/unit/kernels/test_kernel_*.py tests/unit/kernels/test_packed_*.py
