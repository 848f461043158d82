// Laws from logits, without a sort: sampling/pipeline.py says what they are, and computes the same
// bits where this library is missing. Only +, -, * and / of doubles and integer sums are used, in
// an order that depends on the vocabulary alone: neither instruction set nor threads can matter.
#include <atomic>
#include <functional>
#include <limits>
#include <numeric>

#include "law_candidates.h"
#include "pool.h"

namespace {

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
      units = kept.cut(ceil_product(settings_.top_p, units), floor, 1 / total,
                       [](double p) { return units_of(p); });
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
