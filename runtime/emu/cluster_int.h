// A cluster from its start to its end, and a launch of many.
#ifndef RUNTIME_EMU_CLUSTER_INT_H
#define RUNTIME_EMU_CLUSTER_INT_H

#include "runtime/emu/machine_int.h"

Cluster *cluster_new(Grid *g); // NULL: out of memory
void cluster_free(Cluster *c);
void cluster_start(Cluster *c, uint64_t linear);
// NEXT: it has ended; YIELD: it waits for another one; STOP: a fault.
Step cluster_run(Cluster *c);

fk_status grid_run(Grid *g, uint32_t resident, FkError *error);

#endif
