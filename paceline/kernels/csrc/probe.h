// What this path sustains: reading memory, and the products of its inner loop.
#pragma once

#include "kernel.h"

namespace {

// Makes the compiler believe that the value is used; as a copy, so that itself it may stay in
// registers.
template <class T>
PL_INLINE void keep(T value) {
  __asm__ volatile("" ::"m"(value));
}

// Reads four streams at once, which keep the hardware's prefetchers busiest: a part of 256 bytes
// of each at a time.
template <class V>
void read_all(const uint8_t* data, int64_t bytes) {
  constexpr int kStreams = 4, kPart = 256;
  const int64_t stream = bytes / kStreams / kPart * kPart;
  typename V::Codes seen[kPart / 64] = {};
  for (int64_t at = 0; at < stream; at += kPart) {
    for (int s = 0; s < kStreams; ++s) {
      const uint8_t* part = data + s * stream + at;
      for (int i = 0; i < kPart / 64; ++i) {
        seen[i] = V::template with_bits<0, 0xff>(seen[i], V::codes(part + i * 64));
      }
    }
  }
  for (const auto& codes : seen) keep(codes);
}

constexpr int kQuads = 8;   // of each row in a round

template <class V>
constexpr int kProducts = kQuads * V::kRows * kOutputs * 4;   // multiply-adds of a round

// The dots of a tile, on codes in registers and activations in the nearest cache.
template <class V>
void multiply(int64_t rounds) {
  alignas(64) uint8_t codes[64] = {};
  alignas(64) int8_t quads[kQuads * V::kRows * 4] = {};   // zeros, so that no sum overflows
  typename V::Sum sums[V::kRows] = {};
  const typename V::Codes c = V::codes(codes);
  for (int64_t round = 0; round < rounds; ++round) {
    const int8_t* quad = quads;
    __asm__ volatile("" : "+r"(quad)::"memory");   // read again in every round
    unroll<0, kQuads>([&](auto i) PL_FLAT {
      constexpr int at = i * V::kRows;
      for (int r = 0; r < V::kRows; ++r) sums[r] = V::dot(sums[r], c, quad + (at + r) * 4);
    });
  }
  for (const auto& sum : sums) keep(sum);
}

}  // namespace
