// Branches, ends, and what crosses lanes: shuffles, votes, elections.
#include "runtime/emu/ops_int.h"
#include "runtime/emu/order_int.h"
#include "runtime/emu/poison_int.h"

RUN(bra) {
    if (m == w->mask)
        w->pc = i->target;
    else
        warp_branch(w, m, i->target);
    return JUMP;
}

RUN(ret) {
    (void)i;
    warp_end(w, m);
    return JUMP;
}

RUN(trap) {
    return report(w, i, __builtin_ctz(m), REPORT_TRAP, "executed");
}

// ---- who takes part ----

// The lanes that a membermask names must be those that execute the instruction together.
static Step members(Warp *w, const Ins *i, uint32_t m, const Opd *o, uint32_t *mask) {
    const uint32_t *named = operand(w, o);
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        *mask = named[l] & w->live;
        if (!(named[l] >> l & 1) || *mask & ~m)
            return report(w, i, l, REPORT_PARTIAL,
                          "the membermask is 0x%08x, and lanes 0x%08x execute it", named[l], m);
    }
    return NEXT;
}

RUN(bar_warp) {
    uint32_t mask = 0;
    Step s = members(w, i, m, &i->o[0], &mask);
    if (mask & (mask - 1)) order_together(w);
    return s;
}

// ---- shuffles: arg 0 up, 1 down, 2 bfly, 3 idx ----

enum { SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_BFLY, SHUFFLE_IDX };

static Step shuffle(Warp *w, const Ins *i, uint32_t m, int first, uint32_t *inside) {
    uint32_t *d = LANES_OF(u32, 0), mask, out[LANES];
    uint8_t whose[LANES] = {0};
    const uint32_t *a = LANES_OF(u32, first), *b = LANES_OF(u32, first + 1),
                   *c = LANES_OF(u32, first + 2);
    Step s = members(w, i, m, &i->o[first + 3], &mask);
    *inside = 0;
    if (s == STOP) return s;
    for (uint32_t left = m; left; left &= left - 1) {
        uint32_t l = (uint32_t)__builtin_ctz(left), by = b[l] & 31;
        uint32_t segment = c[l] >> 8 & 31, clamp = c[l] & 31;
        uint32_t most = (l & segment) | (clamp & ~segment), least = l & segment, from;
        bool in;
        switch (i->form->arg) {
        case SHUFFLE_UP: from = l - by, in = (int32_t)from >= (int32_t)most; break;
        case SHUFFLE_DOWN: from = l + by, in = from <= most; break;
        case SHUFFLE_BFLY: from = l ^ by, in = from <= most; break;
        default: from = least | (by & ~segment), in = from <= most;
        }
        if (!in) from = l;
        if (!(m >> from & 1)) {
            s = report(w, i, (int)l, REPORT_SHUFFLE, "reads lane %u, which does not execute it",
                       from);
            if (s == STOP) return s;
        }
        *inside |= (uint32_t)in << l;
        out[l] = a[from];
        whose[l] = (uint8_t)from;
    }
    if (w->poisoned) poison_shuffle(w, m, &i->o[0], &i->o[first], whose);
    EACH(m, d[l] = out[l]);
    return NEXT;
}

RUN(shfl) {
    uint32_t inside;
    return shuffle(w, i, m, 1, &inside);
}

RUN(shfl_pred) {
    uint32_t inside;
    Step s = shuffle(w, i, m, 2, &inside);
    uint32_t *p = &w->pred[i->o[1].at];
    if (s != STOP) *p = (*p & ~m) | (inside & m);
    return s;
}

// ---- votes ----

enum { VOTE_ALL, VOTE_ANY, VOTE_UNI };

static Step vote(Warp *w, const Ins *i, uint32_t m, uint32_t *yes) {
    uint32_t mask;
    Step s = members(w, i, m, &i->o[2], &mask);
    *yes = w->pred[i->o[1].at] & m;
    return s;
}

RUN(vote_pred) {
    uint32_t yes, *p = &w->pred[i->o[0].at];
    Step s = vote(w, i, m, &yes);
    bool v = i->form->arg == VOTE_ALL   ? yes == m
             : i->form->arg == VOTE_ANY ? yes != 0
                                        : yes == m || !yes;
    if (s != STOP) *p = (*p & ~m) | (v ? m : 0);
    return s;
}

RUN(vote_ballot) {
    uint32_t yes, *d = LANES_OF(u32, 0);
    Step s = vote(w, i, m, &yes);
    if (s != STOP) EACH(m, d[l] = yes);
    return s;
}

RUN(activemask) {
    uint32_t *d = LANES_OF(u32, 0);
    EACH(m, d[l] = m);
    return NEXT;
}

// Any one lane: which, the seed says.
RUN(elect) {
    uint32_t mask, *d = i->o[0].cls ? LANES_OF(u32, 0) : NULL, *p = &w->pred[i->o[1].at];
    Step s = members(w, i, m, &i->o[2], &mask);
    uint32_t chosen = (uint32_t)__builtin_ctz(m);
    if (s == STOP) return s;
    if (d) EACH(m, d[l] = chosen);
    *p = (*p & ~m) | 1u << chosen;
    return NEXT;
}

// ---- matches: which lanes hold what this one does; do all of them? ----

static Step match(Warp *w, const Ins *i, uint32_t m, int first, uint64_t *v) {
    uint32_t mask;
    const Opd *a = &i->o[first];
    if (a->cls == OPD_64)
        EACH(m, v[l] = ((const uint64_t *)operand(w, a))[l]);
    else
        EACH(m, v[l] = ((const uint32_t *)operand(w, a))[l]);
    return members(w, i, m, &i->o[first + 1], &mask);
}

RUN(match_any) {
    uint64_t v[LANES];
    uint32_t *d = LANES_OF(u32, 0);
    if (match(w, i, m, 1, v) == STOP) return STOP;
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        uint32_t same = 0;
        for (uint32_t others = m; others; others &= others - 1)
            same |= (uint32_t)(v[__builtin_ctz(others)] == v[l]) << __builtin_ctz(others);
        d[l] = same;
    }
    return NEXT;
}

// arg: 1 with a predicate
RUN(match_all) {
    uint64_t v[LANES];
    uint32_t *d = LANES_OF(u32, 0);
    bool all = true;
    if (match(w, i, m, i->form->arg ? 2 : 1, v) == STOP) return STOP;
    for (uint32_t left = m; left; left &= left - 1)
        all &= v[__builtin_ctz(left)] == v[__builtin_ctz(m)];
    EACH(m, d[l] = all ? m : 0);
    uint32_t *p = i->form->arg ? &w->pred[i->o[1].at] : NULL;
    if (p) *p = (*p & ~m) | (all ? m : 0);
    return NEXT;
}

// ---- reductions over the warp: min, max of unsigned and signed, sum, and, or, xor ----

enum { RED_MIN_U, RED_MAX_U, RED_MIN_S, RED_MAX_S, RED_ADD, RED_AND, RED_OR, RED_XOR };

static uint32_t combine(uint32_t op, uint32_t a, uint32_t b) {
    switch (op) {
    case RED_MIN_U: return a < b ? a : b;
    case RED_MAX_U: return a > b ? a : b;
    case RED_MIN_S: return (int32_t)a < (int32_t)b ? a : b;
    case RED_MAX_S: return (int32_t)a > (int32_t)b ? a : b;
    case RED_ADD: return a + b;
    case RED_AND: return a & b;
    case RED_OR: return a | b;
    default: return a ^ b;
    }
}

RUN(redux) {
    uint32_t mask, *d = LANES_OF(u32, 0);
    const uint32_t *a = LANES_OF(u32, 1);
    Step s = members(w, i, m, &i->o[2], &mask);
    uint32_t first = (uint32_t)__builtin_ctz(m), v = a[first];
    if (s == STOP) return s;
    for (uint32_t left = m & (m - 1); left; left &= left - 1)
        v = combine(i->form->arg, v, a[__builtin_ctz(left)]);
    EACH(m, d[l] = v);
    return NEXT;
}
