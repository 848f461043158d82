// Measuring the machine; the caller holds the clock.
#include <atomic>

#include "kernels.h"
#include "pool.h"

using namespace pl;

extern "C" int32_t pl_read_all(const uint8_t* data, int64_t bytes) {
  constexpr int64_t kPiece = 1 << 20;
  if (!data || bytes < 0) return PL_BAD_ARGUMENT;
  std::atomic<uint32_t> seen{0};
  parallel_for(int((bytes + kPiece - 1) / kPiece), [&](int piece) {
    const int64_t at = piece * kPiece, left = bytes - at;
    seen += kernels().read_all(data + at, left < kPiece ? left : kPiece);
  });
  return PL_OK;
}

extern "C" int64_t pl_multiply(int64_t rounds) {
  std::atomic<uint32_t> seen{0};
  parallel_for(threads(), [&](int) { seen += kernels().multiply(rounds); });
  return rounds * kernels().products * threads();
}
