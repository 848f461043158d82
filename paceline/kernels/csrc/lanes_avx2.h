// Eight outputs at a time in ymm registers.
//
// Without VNNI a quad's four products are summed by vpmaddubsw into two int16, which may hold
// 2 * 127 * (2^bits - 1) * dots: 8 dots of 4-bit codes, 4 of 5-bit, 2 of 6-bit ones
// (kernel.h flushes in time). vpmaddwd then multiplies by the scale and widens at once.
#pragma once

#include <immintrin.h>
#include <string.h>

#include "half.h"

namespace {

struct Avx2Lanes {
  static constexpr int N = 8;
  static constexpr int kRows = 6;
  static constexpr bool kWideSums = false;

  using I32 = __m256i;
  using F32 = __m256;
  using Codes = __m256i;
  using Sum = __m256i;
  using Scale = __m256i;   // the scale twice in each lane, as int16
  using Pair = __m256i;    // two int16 in each lane

  static inline __m256i quads(const int8_t* quad) {
    int32_t four;
    memcpy(&four, quad, 4);
    return _mm256_set1_epi32(four);
  }
  static inline Codes codes(const uint8_t* p) { return _mm256_loadu_si256((const __m256i*)p); }
  static inline Codes low(Codes c) { return _mm256_and_si256(c, _mm256_set1_epi8(15)); }
  static inline Codes high(Codes c) { return low(_mm256_srli_epi16(c, 4)); }
  template <int LEFT, int MASK>
  static inline Codes with_bits(Codes c, Codes plane) {
    if constexpr (LEFT > 0) plane = _mm256_slli_epi16(plane, LEFT);
    if constexpr (LEFT < 0) plane = _mm256_srli_epi16(plane, -LEFT);
    return _mm256_or_si256(c, _mm256_and_si256(plane, _mm256_set1_epi8(MASK)));
  }

  static inline Sum dot(Sum sum, Codes c, const int8_t* quad) {
    sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(c, quads(quad)));
    __asm__ volatile("" : "+x"(sum));   // GCC would gather the products first and spill them
    return sum;
  }

  static inline Scale scale_u8(const uint8_t* p) {
    const __m256i scale = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
    return _mm256_or_si256(_mm256_slli_epi32(scale, 16), scale);
  }
  static inline Scale scale_s8(const uint8_t* p) {
    const __m256i scale = _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
    return _mm256_blend_epi16(scale, _mm256_slli_epi32(scale, 16), 0xaa);
  }
  static inline Scale scale_all(int value) { return _mm256_set1_epi16(short(value)); }
  static inline I32 add_scaled(I32 total, Sum sum, Scale scale) {
    return _mm256_add_epi32(total, _mm256_madd_epi16(sum, scale));
  }

  static inline Pair pair_u8(const uint8_t* p) {
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)p));
  }
  static inline Pair pair_of(Scale a, Scale b) {
    return _mm256_slli_epi16(_mm256_blend_epi16(a, b, 0xaa), 5);
  }
  static inline I32 pair_dot(Pair pair, const int16_t* two) {
    return _mm256_madd_epi16(pair, quads((const int8_t*)two));
  }
  static inline I32 add(I32 a, I32 b) { return _mm256_add_epi32(a, b); }
  static inline I32 sub(I32 a, I32 b) { return _mm256_sub_epi32(a, b); }

  static inline F32 real(I32 a) { return _mm256_cvtepi32_ps(a); }
  static inline F32 all(float a) { return _mm256_set1_ps(a); }
  static inline F32 mul(F32 a, F32 b) { return _mm256_mul_ps(a, b); }
  static inline F32 add(F32 a, F32 b) { return _mm256_add_ps(a, b); }
  static inline F32 div(F32 a, F32 b) { return _mm256_div_ps(a, b); }
  static inline F32 max(F32 a, F32 b) { return _mm256_max_ps(a, b); }   // b if either is NaN
  static inline F32 min(F32 a, F32 b) { return _mm256_min_ps(a, b); }
  static inline F32 power_of_two(F32 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static inline F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
  static inline F32 load(const float* p) { return _mm256_loadu_ps(p); }
  static inline void store(float* p, F32 a) { _mm256_storeu_ps(p, a); }
  static inline F32 halves(const uint8_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)p));
  }
  static inline F32 brains(const uint8_t* p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
  }
  // As assembly, since GCC takes functions that only prefetch for pure and drops their calls.
  static inline void fetch(const uint8_t* p) { __asm__ volatile("prefetcht0 %0" ::"m"(*p)); }
};

}  // namespace
