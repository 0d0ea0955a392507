/* lower.c - a tile program and a schedule to one kernel: the general tier, plain loads and FMA.
 *
 * The kernel is for (tile = ctaid; tile < tiles; tile += nctaid) body(parameters, tile), and the
 * body frame:   allocas of carried values entry:   arithmetic that is the same for every thread
 *     tiles:   the program, once for every element held
 * The body is a function of its own until LLVM's passes have run and is inlined then: the loop over
 * tiles nearly always runs once, and nothing may be hoisted out of it and held in registers.
 *
 * Threads never leave early: those past the end of a tile work on copies of its last element and
 * do not store, so barriers and shuffles are always met by all.
 */
#include "backend/nvptx/approx_int.h"
#include "backend/nvptx/head_int.h"
#include "backend/nvptx/nvptx_int.h"
#include "backend/nvptx/ptx_int.h"
#include "backend/nvptx/rows_int.h"
#include "ir/online.h"

#include <string.h>

LLVMBasicBlockRef block_new(Lower *l, const char *name) {
    return LLVMAppendBasicBlockInContext(l->cx, l->fn, name);
}

void block_enter(Lower *l, LLVMBasicBlockRef b) {
    LLVMMoveBasicBlockAfter(b, LLVMGetInsertBlock(l->b));
    LLVMPositionBuilderAtEnd(l->b, b);
}

Frag value_of(Lower *l, int id) {
    if (l->carry[id]) return carry_read(l, id);
    if (!l->value[id].n) FK_BUG("value %%%d is read before it is made", id);
    return l->value[id];
}

static Frag emit_const(Lower *l, const TInst *i) {
    bool is_real = dtype_value(i->type) == DT_f32;
    return frag_one(l, is_real ? const_real(l, dtype_round(i->type, i->num))
                               : const_int(l, i->type, i->inum));
}

typedef struct OpCtx {
    const TInst *i;
    DType from[8];
    Poly poly;
} OpCtx;

static Val op_element(Lower *l, const void *ctx, const Val *in) {
    const OpCtx *c = ctx;
    return op_emit(l, c->i->op, c->i->type, c->from, in);
}

static Val fast_element(Lower *l, const void *ctx, const Val *in) {
    const OpCtx *c = ctx;
    Val x = type_widen(l, c->from[0], DT_f32, in[0]);
    if (c->i->op == OP_div) return fast_div(l, x, type_widen(l, c->from[1], DT_f32, in[1]));
    return fast_emit(l, c->i->op, l->approx[c->i->id], &c->poly, x);
}

static Val reciprocal(Lower *l, const void *ctx, const Val *in) {
    const OpCtx *c = ctx;
    return ptx_rcp(l, type_widen(l, c->from[0], DT_f32, in[0]));
}

static Val times_element(Lower *l, const void *ctx, const Val *in) {
    const OpCtx *c = ctx;
    return LLVMBuildFMul(l->b, type_widen(l, c->from[0], DT_f32, in[0]), in[1], "");
}

/* A function of a polynomial of a value is made of that value at once. */
static Frag emit_fast(Lower *l, const TInst *i) {
    int at = i->args[0];
    OpCtx c = {.i = i, .from = {l->type[at]}, .poly = {.base = at, .c = {0, 1}}};
    Frag in[2] = {value_of(l, at)};
    if (i->nargs > 1) {
        c.from[1] = l->type[i->args[1]];
        in[1] = value_of(l, i->args[1]);
    } else if (l->poly[at].base >= 0) {
        c.poly = l->poly[at];
        c.from[0] = l->type[c.poly.base];
        in[0] = value_of(l, c.poly.base);
    }
    if (i->op == OP_div && in[1].n < in[0].n &&
        (l->online || l->s->wide)) { /* once for all that it divides */
        c.from[0] = l->type[i->args[1]];
        in[1] = frag_map(l, reciprocal, &c, &in[1], 1);
        c.from[0] = l->type[at];
        return frag_map(l, times_element, &c, in, 2);
    }
    return frag_map(l, fast_element, &c, in, i->nargs);
}

static Frag emit_op(Lower *l, const TInst *i) {
    if (fast_has(i->op, l->approx[i->id])) return emit_fast(l, i);
    OpCtx c = {.i = i};
    Frag in[8];
    FK_ASSERT(i->nargs <= 8);
    for (int k = 0; k < i->nargs; k++) {
        c.from[k] = l->type[i->args[k]];
        in[k] = value_of(l, i->args[k]);
    }
    return frag_map(l, op_element, &c, in, i->nargs);
}

static void emit_guard(Lower *l, const TInst *i) {
    Frag c = value_of(l, i->args[0]);
    LLVMBasicBlockRef body = block_new(l, "guarded"), after = block_new(l, "after");
    LLVMBuildCondBr(l->b, frag_only(&c, "a guard's condition"), body, after);
    block_enter(l, body);
    emit_block(l, &i->body);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

void emit_inst(Lower *l, const TInst *i) {
    switch (i->kind) {
    case T_CONST: l->value[i->id] = emit_const(l, i); break;
    case T_INDEX: l->value[i->id] = frag_ix(l, i->ix[0]); break;
    case T_LOAD: l->value[i->id] = emit_load(l, i); break;
    case T_OP: l->value[i->id] = emit_op(l, i); break;
    case T_LOOP: emit_loop(l, i); break;
    case T_GUARD: emit_guard(l, i); break;
    case T_STEP: emit_step(l, i); break;
    case T_STORE: emit_store(l, i); break;
    }
}

void emit_block(Lower *l, const TBlock *b) {
    for (int k = 0; k < b->inst.n; k++) emit_inst(l, b->inst.v[k]);
}

/* ---- tiles
 * --------------------------------------------------------------------------------------- */

static int64_t tile_size(const Lower *l, int a) {
    return (int64_t)l->map[a].lanes * l->map[a].regs * l->map[a].vec;
}

static const Ix *tile_count(const Lower *l, int a) {
    IxPool *p = l->t->ix;
    int64_t n = tile_size(l, a);
    const Ix *count = ix_add(p, l->t->axes.v[a].extent, ix_const(p, n - 1));
    count = ix_div(p, count, ix_const(p, n));
    return l->once >> a & 1 ? ix_max(p, count, ix_const(p, 1)) : count;
}

static const Ix *tile_total(const Lower *l) {
    const Ix *n = ix_const(l->t->ix, 1);
    for (int a = 0; a < l->t->ngrid; a++) n = ix_mul(l->t->ix, n, tile_count(l, a));
    return n;
}

static Val i64c(const Lower *l, int64_t v) {
    return LLVMConstInt(l->i64, (uint64_t)v, 1);
}

static Val least(Lower *l, Val a, Val b) {
    return LLVMBuildSelect(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, a, b, ""), a, b, "");
}

/* The elements that this thread holds of a tile that begins at `start`. `left` (how many of the
 * tile's elements from this thread's first one on are in range) fits 32 bits. */
static void grid_axis(Lower *l, int a, Val start) {
    AxisState *s = &l->axis[a];
    const AxisMap *m = &l->map[a];
    int n = m->regs * m->vec;
    int64_t size = tile_size(l, a), extent_const;
    const Ix *extent_ix = l->t->axes.v[a].extent;
    int64_t *step = ARENA_ARRAY(l->arena, int64_t, n);
    *s = (AxisState){.open = true,
                     .count = n,
                     .e = ARENA_ARRAY(l->arena, Val, n),
                     .in = ARENA_ARRAY(l->arena, Val, n),
                     .step = step};
    Val first = start;
    if (m->lanes > 1) {
        Val shift = LLVMBuildMul(l->entry, axis_lane(l, a), i64c(l, m->vec), "");
        first = LLVMBuildAdd(l->b, start, shift, "");
    }
    if (l->s->wide && m->vec > 1) {
        bool all = ix_is_const(extent_ix, &extent_const) && extent_const % size == 0;
        wide_open(l, a, first, all ? NULL : uniform_ix(l, extent_ix));
        return;
    }
    bool known = ix_is_const(extent_ix, &extent_const), once = l->once >> a & 1;
    bool empty = once && (!known || !extent_const);
    bool whole = (size == 1 || (known && extent_const % size == 0)) && !empty;
    Val left = NULL;
    if (once) s->first = LLVMBuildICmp(l->b, LLVMIntEQ, first, i64c(l, 0), "");
    if (!whole) {
        Val extent = uniform_ix(l, extent_ix);
        left = least(l, LLVMBuildSub(l->b, extent, first, ""), i64c(l, size));
        left = LLVMBuildTrunc(l->b, left, l->i32, "");
        Val last = LLVMBuildSub(l->entry, extent, i64c(l, 1), "");
        if (empty) {
            s->some = LLVMBuildICmp(l->entry, LLVMIntSGT, extent, i64c(l, 0), "");
            last = LLVMBuildSelect(l->entry, s->some, last, i64c(l, 0), "");
        }
        first = least(l, first, last);
    }
    for (int i = 0; i < n; i++) {
        step[i] = (int64_t)m->lanes * m->vec * (i / m->vec) + i % m->vec;
        s->e[i] = i ? LLVMBuildAdd(l->b, first, i64c(l, step[i]), "") : first;
        if (whole) continue;
        Val at = LLVMConstInt(l->i32, (uint64_t)step[i], 0);
        s->in[i] = LLVMBuildICmp(l->b, LLVMIntSLT, at, left, "");
        if (i) s->e[i] = LLVMBuildSelect(l->b, s->in[i], s->e[i], first, "");
    }
}

/* The first grid axis is the outermost: its tiles change last. */
static void unflatten(Lower *l, Val tile) {
    for (int a = l->t->ngrid - 1; a >= 0; a--) {
        const Ix *count = tile_count(l, a);
        Val at = tile;
        int64_t one;
        if (ix_is_const(count, &one) && one == 1) {
            at = i64c(l, 0);
        } else if (a > 0) {
            Val n = uniform_ix(l, count);
            tile = LLVMBuildUDiv(l->b, tile, n, "");
            at = LLVMBuildSub(l->b, at, LLVMBuildMul(l->b, tile, n, ""), "");
        }
        grid_axis(l, a, LLVMBuildMul(l->b, at, i64c(l, tile_size(l, a)), ""));
    }
}

/* ---- the kernel
 * ---------------------------------------------------------------------------------- */

static void lower_init(Lower *l, Arena *a, const TProg *t, const Schedule *s,
                       const BackendOptions *o) {
    *l = (Lower){.arena = a, .t = t, .step = t, .s = s, .o = o};
    int n = t->nvalues + 1;
    l->type = ARENA_ARRAY(a, DType, n);
    l->value = ARENA_ARRAY(a, Frag, n);
    l->carry = ARENA_ARRAY(a, CarryState *, n);
    l->uniform.arena = a;
    l->narrow.arena = a;
    l->wide.arena = a;
    l->reals.arena = a;
}

static void annotate(Lower *l) {
    LLVMValueRef threads =
        LLVMConstInt(l->i32, (unsigned)(l->s->threads > 0 ? l->s->threads : 1), 0);
    LLVMValueRef one = LLVMConstInt(l->i32, 1, 0);
    LLVMValueRef ctas = LLVMConstInt(l->i32, (unsigned)(l->ctas > 1 ? l->ctas : 1), 0);
    const char *const key[] = {"kernel", "reqntidx", "reqntidy", "reqntidz", "minctasm"};
    LLVMValueRef value[] = {one, threads, one, one, ctas};
    int n = l->roles || l->ctas ? 5 : 4; /* ptxas ignores setmaxnreg without the last */
    for (int i = 0; i < n; i++) {
        LLVMMetadataRef md[3] = {LLVMValueAsMetadata(l->fn),
                                 LLVMMDStringInContext2(l->cx, key[i], strlen(key[i])),
                                 LLVMValueAsMetadata(value[i])};
        LLVMMetadataRef node = LLVMMDNodeInContext2(l->cx, md, 3);
        LLVMAddNamedMetadataOperand(l->mod, "nvvm.annotations", LLVMMetadataAsValue(l->cx, node));
    }
}

/* The shared buffer is as large as its largest use. */
static void shared_finish(Lower *l) {
    if (!l->shared) return;
    Ty t = LLVMArrayType2(l->i8, (uint64_t)l->shared_bytes);
    Val g = LLVMAddGlobalInAddressSpace(l->mod, t, "shared", 3);
    LLVMSetInitializer(g, LLVMGetUndef(t));
    LLVMSetLinkage(g, LLVMInternalLinkage);
    LLVMSetAlignment(g, 16);
    LLVMReplaceAllUsesWith(l->shared, g);
    LLVMInstructionEraseFromParent(l->shared);
}

enum { STATIC_SHARED = 49152 }; /* bytes a kernel may declare, on every chip */

static bool shared_fits(const Lower *l, const Kernel *k, Diags *d) {
    if (l->shared_bytes <= STATIC_SHARED) return true;
    diag_error(d, (Span){0}, "kernel-shared",
               "kernel '%s' needs %d bytes of shared memory to merge its lanes, %d are allowed",
               k->name, l->shared_bytes, STATIC_SHARED);
    return false;
}

/* The entry point: strides over tiles, calls the body for each. */
static void kernel_loop(Lower *l, Kernel *k) {
    Ty ft = params_type(l, false);
    Val body = l->fn, fn = LLVMAddFunction(l->mod, k->name, ft);
    unsigned n = LLVMCountParams(fn);
    Val *arg = ARENA_ARRAY(l->arena, Val, n + 1);
    LLVMGetParams(fn, arg);
    l->fn = fn;
    LLVMBasicBlockRef before = block_new(l, "entry"), loop = block_new(l, "tile");
    LLVMBasicBlockRef exit = block_new(l, "exit");
    LLVMPositionBuilderAtEnd(l->entry, before);
    LLVMPositionBuilderAtEnd(l->b, loop);
    chain_here(l, k, l->entry);
    int64_t c;
    Val tiles = ix_is_const(k->tiles, &c) ? i64c(l, c) : params_value(l, fn, k->tiles);
    Val first = LLVMBuildZExt(l->entry, ptx_ctaid(l), l->i64, "");
    Val stride = LLVMBuildZExt(l->entry, ptx_nctaid(l), l->i64, "");
    Val any = LLVMBuildICmp(l->entry, LLVMIntSLT, first, tiles, "");
    LLVMBuildCondBr(l->entry, any, loop, exit);
    Val tile = LLVMBuildPhi(l->b, l->i64, "tile");
    arg[n] = tile;
    LLVMBuildCall2(l->b, params_type(l, true), body, arg, n + 1, "");
    Val next = LLVMBuildAdd(l->b, tile, stride, "");
    LLVMBasicBlockRef again = l->exchanged ? block_new(l, "again") : loop;
    LLVMBuildCondBr(l->b, LLVMBuildICmp(l->b, LLVMIntSLT, next, tiles, ""), again, exit);
    if (l->exchanged) { /* what the next tile writes to shared memory has been read */
        LLVMPositionBuilderAtEnd(l->b, again);
        ptx_barrier(l);
        LLVMBuildBr(l->b, loop);
    }
    Val from[2] = {first, next};
    LLVMBasicBlockRef where[2] = {before, again};
    LLVMAddIncoming(tile, from, where, 2);
    LLVMPositionBuilderAtEnd(l->b, exit);
    LLVMBuildRetVoid(l->b);
    LLVMSetLinkage(body, LLVMInternalLinkage);
    l->body = body;
}

static bool emit_kernel(Lower *l, Kernel *k, Diags *d) {
    Ty ft = LLVMFunctionType(LLVMVoidTypeInContext(l->cx), NULL, 0, 0);
    l->fn = LLVMAddFunction(l->mod, "fk_body", ft);
    LLVMBasicBlockRef frame = block_new(l, "frame"), entry = block_new(l, "entry");
    LLVMBasicBlockRef code = block_new(l, "tiles");
    l->frame = LLVMCreateBuilderInContext(l->cx);
    l->entry = LLVMCreateBuilderInContext(l->cx);
    l->b = LLVMCreateBuilderInContext(l->cx);
    LLVMPositionBuilderAtEnd(l->frame, frame);
    LLVMPositionBuilderAtEnd(l->entry, entry);
    LLVMPositionBuilderAtEnd(l->b, code);
    axes_layout(l);
    values_find(l);
    l->unit_last = l->s->wide;
    if (l->s->held && l->s->wide) l->packed = ARENA_ARRAY(l->arena, Val *, l->t->nvalues + 1);
    if (l->s->held) l->held = ARENA_ARRAY(l->arena, AxisState, l->t->axes.n + 1);
    l->once = tile_all_once(l->t, l->deps);
    k->tiles = tile_total(l);
    if (l->s->split > 1) k->tiles = cut_open(l, k, k->tiles);
    k->grid = ix_min(l->t->ix, k->tiles, ix_const(l->t->ix, INT32_MAX));
    k->block = l->s->threads > 0 ? l->s->threads : 1;
    uniform_ix(l, k->tiles);
    l->tile = LLVMBuildFreeze(l->entry, LLVMGetUndef(l->i64), "");
    unflatten(l, l->cut ? cut_tile(l, l->tile) : l->tile);
    if (l->cut)
        cut_emit(l);
    else
        emit_block(l, &l->t->body);
    LLVMBuildRetVoid(l->b);
    LLVMBuildBr(l->frame, entry);
    LLVMBuildBr(l->entry, code);
    shared_finish(l);
    if (l->cut) cut_memory(l, k);
    if (!l->o->roomy) l->ctas = rows_resident(l);
    k->tight = l->ctas > 0;
    if (l->s->wide) wide_guards(l, k);
    bool ok = params_finish(l, k, d) && shared_fits(l, k, d);
    if (ok) kernel_loop(l, k);
    LLVMDisposeBuilder(l->frame);
    LLVMDisposeBuilder(l->entry);
    LLVMDisposeBuilder(l->b);
    return ok;
}

/* Names of steps have dots, those of PTX do not. The general kernel has the step's own. */
static const char *entry_name(Arena *a, const char *step) {
    char *name = arena_strdup(a, step);
    for (char *c = name; *c; c++) {
        bool good =
            (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9');
        if (!good) *c = '_';
    }
    return name;
}

static bool choose_version(Kernel *k, const BackendOptions *o, Diags *d) {
    k->ptx_version = o->ptx_version ? o->ptx_version : o->target->ptx;
    if (k->ptx_version >= o->target->ptx && k->ptx_version <= PTX_NEWEST) return true;
    diag_error(d, (Span){0}, "ptx-version", "%s needs PTX %d.%d to %d.%d, PTX %d.%d was asked for",
               o->target->name, o->target->ptx / 10, o->target->ptx % 10, PTX_NEWEST / 10,
               PTX_NEWEST % 10, k->ptx_version / 10, k->ptx_version % 10);
    return false;
}

static bool few_axes(const Step *s, Diags *d) {
    int n = s->tile->axes.n;
    if (n <= MAX_AXES) return true;
    diag_error(
        d, (Span){0}, "kernel-axes",
        "step %s has %d grid and loop axes, one kernel can have %d; cut it with a statement's "
        "': dtype' or --no-fuse",
        s->name, n, MAX_AXES);
    return false;
}

static bool is_online(Arena *a, const TProg *t) {
    Online o;
    Str why = {0};
    bool is = online_find(a, t, &o, &why);
    str_free(&why);
    return is;
}

bool backend_lower(Arena *a, const Plan *p, const Step *s, const Schedule *sch,
                   const BackendOptions *o, Diags *d, Kernel *k, Str *llvm) {
    bool general = sch->move == MOVE_plain && sch->mul == MUL_fma;
    const char *name =
        general && !sch->wide ? s->name : arena_printf(a, "%s_%s", s->name, sch->name);
    *k = (Kernel){.name = entry_name(a, name), .arch = o->target->name};
    k->stats = KSTATS_NONE;
    bool wgmma = sch->move == MOVE_tma && sch->mul == MUL_wgmma;
    bool mma = sch->move == MOVE_cpasync && sch->mul == MUL_mma;
    if (!general && !wgmma && !mma) {
        diag_error(d, (Span){0}, "schedule", "schedule %s of step %s: no such tier is built",
                   sch->name, s->name);
        return false;
    }
    if (!choose_version(k, o, d) || !few_axes(s, d)) return false;
    Lower l;
    lower_init(&l, a, s->tile, sch, o);
    l.plan = p;
    module_begin(&l, k->name);
    bool ok = general                 ? emit_kernel(&l, k, d)
              : is_online(a, s->tile) ? online_emit(&l, k, d)
              : mma                   ? mma_emit(&l, k, d)
                                      : wgmma_emit(&l, k, d);
    if (ok) {
        annotate(&l);
        const char *body = module_emit(&l, k->ptx_version, llvm);
        k->ptx = kernel_head(a, s, k, o, l.shared_bytes, body);
    }
    module_end(&l);
    return ok;
}
