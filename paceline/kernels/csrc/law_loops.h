// The loops over the numbers of a row of logits, for several instruction sets.
#pragma once

#include <math.h>
#include <string.h>

#include <algorithm>

#include "paceline_native.h"

namespace {

constexpr int kBlock = 1024;             // ids whose weights are summed before the next ones'
constexpr int kLanes = 16;               // partial sums of a block, by id modulo 16
constexpr int kRun = 64;                 // ids that are skipped together where none can be kept
constexpr int kChunk = 8;                // blocks of one task
constexpr double kUnits = 0x1p62;        // fixed-point units of a probability of 1
constexpr double kFewUnits = 0x1p-11;    // below it, units fit the mantissa's rounding trick
constexpr double kRound = 0x1.8p52;      // adding it leaves the nearest integer in the low bits
constexpr double kFaintest = -1000;      // a weight below 2^kFaintest is 0
constexpr double kLog2E = 1.4426950408889634;
constexpr double kSteepest = 1e300;
// (2^f - 1) / f for |f| <= 1/2, within 6e-16: interpolated at Chebyshev's nodes.
constexpr double kPower[] = {
    0.6931471805599462,    0.24022650695910075,    0.05550410866465167,   0.009618129107618665,
    0.0013333558200794592, 0.00015403530424776529, 1.5252672924850737e-05, 1.3215451633221434e-06,
    1.0205905413765595e-07, 7.070977866508138e-09};

#define PL_LOOP inline __attribute__((always_inline))
#define PL_BODY static PL_LOOP

template <class T, class S>
PL_BODY T bits_as(S value) {
  T bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

struct Found {
  float peak;
  bool ok;   // neither NaN nor +inf
};

// Floats compare as integers do once the negative ones are mirrored.
PL_BODY Found body_peak(const float* logits, int n) {
  const int32_t kInfinity = 0x7f800000;
  int32_t highest = INT32_MIN, magnitude = 0;
  for (int i = 0; i < n; ++i) {
    const int32_t bits = bits_as<int32_t>(logits[i]), size = bits & 0x7fffffff;
    const int32_t key = bits ^ ((bits >> 31) & 0x7fffffff);
    highest = key > highest ? key : highest;
    magnitude = size > magnitude ? size : magnitude;
  }
  const int32_t bits = highest ^ ((highest >> 31) & 0x7fffffff);
  return {bits_as<float>(bits), magnitude <= kInfinity && highest < kInfinity};
}

// N numbers side by side. Spelled out, as GCC does not take a template's N for a vector's size.
#define PL_VECTORS(name, lanes)                                     \
  struct name {                                                     \
    static constexpr int N = lanes;                                 \
    typedef float Floats __attribute__((vector_size(4 * lanes)));   \
    typedef double Doubles __attribute__((vector_size(8 * lanes))); \
    typedef int64_t Ints __attribute__((vector_size(8 * lanes)));   \
    typedef uint64_t Words __attribute__((vector_size(8 * lanes))); \
  };
PL_VECTORS(Two, 2)
PL_VECTORS(Four, 4)
PL_VECTORS(Eight, 8)

template <class V>
struct Wide : V {
  using typename V::Doubles, typename V::Floats, typename V::Ints;

  static PL_LOOP Doubles load(const double* p) {
    Doubles value;
    memcpy(&value, p, sizeof value);
    return value;
  }
  static PL_LOOP Doubles load(const float* p) {
    Floats value;
    memcpy(&value, p, sizeof value);
    return __builtin_convertvector(value, Doubles);
  }
  static PL_LOOP void store(double* p, Doubles value) { memcpy(p, &value, sizeof value); }
  static PL_LOOP Doubles max(Doubles a, Doubles b) { return a > b ? a : b; }

  // 2^exponent; 0 for the faintest.
  static PL_LOOP Doubles power_of_two(Doubles exponent) {
    const Doubles y = max(exponent, Doubles{} + kFaintest);
    const Doubles rounded = y + kRound, f = y - (rounded - kRound);
    const Doubles f2 = f * f, f4 = f2 * f2;   // Estrin's scheme: short chains
    const auto pair = [&](int term) { return f * kPower[term + 1] + kPower[term]; };
    const Doubles low = pair(2) * f2 + pair(0), high = pair(6) * f2 + pair(4);
    const Doubles power = ((pair(8) * f4 + high) * f4 + low) * f + 1.0;
    const Doubles scale = (Doubles)(((Ints)rounded + 1023) << 52);
    return exponent > kFaintest ? power * scale : Doubles{};
  }
};

// Writes the weights 2^((logit - peak) * rate) of a block and returns their sum.
template <class V>
PL_BODY double body_soften(const float* logits, double peak, double rate, double* weights) {
  using W = Wide<V>;
  constexpr int kParts = kLanes / W::N;
  typename W::Doubles parts[kParts] = {};
  for (int start = 0; start < kBlock; start += kLanes) {
#pragma GCC unroll 4
    for (int part = 0; part < kParts; ++part) {
      const int at = start + part * W::N;
      const auto weight = W::power_of_two((W::load(logits + at) - peak) * rate);
      W::store(weights + at, weight);
      parts[part] += weight;
    }
  }
  double sums[kLanes];
  memcpy(sums, parts, sizeof sums);
  for (int step = kLanes / 2; step; step /= 2) {
    for (int lane = 0; lane < step; ++lane) sums[lane] += sums[lane + step];
  }
  return sums[0];
}

PL_BODY void body_divide(const double* weights, int n, double total, double* law) {
  for (int i = 0; i < n; ++i) law[i] = weights[i] / total;
}

PL_BODY int64_t units_of(double probability) {
  const double units = probability * kUnits;
  if (probability < kFewUnits) return bits_as<int64_t>(units + kRound) - bits_as<int64_t>(kRound);
  return int64_t(units < 0x1p52 ? (units + 0x1p52) - 0x1p52 : units);
}

// Divides a run's weights in place; writes the largest and returns the sum in fixed point.
template <class V>
PL_BODY int64_t body_share(double* weights, double total, double* most) {
  using W = Wide<V>;
  typename W::Doubles top = {};
  typename W::Words units = {};   // wraps around, as kRound's bits are added with each
#pragma GCC unroll 4
  for (int i = 0; i < kRun; i += W::N) {
    const auto share = W::load(weights + i) / total;
    W::store(weights + i, share);
    top = W::max(share, top);
    units += (typename W::Words)(share * kUnits + kRound);
  }
  *most = top[0];
  uint64_t sum = units[0];
  for (int lane = 1; lane < W::N; ++lane) {
    *most = std::max(*most, top[lane]);
    sum += units[lane];
  }
  if (*most < kFewUnits) return int64_t(sum - kRun * bits_as<uint64_t>(kRound));
  int64_t exact = 0;
  for (int i = 0; i < kRun; ++i) exact += units_of(weights[i]);
  return exact;
}

struct Loops {
  Found (*peak)(const float*, int);
  double (*soften)(const float*, double, double, double*);
  void (*divide)(const double*, int, double, double*);
  int64_t (*share)(double*, double, double*);
};

// The same loops, compiled for several instruction sets.
#define PL_LOOPS(name, V, target)                                                                     \
  target Found name##_peak(const float* logits, int n) { return body_peak(logits, n); }            \
  target double name##_soften(const float* logits, double peak, double rate, double* weights) {    \
    return body_soften<V>(logits, peak, rate, weights);                                               \
  }                                                                                                \
  target void name##_divide(const double* weights, int n, double total, double* law) {             \
    body_divide(weights, n, total, law);                                                           \
  }                                                                                                \
  target int64_t name##_share(double* weights, double total, double* most) {                       \
    return body_share<V>(weights, total, most);                                                       \
  }                                                                                                \
  constexpr Loops name = {name##_peak, name##_soften, name##_divide, name##_share};

PL_LOOPS(portable, Two, )
#ifdef PL_X86
PL_LOOPS(avx2, Four, __attribute__((target("avx2"))))
PL_LOOPS(avx512, Eight, __attribute__((target("avx512f,avx512dq,avx512vl,avx512bw"))))
#endif

const Loops& loops() {
#ifdef PL_X86
  // A build that emulates AVX-512 may run where there is none.
  if (pl_path() == PL_AVX512 && __builtin_cpu_supports("avx512dq")) return avx512;
  if (pl_path() != PL_PORTABLE) return avx2;
#endif
  return portable;
}

}  // namespace
