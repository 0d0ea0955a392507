/* wgmma_plain_edge.c - the ends of tensors and of k, for wgmma_load_plain.c: chunks that came wrong
 * are put right in shared memory by the thread that stored them, before it says that the stage is
 * full. That is in the last stage of k, and in the first and last stages of the tiles that hold the
 * first or the last byte of a tensor. */
#include "backend/nvptx/wgmma_plain_int.h"

typedef struct Mend {
    Wg *w;
    const WgPlain *p;
    const Lines *x;
    const LinesAt *at;
    Val stage;
    Val valid; /* i32: elements from the thread's chunk on that count; MN-major of the first box */
} Mend;

typedef void MendLine(const Mend *m, int b, Val j);

static void each_line(const Mend *m, MendLine *line) {
    Lower *l = m->w->l;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(l->b);
    LLVMBasicBlockRef body = block_new(l, "mend"), exit = block_new(l, "mended");
    LLVMBuildBr(l->b, body);
    block_enter(l, body);
    Val j = wg_phi(l, l->i32, i32c(l, 0), before);
    for (int b = 0; b < m->p->series; b++) line(m, b, j);
    Val next = LLVMBuildAdd(l->b, j, i32c(l, 1), "");
    wg_phi_next(l, j, next);
    Val more = LLVMBuildICmp(l->b, LLVMIntULT, next, i32c(l, m->x->count / m->p->apart), "");
    LLVMBuildCondBr(l->b, more, body, exit);
    block_enter(l, exit);
}

static Val place_of(const Mend *m, int b, Val j) {
    Lower *l = m->w->l;
    Val at = LLVMBuildAdd(l->b, m->stage, m->x->at[b], "");
    return LLVMBuildAdd(l->b, at, LLVMBuildMul(l->b, j, i32c(l, m->p->apart * LINE), ""), "");
}

static Val is_there(const Mend *m, int b, Val j) {
    Lower *l = m->w->l;
    return LLVMBuildICmp(l->b, LLVMIntSLE, plain_line(m->w, m->p, m->x, b, j), m->at->last, "");
}

/* Element by element. K-major a line that is not there reads as the last: nobody uses it. */
static void write_line(const Mend *m, int b, Val j) {
    Lower *l = m->w->l;
    Val from = LLVMBuildIntToPtr(l->b, plain_address(m->w, m->p, m->x, m->at, b, j), l->gptr, "");
    Val valid = m->valid, word[4];
    int size = m->p->size, per_line = LINE / size, per_word = 4 / size;
    if (m->x->mn) {
        Val box = LLVMBuildUDiv(l->b, j, i32c(l, per_line / m->p->apart), "");
        valid = LLVMBuildSub(l->b, valid, LLVMBuildMul(l->b, box, i32c(l, per_line), ""), "");
        valid = LLVMBuildSelect(l->b, is_there(m, b, j), valid, i32c(l, 0), "");
    }
    for (int i = 0; i < CHUNK / size; i++) {
        Val off = LLVMConstInt(l->i64, (unsigned)(i * size), 0);
        Val in = LLVMBuildICmp(l->b, LLVMIntSGT, valid, i32c(l, i), "");
        Val v = ptx_load(l, size, LLVMBuildGEP2(l->b, l->i8, from, &off, 1, ""), in);
        int at = i % per_word;
        v = LLVMBuildZExt(l->b, v, l->i32, "");
        v = LLVMBuildShl(l->b, v, i32c(l, 8 * size * at), "");
        word[i / per_word] = at ? LLVMBuildOr(l->b, word[i / per_word], v, "") : v;
    }
    ptx_store_shared4(l, place_of(m, b, j), 0, word);
}

/* The bits of elements that count, of a word that begins with element `first` of the chunk. */
static Val mask_of(const Mend *m, int first) {
    Lower *l = m->w->l;
    int size = m->p->size;
    Val mask = i32c(l, 0);
    for (int i = 0; i < 4 / size; i++) {
        Val in = LLVMBuildICmp(l->b, LLVMIntSGT, m->valid, i32c(l, first + i), "");
        int64_t bits = ((int64_t)1 << 8 * size * (i + 1)) - 1;
        mask = LLVMBuildSelect(l->b, in, i32c(l, (int)(uint32_t)bits), mask, "");
    }
    return mask;
}

/* Zeros beyond the end of k. */
static void trim_line(const Mend *m, int b, Val j) {
    Lower *l = m->w->l;
    Val at = place_of(m, b, j), word[4], all = NULL;
    if (m->x->mn) all = LLVMBuildSelect(l->b, is_there(m, b, j), i32c(l, -1), i32c(l, 0), "");
    ptx_load_shared4(l, at, 0, word);
    for (int i = 0; i < 4; i++)
        word[i] = LLVMBuildAnd(l->b, word[i], all ? all : mask_of(m, 4 / m->p->size * i), "");
    ptx_store_shared4(l, at, 0, word);
}

static void when(const Mend *m, Val cond, MendLine *line) {
    Lower *l = m->w->l;
    LLVMBasicBlockRef yes = block_new(l, "wrong"), after = block_new(l, "right");
    LLVMBuildCondBr(l->b, cond, yes, after);
    block_enter(l, yes);
    each_line(m, line);
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}

void plain_mend(Wg *w, const WgPlain *p, const LinesAt *at, Val stage, Val kt) {
    Lower *l = w->l;
    int per_chunk = CHUNK / p->size;
    Val chunk = LLVMBuildMul(l->b, p->chunk, i32c(l, per_chunk), ""), any = NULL, bad[FACTORS],
        cut[FACTORS];
    Val k0 = LLVMBuildMul(l->b, kt, i32c(l, w->t.k), "");
    Val deep = LLVMBuildSub(l->b, uniform32(w, l->t->axes.v[w->m.k].extent), k0, "");
    Mend m[FACTORS];
    for (int i = 0; i < p->n; i++) {
        const Lines *x = &p->x[i];
        Val valid = LLVMBuildSub(l->b, x->mn ? x->left : deep, chunk, "");
        m[i] = (Mend){w, p, x, &at[i], stage, valid};
        bad[i] = LLVMBuildNot(l->b, at[i].whole, "");
        cut[i] = x->mn ? LLVMBuildICmp(l->b, LLVMIntSLT, deep, i32c(l, w->t.k), "")
                       : LLVMBuildICmp(l->b, LLVMIntSLT, valid, i32c(l, per_chunk), "");
        cut[i] = LLVMBuildAnd(l->b, cut[i], at[i].whole, "");
        Val either = LLVMBuildOr(l->b, bad[i], cut[i], "");
        any = any ? LLVMBuildOr(l->b, any, either, "") : either;
    }
    LLVMBasicBlockRef some = block_new(l, "edge"), after = block_new(l, "stage");
    LLVMBuildCondBr(l->b, any, some, after);
    block_enter(l, some);
    for (int i = 0; i < p->n; i++) {
        when(&m[i], bad[i], write_line);
        when(&m[i], cut[i], trim_line);
    }
    LLVMBuildBr(l->b, after);
    block_enter(l, after);
}
