#include "lanes_avx2.h"
#include "sweep.h"

const pl::Kernels pl::kAvx2{quantise, linear<Avx2Lanes>};
