#include "lanes_avx512.h"
#include "sweep.h"

const pl::Kernels pl::kAvx512{quantise, linear<Avx512Lanes>};
