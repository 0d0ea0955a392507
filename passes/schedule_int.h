/* schedule_int.h - the makers of schedules, one a tier; schedule.c asks them in turn. */
#ifndef FK_PASSES_SCHEDULE_INT_H
#define FK_PASSES_SCHEDULE_INT_H

#include "passes/passes.h"

void schedule_wgmma(PassCtx *cx, Step *step);

#endif
