#include "pack.h"

#include <string.h>

#include "gguf_blocks.h"
#include "half.h"

namespace pl {
namespace {

// One output's place in a packed super-block. Reading and writing share the addresses.
struct Lane {
  const Format& format;
  uint8_t* base;
  int groups, output;

  uint8_t* nibble(int g, int quad) const {
    return base + g * format.group_bytes() + quad % 4 * 64 + output * 4;
  }
  uint8_t* plane(int g, int vector) const {
    return base + g * format.group_bytes() + 256 + vector * 64 + output * 4;
  }
  uint8_t* whole(int g, int quad) const {
    return base + g * format.group_bytes() + quad * 64 + output * 4;
  }
  uint8_t* scales() const { return base + groups * format.group_bytes(); }
  uint8_t* scale(int j) const { return scales() + j * 16 + output; }
  uint8_t* minimum(int g) const { return scales() + 128 + g / 2 * 32 + output * 2 + g % 2; }
  uint8_t* d(int g) const {
    const int before = format.scales == Scales::affine_super   ? 256
                       : format.scales == Scales::signed_super ? 256
                                                               : g * 32;
    return scales() + before + output * 2;
  }
  uint8_t* m(int g) const {
    const int before = format.scales == Scales::affine_super ? 288 : (groups + g) * 32;
    return scales() + before + output * 2;
  }
};

uint32_t load_quad(const uint8_t* p) {
  uint32_t quad;
  memcpy(&quad, p, 4);
  return quad;
}

void store_quad(uint8_t* p, uint32_t quad) { memcpy(p, &quad, 4); }

// Four codes at a time, as the bytes of a word.
void write_codes(const Lane& lane, const uint8_t* codes) {
  const int bits = lane.format.bits;
  for (int g = 0; g < lane.groups; ++g, codes += kGroup) {
    uint32_t quads[8];
    for (int q = 0; q < 8; ++q) quads[q] = load_quad(codes + q * 4);
    if (bits == 8) {
      for (int q = 0; q < 8; ++q) store_quad(lane.whole(g, q), quads[q]);
      continue;
    }
    for (int q = 0; q < 4; ++q) {
      const uint32_t low = quads[q] & 0x0f0f0f0f, high = quads[q + 4] & 0x0f0f0f0f;
      store_quad(lane.nibble(g, q), low | high << 4);
    }
    uint32_t planes[2] = {};
    for (int q = 0; q < 8; ++q) {
      const uint32_t top = quads[q] >> 4 & (bits == 6 ? 0x03030303 : 0x01010101);
      planes[bits == 6 ? q / 4 : 0] |= top << (bits == 6 ? q % 4 * 2 : q);
    }
    for (int v = 0; v < bits - 4; ++v) store_quad(lane.plane(g, v), planes[v]);
  }
}

void read_codes(const Lane& lane, uint8_t* codes) {
  const int bits = lane.format.bits;
  for (int i = 0; i < lane.groups * kGroup; ++i) {
    const int g = i / kGroup, quad = i % kGroup / 4, k = i % 4;
    if (bits == 8) {
      codes[i] = lane.whole(g, quad)[k];
      continue;
    }
    codes[i] = lane.nibble(g, quad)[k] >> (quad / 4 * 4) & 15;
    if (bits == 5) codes[i] |= (lane.plane(g, 0)[k] >> quad & 1) << 4;
    if (bits == 6) codes[i] |= (lane.plane(g, quad / 4)[k] >> (quad % 4 * 2) & 3) << 4;
  }
}

void write_scales(const Lane& lane, const Unpacked& in) {
  const Scales kind = lane.format.scales;
  const int fields = lane.format.super() ? 1 : lane.groups;
  for (int g = 0; g < fields; ++g) memcpy(lane.d(g), &in.d[g], 2);
  if (kind == Scales::affine_super || kind == Scales::affine_group) {
    for (int g = 0; g < fields; ++g) memcpy(lane.m(g), &in.m[g], 2);
  }
  if (kind == Scales::affine_super) {
    for (int g = 0; g < kGroups; ++g) {
      *lane.scale(g) = in.scales[g];
      *lane.minimum(g) = in.minima[g];
    }
  } else if (kind == Scales::signed_super) {
    for (int j = 0; j < 16; ++j) *lane.scale(j) = in.scales[j];
  }
}

void read_scales(const Lane& lane, Unpacked& out) {
  const Scales kind = lane.format.scales;
  const int fields = lane.format.super() ? 1 : lane.groups;
  for (int g = 0; g < fields; ++g) out.d[g] = load_u16(lane.d(g));
  if (kind == Scales::affine_super || kind == Scales::affine_group) {
    for (int g = 0; g < fields; ++g) out.m[g] = load_u16(lane.m(g));
  }
  if (kind == Scales::affine_super) {
    for (int g = 0; g < kGroups; ++g) {
      out.scales[g] = *lane.scale(g);
      out.minima[g] = *lane.minimum(g);
    }
  } else if (kind == Scales::signed_super) {
    for (int j = 0; j < 16; ++j) out.scales[j] = *lane.scale(j);
  }
}

int row_bytes(int32_t format, int in_features) {
  if (const int size = float_bytes(format)) return in_features * size;
  const Format* quantised = find_format(format);
  return in_features / quantised->unit * quantised->unit_bytes;
}

// Float weights: element (output o, input k) of a block lies at k * 16 + o.
void pack_floats(int size, const uint8_t* row, int in_features, int output, uint8_t* block) {
  for (int k = 0; k < in_features; ++k) {
    memcpy(block + (int64_t(k) * kOutputs + output) * size, row + int64_t(k) * size, size);
  }
}

void pack_codes(const Format& format, const uint8_t* row, int in_features, int output,
                uint8_t* block) {
  Unpacked unpacked;
  for (int s = 0; s < super_count(in_features); ++s) {
    const int groups = groups_in(in_features, s);
    read_super(format, row, groups, unpacked);
    const Lane lane{format, block, groups, output};
    write_codes(lane, unpacked.codes);
    write_scales(lane, unpacked);
    row += groups * kGroup / format.unit * format.unit_bytes;
    block += format.super_bytes(groups);
  }
}

int64_t block_bytes(int32_t format, int in_features) {
  if (const int size = float_bytes(format)) return int64_t(in_features) * kOutputs * size;
  return find_format(format)->block_bytes(in_features);
}

}  // namespace

const Format* find_format(int32_t format) {
  switch (format) {
    case PL_Q4_0: return &kQ4_0;
    case PL_Q4_1: return &kQ4_1;
    case PL_Q5_0: return &kQ5_0;
    case PL_Q5_1: return &kQ5_1;
    case PL_Q8_0: return &kQ8_0;
    case PL_Q4_K: return &kQ4_K;
    case PL_Q5_K: return &kQ5_K;
    case PL_Q6_K: return &kQ6_K;
    default: return nullptr;
  }
}

static bool fits(int32_t format, int out_features, int in_features) {
  if (out_features <= 0 || in_features <= 0) return false;
  if (float_bytes(format)) return true;
  const Format* quantised = find_format(format);
  return quantised && in_features % quantised->unit == 0;
}

int64_t packed_bytes(int32_t format, int out_features, int in_features) {
  if (!fits(format, out_features, in_features)) return -1;
  return (int64_t(out_features) + kOutputs - 1) / kOutputs * block_bytes(format, in_features);
}

int64_t source_bytes(int32_t format, int out_features, int in_features) {
  if (!fits(format, out_features, in_features)) return -1;
  return int64_t(out_features) * row_bytes(format, in_features);
}

void pack_block(int32_t format, int out_features, int in_features, const uint8_t* source,
                int block, uint8_t* packed) {
  const int64_t bytes = block_bytes(format, in_features);
  uint8_t* target = packed + block * bytes;
  memset(target, 0, bytes);
  for (int output = 0; output < kOutputs; ++output) {
    const int64_t row = int64_t(block) * kOutputs + output;
    if (row >= out_features) return;
    const uint8_t* from = source + row * row_bytes(format, in_features);
    if (const int size = float_bytes(format)) {
      pack_floats(size, from, in_features, output, target);
    } else {
      pack_codes(*find_format(format), from, in_features, output, target);
    }
  }
}

static float float_value(int32_t format, const uint8_t* p) {
  if (format == PL_F32) {
    float value;
    memcpy(&value, p, 4);
    return value;
  }
  return format == PL_F16 ? float_of_half(load_u16(p)) : float_of_bf16(load_u16(p));
}

void unpack_row(const pl_weight& weight, int64_t row, float* values) {
  const int output = int(row % kOutputs);
  const uint8_t* block =
      weight.data + row / kOutputs * block_bytes(weight.format, weight.in_features);
  if (const int size = float_bytes(weight.format)) {
    for (int k = 0; k < weight.in_features; ++k) {
      values[k] = float_value(weight.format, block + (int64_t(k) * kOutputs + output) * size);
    }
    return;
  }
  const Format& format = *find_format(weight.format);
  Unpacked unpacked;
  for (int s = 0; s < super_count(weight.in_features); ++s) {
    const int groups = groups_in(weight.in_features, s);
    const Lane lane{format, const_cast<uint8_t*>(block), groups, output};
    read_codes(lane, unpacked.codes);
    read_scales(lane, unpacked);
    super_values(format, unpacked, groups, values + s * kSuper);
    block += format.super_bytes(groups);
  }
}

}  // namespace pl
