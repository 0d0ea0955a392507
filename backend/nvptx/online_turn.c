/* online_turn.c - groups that take turns at issuing: named barriers TURN + g; group g waits on its
 * own (its 128 threads and 128 arrivals of the group before), and after its issue arrives on the
 * next one's. The last group arrives once at the start, so group 0 is first.
 */
#include "backend/nvptx/online_int.h"

enum { TURN = 6, TURN_THREADS = 256 };

void on_turn_wait(On *on) {
    Lower *l = on->l;
    ptx_bar_sync(l, LLVMBuildAdd(l->b, on->w.group, i32c(l, TURN), ""), TURN_THREADS);
}

void on_turn_pass(On *on) {
    Lower *l = on->l;
    Val next = LLVMBuildAdd(l->b, on->w.group, i32c(l, 1), "");
    Val wraps = LLVMBuildICmp(l->b, LLVMIntEQ, next, i32c(l, on->t.out.groups), "");
    next = LLVMBuildSelect(l->b, wraps, i32c(l, 0), next, "");
    ptx_bar_arrive(l, LLVMBuildAdd(l->b, next, i32c(l, TURN), ""), TURN_THREADS);
}

void on_first_turn(On *on) {
    Lower *l = on->l;
    LLVMBasicBlockRef last = block_new(l, "last"), after = block_new(l, "turns");
    Val is = LLVMBuildICmp(l->b, LLVMIntEQ, on->w.group, i32c(l, on->t.out.groups - 1), "");
    LLVMBuildCondBr(l->b, is, last, after);
    block_enter(l, last);
    on_turn_pass(on);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}
