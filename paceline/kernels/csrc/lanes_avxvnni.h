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

  static inline Sum dot(Sum sum, Codes c, const int8_t* quad) {
    return _mm256_dpbusd_avx_epi32(sum, c, quads(quad));
  }
  static inline Scale scale_u8(const uint8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i*)p));
  }
  static inline Scale scale_s8(const uint8_t* p) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i*)p));
  }
  static inline Scale scale_all(int value) { return _mm256_set1_epi32(value); }
  static inline I32 add_scaled(I32 total, Sum sum, Scale scale) {
    return _mm256_add_epi32(total, _mm256_mullo_epi32(sum, scale));
  }
  static inline Pair pair_of(Scale a, Scale b) {
    return _mm256_slli_epi16(_mm256_blend_epi16(a, _mm256_slli_epi32(b, 16), 0xaa), 5);
  }
};

}  // namespace
