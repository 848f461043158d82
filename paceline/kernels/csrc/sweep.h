// Drives the tiles of one path: the weights stream once, however many rows a sweep has.
#pragma once

#include <string.h>

#include "attention.h"
#include "float_kernel.h"
#include "half.h"
#include "kernel.h"
#include "kernels.h"
#include "probe.h"
#include "rows.h"

namespace {

using pl::Sweep;

template <class V>
PL_INLINE void store_block(const Sweep& sweep, int block, const float* acc, int acc_stride) {
  const int first = block * kOutputs, count = sweep.weight->out_features - first;
  const typename V::F32 bias =
      sweep.bias ? Rows<V>::load_part(sweep.bias + first, count) : V::all(0.0f);
  for (int r = 0; r < sweep.rows; ++r) {
    const typename V::F32 y = V::add(V::load(acc + r * acc_stride), bias);
    Rows<V>::store_part(sweep.y + r * sweep.y_stride + first, y, count);
  }
}

using TileFn = void (*)(const uint8_t*, int, const Activations*, float*, Ahead);

template <class V, int BITS, Scales KIND, int ROWS>
constexpr TileFn kTile = Tile<V, BITS, KIND, ROWS <= V::kRows ? ROWS : 1>::run;

template <class V, int BITS, Scales KIND>
constexpr TileFn kTiles[8] = {kTile<V, BITS, KIND, 1>, kTile<V, BITS, KIND, 2>,
                              kTile<V, BITS, KIND, 3>, kTile<V, BITS, KIND, 4>,
                              kTile<V, BITS, KIND, 5>, kTile<V, BITS, KIND, 6>,
                              kTile<V, BITS, KIND, 7>, kTile<V, BITS, KIND, 8>};

template <class V, int BITS, Scales KIND>
void quantised_blocks(const Sweep& sweep, const pl::Format& format, int first, int last) {
  alignas(64) float acc[pl::kSweep * kOutputs];
  const int in_features = sweep.weight->in_features, rows = sweep.rows;
  const int tiles = tiles_of(rows, V::kRows);
  const uint8_t* w = sweep.weight->data + first * format.block_bytes(in_features);
  for (int i = 0; i < kFetchAhead; i += 64) V::fetch(w + i);
  for (int block = first; block < last; ++block) {
    memset(acc, 0, sizeof(float) * kOutputs * rows);
    for (int s = 0; s < pl::super_count(in_features); ++s) {
      const int groups = pl::groups_in(in_features, s), bytes = format.super_bytes(groups);
      const int lines = (bytes / 64 + groups * tiles - 1) / (groups * tiles);
      Ahead ahead{w + kFetchAhead, lines};
      each_tile(rows, V::kRows, [&](int row, int count) {
        kTiles<V, BITS, KIND>[count - 1](w, groups, sweep.quantised + s * rows + row,
                                     acc + row * kOutputs, ahead);
        ahead.at += lines * groups * 64;
      });
      w += bytes;
    }
    store_block<V>(sweep, block, acc, kOutputs);
  }
}

using FloatTileFn = void (*)(const uint8_t*, int, const float*, int64_t, float*);

template <class V, int FORMAT, int ROWS>
constexpr FloatTileFn kFloatTile = FloatTile<V, FORMAT, ROWS <= V::kFloatRows ? ROWS : 1>::run;

template <class V, int FORMAT>
constexpr FloatTileFn kFloatTiles[8] = {kFloatTile<V, FORMAT, 1>, kFloatTile<V, FORMAT, 2>,
                                        kFloatTile<V, FORMAT, 3>, kFloatTile<V, FORMAT, 4>,
                                        kFloatTile<V, FORMAT, 5>, kFloatTile<V, FORMAT, 6>,
                                        kFloatTile<V, FORMAT, 7>, kFloatTile<V, FORMAT, 8>};

template <class V, int FORMAT>
void float_blocks(const Sweep& sweep, int first, int last) {
  alignas(64) float acc[pl::kSweep * 2 * kOutputs];
  constexpr int step = FloatTile<V, FORMAT, 1>::kStep;
  const int in_features = sweep.weight->in_features, rows = sweep.rows;
  for (int block = first; block < last; ++block) {
    const uint8_t* w = sweep.weight->data + int64_t(block) * in_features * step;
    memset(acc, 0, sizeof(float) * 2 * kOutputs * rows);
    for (int k = 0; k < in_features; k += pl::kFloatInputs) {
      const int left = in_features - k;
      const int inputs = left < pl::kFloatInputs ? left : pl::kFloatInputs;
      each_tile(rows, V::kFloatRows, [&](int row, int count) {
        kFloatTiles<V, FORMAT>[count - 1](w + int64_t(k) * step, inputs,
                                        sweep.x + row * sweep.x_stride + k, sweep.x_stride,
                                        acc + row * 2 * kOutputs);
      });
    }
    for (int r = 0; r < rows; ++r) {
      float* lanes = acc + r * 2 * kOutputs;
      for (int o = 0; o < kOutputs; ++o) lanes[o] += lanes[kOutputs + o];
    }
    store_block<V>(sweep, block, acc, 2 * kOutputs);
  }
}

template <class V>
void linear(const Sweep& sweep, int first, int last) {
  switch (sweep.weight->format) {
    case PL_F32: return float_blocks<V, PL_F32>(sweep, first, last);
    case PL_F16: return float_blocks<V, PL_F16>(sweep, first, last);
    case PL_BF16: return float_blocks<V, PL_BF16>(sweep, first, last);
#define PL_CASE(name, bits, kind)                                                   \
  case PL_##name:                                                                   \
    return quantised_blocks<V, bits, Scales::kind>(sweep, pl::k##name, first, last);
    PL_CASE(Q4_0, 4, plain_group)
    PL_CASE(Q4_1, 4, affine_group)
    PL_CASE(Q5_0, 5, plain_group)
    PL_CASE(Q5_1, 5, affine_group)
    PL_CASE(Q8_0, 8, plain_group)
    PL_CASE(Q4_K, 4, affine_super)
    PL_CASE(Q5_K, 5, affine_super)
    PL_CASE(Q6_K, 6, signed_super)
#undef PL_CASE
  }
}

// The largest magnitude as bits: NaN beats infinity beats every number.
PL_INLINE uint32_t largest_bits(const float* x, int count) {
  uint32_t largest = 0;
  for (int i = 0; i < count; ++i) {
    const uint32_t bits = pl::bits_of_float(x[i]) & 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  return largest;
}

PL_INLINE void fill_sums(Activations& a) {
  for (int j = 0; j < pl::kSuper / 16; ++j) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum += a.q[j * 16 + i];
    a.sums16[j] = int16_t(sum);
    a.offsets[j] = -32 * sum;
  }
  for (int g = 0; g < kGroups; ++g) {
    a.sums32[g] = int16_t(a.sums16[2 * g] + a.sums16[2 * g + 1]);
    a.group_sums[g] = a.sums32[g];
  }
}

// x = scale * q, q in -127 .. 127, rounded to nearest even. What is not finite makes the scale
// NaN, so that it shows in every output.
void quantise(const float* x, int count, Activations& a) {
  memset(&a, 0, sizeof a);
  const uint32_t bits = largest_bits(x, count);
  if (bits >= 0x7f800000) {
    a.scale = __builtin_nanf("");
    return;
  }
  const float largest = pl::float_of_bits(bits);
  if (largest < 1e-30f) return;
  const float inverse = 127.0f / largest;
  a.scale = largest / 127.0f;
  constexpr float kRound = 12582912.0f;   // 1.5 * 2^23: its low bits become the nearest integer
  for (int i = 0; i < count; ++i) a.q[i] = int8_t(pl::bits_of_float(x[i] * inverse + kRound));
  fill_sums(a);
}

template <class V>
constexpr pl::Kernels kernels_of() {
  using Row = Rows<V>;
  return {quantise,       linear<V>,   Row::rms_norm, Row::layer_norm, Row::silu_mul,
          Row::gelu_mul,  Row::gelu,   Row::soft_cap, Row::add,        Row::rope,
          attend<V>,      read_all<V>, multiply<V>,   kProducts<V>};
}

}  // namespace
