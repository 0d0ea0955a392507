// The bytes of a module. Each struct has one function that writes it or reads it, by the direction
// of the Codec, so the two cannot disagree. A reader that runs out of bytes or finds a count that
// the rest of the file cannot hold stops, with the reason; its caller sees only zeros after that.
#include "runtime/fkm.h"

#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC                                                                                      \
    "\x7f"                                                                                         \
    "fkm\r\n\x1a\n" // catches text-mode copies
enum { HEADER = 32, BLOB_ALIGN = 16, CHUNK = 1 << 16 };

// Memory of a decoded tree.
typedef struct FkmChunk {
    struct FkmChunk *next;
    size_t used, size;
    max_align_t data[];
} FkmChunk;

typedef struct {
    bool reading;
    unsigned char *bytes;
    size_t at, size; // size: of the file, or the room when writing
    FkmChunk *memory;
    const char *wrong; // why it stopped; NULL: going on
} Codec;

static void *tree_alloc(Codec *c, size_t bytes) {
    FkmChunk *k = c->memory;
    bytes = (bytes + 15) & ~(size_t)15;
    if (!k || k->size - k->used < bytes) {
        size_t size = bytes > CHUNK ? bytes : CHUNK;
        k = calloc(1, sizeof *k + size);
        if (!k) return c->wrong = "out of memory", NULL;
        *k = (FkmChunk){.next = c->memory, .size = size};
        c->memory = k;
    }
    void *p = (char *)k->data + k->used;
    k->used += bytes;
    return p;
}

// The next n bytes of the file, to read from or to write to; NULL if there are none.
static unsigned char *span(Codec *c, size_t n) {
    if (c->wrong) return NULL;
    if (c->reading && n > c->size - c->at) return c->wrong = "the file is truncated", NULL;
    if (!c->reading && n > c->size - c->at) {
        size_t room = c->size * 2 + n;
        unsigned char *grown = realloc(c->bytes, room);
        if (!grown) return c->wrong = "out of memory", NULL;
        memset(grown + c->size, 0, room - c->size);
        c->bytes = grown;
        c->size = room;
    }
    unsigned char *p = c->bytes + c->at;
    c->at += n;
    return p;
}

static void number(Codec *c, uint64_t *v, size_t n) {
    unsigned char *p = span(c, n);
    if (c->reading) *v = 0;
    if (!p) return;
    for (size_t i = 0; i < n; i++)
        if (c->reading)
            *v |= (uint64_t)p[i] << 8 * i;
        else
            p[i] = (unsigned char)(*v >> 8 * i);
}

#define NUMBER(c, field)                                                                           \
    do {                                                                                           \
        uint64_t v_ = (uint64_t)(field);                                                           \
        number(c, &v_, sizeof(field));                                                             \
        if ((c)->reading) memcpy(&(field), &(uint64_t){v_}, sizeof(field));                        \
    } while (0)

static void flag(Codec *c, bool *b) {
    uint8_t v = *b;
    NUMBER(c, v);
    if (v > 1) c->wrong = "a flag is neither 0 nor 1";
    if (c->reading) *b = v == 1;
}

// A text that may be absent: length + 1 (0: absent), bytes, NUL.
static void text(Codec *c, char **s) {
    uint32_t n = *s && !c->reading ? (uint32_t)strlen(*s) + 1 : 0;
    NUMBER(c, n);
    unsigned char *p = n ? span(c, n) : NULL;
    if (!c->reading) {
        if (p) memcpy(p, *s, n);
        return;
    }
    *s = (char *)p;
    if (p && memchr(p, 0, n) != p + n - 1) c->wrong = "a text does not end where it says";
}

static void blob(Codec *c, void **bytes, size_t *n) {
    uint64_t size = *n;
    NUMBER(c, size);
    if (c->reading && size > c->size) c->wrong = "a blob is longer than the file";
    span(c, -c->at % BLOB_ALIGN);
    unsigned char *p = span(c, (size_t)size);
    if (!c->reading && p && size) memcpy(p, *bytes, (size_t)size);
    if (c->reading) *bytes = p, *n = p ? (size_t)size : 0;
}

typedef void Item(Codec *, void *);

// `least` is the fewest bytes an item takes: what bounds the memory that a hostile count can claim.
static void array(Codec *c, void *items, uint32_t *n, size_t item_size, size_t least, Item *item) {
    void **at = items;
    NUMBER(c, *n);
    if (c->reading) {
        *at = NULL;
        if (!c->wrong && *n > (c->size - c->at) / least)
            c->wrong = "a count is larger than the file";
        if (!c->wrong && *n) *at = tree_alloc(c, *n * item_size);
        if (c->wrong) *n = 0;
    }
    for (uint32_t i = 0; i < *n && !c->wrong; i++) item(c, (char *)*at + i * item_size);
}
#define ARRAY(c, items, n, least, item) array(c, &(items), &(n), sizeof *(items), least, item)

// Which operands follow an opcode.
enum { NONE, A, AB, K };
static const uint8_t operands_of[FKM_OPS] = {
#define OP(name, operands, pops, pushes, formula) operands,
#include "runtime/expr.def"
#undef OP
};

static void insn(Codec *c, void *p) {
    FkmInsn *in = p;
    NUMBER(c, in->op);
    if (in->op >= FKM_OPS) {
        c->wrong = "an unknown operation in an expression";
        return;
    }
    uint8_t what = operands_of[in->op];
    if (what == A || what == AB) NUMBER(c, in->a);
    if (what == AB) NUMBER(c, in->b);
    if (what == K) NUMBER(c, in->k);
}

static void expr(Codec *c, FkmExpr *e) {
    ARRAY(c, e->code, e->n, 1, insn);
}

static void dim(Codec *c, void *p) {
    FkmDim *d = p;
    text(c, &d->text);
    expr(c, &d->size);
}

static void tensor(Codec *c, void *p) {
    FkmTensor *t = p;
    text(c, &t->name);
    NUMBER(c, t->dtype);
    flag(c, &t->is_output);
    ARRAY(c, t->dims, t->rank, 8, dim);
}

static void size(Codec *c, void *p) {
    FkmSize *s = p;
    text(c, &s->name);
    NUMBER(c, s->bound);
}

static void solve(Codec *c, void *p) {
    FkmSolve *s = p;
    NUMBER(c, s->size);
    NUMBER(c, s->tensor);
    NUMBER(c, s->dim);
    expr(c, &s->number);
    expr(c, &s->divisor);
}

static void check(Codec *c, void *p) {
    FkmCheck *k = p;
    expr(c, &k->value);
    expr(c, &k->unless);
    expr(c, &k->needed);
    expr(c, &k->found);
    text(c, &k->text);
}

static void extent(Codec *c, void *p) {
    expr(c, p);
}

static void temp(Codec *c, void *p) {
    FkmTemp *t = p;
    expr(c, &t->bytes);
    NUMBER(c, t->dtype);
    ARRAY(c, t->dims, t->rank, 4, extent);
}

// As many dimensions as the rank says, whatever it says: fkm_check refuses other ranks.
static void map(Codec *c, FkmMap *m) {
    flag(c, &m->temp);
    NUMBER(c, m->rank);
    NUMBER(c, m->swizzle);
    for (int i = 0; i < m->rank && i < FKM_MAP_RANK; i++) {
        NUMBER(c, m->dim[i]);
        NUMBER(c, m->box[i]);
    }
}

static void param(Codec *c, void *p) {
    FkmParam *a = p;
    NUMBER(c, a->kind);
    NUMBER(c, a->index);
    expr(c, &a->value);
    if (a->kind == FKM_PARAM_TMAP) map(c, &a->map);
}

static void launch(Codec *c, void *p) {
    FkmLaunch *l = p;
    NUMBER(c, l->kernel);
    for (int i = 0; i < 3; i++) expr(c, &l->grid[i]);
    for (int i = 0; i < 3; i++) NUMBER(c, l->block[i]);
    expr(c, &l->shared);
    ARRAY(c, l->params, l->n_params, 9, param);
}

static void variant(Codec *c, void *p) {
    FkmVariant *v = p;
    text(c, &v->name);
    text(c, &v->arch);
    expr(c, &v->guard);
    expr(c, &v->cost);
    expr(c, &v->scratch);
    ARRAY(c, v->launches, v->n_launches, 36, launch);
}

static void step(Codec *c, void *p) {
    FkmStep *s = p;
    text(c, &s->name);
    ARRAY(c, s->variants, s->n_variants, 24, variant);
}

static void fn(Codec *c, void *p) {
    FkmFn *f = p;
    text(c, &f->name);
    text(c, &f->graph);
    ARRAY(c, f->tensors, f->n_tensors, 10, tensor);
    ARRAY(c, f->sizes, f->n_sizes, 12, size);
    ARRAY(c, f->solves, f->n_solves, 20, solve);
    ARRAY(c, f->checks, f->n_checks, 20, check);
    expr(c, &f->head);
    ARRAY(c, f->temps, f->n_temps, 9, temp);
    ARRAY(c, f->steps, f->n_steps, 8, step);
}

static void left_out(Codec *c, void *p) {
    FkmLeftOut *l = p;
    text(c, &l->name);
    text(c, &l->reason);
}

static void image(Codec *c, void *p) {
    FkmImage *i = p;
    text(c, &i->arch);
    blob(c, &i->bytes, &i->size);
    NUMBER(c, i->regs);
    NUMBER(c, i->shared);
    NUMBER(c, i->stack);
    NUMBER(c, i->spills);
}

static void kernel(Codec *c, void *p) {
    FkmKernel *k = p;
    text(c, &k->name);
    text(c, &k->ptx);
    NUMBER(c, k->major);
    NUMBER(c, k->minor);
    text(c, &k->arch);
    flag(c, &k->waits);
    ARRAY(c, k->cubins, k->n_cubins, 28, image);
}

static void module(Codec *c, FkmModule *m) {
    text(c, &m->producer);
    ARRAY(c, m->fns, m->n_fns, 40, fn);
    ARRAY(c, m->left_out, m->n_left_out, 8, left_out);
    ARRAY(c, m->kernels, m->n_kernels, 20, kernel);
}

// Like FNV-1a, but 8 bytes a step (modules are megabytes), turned so that no bit stays at the top:
// catches accidents, not enemies; those meet fkm_check.
static uint64_t checksum(const unsigned char *p, size_t n) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, p + i, n - i < 8 ? n - i : 8);
        h ^= le64toh(word);
        h = (h << 29 | h >> 35) * 0x100000001b3u;
    }
    return h;
}

typedef struct {
    uint32_t version, zero;
    uint64_t size, sum;
} Header;

static void header(Codec *c, Header *h) {
    unsigned char *magic = span(c, 8);
    if (!magic) return;
    if (!c->reading) memcpy(magic, MAGIC, 8);
    if (memcmp(magic, MAGIC, 8)) c->wrong = "it does not begin like an fkm module";
    NUMBER(c, h->version);
    NUMBER(c, h->zero);
    NUMBER(c, h->size);
    NUMBER(c, h->sum);
}

void fkm_seal(void *bytes, size_t n) {
    Header h = {FKM_VERSION, 0, n, checksum((unsigned char *)bytes + HEADER, n - HEADER)};
    header(&(Codec){.bytes = bytes, .size = HEADER}, &h);
}

static void *refuse(FkmError *error, const char *why) {
    if (why != error->text) snprintf(error->text, sizeof error->text, "%s", why);
    return NULL;
}

void *fkm_encode(const FkmModule *m, size_t *n, FkmError *error) {
    // The functions above take what they may also write to; in this direction they only read.
    FkmModule *tree = (FkmModule *)(uintptr_t)m;
    if (!fkm_check(tree, error)) return NULL;
    Codec c = {.bytes = calloc(1, 4096), .size = 4096, .at = HEADER};
    if (!c.bytes) return refuse(error, "out of memory");
    module(&c, tree);
    if (c.wrong) {
        free(c.bytes);
        return refuse(error, c.wrong);
    }
    fkm_seal(c.bytes, c.at);
    *n = c.at;
    return c.bytes;
}

static const char *read_header(Codec *c, FkmError *error) {
    Header h = {0};
    header(c, &h);
    if (c->wrong) return c->wrong;
    if (h.version != FKM_VERSION) {
        snprintf(error->text, sizeof error->text,
                 "its format is version %u, this library reads version %d", h.version, FKM_VERSION);
        return error->text;
    }
    if (h.zero) return "its header has a bit set that means nothing";
    if (h.size != c->size) return "its length is not what its header says";
    if (h.sum != checksum(c->bytes + HEADER, c->size - HEADER)) return "its checksum is wrong";
    return NULL;
}

FkmModule *fkm_decode(void *bytes, size_t n, FkmError *error) {
    Codec c = {.reading = true, .bytes = bytes, .size = n};
    const char *wrong = read_header(&c, error);
    if (wrong) return refuse(error, wrong);
    FkmModule *m = calloc(1, sizeof *m);
    if (!m) return refuse(error, "out of memory");
    module(&c, m);
    m->memory = c.memory;
    bool ok = !c.wrong && c.at == c.size;
    if (!ok) refuse(error, c.wrong ? c.wrong : "bytes follow its end");
    if (!ok || !fkm_check(m, error)) {
        fkm_free(m);
        return NULL;
    }
    return m;
}

void fkm_free(FkmModule *m) {
    if (!m) return;
    for (FkmChunk *k = m->memory, *next; k; k = next) {
        next = k->next;
        free(k);
    }
    free(m);
}
