// The ABI's weights and linear layers.
#include "pack.h"
#include "pool.h"
#include "program.h"

namespace pl {

bool is_packed(const pl_weight* weight) {
  if (!weight || !weight->data) return false;
  const int64_t bytes = packed_bytes(weight->format, weight->out_features, weight->in_features);
  return bytes > 0 && weight->bytes >= bytes && uintptr_t(weight->data) % 64 == 0;
}

void quantise_rows(const float* x, int64_t stride, int in_features, int rows,
                   Activations* quantised, const Kernels& kernels) {
  const int supers = super_count(in_features);
  parallel_ranges(supers * rows, int64_t(in_features) * rows, [&](int first, int last) {
    for (int i = first; i < last; ++i) {
      const int row = i / supers, s = i % supers;
      kernels.quantise(x + row * stride + s * kSuper, groups_in(in_features, s) * kGroup,
                       quantised[s * rows + row]);
    }
  });
}

namespace {

// The blocks of several weights, cut into tasks. High tasks are taken first: those are large, and
// the last ones small, so that all end at once.
struct Tasks {
  explicit Tasks(int64_t blocks) : blocks(blocks), count(pieces(int(blocks))) {}
  int64_t begin(int64_t task) const { return blocks * task * task / (count * count); }

  int64_t blocks, count;
};

// Where block `block` of several weights begins; null in one of floats.
const uint8_t* block_at(const pl_op* ops, int64_t block) {
  while (block >= blocks_of(ops->weight->out_features)) {
    block -= blocks_of(ops->weight->out_features);
    ++ops;
  }
  const Format* format = find_format(ops->weight->format);
  if (!format) return nullptr;
  return ops->weight->data + block * format->block_bytes(ops->weight->in_features);
}

constexpr int64_t kFetchEach = 256 << 10;   // of each task, so that all fit in a core's own cache

}  // namespace

void fetch_linears(const pl_op* ops, int count) {
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) blocks += blocks_of(ops[i].weight->out_features);
  const Tasks tasks(blocks);
  const uint8_t* parts[kParts];
  int found = 0;
  for (int64_t task = tasks.count - 1; task >= 0 && found < kParts && found < threads(); --task) {
    if (const uint8_t* part = block_at(ops, tasks.begin(task))) parts[found++] = part;
  }
  if (found) fetch_while_waiting(parts, found, kFetchEach);
}

void sweep_blocks(const Sweep* sweeps, int count, const Kernels& kernels) {
  int64_t blocks = 0;
  for (int i = 0; i < count; ++i) blocks += blocks_of(sweeps[i].weight->out_features);
  const Tasks tasks(blocks);
  parallel_for(int(tasks.count), [&](int task) {
    int64_t first = tasks.begin(task), last = tasks.begin(task + 1);
    for (int i = 0; i < count && last > 0; ++i) {
      const int own = blocks_of(sweeps[i].weight->out_features);
      const int to = last < own ? int(last) : own;
      if (first < to) kernels.linear(sweeps[i], first < 0 ? 0 : int(first), to);
      first -= own;
      last -= own;
    }
  });
}

void run_linears(const pl_op* ops, int count, Run& run) {
  const pl_register& source = run.source(ops[0], 0);
  Activations* quantised = static_cast<Activations*>(run.pass.scratch);
  bool needs_codes = false;
  for (int i = 0; i < count; ++i) needs_codes |= !float_bytes(ops[i].weight->format);
  for (int first = 0; first < run.rows(ops[0]); first += kSweep) {
    const int left = run.rows(ops[0]) - first, rows = left < kSweep ? left : kSweep;
    const float* x = source.data + first * source.width;
    if (needs_codes) {
      quantise_rows(x, source.width, int(source.width), rows, quantised, run.kernels);
    }
    Sweep sweeps[kTogether];
    for (int i = 0; i < count; ++i) {
      const pl_register& out = run.out(ops[i]);
      sweeps[i] = {ops[i].weight, quantised, x, source.width, out.data + first * out.width,
                   out.width, ops[i].vector, rows};
    }
    sweep_blocks(sweeps, count, run.kernels);
  }
}

}  // namespace pl

using namespace pl;

extern "C" {

int32_t pl_abi(void) { return PL_ABI; }

int32_t pl_threads(void) { return threads(); }

int32_t pl_set_threads(int32_t count) {
  if (count < 1 || count > 1024) return PL_BAD_ARGUMENT;
  return set_threads(count) ? PL_OK : PL_BAD_ARGUMENT;
}

int64_t pl_packed_bytes(int32_t format, int32_t out_features, int32_t in_features) {
  return packed_bytes(format, out_features, in_features);
}

int64_t pl_source_bytes(int32_t format, int32_t out_features, int32_t in_features) {
  return source_bytes(format, out_features, in_features);
}

int32_t pl_pack(int32_t format, int32_t out_features, int32_t in_features, const uint8_t* source,
                int64_t source_size, uint8_t* packed, int64_t packed_size) {
  const int64_t bytes = packed_bytes(format, out_features, in_features);
  if (bytes < 0) return PL_BAD_SHAPE;
  if (!source || !packed) return PL_BAD_ARGUMENT;
  if (packed_size < bytes || source_size < source_bytes(format, out_features, in_features)) {
    return PL_SHORT_BUFFER;
  }
  const int blocks = blocks_of(out_features), tasks = pieces(blocks);
  parallel_for(tasks, [&](int task) {
    const int last = int(int64_t(blocks) * (task + 1) / tasks);
    for (int block = int(int64_t(blocks) * task / tasks); block < last; ++block) {
      pack_block(format, out_features, in_features, source, block, packed);
    }
  });
  return PL_OK;
}

int32_t pl_rows(const pl_weight* weight, const int64_t* ids, int32_t n, float* rows) {
  if (!is_packed(weight) || !ids || !rows || n < 0) return PL_BAD_ARGUMENT;
  for (int i = 0; i < n; ++i) {
    if (ids[i] < 0 || ids[i] >= weight->out_features) return PL_BAD_ARGUMENT;
    unpack_row(*weight, ids[i], rows + int64_t(i) * weight->in_features);
  }
  return PL_OK;
}

int64_t pl_scratch_bytes(int32_t in_features, int32_t rows) {
  const int sweep = rows < kSweep ? rows : kSweep;
  return int64_t(super_count(in_features)) * sweep * int64_t(sizeof(Activations));
}

int32_t pl_linear(const pl_weight* weight, const pl_linear_args* args) {
  if (!is_packed(weight) || !args || !args->x || !args->y || args->rows < 0) return PL_BAD_ARGUMENT;
  const bool quantised = !float_bytes(weight->format);
  if (quantised && (!args->scratch || uintptr_t(args->scratch) % alignof(Activations))) {
    return PL_BAD_ARGUMENT;
  }
  if (quantised && args->scratch_bytes < pl_scratch_bytes(weight->in_features, args->rows)) {
    return PL_SHORT_BUFFER;
  }
  Activations* scratch = static_cast<Activations*>(args->scratch);
  for (int first = 0; first < args->rows; first += kSweep) {
    const int left = args->rows - first, rows = left < kSweep ? left : kSweep;
    const float* x = args->x + first * args->x_stride;
    if (quantised) {
      quantise_rows(x, args->x_stride, weight->in_features, rows, scratch, kernels());
    }
    const Sweep sweep{weight, scratch, x, args->x_stride, args->y + first * args->y_stride,
                      args->y_stride, args->bias, rows};
    sweep_blocks(&sweep, 1, kernels());
  }
  return PL_OK;
}

}  // extern "C"
