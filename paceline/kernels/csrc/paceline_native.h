// The C ABI of Paceline's native kernels. Every function is safe to load through ctypes: no
// exception and no C++ type crosses it. Callers validate shapes (kernels/native.py); the checks
// here are a second line and answer with a PL_* code.
#pragma once

#include <stdint.h>

#define PL_ABI 2

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

enum pl_status {
  PL_OK = 0, PL_BAD_ARGUMENT = 1, PL_BAD_SHAPE = 2, PL_SHORT_BUFFER = 3, PL_NO_PATH = 4,
  PL_NO_MEMORY = 5
};

// Instruction-set paths, slowest first. All give the same bits.
enum pl_path { PL_PORTABLE = 0, PL_AVX2 = 1, PL_AVXVNNI = 2, PL_AVX512 = 3, PL_PATHS = 4 };

// Weight formats carry GGUF's own type numbers.
enum pl_format {
  PL_F32 = 0, PL_F16 = 1, PL_Q4_0 = 2, PL_Q4_1 = 3, PL_Q5_0 = 6, PL_Q5_1 = 7, PL_Q8_0 = 8,
  PL_Q4_K = 12, PL_Q5_K = 13, PL_Q6_K = 14, PL_BF16 = 30
};

// A packed matrix [out_features, in_features]; `data` is 64-byte aligned and owned by the caller.
typedef struct {
  int32_t format, out_features, in_features, reserved;
  const uint8_t* data;
  int64_t bytes;
} pl_weight;

int32_t pl_abi(void);

// Whether this build holds the path and this CPU runs it.
int32_t pl_has_path(int32_t path);
int32_t pl_path(void);
int32_t pl_set_path(int32_t path);

// Threads that share an operation, the caller included.
int32_t pl_threads(void);
int32_t pl_set_threads(int32_t threads);

// Bytes of a packed matrix and of the GGUF rows it is made from; -1 for a shape the format lacks.
int64_t pl_packed_bytes(int32_t format, int32_t out_features, int32_t in_features);
int64_t pl_source_bytes(int32_t format, int32_t out_features, int32_t in_features);

int32_t pl_pack(int32_t format, int32_t out_features, int32_t in_features, const uint8_t* source,
                int64_t source_bytes, uint8_t* packed, int64_t packed_bytes);

// rows[n, in_features] float32 of the packed matrix, exactly as GGUF defines their values.
int32_t pl_rows(const pl_weight* weight, const int64_t* ids, int32_t n, float* rows);

// Bytes of the scratch that `pl_linear` needs for that many rows.
int64_t pl_scratch_bytes(int32_t in_features, int32_t rows);

// y[rows, out] = x[rows, in] . weight^T + bias; strides in elements, bias may be null.
typedef struct {
  const float* x;
  int64_t x_stride;
  float* y;
  int64_t y_stride;
  const float* bias;
  int32_t rows, reserved;
  void* scratch;
  int64_t scratch_bytes;
} pl_linear_args;
int32_t pl_linear(const pl_weight* weight, const pl_linear_args* args);

// A model's pass, kernels/ops.py in C. Registers hold float32 rows, dense.
enum pl_op_kind {
  PL_EMBED, PL_RMS_NORM, PL_LINEAR, PL_ROTATION, PL_ROPE, PL_ATTEND, PL_SILU_MUL, PL_ADD,
  PL_LAYER_END, PL_LOGIT_ROWS, PL_EMBED_POSITION, PL_LAYER_NORM, PL_GELU_MUL, PL_GELU, PL_SOFT_CAP
};

typedef struct {
  int32_t kind, out, sources[3];   // registers; -1 for none
  int32_t per_logit_row;           // whether its rows are the logit rows
  int32_t layer, heads, kv_heads, head_size;
  int32_t window;                  // keys that a row sees, the last of its path; 0 for all
  float eps;
  float scale;                     // of embeddings or scores
  float soft_cap;                  // 0 for none
  const float* vector;             // scale, bias or frequencies
  const float* shift;              // bias of a LayerNorm
  const pl_weight* weight;
} pl_op;

typedef struct {
  float* data;
  int64_t width;
} pl_register;

// One request's rows: rows start .. start + rows - 1 of the pass.
typedef struct {
  int32_t start, rows;
  const int64_t* context_slots;
  int64_t context;
  const int32_t* parents;          // [rows], each below its row's index, -1 for none
} pl_segment;

typedef struct {
  const int64_t *ids, *positions, *slots, *logit_rows;
  int32_t rows, logit_row_count;
  const pl_segment* segments;
  int32_t segment_count;
  int32_t kv_type;                 // PL_F32, PL_F16 or PL_BF16
  void *keys, *values;             // [layers, slots, kv heads, head_size]
  int64_t slot_count;
  float* const* hidden;            // per layer [rows, width], or null where not wanted
  void* scratch;                   // pl_scratch_bytes of the widest quantised source
  int64_t scratch_bytes;
} pl_pass;

// Runs the whole list; the caller has checked every register, slot, id and parent.
int32_t pl_run(const pl_op* ops, int32_t count, const pl_register* registers, const pl_pass* pass);

// Reads `data` once with all threads; runs so many rounds of the inner loop on each thread, and
// returns the multiply-adds that this made.
int32_t pl_read_all(const uint8_t* data, int64_t bytes);
int64_t pl_multiply(int64_t rounds);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
