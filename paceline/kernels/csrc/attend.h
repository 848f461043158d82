// One piece of attention: some rows of one request through one key/value head.
#pragma once

#include "layout.h"

namespace pl {

struct AttendTask {
  const float* query;       // [rows, heads, D] of this kv head, from the segment's first row on
  int64_t query_stride;
  float* out;
  int64_t out_stride;
  const uint8_t* keys;      // of the layer, [slots, kv heads, D] in kv_type
  const uint8_t* values;
  const float *key_scales, *value_scales;   // of the layer, [slots, kv heads], for int8
  int64_t slot_stride;      // elements from slot to slot
  int64_t kv_offset;        // elements from a slot's start to this head
  int kv_heads, kv_head;
  const int64_t* context_slots;
  const int64_t* own_slots;   // [rows of the segment]
  const int32_t* parents;     // [rows]: index of the parent row, -1 for none
  const int32_t* depths;      // [rows]: ancestors in the segment
  int context, first, last;   // the task's rows: first .. last - 1
  int heads, head_size, kv_type;
  int window;                 // keys that a row sees; 0 for all
  float scale, soft_cap;      // no cap at 0
};

inline int kv_bytes(int type) { return type == PL_I8 ? 1 : float_bytes(type); }

constexpr int kQueries = 64;   // query vectors of a task, where one row has no more heads

inline int padded_size(int head_size) { return (head_size + 15) / 16 * 16; }

// A thread's own memory for the largest task of a pass.
struct AttendScratch {
  float* scores;          // [queries][scores_stride]: the path's scores, then those of own rows
  int64_t scores_stride;
  int own_column;
  float* sums;            // [queries][padded D]
  float* inverse_sums;    // [queries]
  float* own_values;      // [rows][padded D]
  float* tile;            // [16][padded D] or [padded D][16]
  float* keys;            // [16][padded D]
  float* path;            // [rows]
  int32_t* path_rows;     // [rows]
};

// Memory of this thread, cut for such a task; null where there is none left.
const AttendScratch* attend_scratch(const AttendTask& task);

}  // namespace pl
