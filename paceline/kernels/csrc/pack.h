// GGUF rows <-> the packed layout.
#pragma once

#include "layout.h"

namespace pl {

int64_t packed_bytes(int32_t format, int out_features, int in_features);
int64_t source_bytes(int32_t format, int out_features, int in_features);

// Packs the outputs of one block of 16; rows past out_features are zero.
void pack_block(int32_t format, int out_features, int in_features, const uint8_t* source,
                int block, uint8_t* packed);

// One row of a packed matrix as float32.
void unpack_row(const pl_weight& weight, int64_t row, float* values);

}  // namespace pl
