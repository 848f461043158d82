#include "attend.h"

#include <stdlib.h>

namespace pl {
namespace {

constexpr size_t round_up(size_t n) { return (n + 15) / 16 * 16; }

// Grows and is kept, one a thread.
struct Memory {
  float* floats = nullptr;
  size_t count = 0;
  AttendScratch cut;

  ~Memory() { free(floats); }

  bool hold(size_t wanted) {
    if (wanted <= count) return true;
    free(floats);
    count = 0;
    void* memory = nullptr;
    if (posix_memalign(&memory, 64, wanted * sizeof(float))) memory = nullptr;
    floats = static_cast<float*>(memory);
    if (floats) count = wanted;
    return floats;
  }
};

}  // namespace

const AttendScratch* attend_scratch(const AttendTask& task) {
  static thread_local Memory memory;
  const size_t queries = size_t(task.last - task.first) * task.heads, rows = task.last;
  const size_t own_column = round_up(task.context + rows);
  const size_t stride = own_column + round_up(rows), size = padded_size(task.head_size);
  const size_t sizes[] = {queries * stride,   queries * size, round_up(queries),
                          rows * size,        16 * size,      16 * size,
                          round_up(rows),     round_up(rows)};
  size_t total = 0;
  for (const size_t part : sizes) total += part;
  if (!memory.hold(total)) return nullptr;
  float* parts[8];
  float* at = memory.floats;
  for (int i = 0; i < 8; ++i) {
    parts[i] = at;
    at += sizes[i];
  }
  memory.cut = AttendScratch{parts[0], int64_t(stride), int(own_column), parts[1],
                             parts[2], parts[3],        parts[4],        parts[5],
                             parts[6], reinterpret_cast<int32_t*>(parts[7])};
  return &memory.cut;
}

}  // namespace pl
