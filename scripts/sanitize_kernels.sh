#!/usr/bin/env bash
# Builds the native kernels with AddressSanitizer and UBSan and runs their tests, on every path
# that this CPU runs. With PACELINE_EMULATE=DIR, where SIMDe's headers lie (package simde-py:
# simde_py.get_include()), also on those it lacks, slowly.
set -euo pipefail
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
command -v "${CXX:-c++}" >/dev/null || { echo "No C++ compiler, so no native code to sanitize."; exit; }
BUILD=$(mktemp -d)
trap 'rm -rf "$BUILD"' EXIT

SANITIZE="-fsanitize=address,undefined -fno-sanitize-recover=all"
CXXFLAGS="$SANITIZE -O1 -g1 -fno-omit-frame-pointer" LDFLAGS="$SANITIZE" \
  "$PYTHON" setup.py --quiet build_ext --build-lib "$BUILD" --build-temp "$BUILD/objects"

LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
ASAN_OPTIONS=detect_leaks=0 \
PACELINE_LIBRARY="$BUILD/paceline/kernels/libpaceline.so" \
  "$PYTHON" -m pytest -s tests/parity/test_native_*.py tests/unit/kernels/test_kernel_*.py tests/unit/kernels/test_packed_*.py
