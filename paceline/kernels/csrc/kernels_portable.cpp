#include "lanes_portable.h"
#include "sweep.h"

const pl::Kernels pl::kPortable = kernels_of<PortableLanes>();
