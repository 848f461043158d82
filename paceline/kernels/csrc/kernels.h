// What one instruction-set path offers.
#pragma once

#include "attend.h"
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

// scale * x + shift, number by number.
struct Affine {
  const float *scale, *shift;
};

struct Kernels {
  // Quantises `count` numbers, a super-block of a row.
  void (*quantise)(const float* x, int count, Activations& quantised);
  // Computes the outputs of blocks first .. last - 1.
  void (*linear)(const Sweep& sweep, int first, int last);
  // On one row each; see rows.h. `rope` turns one head of 2 * half numbers.
  void (*rms_norm)(const float* x, const float* scale, float eps, int width, float* out);
  void (*layer_norm)(const float* x, const Affine& affine, float eps, int width, float* out);
  void (*silu_mul)(const float* gate, const float* up, int width, float* out);
  void (*gelu_mul)(const float* gate, const float* up, int width, float* out);
  void (*gelu)(const float* x, int width, float* out);
  void (*soft_cap)(const float* x, float cap, int width, float* out);
  void (*add)(const float* left, const float* right, int width, float* out);
  void (*rope)(const float* x, const float* cos, const float* sin, int half, float* out);
  void (*attend)(const AttendTask& task, const AttendScratch& scratch);
  // See probe.h; a round of `multiply` does `products` multiply-adds.
  void (*read_all)(const uint8_t* data, int64_t bytes);
  void (*multiply)(int64_t rounds);
  int products;
};

extern const Kernels kPortable;
#ifdef PL_X86
extern const Kernels kAvx2, kAvxVnni, kAvx512;
#endif

// The kernels of the path in force.
const Kernels& kernels();

}  // namespace pl
