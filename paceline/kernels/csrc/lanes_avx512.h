// Sixteen outputs at a time in zmm registers, quads summed by vpdpbusd with the activations
// broadcast from memory. PACELINE_EMULATE compiles it from SIMDe's headers, so that machines
// without AVX-512 can test it.
#pragma once

#ifdef PACELINE_EMULATE
#include "emulate_avx512.h"
#else
#include <immintrin.h>
#endif
#include <string.h>

#include "half.h"

namespace {

struct Avx512Lanes {
  static constexpr int kRows = 8;
  static constexpr int kFloatRows = 8;
  static constexpr bool kWideSums = true;

  using I32 = __m512i;
  using F32 = __m512;
  using Codes = __m512i;
  using Sum = __m512i;
  using Scale = __m512i;
  using Pair = __m512i;

  static inline __m512i quads(const int8_t* quad) {
    int32_t four;
    memcpy(&four, quad, 4);
    return _mm512_set1_epi32(four);
  }
  static inline __m128i sixteen(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }
  static inline __m256i thirty_two(const uint8_t* p) {
    return _mm256_loadu_si256((const __m256i*)p);
  }

  static inline Codes codes(const uint8_t* p) { return _mm512_loadu_si512((const void*)p); }
  static inline Codes low(Codes c) { return _mm512_and_si512(c, _mm512_set1_epi8(15)); }
  static inline Codes high(Codes c) { return low(_mm512_srli_epi16(c, 4)); }
  template <int LEFT, int MASK>
  static inline Codes with_bits(Codes c, Codes plane) {
    if constexpr (LEFT > 0) plane = _mm512_slli_epi16(plane, LEFT);
    if constexpr (LEFT < 0) plane = _mm512_srli_epi16(plane, -LEFT);
    return _mm512_or_si512(c, _mm512_and_si512(plane, _mm512_set1_epi8(char(MASK))));
  }

  static inline Sum sum_of(const int32_t* start) { return _mm512_set1_epi32(*start); }
  static inline Sum dot(Sum sum, Codes c, const int8_t* quad) {
    return _mm512_dpbusd_epi32(sum, c, quads(quad));
  }

  static inline Scale scale_u8(const uint8_t* p) { return _mm512_cvtepu8_epi32(sixteen(p)); }
  static inline Scale scale_s8(const uint8_t* p) { return _mm512_cvtepi8_epi32(sixteen(p)); }
  static inline Scale scale_all(int value) { return _mm512_set1_epi32(value); }
  static inline I32 add_scaled(I32 total, Sum sum, Scale scale) {
    return _mm512_add_epi32(total, _mm512_mullo_epi32(sum, scale));
  }

  static inline Pair pair_u8(const uint8_t* p) { return _mm512_cvtepu8_epi16(thirty_two(p)); }
  static inline I32 pair_dot(Pair pair, const int16_t* two) {
    return _mm512_madd_epi16(pair, quads((const int8_t*)two));
  }
  static inline I32 add(I32 a, I32 b) { return _mm512_add_epi32(a, b); }

  static inline F32 real(I32 a) { return _mm512_cvtepi32_ps(a); }
  static inline F32 all(float a) { return _mm512_set1_ps(a); }
  static inline F32 mul(F32 a, F32 b) { return _mm512_mul_ps(a, b); }
  static inline F32 add(F32 a, F32 b) { return _mm512_add_ps(a, b); }
  static inline F32 div(F32 a, F32 b) { return _mm512_div_ps(a, b); }
  static inline F32 max(F32 a, F32 b) { return _mm512_max_ps(a, b); }   // b if either is NaN
  static inline F32 min(F32 a, F32 b) { return _mm512_min_ps(a, b); }
  static inline F32 power_of_two(F32 n) {
    const __m512i biased = _mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127));
    return _mm512_castsi512_ps(_mm512_slli_epi32(biased, 23));
  }
  static inline F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
  static inline F32 load(const float* p) { return _mm512_loadu_ps(p); }
  static inline void store(float* p, F32 a) { _mm512_storeu_ps(p, a); }
  static inline F32 halves(const uint8_t* p) { return _mm512_cvtph_ps(thirty_two(p)); }
  static inline F32 brains(const uint8_t* p) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(thirty_two(p)), 16));
  }
  // columns[c][r] = rows[r][c], both 16 by 16.
  static inline void transpose(const float* rows, int64_t stride, float* columns) {
    __m512 pairs[16], fours[16];   // fours[4 g + c]: columns c, 4 + c, 8 + c, 12 + c of rows 4 g ..
    for (int r = 0; r < 16; r += 2) {
      const __m512 a = load(rows + r * stride), b = load(rows + (r + 1) * stride);
      pairs[r] = _mm512_unpacklo_ps(a, b);
      pairs[r + 1] = _mm512_unpackhi_ps(a, b);
    }
    for (int r = 0; r < 16; r += 4) {
      for (int i = 0; i < 2; ++i) {
        const __m512d a = _mm512_castps_pd(pairs[r + i]), b = _mm512_castps_pd(pairs[r + i + 2]);
        fours[r + 2 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
        fours[r + 2 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
      }
    }
    for (int c = 0; c < 4; ++c) {
      const __m512 even = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0x88);
      const __m512 odd = _mm512_shuffle_f32x4(fours[c], fours[4 + c], 0xdd);
      const __m512 even_after = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0x88);
      const __m512 odd_after = _mm512_shuffle_f32x4(fours[8 + c], fours[12 + c], 0xdd);
      store(columns + c * 16, _mm512_shuffle_f32x4(even, even_after, 0x88));
      store(columns + (4 + c) * 16, _mm512_shuffle_f32x4(odd, odd_after, 0x88));
      store(columns + (8 + c) * 16, _mm512_shuffle_f32x4(even, even_after, 0xdd));
      store(columns + (12 + c) * 16, _mm512_shuffle_f32x4(odd, odd_after, 0xdd));
    }
  }
  // As assembly, since GCC takes functions that only prefetch for pure and drops their calls.
  static inline void fetch(const uint8_t* p) { __asm__ volatile("prefetcht1 %0" ::"m"(*p)); }
};

}  // namespace
