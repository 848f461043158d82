// What one instruction-set path offers.
#pragma once

#include "layout.h"

namespace pl {

constexpr int kSweep = 32;        // rows that share one sweep of the weights
constexpr int kFloatInputs = 64;  // inputs of float weights that all rows use before the next

// Rows of one sweep: y[rows, out] = x . weight^T + bias.
struct Sweep {
  const pl_weight* weight;
  const Activations* quantised;   // [super-block][rows], for quantised weights
  const float* x;                 // [rows, x_stride], for float weights
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  const float* bias;
  int rows;
};

struct Kernels {
  // Quantises row `row` of x into its places of quantised[super-block][rows].
  void (*quantise)(const float* x, int in_features, int row, int rows, Activations* quantised);
  // Computes the outputs of blocks first .. last - 1.
  void (*linear)(const Sweep& sweep, int first, int last);
};

extern const Kernels kPortable;
#ifdef PL_X86
extern const Kernels kAvx2, kAvxVnni, kAvx512;
#endif

// The kernels of the path in force.
const Kernels& kernels();

}  // namespace pl
