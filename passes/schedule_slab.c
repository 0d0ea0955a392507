/* schedule_slab.c - slabs of shared memory for what follows the loop of a wgmma schedule: for which
 * stores and loads, how wide, how many (ir/schedule.h says what such entries mean).
 *
 * Stores alone have two slabs a group, which its threads write and copy themselves. Where matrices
 * are loaded too, a role of its own copies, and several slabs are wanted: while one is worked on
 * the next ones are on their way, about a thousand cycles each. With ping-pong two will do: the
 * other group multiplies meanwhile.
 */
#include "passes/cost_int.h"
#include "passes/schedule_int.h"

static int size_of(const TProg *t, const TInst *i) {
    return dtype_bits(t->tensors.v[i->tensor].type) / 8;
}

static int value_of(const TInst *i) {
    return i->kind == T_LOAD ? i->id : i->args[0];
}

typedef struct Wishes {
    VEC(const TInst *) list;
    int size, least; /* of an element: all stores; the smallest of all */
    double work;     /* of an element, after the loop */
} Wishes;

static void wish(Arena *a, const SlabShape *x, const TInst *i, Wishes *w) {
    int n = 0, size = size_of(x->t, i);
    for (int k = 0; k < w->list.n; k++) n += w->list.v[k]->kind == i->kind;
    if (n == MMA_STAGED) return;
    vec_push(a, &w->list, i);
    if (!w->least || size < w->least) w->least = size;
}

/* Stores of products that have tiles of their own share their places. */
static void find_size(Arena *a, const SlabShape *x, Wishes *w) {
    unsigned *of = ARENA_ARRAY(a, unsigned, x->t->body.inst.n);
    Str why = {0};
    bool apart = x->grouped && mma_apart(x->m, of, &why);
    str_free(&why);
    for (int p = 0; p < (apart ? x->m->sums : 1); p++) {
        int size = 0;
        for (int i = 0; i < w->list.n; i++) {
            const TInst *s = w->list.v[i];
            bool is = s->kind == T_STORE && !apart;
            for (int k = 0; k < x->t->body.inst.n && apart; k++)
                is |= x->t->body.inst.v[k] == s && s->kind == T_STORE && (of[k] >> p & 1);
            if (is) size += size_of(x->t, s);
        }
        if (size > w->size) w->size = size;
    }
}

static Wishes find(Arena *a, const SlabShape *x, bool loads) {
    Wishes w = {0};
    for (int k = 0; k < x->t->body.inst.n; k++) {
        const TInst *i = x->t->body.inst.v[k];
        if (i->kind == T_OP) w.work += cost_op(i->op);
        if (i->kind == T_STORE && mma_can_stage(x->t, x->m, i)) wish(a, x, i, &w);
        if (loads && i->kind == T_LOAD && mma_can_bring(x->t, x->m, i)) wish(a, x, i, &w);
    }
    find_size(a, x, &w);
    if (x->grouped) w.work /= x->m->sums; /* of each about as much */
    return w;
}

/* One entry for each value. */
static void enter(Arena *a, const SlabShape *x, const Wishes *w, int cols, int buffers, int slabs,
                  Schedule *s) {
    for (int i = 0; i < w->list.n; i++) {
        int value = value_of(w->list.v[i]), bytes = cols * size_of(x->t, w->list.v[i]);
        SValue v = {.value = value,
                    .place = PLACE_smem,
                    .buffers = buffers,
                    .swizzle = bytes < 128 ? bytes : 128,
                    .slabs = slabs};
        bool again = false;
        for (int k = 0; k < i; k++) again |= value_of(w->list.v[k]) == value;
        if (!again) vec_push(a, &s->values, v);
    }
}

/* Columns, as far as registers reach to hold them and, for long code, to have less of it. */
static int widest(const SlabShape *x, const Wishes *w) {
    int cols = x->rows == 64 && w->size <= 2 ? 64 : 32;
    if (w->work > 40) cols = w->size == 1 || x->rows == 64 ? 32 : 16;
    if (x->rows > 128 && w->size > 1) cols = 16;
    if (w->least && cols * w->least < 32 && x->rows <= 128) cols = 32 / w->least; /* of swizzles */
    while (x->cols % cols) cols /= 2;
    return cols;
}

int slabs_store(Arena *a, const SlabShape *x, Schedule *s) {
    Wishes w = find(a, x, false);
    int cols = widest(x, &w);
    /* fewer barriers on the way out; reduced rows need memory for as many columns */
    bool two = x->cols == 256 || (x->together && x->cols == 128);
    bool once = cols == 64 && two && !x->m->row_block.size;
    enter(a, x, &w, cols, once ? 1 : 2, once ? 2 : 1, s);
    return 2 * x->groups * x->rows * cols * w.size;
}

/* Columns and slabs, best first. The last resort: one slab is better than many addresses. */
typedef struct Way {
    int cols, slabs;
} Way;
static const Way ways[] = {{32, 4}, {32, 3}, {16, 4}, {16, 3}, {32, 2}, {16, 2}, {0}};
static const Way ways_pingpong[] = {{64, 2}, {32, 2}, {16, 2}, {0}};
static const Way ways_last[] = {{32, 1}, {16, 1}, {0}};

bool slabs_bring(Arena *a, const SlabShape *x, int way, bool last, Schedule *s) {
    const Way *list = last ? ways_last : x->pingpong ? ways_pingpong : ways;
    Wishes w = find(a, x, true);
    bool any = false;
    for (int i = 0; i < w.list.n; i++) any |= w.list.v[i]->kind == T_LOAD;
    if (!any) return false;
    int most = widest(x, &w);
    if (most * w.least < 32) most = 32 / w.least;
    for (int i = 0; list[i].cols; i++) {
        int cols = list[i].cols;
        if (cols > most || cols * w.least < 32 || x->cols % cols || way--) continue;
        enter(a, x, &w, cols, list[i].slabs, 1, s);
        return true;
    }
    return false;
}
