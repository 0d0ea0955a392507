// See poison_int.h.
#include "runtime/emu/poison_int.h"

#include "runtime/emu/memory_int.h"
#include "runtime/emu/mma_int.h"

// ---- operands ----

static bool in_register(const Opd *o) {
    return !o->bank && o->cls >= OPD_16 && o->cls <= OPD_64;
}

static uint32_t of(const Warp *w, const Opd *o) {
    return in_register(o) ? *poison_at(w, o) : 0;
}

// Of all registers that are read as values; of an operand alone, or of a list.
static uint32_t of_operand(const Warp *w, const Opd *o) {
    uint32_t bad = 0;
    if (o->cls != OPD_LIST) return o->writes || o->address ? 0 : of(w, o);
    for (int k = 0; k < o->offset; k++)
        if (!element(w, o, k)->writes) bad |= of(w, element(w, o, k));
    return bad;
}

static uint32_t of_operands(const Warp *w, const Ins *i) {
    uint32_t bad = 0;
    for (int k = 0; k < i->n; k++) bad |= of_operand(w, &i->o[k]);
    return bad;
}

// Does it put values together in a register, of which a part may be used alone?
static bool packs(const Ins *i) {
    const char *name = i->form->name;
    if (i->o[1].cls == OPD_LIST) return !strncmp(name, "mov", 3);
    return (!strncmp(name, "cvt", 3) && strstr(name, "x2.f32")) || !strncmp(name, "prmt", 4);
}

// Such a register is bad where all that it holds is.
static uint32_t of_parts(const Warp *w, const Ins *i) {
    const Opd *list = &i->o[1];
    if (list->cls != OPD_LIST) return of(w, &i->o[1]) & of(w, &i->o[2]);
    uint32_t bad = ALL_LANES;
    for (int k = 0; k < list->offset; k++) bad &= of(w, element(w, list, k));
    return bad;
}

static void set(Warp *w, const Opd *o, uint32_t m, uint32_t bad) {
    if (!in_register(o) || !o->writes) return;
    uint32_t *p = poison_at(w, o);
    p[0] = (p[0] & ~m) | (bad & m);
    if (o->cls == OPD_64) p[1] &= ~m;
}

static void set_all(Warp *w, const Ins *i, uint32_t m, uint32_t bad) {
    for (int k = 0; k < i->n; k++) {
        const Opd *o = &i->o[k];
        if (o->cls != OPD_LIST) set(w, o, m, bad);
        for (int e = 0; o->cls == OPD_LIST && e < o->offset; e++) set(w, element(w, o, e), m, bad);
    }
}

// ---- instructions ----

static bool begins(const Ins *i, const char *text) {
    return !strncmp(i->form->name, text, strlen(text));
}

static Step used(const Warp *w) {
    const Fault *f = &w->mma->queue->fault;
    return f->i ? race_report(f) : NEXT;
}

// The lanes whose addresses get rows of a stmatrix with something bad in them.
static uint32_t rows_of(const Warp *w, const Ins *i) {
    bool transposed = strstr(i->form->name, ".trans");
    uint32_t rows = 0;
    for (int k = 0; k < i->o[1].offset; k++)
        for (uint32_t left = of(w, element(w, &i->o[1], k)); left; left &= left - 1) {
            int l = __builtin_ctz(left);
            rows |= (transposed ? 3u << l % 4 * 2 : 1u << l / 4) << 8 * k;
        }
    return rows;
}

// Is one of the lanes' addresses in a tensor?
static bool in_tensor(const Warp *w, const Opd *o, uint32_t lanes) {
    for (uint32_t left = lanes; left; left &= left - 1) {
        const uint64_t *a = operand(w, o);
        uint64_t at = a[__builtin_ctz(left)] + (uint64_t)(int64_t)o->offset;
        const Region *r = memory_region(w->cta->cluster->grid, at, 1);
        if (r && !r->scratch) return true;
    }
    return false;
}

static Step global(Warp *w, const Ins *i, uint32_t m) {
    uint32_t bad = begins(i, "ld") ? 0 : of_operands(w, i) & m;
    const Opd *to = i->o[0].address ? &i->o[0] : &i->o[1];
    set_all(w, i, m, 0);
    return bad && to->cls == OPD_64 && in_tensor(w, to, bad) ? used(w) : NEXT;
}

static void shared(Warp *w, const Ins *i, uint32_t m) {
    if (begins(i, "stmatrix"))
        w->spoilt = rows_of(w, i);
    else if (!begins(i, "ld"))
        w->spoilt = of_operands(w, i) & m;
    if (w->spoilt) w->cta->spoilt = &w->mma->queue->fault;
    set_all(w, i, m, 0);
}

static void choose(Warp *w, const Ins *i, uint32_t m) {
    uint32_t first = w->pred[i->o[3].at];
    set_all(w, i, m, (of(w, &i->o[1]) & first) | (of(w, &i->o[2]) & ~first));
}

Step poison_step(Warp *w, const Ins *i, uint32_t m) {
    w->spoilt = 0;
    switch (i->form->kind) {
    case KIND_INT:
    case KIND_FLOAT:
    case KIND_MOVE:
        if (begins(i, "selp"))
            choose(w, i, m);
        else
            set_all(w, i, m, packs(i) ? of_parts(w, i) : of_operands(w, i));
        return NEXT;
    case KIND_GLOBAL: return global(w, i, m);
    case KIND_SHARED: shared(w, i, m); return NEXT;
    case KIND_OTHER: set_all(w, i, m, 0); return NEXT;
    case KIND_WARP:
        if (!begins(i, "shfl")) set_all(w, i, m, 0);
        return NEXT;
    case KIND_TENSOR:
        if (!begins(i, "wgmma")) set_all(w, i, m, 0);
        return NEXT;
    default: return NEXT;
    }
}

void poison_shuffle(Warp *w, uint32_t m, const Opd *to, const Opd *a, const uint8_t *from) {
    uint32_t before = of(w, a), bad = 0;
    for (uint32_t left = m; left; left &= left - 1)
        bad |= (before >> from[__builtin_ctz(left)] & 1) << __builtin_ctz(left);
    set(w, to, m, bad);
}

void poison_loaded(Warp *w, const Ins *i, uint32_t m) {
    Fault *f = &w->mma->queue->fault;
    if (!f->i) *f = *w->cta->spoilt;
    if (!begins(i, "ldmatrix")) set_all(w, i, m, w->loaded);
    w->poisoned = true;
    w->loaded = 0;
}

void poison_settle(Warp *w) {
    uint32_t any = 0;
    for (uint32_t k = 0; k < w->func->reg_bytes / (4 * LANES); k++) any |= w->poison[k];
    w->poisoned = any;
    w->spoilt = 0;
}
