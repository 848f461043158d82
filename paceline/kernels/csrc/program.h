// Running a model's op list.
#pragma once

#include <atomic>

#include "kernels.h"

namespace pl {

struct Run {
  const pl_register* registers;
  const pl_pass& pass;
  const Kernels& kernels;
  std::atomic<bool> out_of_memory{false};

  int rows(const pl_op& op) const {
    return op.per_logit_row ? pass.logit_row_count : pass.rows;
  }
  const pl_register& source(const pl_op& op, int i) const { return registers[op.sources[i]]; }
  const pl_register& out(const pl_op& op) const { return registers[op.out]; }
};

void run_attend(const pl_op& op, Run& run);

constexpr int kTogether = 4;   // products that one sweep may hold

// Runs products that share a source and no register else in one sweep; at most kTogether.
void run_linears(const pl_op* ops, int count, Run& run);

// Lets threads that wait meanwhile fetch what the first tasks of these products read.
void fetch_linears(const pl_op* ops, int count);

// Sweeps the blocks of several weights with the same rows, spread over the threads.
void sweep_blocks(const Sweep* sweeps, int count, const Kernels& kernels);

void quantise_rows(const float* x, int64_t stride, int in_features, int rows,
                   Activations* quantised, const Kernels& kernels);

bool is_packed(const pl_weight* weight);

inline int blocks_of(int out_features) { return (out_features + kOutputs - 1) / kOutputs; }

}  // namespace pl
