// GGUF's quantised blocks (ggml's block_q4_0 .. block_q6_K), taken apart into codes and scales.
#pragma once

#include "layout.h"

namespace pl {

// Up to 256 inputs of one row. Which fields count depends on the format's Scales.
struct Unpacked {
  uint8_t codes[kSuper];
  uint8_t scales[16];
  uint8_t minima[8];
  uint16_t d[kGroups], m[kGroups];   // fp16; index 0 alone for super-block formats
};

// Reads the units (GGUF blocks) of one super-block of one row.
void read_super(const Format& format, const uint8_t* units, int groups, Unpacked& out);

// The float32 values GGUF gives these codes.
void super_values(const Format& format, const Unpacked& in, int groups, float* values);

}  // namespace pl
