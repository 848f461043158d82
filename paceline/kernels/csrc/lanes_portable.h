// Sixteen outputs at a time in four GCC/Clang vectors: any CPU. Sums are int16 pairs, as in
// lanes_avx2.h.
#pragma once

#include <string.h>

#include "half.h"

namespace {

// Four vectors of 16 bytes and the loops over them.
template <class T>
struct Four {
  T part[4];
};

template <class Out, class Body>
inline Four<Out> each(const Body& body) {
  return {{body(0), body(1), body(2), body(3)}};
}

struct PortableLanes {
  static constexpr int kRows = 2;
  static constexpr int kFloatRows = 2;
  static constexpr bool kWideSums = false;

  typedef int32_t Ints __attribute__((vector_size(16)));
  typedef uint32_t Words __attribute__((vector_size(16)));
  typedef float Floats __attribute__((vector_size(16)));
  typedef int16_t Shorts __attribute__((vector_size(16)));
  typedef uint16_t Halves __attribute__((vector_size(16)));
  typedef uint8_t Bytes __attribute__((vector_size(16)));
  using I32 = Four<Ints>;
  using F32 = Four<Floats>;
  using Codes = Four<Bytes>;
  using Sum = Four<Shorts>;
  using Scale = Four<Ints>;
  using Pair = Four<Ints>;   // two int16 in each lane

  template <class T>
  static inline Four<T> load_as(const void* p) {
    Four<T> value;
    memcpy(&value, p, sizeof value);
    return value;
  }
  static inline Ints low_half(Ints a) { return (Ints)((Words)a << 16) >> 16; }

  static inline Codes codes(const uint8_t* p) { return load_as<Bytes>(p); }
  static inline Codes low(Codes c) {
    return each<Bytes>([&](int i) { return c.part[i] & 15; });
  }
  static inline Codes high(Codes c) {
    return each<Bytes>([&](int i) { return c.part[i] >> 4; });
  }
  template <int LEFT, int MASK>
  static inline Codes with_bits(Codes c, Codes plane) {
    return each<Bytes>([&](int i) {
      const Bytes bits = LEFT >= 0 ? plane.part[i] << (LEFT >= 0 ? LEFT : 0)
                                   : plane.part[i] >> (LEFT >= 0 ? 0 : -LEFT);
      return c.part[i] | (bits & uint8_t(MASK));
    });
  }

  // Each int32 lane holds four codes; even and odd ones are multiplied as int16.
  static inline Sum dot(Sum sum, Codes c, const int8_t* quad) {
    const int32_t even = uint16_t(quad[0]) | uint32_t(uint16_t(quad[2])) << 16;
    const int32_t odd = uint16_t(quad[1]) | uint32_t(uint16_t(quad[3])) << 16;
    const Shorts evens = (Shorts)(Ints{even, even, even, even});
    const Shorts odds = (Shorts)(Ints{odd, odd, odd, odd});
    return each<Shorts>([&](int i) {
      const Shorts pairs = (Shorts)c.part[i];
      return sum.part[i] + (pairs & 255) * evens + (Shorts)((Halves)pairs >> 8) * odds;
    });
  }

  static inline Scale scale_u8(const uint8_t* p) { return widen<uint8_t>(p); }
  static inline Scale scale_s8(const uint8_t* p) { return widen<int8_t>(p); }
  static inline Scale scale_all(int value) {
    return each<Ints>([&](int) { return Ints{value, value, value, value}; });
  }
  static inline I32 add_scaled(I32 total, Sum sum, Scale scale) {
    return each<Ints>([&](int i) {
      const Ints both = (Ints)sum.part[i];
      return total.part[i] + (low_half(both) + (both >> 16)) * scale.part[i];
    });
  }

  static inline Pair pair_u8(const uint8_t* p) {
    Pair pair;
    for (int i = 0; i < 16; ++i) pair.part[i / 4][i % 4] = p[2 * i] | p[2 * i + 1] << 16;
    return pair;
  }
  // (32 a, 32 b) in each lane.
  static inline Pair pair_of(Scale a, Scale b) {
    return each<Ints>([&](int i) {
      return (a.part[i] * 32 & 0xffff) | (Ints)((Words)(b.part[i] * 32) << 16);
    });
  }
  static inline I32 pair_dot(Pair pair, const int16_t* two) {
    return each<Ints>([&](int i) {
      return low_half(pair.part[i]) * two[0] + (pair.part[i] >> 16) * two[1];
    });
  }
  static inline I32 add(I32 a, I32 b) {
    return each<Ints>([&](int i) { return a.part[i] + b.part[i]; });
  }
  static inline I32 sub(I32 a, I32 b) {
    return each<Ints>([&](int i) { return a.part[i] - b.part[i]; });
  }

  static inline F32 real(I32 a) {
    return each<Floats>([&](int i) { return __builtin_convertvector(a.part[i], Floats); });
  }
  static inline F32 all(float a) {
    return each<Floats>([&](int) { return Floats{a, a, a, a}; });
  }
  static inline F32 mul(F32 a, F32 b) {
    return each<Floats>([&](int i) { return a.part[i] * b.part[i]; });
  }
  static inline F32 add(F32 a, F32 b) {
    return each<Floats>([&](int i) { return a.part[i] + b.part[i]; });
  }
  static inline F32 div(F32 a, F32 b) {
    return each<Floats>([&](int i) { return a.part[i] / b.part[i]; });
  }
  static inline F32 fma(F32 a, F32 b, F32 c) {
    for (int i = 0; i < 16; ++i) {
      c.part[i / 4][i % 4] = __builtin_fmaf(a.part[i / 4][i % 4], b.part[i / 4][i % 4],
                                            c.part[i / 4][i % 4]);
    }
    return c;
  }
  // b where either is NaN.
  static inline F32 max(F32 a, F32 b) {
    return each<Floats>([&](int i) { return a.part[i] > b.part[i] ? a.part[i] : b.part[i]; });
  }
  static inline F32 min(F32 a, F32 b) {
    return each<Floats>([&](int i) { return a.part[i] < b.part[i] ? a.part[i] : b.part[i]; });
  }
  static inline F32 power_of_two(F32 n) {
    return each<Floats>([&](int i) {
      return (Floats)((__builtin_convertvector(n.part[i], Ints) + 127) << 23);
    });
  }

  static inline F32 load(const float* p) { return load_as<Floats>(p); }
  static inline void store(float* p, F32 a) { memcpy(p, &a, sizeof a); }
  static inline F32 halves(const uint8_t* p) { return floats<pl::float_of_half>(p); }
  static inline F32 brains(const uint8_t* p) { return floats<pl::float_of_bf16>(p); }
  // columns[c][r] = rows[r][c], both 16 by 16.
  static inline void transpose(const float* rows, int64_t stride, float* columns) {
    for (int r = 0; r < 16; ++r) {
      for (int c = 0; c < 16; ++c) columns[c * 16 + r] = rows[r * stride + c];
    }
  }
  static inline void fetch(const uint8_t*) {}

 private:
  template <class T>
  static inline I32 widen(const uint8_t* p) {
    I32 wide;
    for (int i = 0; i < 16; ++i) wide.part[i / 4][i % 4] = T(p[i]);
    return wide;
  }
  template <float (*CONVERT)(uint16_t)>
  static inline F32 floats(const uint8_t* p) {
    F32 wide;
    for (int i = 0; i < 16; ++i) wide.part[i / 4][i % 4] = CONVERT(pl::load_u16(p + 2 * i));
    return wide;
  }
};

}  // namespace
