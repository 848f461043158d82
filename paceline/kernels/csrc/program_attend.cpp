// Writing keys and values to their slots, and attention, cut into tasks.
#include <math.h>
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

// x = scale * q, q in -127 .. 127, rounded to nearest even; returns the scale.
float write_int8(const float* from, int count, uint8_t* to) {
  float largest = 0.0f;
  for (int i = 0; i < count; ++i) largest = fabsf(from[i]) > largest ? fabsf(from[i]) : largest;
  const float scale = largest / 127.0f, divisor = scale > 1e-30f ? scale : 1e-30f;
  for (int i = 0; i < count; ++i) to[i] = uint8_t(int8_t(nearbyintf(from[i] / divisor)));
  return scale;
}

// The keys or the values of a layer.
struct Cache {
  uint8_t* data;
  float* scales;
};

struct Layer {
  Cache keys, values;
  int kv_heads, head_size, type;
  int slot_elements() const { return kv_heads * head_size; }
};

Layer layer_of(const pl_op& op, const Run& run) {
  const pl_pass& pass = run.pass;
  const int64_t vectors = op.layer * pass.slot_count * op.kv_heads;
  const int64_t at = vectors * op.head_size * kv_bytes(pass.kv_type);
  const auto cache = [&](void* data, float* scales) {
    return Cache{static_cast<uint8_t*>(data) + at, scales ? scales + vectors : nullptr};
  };
  return {cache(pass.keys, pass.key_scales), cache(pass.values, pass.value_scales), op.kv_heads,
          op.head_size, pass.kv_type};
}

void write_slot(const Layer& layer, const Cache& cache, const float* from, int64_t slot) {
  uint8_t* to = cache.data + slot * layer.slot_elements() * kv_bytes(layer.type);
  if (layer.type != PL_I8) return write_vector(from, layer.slot_elements(), layer.type, to);
  for (int head = 0; head < layer.kv_heads; ++head) {
    const int at = head * layer.head_size;
    cache.scales[slot * layer.kv_heads + head] = write_int8(from + at, layer.head_size, to + at);
  }
}

void write_slots(const pl_op& op, const Run& run, const Layer& layer) {
  for (int row = 0; row < run.pass.rows; ++row) {
    const int64_t from = int64_t(row) * layer.slot_elements();
    write_slot(layer, layer.keys, run.source(op, 1).data + from, run.pass.slots[row]);
    write_slot(layer, layer.values, run.source(op, 2).data + from, run.pass.slots[row]);
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
          layer.keys.data, layer.values.data, layer.keys.scales, layer.values.scales,
          layer.slot_elements(), int64_t(head) * op.head_size, op.kv_heads, head,
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
