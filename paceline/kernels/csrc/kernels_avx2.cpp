#include "lanes_avx2.h"
#include "sweep.h"

const pl::Kernels pl::kAvx2 = kernels_of<Avx2Lanes>();
