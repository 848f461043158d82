// Operations on single rows of floats, for any lanes. Sums run over 16 partial sums, by index
// modulo 16; tails are padded with zeros.
#pragma once

#include <string.h>

#include "kernel.h"
#include "kernels.h"

namespace {

template <class V>
struct Rows {
  using F32 = typename V::F32;
  static constexpr int kLanes = 16;

  static PL_INLINE F32 load_part(const float* p, int count) {
    if (count >= kLanes) return V::load(p);
    alignas(64) float padded[kLanes] = {};
    memcpy(padded, p, sizeof(float) * (count > 0 ? count : 0));
    return V::load(padded);
  }

  static PL_INLINE void store_part(float* p, F32 value, int count) {
    if (count >= kLanes) return V::store(p, value);
    alignas(64) float padded[kLanes];
    V::store(padded, value);
    memcpy(p, padded, sizeof(float) * (count > 0 ? count : 0));
  }

  // The first `count` lanes; zeros after them.
  static PL_INLINE F32 cut(F32 value, int count) {
    if (count >= kLanes) return value;
    alignas(64) float lanes[kLanes];
    V::store(lanes, value);
    return load_part(lanes, count);
  }

  static PL_INLINE float total(F32 partial) {
    alignas(64) float lanes[16];
    V::store(lanes, partial);
    for (int step = 8; step; step /= 2) {
      for (int i = 0; i < step; ++i) lanes[i] += lanes[i + step];
    }
    return lanes[0];
  }

  static float largest(const float* x, int count) {
    F32 most = V::all(x[0]);
    int i = 0;
    for (; i + kLanes <= count; i += kLanes) most = V::max(most, V::load(x + i));
    alignas(64) float lanes[kLanes];
    V::store(lanes, most);
    float found = lanes[0];
    for (const float lane : lanes) found = lane > found ? lane : found;
    for (; i < count; ++i) found = x[i] > found ? x[i] : found;
    return found;
  }

  // e^x by Cephes' polynomial, within 2 ulp; x is cut to -87 .. 88.
  static PL_INLINE F32 exp(F32 x) {
    constexpr float kRound = 12582912.0f;   // adding it leaves the nearest integer
    x = V::min(V::all(88.0f), V::max(V::all(-87.0f), x));
    const F32 n = V::add(V::fma(x, V::all(1.44269504f), V::all(kRound)), V::all(-kRound));
    F32 r = V::fma(n, V::all(-0.693359375f), x);
    r = V::fma(n, V::all(2.12194440e-4f), r);
    constexpr float kTerms[] = {1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f,
                                1.6666665459e-1f, 5.0000001201e-1f, 1.0f, 1.0f};
    F32 p = V::all(1.9875691500e-4f);
    for (const float term : kTerms) p = V::fma(p, r, V::all(term));
    return V::mul(p, V::power_of_two(n));
  }

  // out = x / sqrt(mean(x^2) + eps) * scale
  static void rms_norm(const float* x, const float* scale, float eps, int width, float* out) {
    F32 squares = {};
    for (int i = 0; i < width; i += kLanes) {
      const F32 value = load_part(x + i, width - i);
      squares = V::fma(value, value, squares);
    }
    const float root = __builtin_sqrtf(total(squares) / float(width) + eps);
    const F32 inverse = V::all(1.0f / root);
    for (int i = 0; i < width; i += kLanes) {
      const F32 normed = V::mul(load_part(x + i, width - i), inverse);
      store_part(out + i, V::mul(normed, load_part(scale + i, width - i)), width - i);
    }
  }

  // out = (x - mean) / sqrt(variance + eps) * scale + shift
  static void layer_norm(const float* x, const pl::Affine& affine, float eps, int width,
                         float* out) {
    F32 sum = {}, squares = {};
    for (int i = 0; i < width; i += kLanes) sum = V::add(sum, load_part(x + i, width - i));
    const F32 minus_mean = V::all(-total(sum) / float(width));
    for (int i = 0; i < width; i += kLanes) {
      const F32 value = cut(V::add(load_part(x + i, width - i), minus_mean), width - i);
      squares = V::fma(value, value, squares);
    }
    const F32 inverse = V::all(1.0f / __builtin_sqrtf(total(squares) / float(width) + eps));
    for (int i = 0; i < width; i += kLanes) {
      const F32 normed = V::mul(V::add(load_part(x + i, width - i), minus_mean), inverse);
      const F32 scale = load_part(affine.scale + i, width - i);
      store_part(out + i, V::fma(normed, scale, load_part(affine.shift + i, width - i)), width - i);
    }
  }

  // x / 2 * (1 + tanh(u)) = x / (1 + e^-2u), u = sqrt(2 / pi) * (x + 0.044715 x^3)
  static PL_INLINE F32 gelu(F32 x) {
    const F32 inner = V::fma(V::mul(V::mul(x, x), V::all(0.044715f)), x, x);
    return V::div(x, V::add(V::all(1.0f), exp(V::mul(inner, V::all(-1.59576912f)))));
  }

  static void gelu(const float* x, int width, float* out) {
    for (int i = 0; i < width; i += kLanes) {
      store_part(out + i, gelu(load_part(x + i, width - i)), width - i);
    }
  }

  static void gelu_mul(const float* gate, const float* up, int width, float* out) {
    for (int i = 0; i < width; i += kLanes) {
      const F32 value = V::mul(gelu(load_part(gate + i, width - i)), load_part(up + i, width - i));
      store_part(out + i, value, width - i);
    }
  }

  // cap * tanh(x / cap), where tanh(y) = 1 - 2 / (1 + e^2y)
  static void soft_cap(const float* x, float cap, int width, float* out) {
    for (int i = 0; i < width; i += kLanes) {
      const F32 twice = V::div(load_part(x + i, width - i), V::all(0.5f * cap));
      const F32 part = V::div(V::all(-2.0f), V::add(V::all(1.0f), exp(twice)));
      store_part(out + i, V::mul(V::add(V::all(1.0f), part), V::all(cap)), width - i);
    }
  }

  // out = gate / (1 + e^-gate) * up
  static void silu_mul(const float* gate, const float* up, int width, float* out) {
    for (int i = 0; i < width; i += kLanes) {
      const F32 g = load_part(gate + i, width - i);
      const F32 sigmoid = V::add(V::all(1.0f), exp(V::mul(g, V::all(-1.0f))));
      const F32 value = V::mul(V::div(g, sigmoid), load_part(up + i, width - i));
      store_part(out + i, value, width - i);
    }
  }

  static void add(const float* left, const float* right, int width, float* out) {
    for (int i = 0; i < width; i += kLanes) {
      const F32 sum = V::add(load_part(left + i, width - i), load_part(right + i, width - i));
      store_part(out + i, sum, width - i);
    }
  }

  // Rotates one head's halves: (a, b) -> (a cos - b sin, b cos + a sin).
  static void rope(const float* x, const float* cos, const float* sin, int half, float* out) {
    for (int i = 0; i < half; i += kLanes) {
      const int left = half - i;
      const F32 a = load_part(x + i, left), b = load_part(x + half + i, left);
      const F32 c = load_part(cos + i, left), s = load_part(sin + i, left);
      const F32 minus = V::mul(V::mul(b, s), V::all(-1.0f));
      store_part(out + i, V::add(V::mul(a, c), minus), left);
      store_part(out + half + i, V::add(V::mul(b, c), V::mul(a, s)), left);
    }
  }
};

}  // namespace
