/* sass.c - the loops of a kernel's machine code, and the local memory they touch.
 *
 * A cubin is ELF; a kernel's instructions, 16 bytes each, are the section .text.NAME. The low 12
 * bits of an instruction are its opcode, and only those that end a block, multiply on tensor cores
 * or touch local memory matter here; they are those of sm_90. From the blocks: dominators, back
 * edges, natural loops. What is known of the encoding was found by assembling and is pinned by
 * tests/unit/backend/sass_test.c.
 */
#include "backend/nvptx/sass_int.h"

#include <elf.h>
#include <string.h>

enum Opcode {
    OP_STL = 0x387, /* local memory: spills; fast kernels have nothing else there */
    OP_LDL = 0x983,
    OP_BRA = 0x947,
    OP_BRA_U = 0x547, /* by a uniform predicate: always conditional */
    OP_BSYNC = 0x941, /* on to where the BSSY of its barrier says */
    OP_BSSY = 0x945,
    OP_EXIT = 0x94d,
    OP_RET = 0x950,
    OP_BRX = 0x949, /* indirect: not followed */
    OP_JMX = 0x94c,
};

static bool is_mma(unsigned op) {
    static const uint16_t mma[] = {0x9f0, 0xdf0, 0x9f1, 0xdf1, 0x9f3, 0xdf3, /* wgmma */
                                   0x23c, 0x237, 0x27a};                     /* mma.sync */
    for (size_t i = 0; i < sizeof mma / sizeof *mma; i++)
        if (op == mma[i]) return true;
    return false;
}

/* ---- the section ---- */

typedef struct Code {
    const unsigned char *bytes;
    int n; /* instructions */
} Code;

static bool inside(size_t size, uint64_t at, uint64_t n) {
    return at <= size && n <= size - at;
}

/* The bytes of the section `prefix``kernel`. */
static bool find_section(const unsigned char *file, size_t size, const char *prefix,
                         const char *kernel, const unsigned char **bytes, size_t *n) {
    Elf64_Ehdr h;
    Elf64_Shdr names, s;
    if (size < sizeof h) return false;
    memcpy(&h, file, sizeof h);
    if (memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 || h.e_shentsize != sizeof s ||
        !inside(size, h.e_shoff, (uint64_t)h.e_shnum * sizeof s) || h.e_shstrndx >= h.e_shnum)
        return false;
    memcpy(&names, file + h.e_shoff + h.e_shstrndx * sizeof s, sizeof s);
    if (!inside(size, names.sh_offset, names.sh_size)) return false;
    const char *text = (const char *)file + names.sh_offset;
    size_t tail = strlen(kernel) + 1, head = strlen(prefix);
    for (int i = 0; i < h.e_shnum; i++) {
        memcpy(&s, file + h.e_shoff + (size_t)i * sizeof s, sizeof s);
        if (!inside(names.sh_size, s.sh_name, head + tail)) continue;
        if (memcmp(text + s.sh_name, prefix, head) != 0) continue;
        if (memcmp(text + s.sh_name + head, kernel, tail) != 0) continue;
        if (!inside(size, s.sh_offset, s.sh_size)) return false;
        *bytes = file + s.sh_offset;
        *n = s.sh_size;
        return true;
    }
    return false;
}

static bool find_code(const unsigned char *file, size_t size, const char *kernel, Code *c) {
    size_t n;
    if (!find_section(file, size, ".text.", kernel, &c->bytes, &n) || n % 16) return false;
    c->n = (int)(n / 16);
    return c->n > 0;
}

/* Word `at` of an attribute in a section .nv.info, which is a row of entries: format, attribute,
 * and 16 bits that are the value or, of SIZED ones, the bytes that follow. 0: not there. */
static uint32_t attribute(const unsigned char *p, size_t n, int which, size_t at) {
    enum { SIZED = 4 };
    for (size_t i = 0; i + 4 <= n;) {
        size_t size = p[i] == SIZED ? (size_t)(p[i + 2] | p[i + 3] << 8) : 0;
        uint32_t v;
        if (size > n - i - 4) return 0;
        if (p[i + 1] == which && size >= 4 * (at + 1)) {
            memcpy(&v, p + i + 4 + 4 * at, sizeof v);
            return v;
        }
        i += 4 + size;
    }
    return 0;
}

/* ---- instructions ---- */

typedef struct Insn {
    unsigned op;
    int bytes;   /* moved to or from local memory */
    int target;  /* instruction, or -1 */
    bool falls;  /* the next one may follow */
    int barrier; /* of BSSY, BSYNC */
} Insn;

/* 48 bits from bit 34 on, signed. */
static int64_t far_field(uint64_t lo, uint64_t hi) {
    uint64_t v = lo >> 34 | (hi & 0x3ffff) << 30;
    return (int64_t)(v << 16) >> 16;
}

/* 0, 1: a byte; 2, 3: two; 4, 5, 6: 4, 8, 16. */
static int local_bytes(unsigned size) {
    return size < 4 ? 1 << size / 2 : 1 << (size - 2);
}

static Insn decode(const unsigned char *p, int at) {
    uint64_t lo, hi;
    memcpy(&lo, p, 8);
    memcpy(&hi, p + 8, 8);
    Insn i = {.op = (unsigned)(lo & 0xfff), .target = -1, .falls = true};
    bool always = (lo >> 12 & 15) == 7; /* predicated by nothing */
    int64_t near = (int64_t)(lo >> 16 & 0xff);
    switch (i.op) {
    case OP_STL:
    case OP_LDL: i.bytes = local_bytes((unsigned)(hi >> 9 & 7)); break;
    case OP_BRA: /* a second predicate, and whether it asks for convergence */
        i.falls = !always || (hi >> 23 & 31) != 7;
        i.target = at + 1 + (int)((far_field(lo, hi) * 256 + near) / 4);
        break;
    case OP_BRA_U: i.target = at + 1 + (int)((far_field(lo, hi) * 256 + near) / 4); break;
    case OP_BSSY:
        i.barrier = (int)(lo >> 16 & 15);
        i.target = at + 1 + (int)(far_field(lo, hi) / 4);
        break;
    case OP_BSYNC: i.barrier = (int)(lo >> 16 & 15); break;
    case OP_EXIT:
    case OP_RET: i.falls = !always; break;
    default: break;
    }
    return i;
}

/* A BSYNC goes to the target of the BSSY of its barrier that stands last before it. */
static int meeting_point(const Insn *insn, int at) {
    for (int i = at - 1; i >= 0; i--)
        if (insn[i].op == OP_BSSY && insn[i].barrier == insn[at].barrier) return insn[i].target;
    return at + 1;
}

/* NULL: not understood. */
static Insn *decode_all(Arena *a, const Code *c) {
    Insn *insn = ARENA_ARRAY(a, Insn, c->n);
    for (int i = 0; i < c->n; i++) {
        insn[i] = decode(c->bytes + 16 * (size_t)i, i);
        if (insn[i].op == OP_BRX || insn[i].op == OP_JMX) return NULL;
        if (insn[i].op != OP_BSYNC) continue;
        insn[i].target = meeting_point(insn, i);
        insn[i].falls = false;
    }
    for (int i = 0; i < c->n; i++) {
        if (insn[i].target != -1 && (insn[i].target < 0 || insn[i].target >= c->n)) return NULL;
        if (insn[i].op == OP_BSSY) insn[i].target = -1; /* a promise, not a jump */
    }
    return insn;
}

/* ---- blocks ---- */

typedef struct Block {
    int first, end; /* instructions */
    int next[2];    /* blocks, or -1 */
    int order;      /* in reverse postorder; -1: not reached */
    int dom;        /* immediate dominator */
    int bytes;      /* of local memory */
    bool mma;
} Block;

typedef struct Flow {
    Arena *arena;
    VEC(Block) blocks;
    int *rpo; /* blocks by order */
    int reached;
} Flow;

static void make_blocks(Flow *f, const Insn *insn, int n) {
    bool *leads = ARENA_ARRAY(f->arena, bool, n + 1);
    int *block_of = ARENA_ARRAY(f->arena, int, n + 1);
    leads[0] = true;
    for (int i = 0; i < n; i++) {
        if (insn[i].target >= 0) leads[insn[i].target] = true;
        if (insn[i].target >= 0 || !insn[i].falls) leads[i + 1] = true;
    }
    for (int i = 0; i < n; i++) {
        if (leads[i]) {
            Block b = {.first = i, .order = -1, .dom = -1};
            vec_push(f->arena, &f->blocks, b);
        }
        Block *b = &f->blocks.v[f->blocks.n - 1];
        block_of[i] = f->blocks.n - 1;
        b->end = i + 1;
        b->bytes += insn[i].bytes;
        b->mma |= is_mma(insn[i].op);
    }
    for (int k = 0; k < f->blocks.n; k++) {
        Block *b = &f->blocks.v[k];
        const Insn *last = &insn[b->end - 1];
        b->next[0] = last->falls && b->end < n ? block_of[b->end] : -1;
        b->next[1] = last->target >= 0 ? block_of[last->target] : -1;
    }
}

/* Reverse postorder from the entry, with a stack of our own. */
static void order_blocks(Flow *f) {
    int n = f->blocks.n, top = 0, left = n;
    int *stack = ARENA_ARRAY(f->arena, int, n + 1), *turn = ARENA_ARRAY(f->arena, int, n);
    bool *seen = ARENA_ARRAY(f->arena, bool, n);
    int *post = ARENA_ARRAY(f->arena, int, n);
    stack[top++] = 0;
    seen[0] = true;
    while (top) {
        int b = stack[top - 1];
        if (turn[b] == 2) {
            post[--left] = b;
            top--;
            continue;
        }
        int next = f->blocks.v[b].next[turn[b]++];
        if (next < 0 || seen[next]) continue;
        seen[next] = true;
        stack[top++] = next;
    }
    f->reached = n - left;
    f->rpo = post + left;
    for (int i = 0; i < f->reached; i++) f->blocks.v[f->rpo[i]].order = i;
}

static int meet(const Flow *f, int a, int b) {
    while (a != b) {
        while (f->blocks.v[a].order > f->blocks.v[b].order) a = f->blocks.v[a].dom;
        while (f->blocks.v[b].order > f->blocks.v[a].order) b = f->blocks.v[b].dom;
    }
    return a;
}

/* Pushes dominators along edges until nothing moves (Cooper, Harvey, Kennedy). */
static void find_dominators(Flow *f) {
    f->blocks.v[0].dom = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < f->reached; i++) {
            int b = f->rpo[i];
            for (int e = 0; e < 2; e++) {
                int to = f->blocks.v[b].next[e];
                if (to <= 0) continue;
                int was = f->blocks.v[to].dom, now = was < 0 ? b : meet(f, was, b);
                f->blocks.v[to].dom = now;
                moved |= now != was;
            }
        }
    }
}

static bool dominates(const Flow *f, int a, int b) {
    while (f->blocks.v[b].order > f->blocks.v[a].order) b = f->blocks.v[b].dom;
    return a == b;
}

/* ---- loops ---- */

typedef struct Loop {
    int head, size;
    bool *in; /* by block */
    bool mma;
} Loop;

/* Adds to the loop all blocks that reach `tail` without passing its head. */
static void grow(const Flow *f, Loop *l, int tail) {
    l->in[l->head] = l->in[tail] = true;
    for (bool grown = true; grown;) {
        grown = false;
        for (int i = f->reached - 1; i >= 0; i--) {
            int b = f->rpo[i];
            const int *next = f->blocks.v[b].next;
            for (int e = 0; e < 2 && !l->in[b]; e++)
                if (next[e] >= 0 && next[e] != l->head && l->in[next[e]]) l->in[b] = grown = true;
        }
    }
}

typedef VEC(Loop) Loops;

static Loop *loop_at(Flow *f, Loops *loops, int head) {
    for (int i = 0; i < loops->n; i++)
        if (loops->v[i].head == head) return &loops->v[i];
    Loop l = {.head = head, .in = ARENA_ARRAY(f->arena, bool, f->blocks.n)};
    vec_push(f->arena, loops, l);
    return &loops->v[loops->n - 1];
}

static void find_loops(Flow *f, Loops *loops) {
    for (int i = 0; i < f->reached; i++) {
        int b = f->rpo[i];
        for (int e = 0; e < 2; e++) {
            int to = f->blocks.v[b].next[e];
            if (to >= 0 && dominates(f, to, b)) grow(f, loop_at(f, loops, to), b);
        }
    }
    for (int i = 0; i < loops->n; i++)
        for (int b = 0; b < f->blocks.n; b++) {
            loops->v[i].size += loops->v[i].in[b];
            loops->v[i].mma |= loops->v[i].in[b] && f->blocks.v[b].mma;
        }
}

/* Is a loop of the kind that counts inside of l? */
static bool has_inner(const Loops *loops, const Loop *l, bool mma) {
    for (int i = 0; i < loops->n; i++) {
        const Loop *k = &loops->v[i];
        if (k != l && l->in[k->head] && k->size < l->size && (k->mma || !mma)) return true;
    }
    return false;
}

/* By block: is it in the main loop? */
static bool *main_blocks(Flow *f) {
    Loops loops = {0};
    bool any_mma = false, *in = ARENA_ARRAY(f->arena, bool, f->blocks.n);
    order_blocks(f);
    find_dominators(f);
    find_loops(f, &loops);
    for (int i = 0; i < loops.n; i++) any_mma |= loops.v[i].mma;
    for (int b = 0; b < f->blocks.n; b++)
        for (int i = 0; i < loops.n && !in[b]; i++) {
            const Loop *l = &loops.v[i];
            in[b] = l->in[b] && (l->mma || !any_mma) && !has_inner(&loops, l, any_mma);
        }
    return in;
}

int sass_loop_spills(Arena *a, const void *cubin, size_t size, const char *kernel) {
    Code c;
    Flow f = {.arena = a};
    int local = 0, bytes = 0;
    if (!find_code(cubin, size, kernel, &c)) return -1;
    for (int i = 0; i < c.n; i++) local += decode(c.bytes + 16 * (size_t)i, i).bytes;
    if (!local) return 0;
    Insn *insn = decode_all(a, &c);
    if (!insn) return -1;
    make_blocks(&f, insn, c.n);
    bool *in = main_blocks(&f);
    for (int b = 0; b < f.blocks.n; b++) bytes += in[b] ? f.blocks.v[b].bytes : 0;
    return bytes;
}

bool sass_read(Arena *a, const void *cubin, size_t size, const char *kernel, SassCode *out) {
    enum { REQNTID = 0x10, REGCOUNT = 0x2f };
    Code c;
    Flow f = {.arena = a};
    const unsigned char *info;
    size_t n;
    if (!find_code(cubin, size, kernel, &c)) return false;
    Insn *insn = decode_all(a, &c);
    if (!insn) return false;
    *out = (SassCode){.v = ARENA_ARRAY(a, SassInsn, c.n), .n = c.n};
    make_blocks(&f, insn, c.n);
    bool *in = main_blocks(&f);
    for (int b = 0; b < f.blocks.n; b++)
        for (int i = f.blocks.v[b].first; i < f.blocks.v[b].end; i++) {
            memcpy(&out->v[i].lo, c.bytes + 16 * (size_t)i, 8);
            memcpy(&out->v[i].hi, c.bytes + 16 * (size_t)i + 8, 8);
            out->v[i].main = in[b];
        }
    if (find_section(cubin, size, ".nv.info.", kernel, &info, &n))
        out->threads = (int)(attribute(info, n, REQNTID, 0) * attribute(info, n, REQNTID, 1) *
                             attribute(info, n, REQNTID, 2));
    if (find_section(cubin, size, ".nv.info", "", &info, &n))
        out->regs = (int)attribute(info, n, REGCOUNT, 1); /* after its symbol; one kernel a cubin */
    return true;
}
