// What this path sustains: reading memory, and the products of its inner loop.
#pragma once

#include "kernel.h"

namespace {

// Reads everything once; the result keeps the compiler honest.
template <class V>
uint32_t read_all(const uint8_t* data, int64_t bytes) {
  typename V::Codes seen[4] = {};
  for (int64_t at = 0; at + 256 <= bytes; at += 256) {
    for (int i = 0; i < 4; ++i) {
      V::fetch(data + at + kFetchAhead + i * 64);
      seen[i] = V::template with_bits<0, 0xff>(seen[i], V::codes(data + at + i * 64));
    }
  }
  uint32_t sum = 0;
  for (int i = 0; i < 4; ++i) sum += *(const uint8_t*)&seen[i];
  return sum;
}

// 8 * 16 * 4 multiply-adds a round into as many sums as a tile has rows, on data in registers and the nearest cache.
template <class V>
uint32_t multiply(int64_t rounds) {
  alignas(64) uint8_t codes[64] = {};
  alignas(64) int8_t quads[32] = {};   // zeros, so that no sum overflows
  typename V::Sum sums[V::kRows] = {};
  const typename V::Codes c = V::codes(codes);
  for (int64_t round = 0; round < rounds; ++round) {
    unroll<0, 8>([&](auto i) __attribute__((always_inline)) {
      constexpr int at = decltype(i)::value;
      sums[at % V::kRows] = V::dot(sums[at % V::kRows], c, quads + at * 4);
    });
    __asm__ volatile("" : "+m"(quads));   // read again in every round
  }
  typename V::I32 total = {};
  for (const auto& sum : sums) total = V::add_scaled(total, sum, V::scale_all(1));
  alignas(64) float lanes[kOutputs];
  V::store(lanes, V::real(total));
  return uint32_t(lanes[0] != 0.0f);
}

}  // namespace
