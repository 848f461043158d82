// Measuring the machine; the caller holds the clock.
#include "kernels.h"
#include "pool.h"

using namespace pl;

extern "C" int32_t pl_read_all(const uint8_t* data, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 20;
  if (!data || bytes < 0) return PL_BAD_ARGUMENT;
  parallel_for(int((bytes + kPiece - 1) / kPiece), [&](int piece) {
    const int64_t at = piece * kPiece, left = bytes - at;
    kernels().read_all(data + at, left < kPiece ? left : kPiece);
  });
  return PL_OK;
}

extern "C" int64_t pl_multiply(int64_t rounds) {
  parallel_for(threads(), [&](int) { kernels().multiply(rounds); });
  return rounds * kernels().products * threads();
}
