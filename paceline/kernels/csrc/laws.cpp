// Laws from logits, without a sort: sampling/pipeline.py says what they are, and computes the same
// bits where this library is missing. Only +, -, * and / of doubles and integer sums are used, in
// an order that depends on the vocabulary alone: neither instruction set nor threads can matter.
#include <math.h>
#include <string.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

#include "paceline_native.h"
#include "pool.h"

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
  typename W::Ints units = {};
#pragma GCC unroll 4
  for (int i = 0; i < kRun; i += W::N) {
    const auto share = W::load(weights + i) / total;
    W::store(weights + i, share);
    top = W::max(share, top);
    units += (typename W::Ints)(share * kUnits + kRound);
  }
  *most = top[0];
  int64_t sum = units[0];
  for (int lane = 1; lane < W::N; ++lane) {
    *most = std::max(*most, top[lane]);
    sum += units[lane];
  }
  if (*most < kFewUnits) return sum - kRun * bits_as<int64_t>(kRound);
  sum = 0;
  for (int i = 0; i < kRun; ++i) sum += units_of(weights[i]);
  return sum;
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

// Ids and their probabilities, in ascending order of id; cut down step by step.
struct Candidates {
  std::vector<int32_t> ids, open;
  std::vector<double> law;
  int64_t count = 0;

  void reserve(int64_t room) {
    ids.resize(room);
    open.resize(room);
    law.resize(room);
  }

  // Without a branch, for which candidate stays is hard to foretell.
  void add_if(bool stays, int32_t id, double probability) {
    ids[count] = id;
    law[count] = probability;
    count += stays;
  }

  int64_t units() const {
    int64_t sum = 0;
    for (int64_t i = 0; i < count; ++i) sum += units_of(law[i]);
    return sum;
  }

  // Keeps the shortest head whose measures sum to `wanted`, by descending probability, then id,
  // and returns what they sum to. Of the probabilities' bits, as integers, each round settles
  // kDigit more: only those in the bin of the last one kept stay open.
  template <class Measure>
  int64_t cut(int64_t wanted, double floor, double top, const Measure& measure) {
    Bin bin{key(floor), key(top)};
    int64_t missing = wanted;
    missing -= bin.narrow(missing, count, measure, [&](int64_t i) { return law[i]; });
    int64_t left = split(bin);
    while (bin.low < bin.high && left > 1) {
      missing -= bin.narrow(missing, left, measure, [&](int64_t i) { return law[open[i]]; });
      int64_t kept = 0;
      for (int64_t i = 0; i < left; ++i) {
        const uint64_t each = key(law[open[i]]);
        if (each < bin.low) law[open[i]] = 0;
        open[kept] = open[i];
        kept += bin.low <= each && each <= bin.high;
      }
      left = kept;
    }
    int64_t last = 0;   // the open ones are equal now
    for (; measure(law[open[last]]) < missing; ++last) missing -= measure(law[open[last]]);
    const int64_t over = measure(law[open[last]]) - missing;
    for (int64_t i = last + 1; i < left; ++i) law[open[i]] = 0;
    drop_zeros();
    return wanted + over;
  }

 private:
  static constexpr int kDigit = 11;

  static uint64_t key(double probability) { return bits_as<uint64_t>(probability); }

  struct Bin {
    uint64_t low, high;

    // Becomes the one of its parts where the sum, from the top down, reaches `wanted`; returns the
    // sum of those above it.
    template <class Measure, class Law>
    int64_t narrow(int64_t wanted, int64_t count, const Measure& measure, const Law& law) {
      const uint64_t range = high - low;
      const int shift = range >> kDigit ? 64 - kDigit - __builtin_clzll(range) : 0;
      int64_t sums[1 << kDigit] = {}, above = 0;
      for (int64_t i = 0; i < count; ++i) sums[(key(law(i)) - low) >> shift] += measure(law(i));
      uint64_t part = range >> shift;
      while (above + sums[part] < wanted) above += sums[part--];
      low += part << shift;
      high = low + (uint64_t(1) << shift) - 1;
      return above;
    }
  };

  // Drops what lies below the bin; opens what lies in it and returns how many.
  int64_t split(const Bin& bin) {
    const int64_t end = count;
    int64_t opened = 0;
    count = 0;
    for (int64_t i = 0; i < end; ++i) {
      const uint64_t each = key(law[i]);
      open[opened] = int32_t(count);
      opened += bin.low <= each && each <= bin.high;
      add_if(each >= bin.low, ids[i], law[i]);
    }
    return opened;
  }

  void drop_zeros() {
    const int64_t end = count;
    count = std::find(law.begin(), law.begin() + end, 0.0) - law.begin();
    for (int64_t i = count; i < end; ++i) add_if(law[i] > 0, ids[i], law[i]);
  }
};

struct Scratch {
  std::vector<double> weights, maxima, sums;
  std::vector<int64_t> units;
  std::vector<Found> peaks;
  Candidates kept;

  void reserve(int64_t blocks) {
    weights.resize(blocks * kBlock);
    maxima.resize(blocks * (kBlock / kRun));
    sums.resize(blocks);
    units.resize(blocks);
    peaks.resize(blocks);
    kept.reserve(blocks * kBlock + 1);
  }
};

Scratch& scratch() {
  static thread_local Scratch own;
  return own;
}

// ceil(share * total), share in (0, 1).
int64_t ceil_product(double share, int64_t total) {
  int exponent;
  const auto mantissa = (unsigned __int128)ldexp(frexp(share, &exponent), 53);
  const unsigned __int128 product = mantissa * (unsigned __int128)total;
  const int shift = 53 - exponent;
  if (shift >= 126) return product > 0;
  return int64_t((product + ((unsigned __int128)1 << shift) - 1) >> shift);
}

class Row {
 public:
  Row(const pl_laws_args& args, int row, bool shared)
      : settings_(args.settings[row]), out_(args.rows + row), vocab_(args.vocab),
        logits_(args.logits + row * args.logits_stride), shared_(shared), loops_(loops()),
        blocks_(int((args.vocab + kBlock - 1) / kBlock)), own_(scratch()) {
    own_.reserve(blocks_);
  }

  void run() {
    out_->count = 0;
    const int block = find_peak();
    if (block < 0) return;
    if (settings_.temperature == 0) return give_highest(block);
    const double total = soften();
    if (out_->dense) {
      each_block([&](int b) {
        const int64_t at = int64_t(b) * kBlock;
        loops_.divide(&own_.weights[at], size_of(b), total, out_->dense + at);
      });
      out_->count = vocab_;
    } else {
      truncate(total);
    }
  }

 private:
  int size_of(int block) const {
    return int(std::min<int64_t>(kBlock, vocab_ - int64_t(block) * kBlock));
  }

  template <class Body>
  void each_block(const Body& body) const {
    const auto chunk = [&](int i) {
      for (int b = i * kChunk; b < std::min(blocks_, (i + 1) * kChunk); ++b) body(b);
    };
    const int chunks = (blocks_ + kChunk - 1) / kChunk;
    if (shared_) return pl::parallel_for(chunks, chunk);
    for (int i = 0; i < chunks; ++i) chunk(i);
  }

  // Returns the first block that holds the peak, or -1 where the row has no law.
  int find_peak() {
    each_block([&](int b) {
      own_.peaks[b] = loops_.peak(logits_ + int64_t(b) * kBlock, size_of(b));
    });
    int found = 0;
    bool ok = true;
    for (int b = 0; b < blocks_; ++b) {
      ok = ok && own_.peaks[b].ok;
      if (own_.peaks[b].peak > own_.peaks[found].peak) found = b;
    }
    out_->peak = own_.peaks[found].peak;
    return ok && out_->peak > -INFINITY ? found : -1;
  }

  void give_highest(int block) {
    const float* at = logits_ + int64_t(block) * kBlock;
    while (*at != out_->peak) ++at;
    out_->ids[0] = at - logits_;
    out_->probs[0] = 1;
    out_->count = 1;
  }

  // Fills the weights, zeros behind the last id, and returns their sum.
  double soften() {
    const double rate = std::min(kLog2E / settings_.temperature, kSteepest);
    each_block([&](int b) {
      const float* logits = logits_ + int64_t(b) * kBlock;
      float padded[kBlock];
      if (size_of(b) < kBlock) {
        std::fill(std::copy(logits, logits + size_of(b), padded), padded + kBlock, -INFINITY);
        logits = padded;
      }
      own_.sums[b] = loops_.soften(logits, out_->peak, rate, &own_.weights[int64_t(b) * kBlock]);
    });
    double total = 0;
    for (const double sum : own_.sums) total += sum;
    return total;
  }

  void truncate(double total) {
    each_block([&](int b) {
      own_.units[b] = 0;
      for (int run = b * (kBlock / kRun); run < (b + 1) * (kBlock / kRun); ++run) {
        own_.units[b] += loops_.share(&own_.weights[int64_t(run) * kRun], total,
                                      &own_.maxima[run]);
      }
    });
    Candidates& kept = own_.kept;
    const double floor = std::max(floor_of(total), std::numeric_limits<double>::min());
    gather(floor);
    if (settings_.top_k > 0 && settings_.top_k < kept.count) {
      kept.cut(settings_.top_k, floor, 1 / total, [](double) { return 1; });
    }
    const bool whole = settings_.top_k <= 0 && settings_.min_p == 0;
    int64_t units = whole ? std::accumulate(own_.units.begin(), own_.units.end(), int64_t(0))
                          : kept.units();
    if (settings_.top_p < 1) {
      units = kept.cut(ceil_product(settings_.top_p, units), floor, 1 / total, units_of);
    }
    out_->count = kept.count;
    std::copy(kept.ids.begin(), kept.ids.begin() + kept.count, out_->ids);
    loops_.divide(kept.law.data(), int(kept.count), double(units) / kUnits, out_->probs);
  }

  // What nothing kept lies below; it need not be tight.
  double floor_of(double total) {
    if (settings_.min_p > 0) return settings_.min_p * (1 / total);
    const size_t k = size_t(std::max<int64_t>(settings_.top_k, 0));
    if (k > 0 && k <= own_.maxima.size()) {   // k runs hold an id above the k-th highest maximum
      std::vector<double> order(own_.maxima);
      std::nth_element(order.begin(), order.begin() + (k - 1), order.end(), std::greater<>());
      return order[k - 1];
    }
    // What is left out then has less than half of what top-p drops, rounding included.
    const bool drops = k == 0 && settings_.top_p < 1 - 1e-9;
    return drops ? (1 - settings_.top_p) / 2 / double(vocab_) : 0;
  }

  void gather(double floor) {
    own_.kept.count = 0;
    for (size_t run = 0; run < own_.maxima.size(); ++run) {
      if (own_.maxima[run] < floor) continue;
      for (int64_t id = int64_t(run) * kRun; id < int64_t(run + 1) * kRun; ++id) {
        own_.kept.add_if(own_.weights[id] >= floor, int32_t(id), own_.weights[id]);
      }
    }
  }

  const pl_shape& settings_;
  pl_law* const out_;
  const int64_t vocab_;
  const float* const logits_;
  const bool shared_;   // whether the threads share this row, or each has rows of its own
  const Loops& loops_;
  const int blocks_;
  Scratch& own_;
};

}  // namespace

extern "C" int32_t pl_laws(const pl_laws_args* args) {
  if (args->vocab < 1 || args->vocab > INT32_MAX) return PL_BAD_SHAPE;
  std::atomic<int32_t> status{PL_OK};
  const bool shared = args->count < pl::threads();
  const auto one = [&](int row) {
    try {
      Row(*args, row, shared).run();
    } catch (...) {
      status.store(PL_NO_MEMORY);
    }
  };
  if (!shared) pl::parallel_for(args->count, one);
  else for (int row = 0; row < args->count; ++row) one(row);
  return status.load();
}
