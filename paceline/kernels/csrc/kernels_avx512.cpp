#include "lanes_avx512.h"
#include "sweep.h"

const pl::Kernels pl::kAvx512 = kernels_of<Avx512Lanes>();
