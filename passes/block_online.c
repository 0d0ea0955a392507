/* block_online.c - reductions of a product that share a loop and a moving frame (online.c) are cut
 * into blocks together:
 *
 *     m[i] = max[j] z[i, j]            l[i] = sum[j] f(z[i, j], m[i])
 * becomes
 *     m_part[b, i] = max[t in B where B*b + t < N] z[i, B*b + t]
 *     l_part[b, i] = sum[t in B where B*b + t < N] f(z[i, B*b + t], m_part[b, i])
 *     m[i] = max[b] m_part[b, i]       l[i] = sum[b] l_part[b, i] * rescale(m_part[b, i], m[i])
 *
 * A block has its own frame, and the factor that moves a state to another frame (online_sep.c)
 * moves it to the true one when the blocks are joined: for log-sum-exp exp(m_part - m). A block of
 * which all is at the identity of the frame (-inf) has nothing: there l_part is 0.
 *
 *   1. The loop is over one axis, a tile's last (block.c), and every reduction in it is of what is
 *      computed pointwise from one product z, frames and what does not depend on z.
 *   2. Nothing else reads z, or what is computed of it at all its points: then it is in no memory.
 *   3. A mask chooses between the element and the identity; that of a frame leaves something of
 *      every row, and is that of what follows it.
 *   4. Where the summed index of z is short for certain, the loop stays whole: one kernel can hold
 *      all of it (ir/online.h).
 */
#include "passes/block_int.h"
#include "passes/domain_int.h"
#include "passes/online_int.h"

#include "ir/eval.h"

#include <math.h>
#include <string.h>

enum { BLOCK = 512, BLOCK_LEAST = 256, BLOCK_MOST = 1024 };
enum { DEPTH_HELD = 256, LOOP_MEMBERS = 32 };

typedef struct Whole {
    Graph *g;
    int loop;
    Node *member[LOOP_MEMBERS];
    int n;
    const Node *z;
    int axis; /* of z, that is reduced */
    int block;
    bool rows_masked; /* a mask of frames depends on the row */
    char *of_z;       /* per node: computed from z, at its points */
    char *framed;     /* per node: depends on a member */
    Node **part;      /* per node that was there: of a member, its parts as read */
    Node **in_part;   /* per node that was there: the same in the frame of a block */
    int old;
} Whole;

/* ---- which loops ---- */

/* Has the domain an element wherever its axis has one? */
static bool never_empty(Graph *g, const Node *n) {
    Domain d = domain_of(g, n);
    IxVec conds = {0};
    const Ix *there = ix_sub(g->ix, n->axes[n->rank].extent, ix_const(g->ix, 1));
    if (!domain_nonempty(g, n, &d, &conds)) return false;
    for (int i = 0; i < conds.n; i++)
        if (conds.v[i] != there) return false;
    return true;
}

/* What follows a frame has its mask. Blocks that a mask leaves nothing look like those of which all
 * is at the identity, so it has to leave something of every row; a mask of rows is for the loop
 * that skips what is masked, unless that holds no such sums. */
static bool mask_fits(Whole *w, const Node *n) {
    Graph *g = w->g;
    const Node *f = g->nodes.v[n->frame];
    if (!n->where && !f->where) return true;
    if (!n->where || !f->where || n->rank != f->rank) return false;
    const Operand *mask = &n->in[n->nin - 1];
    if (!rb_same(g, mask, &f->in[f->nin - 1]) || !never_empty(g, n)) return false;
    for (int d = 0; d < n->rank; d++) w->rows_masked |= rb_uses(g, mask, d);
    return true;
}

static bool find_members(Whole *w) {
    bool frames = false;
    w->n = 0;
    for (int i = 0; i < w->g->nodes.n; i++) {
        Node *n = w->g->nodes.v[i];
        if (n->kind != N_REDUCE || n->loop != w->loop) continue;
        if (w->n == LOOP_MEMBERS || n->naxes != n->rank + 1 || n->naxes > 15) return false;
        if (n->frame >= 0 && !mask_fits(w, n)) return false;
        frames |= n->frame >= 0;
        w->member[w->n++] = n;
    }
    return frames;
}

static bool ix_reads(const Ix *x, const char *what) {
    if (!x || !x->has_value) return false;
    if (x->kind == IX_VALUE && what[x->num]) return true;
    for (int i = 0; i < x->n; i++)
        if (ix_reads(x->arg[i], what)) return true;
    return false;
}

static bool gathers(const Graph *g, const Node *n, const char *what) {
    if (ix_reads(n->ix, what)) return true;
    for (int k = 0; k < n->nin; k++)
        for (int d = 0; d < g->nodes.v[n->in[k].node]->rank; d++)
            if (ix_reads(n->in[k].map[d], what)) return true;
    return false;
}

static bool reads(const Node *n, const char *what) {
    for (int k = 0; k < n->nin; k++)
        if (what[n->in[k].node]) return true;
    return false;
}

static bool is_output(const Graph *g, const Node *n) {
    for (int i = 0; i < g->params.n; i++)
        if (g->params.v[i].out && g->params.v[i].node == n->id) return true;
    return false;
}

/* What reads z is pointwise, all of it, or a member. */
static bool only_members(Whole *w) {
    const Graph *g = w->g;
    memset(w->of_z, 0, (size_t)g->nodes.n);
    w->of_z[w->z->id] = 1;
    if (is_output(g, w->z)) return false;
    for (int i = w->z->id + 1; i < g->nodes.n; i++) {
        const Node *n = g->nodes.v[i];
        if (gathers(g, n, w->of_z)) return false;
        if (!reads(n, w->of_z)) continue;
        if (n->kind == N_REDUCE && n->loop == w->loop) continue;
        if (n->kind != N_OP || n->op == OP_within || is_output(g, n)) return false;
        for (int k = 0; k < n->nin; k++)
            if (w->of_z[n->in[k].node] && n->in[k].checked) return false;
        w->of_z[i] = 1;
    }
    return true;
}

/* z read at every axis of p, behind pointwise work, once; -1: not so. The axis of z that p reduces
 * else. */
static int reduced_axis(Whole *w, const Node *p, const Operand *o) {
    const Node *n = w->g->nodes.v[o->node];
    int found = -1, axis;
    if (!w->of_z[n->id]) return -1;
    if (n == w->z) {
        if (!block_covers(p, n, o)) return -2;
        for (int d = 0; d < n->rank; d++)
            if (ix_is_axis(o->map[d], &axis) && axis == p->rank) found = d;
        return found;
    }
    for (int k = 0; k < n->nin; k++) {
        Operand in;
        if (!w->of_z[n->in[k].node]) continue;
        if (!rb_compose(w->g, o, &n->in[k], &in)) return -2;
        int d = reduced_axis(w, p, &in);
        if (d < 0 || (found >= 0 && d != found)) return -2;
        found = d;
    }
    return found;
}

static bool same_axis(Whole *w) {
    enum { READS = 200 };
    int reading = 0;
    for (int i = 0; i < w->g->nodes.n; i++) reading += w->of_z[i];
    if (reading > READS) return false;
    w->axis = -1;
    for (int i = 0; i < w->n; i++) {
        const Node *p = w->member[i];
        int found = -1;
        for (int k = 0; k < p->nin; k++) {
            if (!w->of_z[p->in[k].node]) continue;
            int d = p->in[k].checked ? -2 : reduced_axis(w, p, &p->in[k]);
            if (d < 0 || (found >= 0 && d != found)) return false;
            found = d;
        }
        if (found < 0 || (i && found != w->axis)) return false;
        w->axis = found;
    }
    return w->axis == block_last_role(w->z, 'm') || w->axis == block_last_role(w->z, 'n');
}

static bool find_product(Whole *w) {
    OnlinePairs pairs = {0};
    w->z = NULL;
    online_pairs(w->g, w->member[0], &pairs);
    for (int k = 0; k < pairs.n && !w->z; k++) {
        const Node *n = w->g->nodes.v[pairs.v[k].node];
        if (block_is_product(n) && n->loop < 0) w->z = n;
    }
    return w->z && block_is_fast(w->g, w->z, NULL);
}

/* A block at the identity of its frame has 0; moving that to a finite frame must leave it 0. */
static bool moves_nothing(const Sep *s, double from, double to) {
    EvalVal stack[64];
    int n = 0;
    for (int i = 0; i < s->rescale.n; i++) {
        const SepItem *x = &s->rescale.v[i];
        if (x->kind == SI_OP) {
            n -= op_arity(x->op);
            stack[n] = eval_op(x->op, DT_f32, DT_f32, stack + n);
        } else {
            double v = x->kind == SI_OLD ? from : x->kind == SI_NEW ? to : x->num;
            stack[n] = (EvalVal){.r = x->kind == SI_READ ? 1 : v};
        }
        n++;
    }
    return isfinite(stack[0].r);
}

static bool frames_move(Whole *w, Sep *sep) {
    for (int i = 0; i < w->n; i++) {
        const Node *p = w->member[i];
        if (p->frame < 0) continue;
        double none = eval_identity(w->g->nodes.v[p->frame]->red, DT_f32).r;
        if (!online_sep(w->g, p, -1, &sep[i]) || sep[i].frame < 0) return false;
        if (!moves_nothing(&sep[i], none, 1) || !moves_nothing(&sep[i], none, -1)) return false;
    }
    return true;
}

static bool is_long(const Whole *w) {
    int64_t depth, extent;
    bool known = ix_is_const(w->z->axes[w->z->rank].extent, &depth);
    bool held = known ? depth <= DEPTH_HELD : w->rows_masked;
    bool one = ix_is_const(w->z->axes[w->axis].extent, &extent) && extent <= BLOCK_MOST;
    return !held && !one;
}

/* Long blocks leave little to join, short ones give each multiprocessor its share: where all
 * extents are known, the longest that still fill the machine some times. */
static int block_for(const Whole *w, int sms) {
    enum { ROWS = 128, ROUNDS = 6 };
    int64_t extent, rows = 1, cols = 1;
    int last = block_last_role(w->z, 'm');
    if (last == w->axis) last = block_last_role(w->z, 'n');
    for (int d = 0; d < w->z->rank; d++) {
        if (!ix_is_const(w->z->axes[d].extent, &extent)) return BLOCK;
        if (d == w->axis)
            cols = extent;
        else
            rows *= d == last ? (extent + ROWS - 1) / ROWS : extent;
    }
    int block = BLOCK_MOST;
    while (block > BLOCK_LEAST && rows * ((cols + block - 1) / block) < ROUNDS * (int64_t)sms)
        block /= 2;
    return block;
}

/* ---- elements in the frame of a block ---- */

static void find_framed(Whole *w) {
    w->framed = ARENA_ARRAY(w->g->arena, char, w->old);
    for (int i = 0; i < w->g->nodes.n; i++) {
        const Node *n = w->g->nodes.v[i];
        w->framed[i] = reads(n, w->framed) || (n->kind == N_REDUCE && n->loop == w->loop);
    }
}

static Operand in_block(Whole *w, const Axis *block, const Operand *o);

/* An op over its axes, behind that of the number of the block. */
static Node *op_in_block(Whole *w, const Axis *block, const Node *n) {
    Graph *g = w->g;
    if (w->in_part[n->id]) return w->in_part[n->id];
    Node *c = graph_node(g, N_OP, n->type, n->rank + 1, n->rank + 1, n->nin);
    c->op = n->op;
    c->span = n->span;
    c->axes[0] = *block;
    for (int d = 0; d < n->rank; d++) c->axes[d + 1] = n->axes[d];
    const Ix **behind = ARENA_ARRAY(g->arena, const Ix *, n->rank);
    for (int d = 0; d < n->rank; d++) behind[d] = ix_axis(g->ix, d + 1);
    for (int k = 0; k < n->nin; k++) {
        Operand o = n->in[k];
        int rank = g->nodes.v[o.node]->rank;
        o.map = ARENA_ARRAY(g->arena, const Ix *, rank);
        for (int d = 0; d < rank; d++) o.map[d] = ix_at(g->ix, n->in[k].map[d], behind, n->rank);
        c->in[k] = in_block(w, block, &o);
    }
    return w->in_part[n->id] = c;
}

/* o, of a reader whose first axis numbers blocks. */
static Operand in_block(Whole *w, const Axis *block, const Operand *o) {
    const Node *n = w->g->nodes.v[o->node];
    if (n->id >= w->old || !w->framed[n->id]) return *o;
    const Node *to = w->part[n->id] ? w->part[n->id] : op_in_block(w, block, n);
    Operand r = {.node = to->id, .map = ARENA_ARRAY(w->g->arena, const Ix *, to->rank)};
    r.map[0] = ix_axis(w->g->ix, 0);
    for (int d = 0; d < n->rank; d++) r.map[d + 1] = o->map[d];
    return r;
}

/* ---- the reductions ---- */

static Operand op_of(Graph *g, Op op, DType type, const Node *like, int rank, const Operand *in) {
    Node *n = rb_op(g, op, type, like, rank);
    for (int k = 0; k < n->nin; k++) n->in[k] = in[k];
    return rb_read(g, n);
}

static Operand identity_of(Graph *g, const Node *p) {
    EvalVal v = eval_identity(p->red == RED_contract ? RED_sum : p->red, p->type);
    return rb_const(g, p->type, v.r, v.i);
}

/* p without its condition, and of one operand. */
static void plain(Graph *g, Node *p) {
    int factors = p->nin - p->where;
    Operand x = p->in[0];
    for (int k = 1; k < factors; k++)
        x = op_of(g, OP_mul, p->type, p, p->naxes, (Operand[]){x, p->in[k]});
    if (p->where)
        x = op_of(g, OP_select, p->type, p, p->naxes,
                  (Operand[]){p->in[p->nin - 1], x, identity_of(g, p)});
    if (p->red == RED_contract) p->red = RED_sum;
    memset(p->roles, 0, sizeof p->roles);
    p->in[0] = x;
    p->nin = 1;
    p->where = false;
    p->lo = p->hi = NULL;
    p->exact = false;
}

static Node *parts_of(Whole *w, Node *p) {
    Graph *g = w->g;
    BlockCut *cut = ARENA_ARRAY(g->arena, BlockCut, p->naxes);
    int rank, naxes;
    for (int a = 0; a < p->rank; a++) cut[a].kind = CUT_value;
    cut[p->rank].kind = CUT_blocks;
    cut[p->rank].block = w->block;
    block_place_axes(p, cut, &rank, &naxes);
    Node *part = block_parts(g, p, cut, rank, naxes);
    for (int k = 0; k < part->nin; k++) part->in[k] = in_block(w, &part->axes[0], &part->in[k]);
    return part;
}

/* 0 where the block's frame is still at its identity. */
static Node *settled(Whole *w, const Node *p, const Sep *sep, const Node *part) {
    Graph *g = w->g;
    const Node *frame = g->nodes.v[p->frame];
    const Ix **behind = ARENA_ARRAY(g->arena, const Ix *, p->rank);
    for (int d = 0; d < p->rank; d++) behind[d] = ix_axis(g->ix, d + 1);
    Operand at = {.node = w->part[frame->id]->id,
                  .map = ARENA_ARRAY(g->arena, const Ix *, frame->rank + 1)};
    at.map[0] = ix_axis(g->ix, 0);
    for (int d = 0; d < frame->rank; d++) at.map[d + 1] = ix_at(g->ix, sep->at[d], behind, p->rank);
    Operand none =
        op_of(g, OP_eq, DT_bool, part, part->rank, (Operand[]){at, identity_of(g, frame)});
    Operand zero = rb_const(g, DT_f32, 0, 0);
    Operand x =
        op_of(g, OP_select, DT_f32, part, part->rank, (Operand[]){none, zero, rb_read(g, part)});
    g->nodes.v[x.node]->name = part->name;
    g->nodes.v[x.node]->part = true;
    return g->nodes.v[x.node];
}

/* The program of the factor, over p's axes: those of its value, and the number of the block. */
static Operand factor(Whole *w, const Node *p, const Sep *s) {
    Graph *g = w->g;
    const Node *frame = g->nodes.v[p->frame];
    Operand old = {.node = w->part[frame->id]->id,
                   .map = ARENA_ARRAY(g->arena, const Ix *, frame->rank + 1)};
    Operand new = {.node = frame->id, .map = s->at};
    old.map[0] = ix_axis(g->ix, p->rank);
    for (int d = 0; d < frame->rank; d++) old.map[d + 1] = s->at[d];
    Operand stack[64];
    int n = 0;
    for (int i = 0; i < s->rescale.n; i++) {
        const SepItem *x = &s->rescale.v[i];
        switch (x->kind) {
        case SI_OLD: stack[n++] = old; break;
        case SI_NEW: stack[n++] = new; break;
        case SI_CONST: stack[n++] = rb_const(g, DT_f32, x->num, 0); break;
        case SI_READ: stack[n++] = x->read; break;
        case SI_FRAME: FK_BUG("a frame that is neither old nor new");
        case SI_OP:
            n -= op_arity(x->op);
            stack[n] = op_of(g, x->op, DT_f32, p, p->naxes, stack + n);
            n++;
            break;
        }
    }
    FK_ASSERT(n == 1);
    return stack[0];
}

static void cut(Whole *w, const Sep *sep) {
    Graph *g = w->g;
    for (int i = 0; i < w->n; i++) plain(g, w->member[i]);
    w->old = g->nodes.n;
    w->part = ARENA_ARRAY(g->arena, Node *, w->old);
    w->in_part = ARENA_ARRAY(g->arena, Node *, w->old);
    find_framed(w);
    for (int turn = 0; turn < 2; turn++)
        for (int i = 0; i < w->n; i++) {
            Node *p = w->member[i];
            if ((p->frame >= 0) != turn) continue;
            Node *part = parts_of(w, p);
            if (turn) part = settled(w, p, &sep[i], part);
            w->part[p->id] = part;
        }
    for (int i = 0; i < w->n; i++) {
        Node *p = w->member[i];
        block_join(g, p, w->part[p->id]);
        if (p->frame < 0) continue;
        Operand x[2] = {p->in[0], factor(w, p, &sep[i])};
        p->in[0] = op_of(g, OP_mul, DT_f32, p, p->naxes, x);
    }
}

static bool cut_loop(Graph *g, int loop, int sms) {
    Whole w = {.g = g, .loop = loop};
    Sep sep[LOOP_MEMBERS];
    w.of_z = ARENA_ARRAY(g->arena, char, g->nodes.n);
    if (!find_members(&w) || !find_product(&w) || !only_members(&w) || !same_axis(&w)) return false;
    if (!is_long(&w) || !frames_move(&w, sep)) return false;
    w.block = block_for(&w, sms);
    cut(&w, sep);
    graph_sweep(g);
    return true;
}

bool block_online(Graph *g, int sms) {
    int loops = 0;
    bool changed = false;
    for (int i = 0; i < g->nodes.n; i++)
        if (g->nodes.v[i]->loop >= loops) loops = g->nodes.v[i]->loop + 1;
    for (int k = 0; k < loops; k++) changed |= cut_loop(g, k, sms);
    if (changed) online_number(g);
    return changed;
}
