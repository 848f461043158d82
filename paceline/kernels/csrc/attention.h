// Attention of some rows of one request through one key/value head, for any lanes.
//
// A row's keys stand in their logical order: the context, its ancestors in this pass, itself. Keys
// and values of the context are read once for all rows and heads of the task. Each score is summed
// along the head, each output along the keys, one by one; the softmax's sum goes by logical index
// modulo 16. So a row's bits depend on its own path alone.
#pragma once

#include "attend.h"
#include "rows.h"

namespace {

using pl::AttendTask;

template <class V>
struct Attention {
  using F32 = typename V::F32;
  static constexpr int kLanes = 16;
  static constexpr int kTile = kLanes;   // keys of a tile
  static constexpr int kAhead = 2 * kTile;   // slots between a vector's prefetch and its use

  const AttendTask& task;
  const pl::AttendScratch& scratch;

  int queries() const { return (task.last - task.first) * task.heads; }
  const float* query(int q) const {
    return task.query + int64_t(task.first + q / task.heads) * task.query_stride +
           q % task.heads * task.head_size;
  }
  float* out(int q) const {
    return task.out + (task.first + q / task.heads) * task.out_stride +
           q % task.heads * task.head_size;
  }
  float* scores(int q) const { return scratch.scores + q * scratch.scores_stride; }
  int keys_of(int row) const { return task.context + task.depths[row] + 1; }
  // The first key that a row sees.
  int first_of(int row) const {
    const int keys = keys_of(row);
    return task.window && keys > task.window ? keys - task.window : 0;
  }
  // The first tile of the context that any row of the task sees.
  int first_tile() const {
    int first = first_of(task.first);
    for (int row = task.first; row < task.last; ++row) {
      first = first_of(row) < first ? first_of(row) : first;
    }
    return first / kTile * kTile;
  }

  // Vectors in scratch are padded with zeros to whole lanes of any path.
  int padded() const { return pl::padded_size(task.head_size); }

  static PL_INLINE F32 widen(int type, const uint8_t* p) {
    return type == PL_F32 ? V::load((const float*)p) : type == PL_F16 ? V::halves(p) : V::brains(p);
  }

  void read_int8(const uint8_t* from, float scale, float* to) const {
    for (int d = 0; d < task.head_size; ++d) to[d] = float(int8_t(from[d])) * scale;
    for (int d = task.head_size; d < padded(); ++d) to[d] = 0.0f;
  }

  const uint8_t* place(const uint8_t* base, int64_t slot) const {
    return base + (slot * task.slot_stride + task.kv_offset) * pl::kv_bytes(task.kv_type);
  }

  // Prefetches slots first .. last - 1, as far as there are.
  void fetch(const uint8_t* base, const int64_t* slots, int first, int last, int count) const {
    const int bytes = task.head_size * pl::kv_bytes(task.kv_type);
    for (int j = first; j < last && j < count; ++j) {
      const uint8_t* from = place(base, slots[j]);
      for (int i = 0; i < bytes; i += 64) V::fetch(from + i);
    }
  }

  void read_key(int64_t slot, float* to) const { read(task.keys, task.key_scales, slot, to); }
  void read_value(int64_t slot, float* to) const { read(task.values, task.value_scales, slot, to); }

  // One slot's vector as floats.
  void read(const uint8_t* base, const float* scales, int64_t slot, float* to) const {
    if (task.kv_type == PL_I8) {
      return read_int8(place(base, slot), scales[slot * task.kv_heads + task.kv_head], to);
    }
    const int size = pl::float_bytes(task.kv_type), whole = task.head_size / kLanes * kLanes;
    const uint8_t* from = place(base, slot);
    for (int d = 0; d < whole; d += kLanes) V::store(to + d, widen(task.kv_type, from + d * size));
    if (whole == task.head_size) return;
    uint8_t rest[kLanes * 4] = {};
    memcpy(rest, from + whole * size, (task.head_size - whole) * size);
    V::store(to + whole, widen(task.kv_type, rest));
  }

  // tile[D][16] = the keys of `count` slots side by side.
  void read_keys(const int64_t* slots, int count, float* tile) const {
    const int size = padded();
    for (int j = 0; j < count && j < kTile; ++j) {
      fetch(task.keys, slots, j + kAhead, j + kAhead + 1, count);
      read_key(slots[j], scratch.keys + j * size);
    }
    if (count < kTile) {
      memset(scratch.keys + count * size, 0, sizeof(float) * (kTile - count) * size);
    }
    for (int d = 0; d < size; d += kLanes) {
      V::transpose(scratch.keys + d, size, tile + d * kTile);
    }
  }

  template <int Q>
  void score_tile(const float* tile, int q, int column) const {
    F32 sums[Q];
    const float* from[Q];
    unroll<0, Q>([&](auto i) PL_FLAT {
      sums[i] = F32{};
      from[i] = query(q + i);
    });
    for (int d = 0; d < task.head_size; ++d) {
      const F32 key = V::load(tile + d * kTile);
      unroll<0, Q>([&](auto i) PL_FLAT { sums[i] = V::fma(key, V::all(from[i][d]), sums[i]); });
    }
    unroll<0, Q>([&](auto i) PL_FLAT {
      V::store(scores(q + i) + column, V::mul(sums[i], V::all(task.scale)));
    });
  }

  // Scores of every query with keys first .. count - 1, key j in column + j, in tiles of 16.
  void score(const int64_t* slots, int first, int count, int column) const {
    fetch(task.keys, slots, first, first + kAhead, count);
    for (int j = first; j < count; j += kTile) {
      read_keys(slots + j, count - j, scratch.tile);
      each_sized_tile<V::kFloatRows>(queries(), [&](int q, auto size) {
        score_tile<size>(scratch.tile, q, column + j);
      });
    }
  }

  // Moves the scores of a row's own path behind those of the context, and turns all that the row
  // sees into weights e^(score - max), and what the task mixes before them into 0;
  // returns 1 / their sum.
  float soften(int q, int tile) const {
    const int row = task.first + q / task.heads, keys = keys_of(row), first = first_of(row);
    float* s = scores(q);
    const float* own = s + scratch.own_column;
    for (int r = row; r >= 0; r = task.parents[r]) scratch.path[task.depths[r]] = own[r];
    memcpy(s + task.context, scratch.path, sizeof(float) * (task.depths[row] + 1));
    if (task.soft_cap) Rows<V>::soft_cap(s + first, task.soft_cap, keys - first, s + first);
    const float largest = Rows<V>::largest(s + first, keys - first);
    for (int j = first / kLanes * kLanes; j < keys; j += kLanes) {
      const F32 score = V::add(Rows<V>::load_part(s + j, keys - j), V::all(-largest));
      Rows<V>::store_part(s + j, Rows<V>::exp(score), keys - j);
    }
    for (int j = tile < task.context ? tile : task.context; j < first; ++j) s[j] = 0.0f;
    F32 sum = {};
    for (int j = first / kLanes * kLanes; j < keys; j += kLanes) {
      sum = V::add(sum, Rows<V>::load_part(s + j, keys - j));
    }
    return 1.0f / Rows<V>::total(sum);
  }

  // sums[Q][D] += weights[Q][count] . values[count][D]
  template <int Q>
  void mix_tile(const float* values, int count, int q, int column) const {
    const int size = padded();
    const float* weights[Q];
    unroll<0, Q>([&](auto i) PL_FLAT { weights[i] = scores(q + i) + column; });
    float* out = scratch.sums + q * size;
    for (int d = 0; d < size; d += kLanes) {
      F32 sums[Q];
      unroll<0, Q>([&](auto i) PL_FLAT { sums[i] = V::load(out + i * size + d); });
      for (int j = 0; j < count; ++j) {
        const F32 value = V::load(values + j * size + d);
        unroll<0, Q>([&](auto i) PL_FLAT {
          sums[i] = V::fma(value, V::all(weights[i][j]), sums[i]);
        });
      }
      unroll<0, Q>([&](auto i) PL_FLAT { V::store(out + i * size + d, sums[i]); });
    }
  }

  void mix(const float* values, int count, int first, int last, int column) const {
    each_sized_tile<V::kFloatRows>(last - first, [&](int q, auto size) {
      mix_tile<size>(values, count, first + q, column);
    });
  }

  void mix_context(int first) const {
    memset(scratch.sums, 0, sizeof(float) * queries() * padded());
    for (int j = first; j < task.context; j += kTile) {
      const int count = task.context - j < kTile ? task.context - j : kTile;
      for (int k = 0; k < count; ++k) {
        const int ahead = j + k + kAhead;
        fetch(task.values, task.context_slots, ahead, ahead + 1, task.context);
        read_value(task.context_slots[j + k], scratch.tile + k * padded());
      }
      mix(scratch.tile, count, 0, queries(), j);
    }
  }

  // The rows' own paths, by runs of rows that follow one another.
  void mix_paths() const {
    for (int r = 0; r < task.last; ++r) {
      read_value(task.own_slots[r], scratch.own_values + int64_t(r) * padded());
    }
    for (int row = task.first; row < task.last; ++row) {
      const int q = (row - task.first) * task.heads;
      for (int r = row; r >= 0; r = task.parents[r]) scratch.path_rows[task.depths[r]] = r;
      for (int depth = 0, run; depth <= task.depths[row]; depth += run) {
        const int r = scratch.path_rows[depth];
        for (run = 1; depth + run <= task.depths[row]; ++run) {
          if (scratch.path_rows[depth + run] != r + run) break;
        }
        const float* values = scratch.own_values + int64_t(r) * padded();
        mix(values, run, q, q + task.heads, task.context + depth);
      }
    }
  }

  void run() const {
    const int first = first_tile();
    score(task.context_slots, first, task.context, 0);
    score(task.own_slots, 0, task.last, scratch.own_column);
    fetch(task.values, task.context_slots, first, first + kAhead, task.context);
    for (int q = 0; q < queries(); ++q) scratch.inverse_sums[q] = soften(q, first);
    mix_context(first);
    mix_paths();
    for (int q = 0; q < queries(); ++q) {
      const F32 inverse = V::all(scratch.inverse_sums[q]);
      for (int d = 0; d < task.head_size; d += kLanes) {
        const F32 mixed = V::mul(V::load(scratch.sums + q * padded() + d), inverse);
        Rows<V>::store_part(out(q) + d, mixed, task.head_size - d);
      }
    }
  }
};

template <class V>
void attend(const AttendTask& task, const pl::AttendScratch& scratch) {
  Attention<V>{task, scratch}.run();
}

}  // namespace
