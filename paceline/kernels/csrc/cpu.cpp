// Which paths this CPU runs, and the one in force.
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "kernels.h"

#ifdef PL_X86
#include <cpuid.h>
#endif

namespace pl {
namespace {

#ifdef PL_X86
// The registers that the operating system saves: bits 1..2 for ymm, 5..7 for zmm.
uint64_t saved_registers() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c >> 27 & 1)) return 0;
  uint32_t low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low | uint64_t(high) << 32;
}

bool has_avx2() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if ((saved_registers() & 0x6) != 0x6) return false;
  __get_cpuid(1, &a, &b, &c, &d);
  const bool fma = c >> 12 & 1, f16c = c >> 29 & 1;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return fma && f16c && (b >> 5 & 1);
}

bool has_avxvnni() {
#ifdef PACELINE_EMULATE
  return has_avx2();
#else
  uint32_t a = 0, b = 0, c = 0, d = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
#endif
}

bool has_avx512() {
#ifdef PACELINE_EMULATE
  return has_avx2();
#else
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (!has_avx2() || (saved_registers() & 0xe6) != 0xe6) return false;
  __get_cpuid_count(7, 0, &a, &b, &c, &d);
  const bool f = b >> 16 & 1, dq = b >> 17 & 1, bw = b >> 30 & 1, vl = b >> 31 & 1;
  return f && dq && bw && vl && (c >> 11 & 1);
#endif
}
#endif

bool runs(int path) {
#ifdef PL_X86
  if (path == PL_AVX2) return has_avx2();
  if (path == PL_AVXVNNI) return has_avxvnni();
  if (path == PL_AVX512) return has_avx512();
#endif
  return path == PL_PORTABLE;
}

int best_path() {
  int path = PL_PATHS - 1;
  while (!runs(path)) --path;
  return path;
}

// PACELINE_KERNELS names the path; one that is unknown or that this CPU lacks is passed over here
// and refused by kernels/native.py.
int first_path() {
  const char* names[] = {"portable", "avx2", "avxvnni", "avx512"};
  const char* wanted = getenv("PACELINE_KERNELS");
  for (int path = 0; wanted && path < PL_PATHS; ++path) {
    if (!strcmp(wanted, names[path]) && runs(path)) return path;
  }
  return best_path();
}

std::atomic<int>& current() {
  static std::atomic<int> path{first_path()};
  return path;
}

}  // namespace

const Kernels& kernels() {
#ifdef PL_X86
  switch (current().load(std::memory_order_relaxed)) {
    case PL_AVX2: return kAvx2;
    case PL_AVXVNNI: return kAvxVnni;
    case PL_AVX512: return kAvx512;
  }
#endif
  return kPortable;
}

}  // namespace pl

extern "C" int32_t pl_has_path(int32_t path) { return pl::runs(path); }

extern "C" int32_t pl_path(void) { return pl::current().load(); }

extern "C" int32_t pl_set_path(int32_t path) {
  if (path < 0 || path >= PL_PATHS || !pl::runs(path)) return PL_NO_PATH;
  pl::current().store(path);
  return PL_OK;
}
