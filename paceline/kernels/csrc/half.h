// fp16 and bf16 to float, bit by bit: the same values as the instructions give.
#pragma once

#include <stdint.h>
#include <string.h>

namespace pl {

static inline float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static inline uint32_t bits_of_float(float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return bits;
}

static inline float float_of_bf16(uint16_t half) { return float_of_bits(uint32_t(half) << 16); }

static inline float float_of_half(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000) << 16;
  const uint32_t rest = half & 0x7fff;
  if (rest >= 0x7c00) {
    const uint32_t quiet = rest > 0x7c00 ? 0x400000 : 0;
    return float_of_bits(sign | 0x7f800000 | (rest & 0x3ff) << 13 | quiet);
  }
  if (rest < 0x0400) {   // subnormal: rest * 2^-24
    return float_of_bits(sign | bits_of_float(float(rest) * 5.9604644775390625e-8f));
  }
  return float_of_bits(sign | (rest + 0x1c000) << 13);
}

// Rounded to nearest even.
static inline uint16_t bf16_of_float(float value) {
  const uint32_t bits = bits_of_float(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// Rounded to nearest even.
static inline uint16_t half_of_float(float value) {
  const uint32_t bits = bits_of_float(value);
  const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return uint16_t(sign | 0x7e00);
  if (rest >= 0x47800000) return uint16_t(sign | 0x7c00);   // from 65536 on
  if (rest < 0x38800000) {   // subnormal: adding 1/2 leaves multiples of 2^-24
    const float rounded = float_of_bits(rest) + 0.5f;
    return uint16_t(sign | (bits_of_float(rounded) - bits_of_float(0.5f)));
  }
  const uint32_t even = rest >> 13 & 1;
  return uint16_t(sign | (rest - 0x38000000 + 0xfff + even) >> 13);
}

static inline uint16_t load_u16(const uint8_t* p) {
  uint16_t value;
  memcpy(&value, p, 2);
  return value;
}

}  // namespace pl
