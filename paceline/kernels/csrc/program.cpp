#include "program.h"

#include <math.h>
#include <string.h>

#include <new>

#include "pack.h"
#include "pool.h"

namespace pl {
namespace {

constexpr int kChunk = 256;   // numbers of a row that are computed at a time

// Calls body(row, first column, columns) over all rows; the cut does not change any number. Rows
// are cut where quantise_rows cuts them, so that a thread mostly reads what it wrote.
template <class Body>
void over_elements(int rows, int width, const Body& body) {
  const int chunks = (width + kChunk - 1) / kChunk;
  parallel_ranges(rows * chunks, int64_t(rows) * width, [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const int at = i % chunks * kChunk;
      body(i / chunks, at, at + kChunk < width ? kChunk : width - at);
    }
  });
}

void embed(const pl_op& op, const int64_t* ids, Run& run) {
  const pl_register& out = run.out(op);
  parallel_ranges(run.pass.rows, run.pass.rows * out.width, [&](int row, int last) {
    for (; row < last; ++row) {
      float* to = out.data + row * out.width;
      unpack_row(*op.weight, ids[row], to);
      for (int i = 0; i < out.width; ++i) to[i] *= op.scale;
    }
  });
}

void rms_norm(const pl_op& op, Run& run, int row) {
  const pl_register &source = run.source(op, 0), &out = run.out(op);
  const int size = int(out.width) / op.heads;
  for (int64_t at = row * out.width; at < (row + 1) * out.width; at += size) {
    run.kernels.rms_norm(source.data + at, op.vector, op.eps, size, out.data + at);
  }
}

void layer_norm(const pl_op& op, Run& run, int row) {
  const pl_register &source = run.source(op, 0), &out = run.out(op);
  run.kernels.layer_norm(source.data + row * out.width, {op.vector, op.shift}, op.eps,
                         int(out.width), out.data + row * out.width);
}

void rotation(const pl_op& op, Run& run) {
  const pl_register& out = run.out(op);
  const int half = int(out.width) / 2;
  for (int row = 0; row < run.pass.rows; ++row) {
    float* cos = out.data + row * out.width;
    for (int i = 0; i < half; ++i) {
      const float angle = float(run.pass.positions[row]) * op.vector[i];
      cos[i] = cosf(angle);
      cos[half + i] = sinf(angle);
    }
  }
}

void rope(const pl_op& op, Run& run, int row) {
  const pl_register &source = run.source(op, 0), &table = run.source(op, 1);
  const pl_register& out = run.out(op);
  const int size = int(table.width), half = size / 2;
  const float* cos = table.data + row * table.width;
  for (int64_t at = row * out.width; at < (row + 1) * out.width; at += size) {
    run.kernels.rope(source.data + at, cos, cos + half, half, out.data + at);
  }
}

void add(const pl_op& op, Run& run, int row) {
  const pl_register& out = run.out(op);
  const int64_t at = row * out.width;
  run.kernels.add(run.source(op, 0).data + at, run.source(op, 1).data + at, int(out.width),
                  out.data + at);
}

using Binary = void (*)(const float* left, const float* right, int width, float* out);

void binary(const pl_op& op, Run& run, Binary compute) {
  const pl_register& out = run.out(op);
  over_elements(run.rows(op), int(out.width), [&](int row, int first, int count) {
    const int64_t at = row * out.width + first;
    compute(run.source(op, 0).data + at, run.source(op, 1).data + at, count, out.data + at);
  });
}

void gelu(const pl_op& op, Run& run) {
  const pl_register& out = run.out(op);
  over_elements(run.rows(op), int(out.width), [&](int row, int first, int count) {
    const int64_t at = row * out.width + first;
    run.kernels.gelu(run.source(op, 0).data + at, count, out.data + at);
  });
}

void soft_cap(const pl_op& op, Run& run) {
  const pl_register& out = run.out(op);
  over_elements(run.rows(op), int(out.width), [&](int row, int first, int count) {
    const int64_t at = row * out.width + first;
    run.kernels.soft_cap(run.source(op, 0).data + at, op.soft_cap, count, out.data + at);
  });
}

void copy_logit_rows(const pl_register& source, const pl_pass& pass, float* to) {
  for (int i = 0; i < pass.logit_row_count; ++i) {
    memcpy(to + i * source.width, source.data + pass.logit_rows[i] * source.width,
           sizeof(float) * source.width);
  }
}

void layer_end(const pl_op& op, Run& run, int row) {
  float* wanted = run.pass.hidden ? run.pass.hidden[op.layer] : nullptr;
  const pl_register& source = run.source(op, 0);
  const int64_t at = row * source.width;
  if (wanted) memcpy(wanted + at, source.data + at, sizeof(float) * source.width);
}

void run_one(const pl_op& op, Run& run) {
  switch (op.kind) {
    case PL_EMBED: return embed(op, run.pass.ids, run);
    case PL_EMBED_POSITION: return embed(op, run.pass.positions, run);
    case PL_ROTATION: return rotation(op, run);
    case PL_ATTEND: return run_attend(op, run);
    case PL_SILU_MUL: return binary(op, run, run.kernels.silu_mul);
    case PL_GELU_MUL: return binary(op, run, run.kernels.gelu_mul);
    case PL_GELU: return gelu(op, run);
    case PL_SOFT_CAP: return soft_cap(op, run);
    case PL_LOGIT_ROWS: return copy_logit_rows(run.source(op, 0), run.pass, run.out(op).data);
  }
}

using RowOp = void (*)(const pl_op& op, Run& run, int row);

// What computes one row of an operation from that row alone; null where rows are not apart.
RowOp row_op(const pl_op& op) {
  switch (op.kind) {
    case PL_RMS_NORM: return rms_norm;
    case PL_LAYER_NORM: return layer_norm;
    case PL_ROPE: return rope;
    case PL_ADD: return add;
    case PL_LAYER_END: return layer_end;
  }
  return nullptr;
}

// How many operations from the first on work row by row on the same rows.
int row_ops_from(const pl_op* op, const pl_op* end) {
  const pl_op* next = op;
  while (next < end && row_op(*next) && next->per_logit_row == op->per_logit_row) ++next;
  return int(next - op);
}

// Each thread takes its rows through all of them, so that they stay in its caches.
void run_rows(const pl_op* ops, int count, Run& run) {
  const int rows = run.rows(*ops);
  parallel_ranges(rows, rows * run.source(*ops, 0).width, [&](int row, int last) {
    for (; row < last; ++row) {
      for (int i = 0; i < count; ++i) row_op(ops[i])(ops[i], run, row);
    }
  });
}

// How many operations from the first on are products of one source, into registers of their own.
int linears_from(const pl_op* op, const pl_op* end) {
  const pl_op* next = op;
  while (next < end && next->kind == PL_LINEAR && next->sources[0] == op->sources[0] &&
         next - op < kTogether) {
    ++next;
  }
  return int(next - op);
}

void fetch_next_linears(const pl_op* op, const pl_op* end) {
  while (op < end && op->kind != PL_LINEAR) ++op;
  if (op < end) fetch_linears(op, linears_from(op, end));
}

void run_all(const pl_op* op, const pl_op* end, Run& run) {
  fetch_next_linears(op, end);
  while (op < end) {
    if (op->kind == PL_LINEAR) {
      const int count = linears_from(op, end);
      fetch_next_linears(op + count, end);
      run_linears(op, count, run);
      op += count;
    } else if (const int count = row_ops_from(op, end)) {
      run_rows(op, count, run);
      op += count;
    } else {
      run_one(*op++, run);
    }
  }
}

bool sound(const pl_op* ops, int count, const pl_register* registers, const pl_pass* pass) {
  if (!ops || count < 1 || !registers || !pass || pass->rows < 1) return false;
  for (int i = 0; i < count; ++i) {
    const bool weighs = ops[i].kind == PL_LINEAR || ops[i].kind == PL_EMBED ||
                        ops[i].kind == PL_EMBED_POSITION;
    if (weighs && !is_packed(ops[i].weight)) return false;
  }
  return pass->ids && pass->positions && pass->slots && pass->keys && pass->values;
}

}  // namespace
}  // namespace pl

extern "C" int32_t pl_run(const pl_op* ops, int32_t count, const pl_register* registers,
                          const pl_pass* pass) {
  if (!pl::sound(ops, count, registers, pass)) return PL_BAD_ARGUMENT;
  pl::Run run{registers, *pass, pl::kernels()};
  try {
    pl::run_all(ops, ops + count, run);
  } catch (const std::bad_alloc&) {
    return PL_NO_MEMORY;
  }
  return run.out_of_memory ? PL_NO_MEMORY : PL_OK;
}
