// One super-block of 16 outputs against R rows, for any lanes and any format.
//
// Integers are exact until the super-block's (or group's) scale is applied, and float steps come
// in one order with explicit fused multiply-adds: a row's result is the same for every R, path
// and thread count.
#pragma once

#include "layout.h"

namespace {

#define PL_INLINE inline __attribute__((always_inline))
#define PL_FLAT __attribute__((always_inline))   // of lambdas

using pl::Activations;
using pl::kGroup;
using pl::kGroups;
using pl::kOutputs;
using pl::Scales;

template <int I>
struct Index {
  constexpr operator int() const { return I; }
};

template <int I, int END, class Body>
PL_INLINE void unroll(const Body& body) {
  if constexpr (I < END) {
    body(Index<I>{});
    unroll<I + 1, END>(body);
  }
}

constexpr int tiles_of(int rows, int most) { return (rows + most - 1) / most; }

// Calls body(first row, rows of the tile) over even tiles of at most `most` rows.
template <class Body>
PL_INLINE void each_tile(int rows, int most, const Body& body) {
  const int tiles = tiles_of(rows, most);
  for (int t = 0; t < tiles; ++t) {
    const int begin = rows * t / tiles, end = rows * (t + 1) / tiles;
    body(begin, end - begin);
  }
}

// The same with the tile's rows as an Index.
template <int MOST, class Body>
PL_INLINE void each_sized_tile(int rows, const Body& body) {
  each_tile(rows, MOST, [&](int row, int count) {
    unroll<1, MOST + 1>([&](auto size) {
      if (count == size) body(row, size);
    });
  });
}

// A tile's share of the prefetching, some lines a group: spread over all tiles of a super-block,
// it keeps memory busy while they compute.
struct Ahead {
  const uint8_t* at;
  int lines;

  template <class V>
  PL_INLINE void fetch() {
    for (int i = 0; i < lines; ++i, at += 64) {
      V::fetch(at);
      V::fetch(at - kAgain);
    }
  }

  // A processor drops prefetches that memory cannot keep up with, so each is made twice.
  static constexpr int kAgain = 2048;   // bytes between the two
};

constexpr int kFetchAhead = 8192;   // bytes between a weight's prefetch and its use

template <class V, int BITS, Scales KIND, int R>
struct Tile {
  static constexpr bool kSuper = KIND == Scales::affine_super || KIND == Scales::signed_super;
  static constexpr int kGroupBytes = BITS * kGroup * kOutputs / 8;
  // Narrow sums cannot hold 8-bit codes: those go as two nibbles, the high ones scaled by 16.
  static constexpr bool kSplit = BITS == 8 && !V::kWideSums;
  static constexpr int kSteps = kSplit ? 16 : 8;
  // Wide sums start at what an offset of the codes takes off, so that none is left to subtract.
  static constexpr bool kShifted = KIND == Scales::signed_super && V::kWideSums;
  // Dots that one Sum takes before it is scaled into the total.
  static constexpr int kRun = V::kWideSums ? (KIND == Scales::signed_super ? 4 : 8)
                              : BITS == 6  ? 2
                              : BITS == 5  ? 4
                                           : 8;

  // Unrolled before the compiler looks, so that arrays by row live in registers.
  template <class Body>
  static PL_INLINE void each_row(const Body& body) {
    unroll<0, R>(body);
  }

  static constexpr int quad_at(int step) {
    if (KIND == Scales::signed_super) return step;
    return BITS == 8 ? step % 8 : step / 2 + step % 2 * 4;
  }

  template <int STEP>
  static PL_INLINE typename V::Codes codes(const uint8_t* group) {
    constexpr int quad = quad_at(STEP);
    if constexpr (BITS == 8) {
      const typename V::Codes whole = V::codes(group + quad * 64);
      if constexpr (!kSplit) return whole;
      else return STEP < 8 ? V::low(whole) : V::high(whole);
    } else {
      const typename V::Codes both = V::codes(group + quad % 4 * 64);
      const typename V::Codes nibble = quad < 4 ? V::low(both) : V::high(both);
      if constexpr (BITS == 4) {
        return nibble;
      } else if constexpr (BITS == 5) {
        return V::template with_bits<4 - quad, 0x10>(nibble, V::codes(group + 256));
      } else {
        return V::template with_bits<4 - quad % 4 * 2, 0x30>(
            nibble, V::codes(group + 256 + quad / 4 * 64));
      }
    }
  }

  static PL_INLINE typename V::Sum start(const Activations& a, int half) {
    if constexpr (kShifted) return V::sum_of(a.offsets + half);
    else return typename V::Sum{};
  }

  // total += scale * (codes . activations) over group g. `first` scales the steps of the lower
  // half, `second` those of the upper one.
  static PL_INLINE void add_group(typename V::I32 (&total)[R], const uint8_t* w, int g,
                                  const Activations* a, typename V::Scale first,
                                  typename V::Scale second) {
    const uint8_t* group = w + g * kGroupBytes;
    const int8_t* q = a->q + g * kGroup;
    typename V::Sum sum[R];
    unroll<0, kSteps>([&](auto step) PL_FLAT {
      constexpr int at = step;
      // The halves read the same nibbles: reading them again is cheaper than keeping them.
      if constexpr (at == kSteps / 2 && quad_at(1) == 1) __asm__ volatile("" ::: "memory");
      if constexpr (at % kRun == 0) {
        each_row([&](auto r) PL_FLAT { sum[r] = start(a[r], 2 * g + at / kRun); });
      }
      const typename V::Codes c = codes<at>(group);
      each_row([&](auto r) PL_FLAT {
        sum[r] = V::dot(sum[r], c, q + r * sizeof(Activations) + quad_at(at) * 4);
      });
      if constexpr (at % kRun == kRun - 1) {
        const typename V::Scale scale = at < kSteps / 2 || kRun == kSteps ? first : second;
        each_row([&](auto r) PL_FLAT { total[r] = V::add_scaled(total[r], sum[r], scale); });
      }
    });
  }

  static PL_INLINE void accumulate(float* acc, typename V::F32 part, const Activations& a) {
    V::store(acc, V::fma(part, V::all(a.scale), V::load(acc)));
  }

  static PL_INLINE void affine_super(const uint8_t* w, const Activations* a, float* acc,
                                     Ahead ahead) {
    const uint8_t* scales = w + kGroups * kGroupBytes;
    typename V::I32 total[R];
    each_row([&](auto r) PL_FLAT { total[r] = typename V::I32{}; });
    for (int g = 0; g < kGroups; ++g) {
      ahead.template fetch<V>();
      const typename V::Scale scale = V::scale_u8(scales + g * 16);
      add_group(total, w, g, a, scale, scale);
    }
    const uint8_t* minima = scales + 128;
    const typename V::F32 d = V::halves(minima + 128);
    const typename V::F32 negative = V::mul(V::halves(minima + 160), V::all(-1.0f));
    each_row([&](auto r) PL_FLAT {
      typename V::I32 sum = V::pair_dot(V::pair_u8(minima), a[r].sums32);
      for (int p = 1; p < 4; ++p) {
        sum = V::add(sum, V::pair_dot(V::pair_u8(minima + p * 32), a[r].sums32 + p * 2));
      }
      const typename V::F32 scaled = V::mul(V::real(total[r]), d);
      accumulate(acc + r * kOutputs, V::fma(V::real(sum), negative, scaled), a[r]);
    });
  }

  static PL_INLINE void signed_super(const uint8_t* w, const Activations* a, float* acc,
                                     Ahead ahead) {
    const uint8_t* scales = w + kGroups * kGroupBytes;
    typename V::I32 total[R];
    each_row([&](auto r) PL_FLAT { total[r] = typename V::I32{}; });
    for (int g = 0; g < kGroups; ++g) {
      ahead.template fetch<V>();
      const typename V::Scale first = V::scale_s8(scales + g * 32);
      const typename V::Scale second = V::scale_s8(scales + g * 32 + 16);
      add_group(total, w, g, a, first, second);
      if constexpr (!kShifted) {
        const typename V::Pair offsets = V::pair_of(first, second);
        each_row([&](auto r) PL_FLAT {
          total[r] = V::sub(total[r], V::pair_dot(offsets, a[r].sums16 + g * 2));
        });
      }
    }
    const typename V::F32 d = V::halves(scales + 256);
    each_row([&](auto r) PL_FLAT {
      accumulate(acc + r * kOutputs, V::mul(V::real(total[r]), d), a[r]);
    });
  }

  static PL_INLINE void by_group(const uint8_t* w, int groups, const Activations* a, float* acc,
                                 Ahead ahead) {
    const uint8_t* scales = w + groups * kGroupBytes;
    const typename V::Scale first = V::scale_all(1), second = V::scale_all(kSplit ? 16 : 1);
    typename V::F32 part[R];
    each_row([&](auto r) PL_FLAT { part[r] = typename V::F32{}; });
    for (int g = 0; g < groups; ++g) {
      ahead.template fetch<V>();
      typename V::I32 total[R];
      each_row([&](auto r) PL_FLAT { total[r] = typename V::I32{}; });
      add_group(total, w, g, a, first, second);
      const typename V::F32 d = V::halves(scales + g * 32);
      const typename V::F32 m = KIND == Scales::affine_group
                                    ? V::halves(scales + (groups + g) * 32)
                                    : V::mul(d, V::all(-float(1 << (BITS - 1))));
      each_row([&](auto r) PL_FLAT {
        part[r] = V::fma(V::real(total[r]), d, part[r]);
        part[r] = V::fma(m, V::all(a[r].group_sums[g]), part[r]);
      });
    }
    each_row([&](auto r) PL_FLAT { accumulate(acc + r * kOutputs, part[r], a[r]); });
  }

  // acc[R, 16] += the super-block at w times rows a[0..R).
  static void run(const uint8_t* w, int groups, const Activations* a, float* acc, Ahead ahead) {
    if constexpr (KIND == Scales::affine_super) affine_super(w, a, acc, ahead);
    else if constexpr (KIND == Scales::signed_super) signed_super(w, a, acc, ahead);
    else by_group(w, groups, a, acc, ahead);
  }
};

}  // namespace
