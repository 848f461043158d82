// The packed layout. A matrix is cut into blocks of 16 outputs; a block is one contiguous stream
// of super-blocks of 256 inputs (the last may be shorter), each padded to 64 bytes:
//
//   codes    per group of 32 inputs: 4 x 64 B of nibbles, then the plane of higher bits.
//            Nibble vector i holds quad i in its low and quad i + 4 in its high halves, where
//            quad q is inputs 4q .. 4q + 3 and byte 4 o + k belongs to output o, input 4q + k.
//            5 bits: 64 B more, bit q of a byte is bit 4 of quad q's code.
//            6 bits: 128 B more, vector v holds bits 4..5 of quads 4v .. 4v + 3.
//            8 bits: 8 x 64 B, one vector a quad, no nibbles.
//   scales   by kind, see Scales.
#pragma once

#include <stdint.h>

#include "paceline_native.h"

namespace pl {

constexpr int kOutputs = 16;   // outputs of a block
constexpr int kSuper = 256;    // inputs of a super-block
constexpr int kGroup = 32;     // inputs of a group
constexpr int kGroups = kSuper / kGroup;

enum class Scales {
  affine_super,   // 6 bits a group each: scale[8][16], minimum[4][16][2], then d[16], dmin[16]
  signed_super,   // int8 scale per 16 inputs, codes minus 32: scale[16][16], d[16]
  plain_group,    // fp16 d a group, codes minus 2^(bits-1): d[groups][16]
  affine_group,   // fp16 d and m a group: d[groups][16], m[groups][16]
};

struct Format {
  int bits;
  Scales scales;
  int unit;         // inputs of a GGUF block
  int unit_bytes;   // bytes of a GGUF block

  constexpr bool super() const {
    return scales == Scales::affine_super || scales == Scales::signed_super;
  }
  constexpr int group_bytes() const { return bits * kGroup * kOutputs / 8; }
  constexpr int scale_bytes(int groups) const {
    return scales == Scales::affine_super   ? 8 * 32 + 64
           : scales == Scales::signed_super ? 16 * 16 + 32
           : scales == Scales::plain_group  ? groups * 32
                                            : groups * 64;
  }
  constexpr int super_bytes(int groups) const {
    return (groups * group_bytes() + scale_bytes(groups) + 63) / 64 * 64;
  }
  constexpr int64_t block_bytes(int in_features) const {
    const int rest = in_features % kSuper / kGroup;
    return int64_t(in_features / kSuper) * super_bytes(kGroups) + (rest ? super_bytes(rest) : 0);
  }
};

constexpr Format kQ4_0{4, Scales::plain_group, 32, 18};
constexpr Format kQ4_1{4, Scales::affine_group, 32, 20};
constexpr Format kQ5_0{5, Scales::plain_group, 32, 22};
constexpr Format kQ5_1{5, Scales::affine_group, 32, 24};
constexpr Format kQ8_0{8, Scales::plain_group, 32, 34};
constexpr Format kQ4_K{4, Scales::affine_super, 256, 144};
constexpr Format kQ5_K{5, Scales::affine_super, 256, 176};
constexpr Format kQ6_K{6, Scales::signed_super, 256, 210};

// The quantised format of that GGUF number, or null.
const Format* find_format(int32_t format);

// Bytes of one float weight, 0 for a quantised format.
inline int float_bytes(int32_t format) {
  return format == PL_F32 ? 4 : format == PL_F16 || format == PL_BF16 ? 2 : 0;
}

// 256 inputs of one row of activations: x = scale * q, with the sums that zero points need.
struct alignas(32) Activations {
  int8_t q[kSuper];
  int16_t sums16[kSuper / 16];
  int16_t sums32[kGroups];
  int32_t offsets[kSuper / 16];   // -32 * sums16
  float group_sums[kGroups];   // sums32 as float
  float scale;
};

inline int super_count(int in_features) { return (in_features + kSuper - 1) / kSuper; }

// Groups in super-block s of a row.
inline int groups_in(int in_features, int s) {
  const int left = (in_features - s * kSuper) / kGroup;
  return left < kGroups ? left : kGroups;
}

}  // namespace pl
