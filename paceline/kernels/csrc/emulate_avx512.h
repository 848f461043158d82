// AVX-512 from SIMDe's headers, and the three conversions that they lack. For tests on machines
// without it: the same bits, slowly.
#pragma once

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <string.h>

namespace {

inline __m512i join(__m256i low, __m256i high) {
  __m512i both;
  memcpy(&both, &low, 32);
  memcpy(reinterpret_cast<char*>(&both) + 32, &high, 32);
  return both;
}

inline __m128i upper(__m128i a) { return _mm_srli_si128(a, 8); }

inline __m512i widen_u8(__m128i a) {
  return join(_mm256_cvtepu8_epi32(a), _mm256_cvtepu8_epi32(upper(a)));
}

inline __m512i widen_s8(__m128i a) {
  return join(_mm256_cvtepi8_epi32(a), _mm256_cvtepi8_epi32(upper(a)));
}

inline __m512i widen_pairs(__m256i a) {
  return join(_mm256_cvtepu8_epi16(_mm256_castsi256_si128(a)),
              _mm256_cvtepu8_epi16(_mm256_extracti128_si256(a, 1)));
}

}  // namespace

#define _mm512_cvtepu8_epi32 widen_u8
#define _mm512_cvtepi8_epi32 widen_s8
#define _mm512_cvtepu8_epi16 widen_pairs
