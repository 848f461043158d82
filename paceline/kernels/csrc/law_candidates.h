// The ids that may be kept of a row, cut down without a sort.
#pragma once

#include <algorithm>
#include <vector>

#include "law_loops.h"

namespace {

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

}  // namespace
