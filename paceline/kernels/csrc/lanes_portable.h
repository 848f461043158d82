// Four outputs at a time in GCC/Clang vectors of 16 bytes: any CPU. Sums are int16 pairs, as in
// lanes_avx2.h.
#pragma once

#include <string.h>

#include "half.h"

namespace {

struct PortableLanes {
  static constexpr int N = 4;
  static constexpr int kRows = 4;
  static constexpr bool kWideSums = false;

  typedef int32_t I32 __attribute__((vector_size(16)));
  typedef uint32_t U32 __attribute__((vector_size(16)));
  typedef float F32 __attribute__((vector_size(16)));
  typedef int16_t I16 __attribute__((vector_size(16)));
  typedef uint8_t U8 __attribute__((vector_size(16)));
  using Codes = U8;
  using Sum = I16;
  using Scale = I32;
  using Pair = I16;

  template <class T>
  static inline T load(const void* p) {
    T value;
    memcpy(&value, p, sizeof value);
    return value;
  }

  static inline Codes codes(const uint8_t* p) { return load<U8>(p); }
  static inline Codes low(Codes c) { return c & 15; }
  static inline Codes high(Codes c) { return c >> 4; }
  template <int LEFT, int MASK>
  static inline Codes with_bits(Codes c, Codes plane) {
    if constexpr (LEFT >= 0) return c | ((plane << LEFT) & uint8_t(MASK));
    else return c | ((plane >> -LEFT) & uint8_t(MASK));
  }

  // Each int32 lane holds four codes; even and odd ones are multiplied as int16.
  static inline Sum dot(Sum sum, Codes c, const int8_t* quad) {
    const I16 pairs = (I16)c;
    const I16 even = pairs & 255, odd = (I16)((Pair16)pairs >> 8);
    const int32_t a02 = uint16_t(quad[0]) | uint32_t(uint16_t(quad[2])) << 16;
    const int32_t a13 = uint16_t(quad[1]) | uint32_t(uint16_t(quad[3])) << 16;
    return sum + even * (I16)(I32{} + a02) + odd * (I16)(I32{} + a13);
  }

  static inline Scale scale_u8(const uint8_t* p) { return widen<uint8_t>(p); }
  static inline Scale scale_s8(const uint8_t* p) { return widen<int8_t>(p); }
  static inline Scale scale_all(int value) { return I32{} + value; }
  static inline I32 add_scaled(I32 total, Sum sum, Scale scale) {
    const I32 both = (I32)sum;
    return total + (((I32)((U32)both << 16) >> 16) + (both >> 16)) * scale;
  }

  static inline Pair pair_u8(const uint8_t* p) {
    Pair pair;
    for (int i = 0; i < 2 * N; ++i) pair[i] = p[i];
    return pair;
  }
  // (32 a, 32 b) in each lane.
  static inline Pair pair_of(Scale a, Scale b) {
    return (Pair)((a * 32 & 0xffff) | (I32)((U32)(b * 32) << 16));
  }
  static inline I32 pair_dot(Pair pair, const int16_t* two) {
    const I32 both = (I32)pair;
    return ((I32)((U32)both << 16) >> 16) * two[0] + (both >> 16) * two[1];
  }
  static inline I32 add(I32 a, I32 b) { return a + b; }
  static inline I32 sub(I32 a, I32 b) { return a - b; }

  static inline F32 real(I32 a) { return __builtin_convertvector(a, F32); }
  static inline F32 all(float a) { return F32{} + a; }
  static inline F32 mul(F32 a, F32 b) { return a * b; }
  static inline F32 add(F32 a, F32 b) { return a + b; }
  static inline F32 div(F32 a, F32 b) { return a / b; }
  static inline F32 max(F32 a, F32 b) { return a > b ? a : b; }   // b if either is NaN
  static inline F32 min(F32 a, F32 b) { return a < b ? a : b; }
  static inline F32 power_of_two(F32 n) {
    return (F32)((__builtin_convertvector(n, I32) + 127) << 23);
  }
  static inline F32 fma(F32 a, F32 b, F32 c) {
    for (int i = 0; i < N; ++i) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
    return c;
  }
  static inline F32 load(const float* p) { return load<F32>(p); }
  static inline void store(float* p, F32 a) { memcpy(p, &a, sizeof a); }
  static inline F32 halves(const uint8_t* p) {
    F32 a;
    for (int i = 0; i < N; ++i) a[i] = pl::float_of_half(pl::load_u16(p + 2 * i));
    return a;
  }
  static inline F32 brains(const uint8_t* p) {
    F32 a;
    for (int i = 0; i < N; ++i) a[i] = pl::float_of_bf16(pl::load_u16(p + 2 * i));
    return a;
  }
  static inline void fetch(const uint8_t*) {}

 private:
  typedef uint16_t Pair16 __attribute__((vector_size(16)));

  template <class T>
  static inline I32 widen(const uint8_t* p) {
    I32 wide;
    for (int i = 0; i < N; ++i) wide[i] = T(p[i]);
    return wide;
  }
};

}  // namespace
