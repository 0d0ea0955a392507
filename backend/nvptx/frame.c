/* frame.c - see frame_int.h. */
#include "backend/nvptx/frame_int.h"

#include "backend/nvptx/approx_int.h"

Val frame_usable(Lower *l, const TCarry *frame, Val v) {
    Val none = LLVMBuildFCmp(l->b, LLVMRealOEQ, v, identity(l, frame->red, DT_f32), "");
    return LLVMBuildSelect(l->b, none, const_real(l, 0), v, "");
}

Val frame_factor(Lower *l, const TCarry *c, int n, Val from, Val to, int r) {
    const Poly itself = {.base = 0, .c = {0, 1}};
    enum { DEEP = 64 };
    DType real[8] = {DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f32, DT_f32};
    Val stack[DEEP + 1];
    int top = 0;
    for (int i = 0; i < n; i++) {
        const TFactor *f = &c->rescale.v[i];
        FK_ASSERT(top < DEEP);
        if (f->kind == TF_OP) {
            top -= op_arity(f->op);
            FK_ASSERT(top >= 0);
            bool fast = op_arity(f->op) == 1 && fast_has(f->op, APPROX_FINE);
            stack[top] = fast ? fast_emit(l, f->op, APPROX_FINE, &itself, stack[top])
                              : op_emit(l, f->op, DT_f32, real, stack + top);
        } else if (f->kind == TF_VALUE) {
            Frag v = value_of(l, f->value);
            stack[top] = type_widen(l, l->type[f->value], DT_f32, v.v[v.n > 1 ? r : 0]);
        } else {
            stack[top] = f->kind == TF_OLD ? from : f->kind == TF_NEW ? to : const_real(l, f->num);
        }
        top++;
    }
    FK_ASSERT(top == 1);
    return stack[0];
}

Val frame_rescale(Lower *l, const TCarry *c, const TCarry *frame, Val from, Val to, int r) {
    /* A frame that did not move leaves the state alone; one that nothing has moved yet, too: what
     * is in it is 0 or NaN. */
    Val same = LLVMBuildFCmp(l->b, LLVMRealOEQ, from, to, "");
    Val none = identity(l, frame->red, DT_f32);
    same = LLVMBuildOr(l->b, same, LLVMBuildFCmp(l->b, LLVMRealOEQ, from, none, ""), "");
    Val by = frame_factor(l, c, c->rescale.n, from, to, r);
    return LLVMBuildSelect(l->b, same, const_real(l, 1), by, "");
}
