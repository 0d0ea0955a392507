/* schedule_why.c - why a program that multiplies matrices has the general kernel alone: what
 * refused the tensor-core kernels, as ir/online.h and ir/mma.h say it. */
#include "ir/online.h"
#include "passes/schedule_int.h"

/* In guards, too. */
static const TInst *first_loop(const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) {
        const TInst *i = b->inst.v[k], *in = i->kind == T_LOOP ? i : first_loop(&i->body);
        if (in) return in;
    }
    return NULL;
}

static const TInst *made_by(const TBlock *b, int id) {
    for (int k = 0; k < b->inst.n; k++)
        if (b->inst.v[k]->id == id) return b->inst.v[k];
    return NULL;
}

/* Does it multiply two loads? */
static bool multiplies(const TInst *loop) {
    for (int k = 0; k < loop->body.inst.n; k++) {
        const TInst *i = loop->body.inst.v[k];
        bool product = i->kind == T_OP && i->op == OP_mul;
        for (int a = 0; a < i->nargs && product; a++) {
            const TInst *x = made_by(&loop->body, i->args[a]);
            product = x && x->kind == T_LOAD;
        }
        if (product) return true;
    }
    return false;
}

/* Are the two loops one over k, in blocks? */
static bool of_strips(const TProg *t) {
    MmaStrips strips;
    Str why = {0};
    bool is = !mma_strips(t, &strips, &why) || strips.loop;
    str_free(&why);
    return is;
}

const char *schedule_why(const PassCtx *cx, const Step *step) {
    const TInst *loop = first_loop(&step->tile->body),
                *inner = loop ? first_loop(&loop->body) : NULL;
    bool sync = !(cx->target->has & TGT_W);
    if ((sync && !(cx->target->has & TGT_M)) || !loop || !multiplies(inner ? inner : loop))
        return NULL;
    if (cx->strict) return "--strict";
    Arena a = {0};
    Online o;
    Mma m;
    Str why = {0};
    if (inner && of_strips(step->tile)) inner = NULL;
    if (inner) schedule_with_group(step->tile, &why);
    bool is = false;
    if (!why.n)
        is = inner ? online_find(&a, step->tile, &o, &why) : mma_find(step->tile, -1, -1, &m, &why);
    if (is && sync && !inner && m.size == 1)
        str_add(&why, "fp8 is for wgmma");
    else if (is && sync && !inner && (m.a.made || m.b.made))
        str_add(&why, m.a.made && *m.a.why   ? m.a.why
                      : m.b.made && *m.b.why ? m.b.why
                                             : "factors are made for wgmma alone");
    else if (is && !(inner && sync && !online_copies(&o, &why)))
        str_add(&why, "no tile fits");
    const char *said = arena_strdup(cx->arena, str_get(&why));
    str_free(&why);
    arena_free(&a);
    return said;
}
