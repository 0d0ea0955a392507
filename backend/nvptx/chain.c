/* chain.c - kernels of one plan, one after the other (programmatic dependent launch).
 *
 * A kernel that another one of its plan comes before may be put on the chip while that still runs.
 * It does what needs no memory, then all its threads wait for the end of those before it; from then
 * on it is as if it had begun now, so it may write over what they read, and its own end says that
 * they have ended, too. Having waited, it lets the next one come. Nothing is lost where nothing was
 * launched so: then the wait is over at once.
 */
#include "backend/nvptx/ptx_int.h"
#include "ir/target.h"

static int index_of(const Lower *l) {
    for (int i = 0; i < l->plan->steps.n; i++)
        if (l->plan->steps.v[i].tile == l->step) return i;
    return -1;
}

/* The instructions exist from sm_90 on. */
void chain_here(Lower *l, Kernel *k, LLVMBuilderRef b) {
    int at = l->plan ? index_of(l) : -1;
    if (at < 0 || !(l->o->target->has & TGT_W)) return;
    k->waits = at > 0 || k->launches > 1;
    if (k->waits) ptx_grid_wait(l, b);
    if (at + 1 < l->plan->steps.n || k->launches > 1) ptx_grid_go(l, b);
}
