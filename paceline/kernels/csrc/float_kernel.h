// Float weights (fp32, fp16, bf16) of 16 outputs against R rows of float activations.
#pragma once

#include "kernel.h"

namespace {

template <class V, int FORMAT>
struct FloatWeights {
  static constexpr int kBytes = FORMAT == PL_F32 ? 4 : 2;
  static PL_INLINE typename V::F32 load(const uint8_t* p) {
    if constexpr (FORMAT == PL_F32) return V::load((const float*)p);
    else if constexpr (FORMAT == PL_F16) return V::halves(p);
    else return V::brains(p);
  }
};

template <class V, int FORMAT, int R>
struct FloatTile {
  using W = FloatWeights<V, FORMAT>;
  static constexpr int kStep = kOutputs * W::kBytes;

  // acc[R, 2, 16] += w . x; even inputs in acc[:, 0], odd ones in acc[:, 1], so that two chains
  // of additions run side by side.
  static void run(const uint8_t* w, int inputs, const float* x, int64_t stride, float* acc) {
    typename V::F32 even[R], odd[R];
    for (int r = 0; r < R; ++r) {
      even[r] = V::load(acc + r * 32);
      odd[r] = V::load(acc + r * 32 + 16);
    }
    int k = 0;
    for (; k + 1 < inputs; k += 2, w += 2 * kStep) {
      for (int line = 0; line < 2 * kStep; line += 64) V::fetch(w + kFetchAhead + line);
      const typename V::F32 first = W::load(w), second = W::load(w + kStep);
      for (int r = 0; r < R; ++r) {
        even[r] = V::fma(first, V::all(x[r * stride + k]), even[r]);
        odd[r] = V::fma(second, V::all(x[r * stride + k + 1]), odd[r]);
      }
    }
    for (int r = 0; r < R; ++r) {
      if (k < inputs) even[r] = V::fma(W::load(w), V::all(x[r * stride + k]), even[r]);
      V::store(acc + r * 32, even[r]);
      V::store(acc + r * 32 + 16, odd[r]);
    }
  }
};

}  // namespace
