// Writing keys and values to their slots, and attention, cut into tasks.
#include <string.h>

#include <vector>

#include "half.h"
#include "pool.h"
#include "program.h"

namespace pl {
namespace {

void write_vector(const float* from, int count, int type, uint8_t* to) {
  for (int i = 0; i < count; ++i) {
    if (type == PL_F32) {
      memcpy(to + i * 4, from + i, 4);
    } else {
      const uint16_t half = type == PL_F16 ? half_of_float(from[i]) : bf16_of_float(from[i]);
      memcpy(to + i * 2, &half, 2);
    }
  }
}

struct Layer {
  uint8_t *keys, *values;
  int64_t slot_elements;
  int type;
};

Layer layer_of(const pl_op& op, const Run& run) {
  const pl_pass& pass = run.pass;
  const int64_t elements = int64_t(op.kv_heads) * op.head_size;
  const int64_t at = op.layer * pass.slot_count * elements * float_bytes(pass.kv_type);
  return {static_cast<uint8_t*>(pass.keys) + at, static_cast<uint8_t*>(pass.values) + at, elements,
          pass.kv_type};
}

void write_slots(const pl_op& op, const Run& run, const Layer& layer) {
  const int width = int(layer.slot_elements);
  const int64_t bytes = width * float_bytes(layer.type);
  for (int row = 0; row < run.pass.rows; ++row) {
    const int64_t at = run.pass.slots[row] * bytes, from = int64_t(row) * width;
    write_vector(run.source(op, 1).data + from, width, layer.type, layer.keys + at);
    write_vector(run.source(op, 2).data + from, width, layer.type, layer.values + at);
  }
}

// Ancestors of each row within its segment.
std::vector<int32_t> depths_of(const pl_pass& pass) {
  std::vector<int32_t> depths(pass.rows);
  for (int i = 0; i < pass.segment_count; ++i) {
    const pl_segment& segment = pass.segments[i];
    int32_t* own = depths.data() + segment.start;
    for (int row = 0; row < segment.rows; ++row) {
      const int32_t parent = segment.parents[row];
      own[row] = parent < 0 ? 0 : own[parent] + 1;
    }
  }
  return depths;
}

void add_tasks(const pl_op& op, const Run& run, const Layer& layer, const pl_segment& segment,
               const int32_t* depths, std::vector<AttendTask>& tasks) {
  const int heads = op.heads / op.kv_heads;
  const int step = heads < kQueries ? kQueries / heads : 1;
  const int64_t width = int64_t(op.heads) * op.head_size, from = segment.start * width;
  for (int head = 0; head < op.kv_heads; ++head) {
    const int64_t column = int64_t(head) * heads * op.head_size;
    for (int first = 0; first < segment.rows; first += step) {
      const int last = first + step < segment.rows ? first + step : segment.rows;
      tasks.push_back(AttendTask{
          run.source(op, 0).data + from + column, width, run.out(op).data + from + column, width,
          layer.keys, layer.values, layer.slot_elements, int64_t(head) * op.head_size,
          segment.context_slots, run.pass.slots + segment.start, segment.parents,
          depths + segment.start, int(segment.context), first, last, heads, op.head_size,
          layer.type, op.window, op.scale, op.soft_cap});
    }
  }
}

}  // namespace

void run_attend(const pl_op& op, Run& run) {
  const Layer layer = layer_of(op, run);
  write_slots(op, run, layer);
  const std::vector<int32_t> depths = depths_of(run.pass);
  std::vector<AttendTask> tasks;
  for (int i = 0; i < run.pass.segment_count; ++i) {
    add_tasks(op, run, layer, run.pass.segments[i], depths.data(), tasks);
  }
  parallel_for(int(tasks.size()), [&](int i) {
    const AttendScratch* scratch = attend_scratch(tasks[i]);
    if (scratch) run.kernels.attend(tasks[i], *scratch);
    else run.out_of_memory = true;
  });
}

}  // namespace pl
