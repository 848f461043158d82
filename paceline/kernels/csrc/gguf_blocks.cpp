// GGUF's quantised blocks, taken apart into codes and scales.
#include "gguf_blocks.h"

#include <string.h>

#include "half.h"

namespace pl {
namespace {

// One group of 32 inputs: the low nibbles are inputs 0..15, the high ones 16..31.
void nibbles(const uint8_t* packed, uint8_t* codes) {
  for (int i = 0; i < 16; ++i) {
    codes[i] = packed[i] & 15;
    codes[i + 16] = packed[i] >> 4;
  }
}

void fifth_bits(const uint8_t* bits, uint8_t* codes) {
  for (int i = 0; i < 32; ++i) codes[i] |= (bits[i / 8] >> i % 8 & 1) << 4;
}

void read_group(const Format& format, const uint8_t* unit, int g, Unpacked& out) {
  out.d[g] = load_u16(unit);
  unit += 2;
  if (format.scales == Scales::affine_group) {
    out.m[g] = load_u16(unit);
    unit += 2;
  }
  uint8_t* codes = out.codes + g * kGroup;
  if (format.bits == 8) {
    for (int i = 0; i < kGroup; ++i) codes[i] = unit[i] ^ 0x80;   // signed to offset 128
    return;
  }
  if (format.bits == 5) {
    nibbles(unit + 4, codes);
    fifth_bits(unit, codes);
  } else {
    nibbles(unit, codes);
  }
}

// Eight 6-bit scales and minima in 12 bytes.
void read_scales(const uint8_t* s, Unpacked& out) {
  for (int g = 0; g < 4; ++g) {
    out.scales[g] = s[g] & 63;
    out.minima[g] = s[g + 4] & 63;
    out.scales[g + 4] = (s[g + 8] & 15) | (s[g] >> 6) << 4;
    out.minima[g + 4] = (s[g + 8] >> 4) | (s[g + 4] >> 6) << 4;
  }
}

void read_affine_super(const Format& format, const uint8_t* unit, Unpacked& out) {
  out.d[0] = load_u16(unit);
  out.m[0] = load_u16(unit + 2);
  read_scales(unit + 4, out);
  const uint8_t* high = unit + 16;
  const uint8_t* low = format.bits == 5 ? unit + 48 : unit + 16;
  for (int g = 0; g < kGroups; ++g) {
    const uint8_t* nibble = low + g / 2 * 32;
    uint8_t* codes = out.codes + g * kGroup;
    for (int i = 0; i < kGroup; ++i) codes[i] = nibble[i] >> (g % 2 * 4) & 15;
    if (format.bits == 5) {
      for (int i = 0; i < kGroup; ++i) codes[i] |= (high[i] >> g & 1) << 4;
    }
  }
}

void read_signed_super(const uint8_t* unit, Unpacked& out) {
  const uint8_t* low = unit;
  const uint8_t* high = unit + 128;
  for (int part = 0; part < 8; ++part) {   // 32 inputs each
    const int half = part / 4, quarter = part % 4;
    const uint8_t* nibble = low + half * 64 + quarter % 2 * 32;
    const uint8_t* top = high + half * 32;
    for (int i = 0; i < 32; ++i) {
      const int upper = top[i] >> (quarter * 2) & 3;
      out.codes[part * 32 + i] = uint8_t((nibble[i] >> (quarter / 2 * 4) & 15) | upper << 4);
    }
  }
  memcpy(out.scales, unit + 192, 16);
  out.d[0] = load_u16(unit + 208);
}

}  // namespace

void read_super(const Format& format, const uint8_t* units, int groups, Unpacked& out) {
  if (format.scales == Scales::affine_super) {
    read_affine_super(format, units, out);
  } else if (format.scales == Scales::signed_super) {
    read_signed_super(units, out);
  } else {
    for (int g = 0; g < groups; ++g) read_group(format, units + g * format.unit_bytes, g, out);
  }
}

void super_values(const Format& format, const Unpacked& in, int groups, float* values) {
  for (int i = 0; i < groups * kGroup; ++i) {
    const int g = i / kGroup, code = in.codes[i];
    if (format.scales == Scales::affine_super) {
      const float scale = float_of_half(in.d[0]) * in.scales[g];
      values[i] = scale * code - float_of_half(in.m[0]) * in.minima[g];
    } else if (format.scales == Scales::signed_super) {
      values[i] = float_of_half(in.d[0]) * int8_t(in.scales[i / 16]) * (code - 32);
    } else if (format.scales == Scales::plain_group) {
      values[i] = float_of_half(in.d[g]) * (code - (1 << (format.bits - 1)));
    } else {
      values[i] = float_of_half(in.d[g]) * code + float_of_half(in.m[g]);
    }
  }
}

}  // namespace pl
