// Sixteen outputs at a time in pairs of ymm registers, which share each broadcast activation.
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
  static constexpr int kRows = 5;
  static constexpr int kFloatRows = 3;
  static constexpr bool kWideSums = false;

  struct I32 {
    __m256i low, high;
  };
  struct F32 {
    __m256 low, high;
  };
  using Codes = I32;
  using Sum = I32;
  using Scale = I32;   // the scale twice in each lane, as int16
  using Pair = I32;    // two int16 in each lane

  static inline __m256i quads(const int8_t* quad) {
    int32_t four;
    memcpy(&four, quad, 4);
    return _mm256_set1_epi32(four);
  }
  static inline __m128i eight(const uint8_t* p) { return _mm_loadl_epi64((const __m128i*)p); }
  static inline __m128i sixteen(const uint8_t* p) { return _mm_loadu_si128((const __m128i*)p); }
  static inline __m256i thirty_two(const uint8_t* p) {
    return _mm256_loadu_si256((const __m256i*)p);
  }

  static inline Codes codes(const uint8_t* p) { return {thirty_two(p), thirty_two(p + 32)}; }
  static inline Codes low(Codes c) {
    const __m256i mask = _mm256_set1_epi8(15);
    return {_mm256_and_si256(c.low, mask), _mm256_and_si256(c.high, mask)};
  }
  static inline Codes high(Codes c) {
    return low({_mm256_srli_epi16(c.low, 4), _mm256_srli_epi16(c.high, 4)});
  }
  template <int LEFT, int MASK>
  static inline __m256i bits(__m256i plane) {
    if constexpr (LEFT > 0) plane = _mm256_slli_epi16(plane, LEFT);
    if constexpr (LEFT < 0) plane = _mm256_srli_epi16(plane, -LEFT);
    return _mm256_and_si256(plane, _mm256_set1_epi8(char(MASK)));
  }
  template <int LEFT, int MASK>
  static inline Codes with_bits(Codes c, Codes plane) {
    return {_mm256_or_si256(c.low, bits<LEFT, MASK>(plane.low)),
            _mm256_or_si256(c.high, bits<LEFT, MASK>(plane.high))};
  }

  static inline Sum dot(Sum sum, Codes c, const int8_t* quad) {
    const __m256i a = quads(quad);
    sum.low = _mm256_add_epi16(sum.low, _mm256_maddubs_epi16(c.low, a));
    sum.high = _mm256_add_epi16(sum.high, _mm256_maddubs_epi16(c.high, a));
    // GCC would gather the products first and spill them.
    __asm__ volatile("" : "+x"(sum.low), "+x"(sum.high));
    return sum;
  }

  static inline __m256i twice_u8(const uint8_t* p) {
    const __m256i scale = _mm256_cvtepu8_epi32(eight(p));
    return _mm256_or_si256(_mm256_slli_epi32(scale, 16), scale);
  }
  static inline __m256i twice_s8(const uint8_t* p) {
    const __m256i scale = _mm256_cvtepi8_epi32(eight(p));
    return _mm256_blend_epi16(scale, _mm256_slli_epi32(scale, 16), 0xaa);
  }
  static inline Scale scale_u8(const uint8_t* p) { return {twice_u8(p), twice_u8(p + 8)}; }
  static inline Scale scale_s8(const uint8_t* p) { return {twice_s8(p), twice_s8(p + 8)}; }
  static inline Scale scale_all(int value) {
    const __m256i scale = _mm256_set1_epi16(short(value));
    return {scale, scale};
  }
  static inline I32 add_scaled(I32 total, Sum sum, Scale scale) {
    return {_mm256_add_epi32(total.low, _mm256_madd_epi16(sum.low, scale.low)),
            _mm256_add_epi32(total.high, _mm256_madd_epi16(sum.high, scale.high))};
  }

  static inline Pair pair_u8(const uint8_t* p) {
    return {_mm256_cvtepu8_epi16(sixteen(p)), _mm256_cvtepu8_epi16(sixteen(p + 16))};
  }
  static inline __m256i times_32(__m256i a, __m256i b) {
    return _mm256_slli_epi16(_mm256_blend_epi16(a, b, 0xaa), 5);
  }
  // (32 a, 32 b) in each lane.
  static inline Pair pair_of(Scale a, Scale b) {
    return {times_32(a.low, b.low), times_32(a.high, b.high)};
  }
  static inline I32 pair_dot(Pair pair, const int16_t* two) {
    const __m256i a = quads((const int8_t*)two);
    return {_mm256_madd_epi16(pair.low, a), _mm256_madd_epi16(pair.high, a)};
  }
  static inline I32 add(I32 a, I32 b) {
    return {_mm256_add_epi32(a.low, b.low), _mm256_add_epi32(a.high, b.high)};
  }
  static inline I32 sub(I32 a, I32 b) {
    return {_mm256_sub_epi32(a.low, b.low), _mm256_sub_epi32(a.high, b.high)};
  }

  static inline F32 real(I32 a) {
    return {_mm256_cvtepi32_ps(a.low), _mm256_cvtepi32_ps(a.high)};
  }
  static inline F32 all(float a) { return {_mm256_set1_ps(a), _mm256_set1_ps(a)}; }
  static inline F32 mul(F32 a, F32 b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static inline F32 add(F32 a, F32 b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static inline F32 div(F32 a, F32 b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static inline F32 fma(F32 a, F32 b, F32 c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  // b where either is NaN.
  static inline F32 max(F32 a, F32 b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static inline F32 min(F32 a, F32 b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static inline __m256 exponent(__m256 n) {
    const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
  }
  static inline F32 power_of_two(F32 n) { return {exponent(n.low), exponent(n.high)}; }

  static inline F32 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static inline void store(float* p, F32 a) {
    _mm256_storeu_ps(p, a.low);
    _mm256_storeu_ps(p + 8, a.high);
  }
  static inline F32 halves(const uint8_t* p) {
    return {_mm256_cvtph_ps(sixteen(p)), _mm256_cvtph_ps(sixteen(p + 16))};
  }
  static inline __m256 brain(const uint8_t* p) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(sixteen(p)), 16));
  }
  static inline F32 brains(const uint8_t* p) { return {brain(p), brain(p + 16)}; }

  // columns[c][r] = rows[r][c], both 8 by 8.
  static inline void transpose_part(const float* rows, int64_t stride, float* columns) {
    __m256 pairs[8];
    for (int r = 0; r < 8; r += 2) {
      const __m256 a = _mm256_loadu_ps(rows + r * stride);
      const __m256 b = _mm256_loadu_ps(rows + (r + 1) * stride);
      pairs[r] = _mm256_unpacklo_ps(a, b);
      pairs[r + 1] = _mm256_unpackhi_ps(a, b);
    }
    for (int c = 0; c < 4; ++c) {   // columns c and 4 + c
      const int from = c / 2;
      const auto four = [&](int r) {
        const __m256 a = pairs[r + from], b = pairs[r + from + 2];
        return c % 2 ? _mm256_shuffle_ps(a, b, 0xee) : _mm256_shuffle_ps(a, b, 0x44);
      };
      const __m256 upper = four(0), lower = four(4);
      _mm256_storeu_ps(columns + c * 16, _mm256_permute2f128_ps(upper, lower, 0x20));
      _mm256_storeu_ps(columns + (4 + c) * 16, _mm256_permute2f128_ps(upper, lower, 0x31));
    }
  }
  // columns[c][r] = rows[r][c], both 16 by 16.
  static inline void transpose(const float* rows, int64_t stride, float* columns) {
    for (int r = 0; r < 16; r += 8) {
      for (int c = 0; c < 16; c += 8) {
        transpose_part(rows + r * stride + c, stride, columns + c * 16 + r);
      }
    }
  }

  // As assembly, since GCC takes functions that only prefetch for pure and drops their calls.
  static inline void fetch(const uint8_t* p) { __asm__ volatile("prefetcht1 %0" ::"m"(*p)); }
};

}  // namespace
