// What this path sustains: reading memory, and the products of its inner loop.
#pragma once

#include "kernel.h"

namespace {

// Reads everything once; the result keeps the compiler honest.
template <class V>
uint32_t read_all(const uint8_t* data, int64_t bytes) {
  constexpr int kWidth = V::N * 4;
  typename V::I32 sums[4] = {};
  for (int64_t at = 0; at + 4 * kWidth <= bytes; at += 4 * kWidth) {
    V::fetch(data + at + kFetchAhead);
    V::fetch(data + at + kFetchAhead + 2 * kWidth);
    for (int i = 0; i < 4; ++i) {
      sums[i] = V::add(sums[i], (typename V::I32)V::codes(data + at + i * kWidth));
    }
  }
  alignas(64) float lanes[V::N];
  V::store(lanes, V::real(V::add(V::add(sums[0], sums[1]), V::add(sums[2], sums[3]))));
  return uint32_t(lanes[0] != 0.0f);
}

// 8 * V::N * 4 multiply-adds a round, on data in registers and the nearest cache.
template <class V>
uint32_t multiply(int64_t rounds) {
  alignas(64) uint8_t codes[64];
  alignas(64) int8_t quads[32];
  for (int i = 0; i < 64; ++i) codes[i] = uint8_t(i % 16);
  for (int i = 0; i < 32; ++i) quads[i] = int8_t(i - 16);
  typename V::Sum sums[8] = {};
  const typename V::Codes c = V::codes(codes);
  for (int64_t round = 0; round < rounds; ++round) {
    unroll<0, 8>([&](auto i) __attribute__((always_inline)) {
      constexpr int at = decltype(i)::value;
      sums[at] = V::dot(sums[at], c, quads + at * 4);
    });
    __asm__ volatile("" : "+m"(quads));   // read again in every round
  }
  typename V::I32 total = {};
  for (int i = 0; i < 8; ++i) total = V::add_scaled(total, sums[i], V::scale_all(1));
  alignas(64) float lanes[V::N];
  V::store(lanes, V::real(total));
  return uint32_t(lanes[0] != 0.0f);
}

}  // namespace
