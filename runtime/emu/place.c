// Where registers lie.
//
// Virtual registers share places when their lives, as intervals of that order, do not meet: a warp
// of a large kernel then has tens of kilobytes instead of half a megabyte. What wgmma reads or
// writes keeps a place of its own, at the beginning.
#include "runtime/emu/flow_int.h"

// ---- lives ----

typedef void Visit(Flow *w, void *self, uint32_t reg, bool writes, bool sure);

static void each_operand(Flow *w, const Ins *i, const Opd *o, Visit *f, void *self) {
    if (o->cls == OPD_LIST)
        for (int32_t k = 0; k < o->offset; k++)
            each_operand(w, i, &w->p->lists.v[o->at + (uint32_t)k], f, self);
    else if (o->cls == OPD_PRED && o->at >= FIRST_PRED)
        f(w, self, o->at - FIRST_PRED, o->writes, i->pred == PRED_TRUE);
    else if (o->cls >= OPD_16 && o->cls <= OPD_64 && !o->bank)
        f(w, self, o->at, o->writes, i->pred == PRED_TRUE);
}

// All registers of an instruction, those read first.
static void each_register(Flow *w, const Ins *i, Visit *f, void *self) {
    if (i->pred >= FIRST_PRED) f(w, self, i->pred - FIRST_PRED, false, true);
    for (int k = i->n; k--;) each_operand(w, i, &i->o[k], f, self);
}

// What a block reads before it writes it, and what it surely writes.
static void note(Flow *w, void *self, uint32_t reg, bool writes, bool sure) {
    Block *b = self;
    uint64_t bit = (uint64_t)1 << reg % 64;
    (void)w;
    if (!writes && !(b->writes[reg / 64] & bit)) b->reads[reg / 64] |= bit;
    if (writes && sure) b->writes[reg / 64] |= bit;
}

static void live(Flow *w) {
    w->words = (w->p->registers.n + 63) / 64;
    for (uint32_t k = 0; k < w->n_order; k++) {
        Block *b = &w->block[w->order[k]];
        uint64_t *sets = EMU_NEW(w->arena, uint64_t, 4 * w->words);
        b->in = sets, b->out = sets + w->words;
        b->reads = sets + 2 * w->words, b->writes = sets + 3 * w->words;
        for (uint32_t i = b->at; i < b->at_end; i++) each_register(w, &w->code.v[i], note, b);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t k = w->n_order; k--;) {
            Block *b = &w->block[w->order[k]];
            for (uint32_t q = 0; q < b->n_next; q++)
                for (uint32_t i = 0; i < w->words; i++) b->out[i] |= w->block[b->next[q]].in[i];
            for (uint32_t i = 0; i < w->words; i++) {
                uint64_t in = b->reads[i] | (b->out[i] & ~b->writes[i]);
                changed |= in != b->in[i];
                b->in[i] = in;
            }
        }
    }
}

static void lives_at(Flow *w, uint32_t reg, uint32_t at) {
    if (at < w->first[reg]) w->first[reg] = at;
    if (at > w->last[reg]) w->last[reg] = at;
}

static void touch(Flow *w, void *self, uint32_t reg, bool writes, bool sure) {
    (void)writes, (void)sure;
    lives_at(w, reg, *(uint32_t *)self);
}

static void find_lives(Flow *w) {
    uint32_t n = w->p->registers.n;
    w->first = EMU_NEW(w->arena, uint32_t, n);
    w->last = EMU_NEW(w->arena, uint32_t, n);
    for (uint32_t r = 0; r < n; r++) w->first[r] = UINT32_MAX;
    for (uint32_t k = 0; k < w->n_order; k++) {
        Block *b = &w->block[w->order[k]];
        for (uint32_t i = b->at; i < b->at_end; i++) each_register(w, &w->code.v[i], touch, &i);
        for (uint32_t word = 0; word < w->words; word++) {
            for (uint64_t s = b->in[word]; s; s &= s - 1)
                lives_at(w, 64 * word + (uint32_t)__builtin_ctzll(s), b->at);
            for (uint64_t s = b->out[word]; s; s &= s - 1)
                lives_at(w, 64 * word + (uint32_t)__builtin_ctzll(s), b->at_end - 1);
        }
    }
    for (uint32_t r = 0; r < n; r++)
        if (w->first[r] != UINT32_MAX && w->p->registers.v[r].special >= 0) w->first[r] = 0;
}

// ---- places ----

static uint32_t place_bytes(uint8_t cls) {
    return cls == OPD_64 ? 8 * LANES : 4 * LANES;
}

// By class, the places that are free; a stack.
typedef struct Places {
    EMU_VEC(uint32_t) free[OPD_64 + 1];
} Places;

static void place(Flow *w, Places *s, Register *r) {
    Func *f = w->p->f;
    uint8_t cls = r->cls == OPD_16 ? OPD_32 : r->cls;
    if (s->free[cls].n) {
        r->at = s->free[cls].v[--s->free[cls].n];
    } else if (cls == OPD_PRED) {
        r->at = f->n_preds++;
    } else {
        r->at = f->reg_bytes;
        f->reg_bytes += place_bytes(cls);
    }
}

static void allot(Flow *w) {
    Parser *p = w->p;
    Func *f = p->f;
    Places s = {0};
    uint32_t n = p->registers.n, none = UINT32_MAX;
    f->n_preds = FIRST_PRED;
    for (uint32_t r = 0; r < n; r++)
        if (p->registers.v[r].pinned && w->first[r] != none) place(w, &s, &p->registers.v[r]);
    f->pinned_bytes = f->reg_bytes;
    // by instruction, the registers whose life begins or ends there, as lists
    uint32_t *begins = EMU_NEW(w->arena, uint32_t, 2 * w->code.n + 2 * n);
    uint32_t *ends = begins + w->code.n, *next = ends + w->code.n, *next_end = next + n;
    memset(begins, 0xff, sizeof *begins * 2 * w->code.n);
    for (uint32_t r = 0; r < n; r++) {
        if (w->first[r] == none || p->registers.v[r].pinned) continue;
        next[r] = begins[w->first[r]], begins[w->first[r]] = r;
        next_end[r] = ends[w->last[r]], ends[w->last[r]] = r;
    }
    for (uint32_t i = 0; i < w->code.n; i++) {
        for (uint32_t r = begins[i]; r != none; r = next[r]) place(w, &s, &p->registers.v[r]);
        for (uint32_t r = ends[i]; r != none; r = next_end[r]) {
            uint8_t cls = p->registers.v[r].cls == OPD_16 ? OPD_32 : p->registers.v[r].cls;
            EMU_PUSH(w->arena, &s.free[cls], p->registers.v[r].at);
        }
    }
}

static void resolve(Flow *w, Ins *i, Opd *o) {
    const Register *regs = w->p->registers.v;
    if (o->cls == OPD_LIST)
        for (int32_t k = 0; k < o->offset; k++) {
            const Opd *e = &w->p->lists.v[o->at + (uint32_t)k];
            bool reg = !e->bank && e->cls >= OPD_16 && e->cls <= OPD_64;
            i->pinned |= reg && regs[e->at].pinned;
        }
    else if (o->cls == OPD_PRED && o->at >= FIRST_PRED)
        o->at = regs[o->at - FIRST_PRED].at;
    else if (o->cls >= OPD_16 && o->cls <= OPD_64 && !o->bank) {
        i->pinned |= regs[o->at].pinned;
        o->at = regs[o->at].at;
    }
}

static void resolve_all(Flow *w) {
    const Register *regs = w->p->registers.v;
    for (uint32_t k = 0; k < w->code.n; k++) {
        Ins *i = &w->code.v[k];
        if (i->pred >= FIRST_PRED) i->pred = regs[i->pred - FIRST_PRED].at;
        for (int q = 0; q < i->n; q++) resolve(w, i, &i->o[q]);
        if (!strncmp(i->form->name, "wgmma", 5)) i->pinned = false; // it has its own rules
    }
    for (uint32_t k = 0; k < w->p->lists.n; k++) {
        Ins none = {0};
        resolve(w, &none, &w->p->lists.v[k]);
    }
    for (int s = 0; s < SPECIALS; s++) w->p->f->special[s] = -1;
    for (uint32_t r = 0; r < w->p->registers.n; r++)
        if (regs[r].special >= 0 && w->first[r] != UINT32_MAX)
            w->p->f->special[regs[r].special] = (int32_t)regs[r].at;
}

// Dynamic shared memory begins where its declared alignment lets it, and no better aligned.
static void place_dynamic(Parser *p) {
    Func *f = p->f;
    uint32_t align = p->dynamic_align ? p->dynamic_align : 16;
    f->dynamic_at = (f->shared_bytes + align - 1) & ~(align - 1);
    if (align < SHARED_BASE && f->dynamic_at % (2 * align) == 0) f->dynamic_at += align;
    for (uint32_t k = 0; k < p->addresses.n; k++) {
        const BankAddress *a = &p->addresses.v[k];
        uint32_t value = SHARED_BASE + f->dynamic_at;
        for (uint32_t l = 0; a->dynamic && l < LANES; l++)
            memcpy(p->bank.v + a->at + l * (a->wide ? 8 : 4), &value, 4);
    }
}

void emu_place(Flow *w) {
    live(w);
    find_lives(w);
    allot(w);
    resolve_all(w);
    place_dynamic(w->p);
}
