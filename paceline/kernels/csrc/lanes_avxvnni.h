// AVX2 with the 256-bit vpdpbusd: a quad is summed straight into int32.
#pragma once

#ifdef PACELINE_EMULATE
#include "emulate_avx512.h"
#define _mm256_dpbusd_avx_epi32 _mm256_dpbusd_epi32
#endif
#include "lanes_avx2.h"

namespace {

struct AvxVnniLanes : Avx2Lanes {
  static constexpr bool kWideSums = true;

  static inline Sum sum_of(const int32_t* start) {
    return {_mm256_set1_epi32(*start), _mm256_set1_epi32(*start)};
  }
  static inline Sum dot(Sum sum, Codes c, const int8_t* quad) {
    const __m256i a = quads(quad);
    return {_mm256_dpbusd_avx_epi32(sum.low, c.low, a),
            _mm256_dpbusd_avx_epi32(sum.high, c.high, a)};
  }
  static inline Scale scale_u8(const uint8_t* p) {
    return {_mm256_cvtepu8_epi32(eight(p)), _mm256_cvtepu8_epi32(eight(p + 8))};
  }
  static inline Scale scale_s8(const uint8_t* p) {
    return {_mm256_cvtepi8_epi32(eight(p)), _mm256_cvtepi8_epi32(eight(p + 8))};
  }
  static inline Scale scale_all(int value) {
    return {_mm256_set1_epi32(value), _mm256_set1_epi32(value)};
  }
  static inline I32 add_scaled(I32 total, Sum sum, Scale scale) {
    return {_mm256_add_epi32(total.low, _mm256_mullo_epi32(sum.low, scale.low)),
            _mm256_add_epi32(total.high, _mm256_mullo_epi32(sum.high, scale.high))};
  }
};

}  // namespace
