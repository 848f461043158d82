#include "lanes_avxvnni.h"
#include "sweep.h"

const pl::Kernels pl::kAvxVnni = kernels_of<AvxVnniLanes>();
