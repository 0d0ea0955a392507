/* gemm_rules.c - the rules, on machine code as sass.c reads it. Opcodes are those of sm_90. */
#include "tests/code/gemm_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum Opcode {
    HGMMA = 0x9f0, /* a product; of fp8 it is QGMMA */
    QGMMA = 0x9f3,
    FADD = 0x021,      /* in the low 9 bits */
    WARPGROUP = 0x9c5, /* ARRIVE, or DEPBAR: wait until so many batches are pending */
    SETMAXREG = 0x9c8,
    R2UR = 0x2ca, /* a register to a uniform one: slow, and a sign that something lost uniformity */
    UTMALDG = 0x5b4,
    UTMALDG_MULTICAST = 0x3b4,
    UTMASTG = 0x3b5,
    STSM = 0x844,
    STG = 0x986,
    STS = 0x988,
};

static unsigned op(const SassInsn *i) {
    return (unsigned)(i->lo & 0xfff);
}

static int count(const SassCode *c, unsigned what, int from, int end) {
    int n = 0;
    for (int i = from > 0 ? from : 0; i < end && i < c->n; i++) n += op(&c->v[i]) == what;
    return n;
}

static int all(const Subject *s, unsigned what) {
    return count(&s->code, what, 0, s->code.n);
}

static bool is_product(const SassInsn *i) {
    return op(i) == HGMMA || op(i) == QGMMA;
}

static int times_in(const char *text, const char *what) {
    int n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

/* Are products summed by stages, and these sums by ordinary instructions? Then every batch
 * overwrites. */
static bool is_promoted(const Subject *s) {
    return !strstr(s->ptx, "da, db, p, ");
}

/* The first and the last product. */
static bool products(const Subject *s, int *first, int *last) {
    *first = *last = -1;
    for (int i = 0; i < s->code.n; i++)
        if (is_product(&s->code.v[i])) {
            if (*first < 0) *first = i;
            *last = i;
        }
    return *first >= 0;
}

/* ---- launch ---- */

/* The registers that the CTA starts with, and has after setmaxnreg, must be there: a group that
 * asks for more than the loader gave back waits for ever. */
static bool launch(const Subject *s, Str *why) {
    int have = s->code.regs * s->threads, given, taken;
    if (s->code.threads != s->threads)
        str_printf(why, "made for %d threads, launched with %d", s->code.threads, s->threads);
    if (!s->code.regs || have > 65536)
        str_printf(why, "%d threads of %d registers are no CTA", s->threads, s->code.regs);
    const char *dec = strstr(s->ptx, "setmaxnreg.dec.sync.aligned.u32 "),
               *inc = strstr(s->ptx, "setmaxnreg.inc.sync.aligned.u32 ");
    if (s->groups == 1 && !dec && !inc) return !why->n; /* all have enough from the start */
    if (!dec || !inc) return str_add(why, "no setmaxnreg in the PTX"), false;
    given = atoi(dec + 32), taken = atoi(inc + 32);
    if (128 * given + 128 * s->groups * taken > have)
        str_printf(why, "%d and %d groups of %d registers are more than %d", given, s->groups,
                   taken, have);
    return !why->n;
}

/* What the PTX asks of setmaxnreg is in the code. (C7508 would leave it out.) */
static bool setmaxnreg(const Subject *s, Str *why) {
    static const char text[] = "setmaxnreg.";
    int asked = 0;
    for (const char *at = s->ptx; (at = strstr(at, text)); asked++) {
        at += strcspn(at, " ");
        int regs = atoi(at), found = 0;
        for (int i = 0; i < s->code.n; i++)
            found += op(&s->code.v[i]) == SETMAXREG && (int)(s->code.v[i].lo >> 32 & 0xfff) == regs;
        if (!found) str_printf(why, "none to %d registers; ", regs);
    }
    if (all(s, SETMAXREG) != asked)
        str_printf(why, "%d where %d are asked for", all(s, SETMAXREG), asked);
    return !why->n;
}

/* ---- the main loop ---- */

static bool no_local_memory(const Subject *s, Str *why) {
    int n = 0;
    for (int i = 0; i < s->code.n; i++)
        n += s->code.v[i].main && (op(&s->code.v[i]) == 0x387 || op(&s->code.v[i]) == 0x983);
    if (n) str_printf(why, "%d loads and stores of local memory in the main loop", n);
    return !n;
}

/* As many as a stage has steps of k, once, in the main loop. */
static bool products_once(const Subject *s, Str *why) {
    int n = all(s, HGMMA) + all(s, QGMMA), in = 0;
    for (int i = 0; i < s->code.n; i++) in += s->code.v[i].main && is_product(&s->code.v[i]);
    if (in != n) str_printf(why, "%d products of %d are outside of the main loop", n - in, n);
    if (n != 4 * s->blocks && n != 8 * s->blocks)
        str_printf(why, "%d products for %d blocks of 64 rows", n, s->blocks);
    return !why->n;
}

/* Does this product end a batch? */
static bool ends_batch(const SassInsn *i) {
    return is_product(i) && (i->hi >> 20 & 7) != 7;
}

/* With promotion: as many fences, batches and waits as are written, none beside them. */
static bool batches_as_written(const Subject *s, Str *why) {
    enum { PENDING = 3 };
    int fences = 0, ends = 0, waits[PENDING] = {0};
    for (int i = 0; i < s->code.n; i++) {
        const SassInsn *x = &s->code.v[i];
        unsigned pending = (unsigned)(x->hi >> 8 & 0xff);
        ends += ends_batch(x);
        if (op(x) != WARPGROUP) continue;
        if (!(x->lo >> 47 & 1))
            fences++;
        else if (pending < PENDING)
            waits[pending]++;
        else
            str_printf(why, "a wait for %u pending; ", pending);
    }
    if (fences != times_in(s->ptx, "wgmma.fence.sync")) str_printf(why, "%d fences; ", fences);
    if (ends != times_in(s->ptx, "wgmma.commit_group")) str_printf(why, "%d batches; ", ends);
    for (int i = 0; i < PENDING; i++) {
        char text[64];
        snprintf(text, sizeof text, "wgmma.wait_group.sync.aligned %d;", i);
        if (waits[i] != times_in(s->ptx, text))
            str_printf(why, "%d waits for %d pending; ", waits[i], i);
    }
    return !why->n;
}

/* One batch a stage: a fence before the first product, the last one ends it, then one wait that
 * leaves a batch pending. After the loop one wait for all. */
static bool one_batch(const Subject *s, Str *why) {
    int first, last, fences = 0, one = 0, none = 0, ends = 0;
    if (is_promoted(s)) return batches_as_written(s, why);
    if (!products(s, &first, &last)) return str_add(why, "no products"), false;
    for (int i = 0; i < s->code.n; i++) {
        const SassInsn *x = &s->code.v[i];
        if (ends_batch(x)) {
            ends++;
            if (i != last) str_add(why, "a product before the last ends a batch; ");
        }
        if (op(x) != WARPGROUP) continue;
        if (first < i && i < last) str_add(why, "a fence or a wait between products; ");
        int pending = (int)(x->hi >> 8 & 0xff);
        if (!(x->lo >> 47 & 1)) {
            fences++;
            if (!x->main) str_add(why, "a fence outside of the main loop; ");
        } else if (x->main) {
            one++;
            if (pending != 1) str_printf(why, "the main loop waits for %d pending; ", pending);
        } else {
            none++;
            if (pending) str_printf(why, "%d are left pending after the loop; ", pending);
        }
    }
    if (fences != 1 || one != 1 || none != 1 || ends != 1)
        str_printf(why, "%d fences, %d waits in the loop, %d after it, %d ends of a batch", fences,
                   one, none, ends);
    return !why->n;
}

/* Does it run on the uniform path, or is it nothing? */
static bool is_uniform(unsigned o) {
    static const uint16_t which[] = {
        0x918,                                    /* NOP */
        0x287, 0x887, 0x28c, 0x88c, 0x290, 0x890, /* USEL UISETP UIADD3 */
        0x291, 0x891, 0x292, 0x892, 0x299, 0x899, /* ULEA ULOP3 USHF */
        0x2a4, 0x2a5, 0x8a4, 0x8a5,               /* UIMAD */
        0x882, 0xc82, 0xab9};                     /* UMOV ULDC */
    for (size_t i = 0; i < sizeof which / sizeof *which; i++)
        if (o == which[i]) return true;
    return false;
}

/* Arithmetic in registers that does not wait: MOV SEL ISETP IADD3 LOP3 PRMT IMAD SHF LEA PLOP3
 * LDC. */
static bool is_short(unsigned o) {
    static const uint16_t which[] = {0x202, 0x207, 0x20c, 0x210, 0x211, 0x212,
                                     0x216, 0x219, 0x21c, 0x224, 0x236};
    if (o == 0xb82) return true;
    for (size_t i = 0; i < sizeof which / sizeof *which; i++)
        if ((o & 0x1ff) == (which[i] & 0x1ff)) return true;
    return false;
}

/* Between the products of a batch stands nothing but uniform arithmetic for the next descriptors,
 * and a little for the next stage; with promotion, sums of the batch before. */
static bool products_alone(const Subject *s, Str *why) {
    enum { A_LITTLE = 10, UNIFORM_EACH = 8 };
    int first, last, other = 0, uniform = 0;
    if (!products(s, &first, &last)) return str_add(why, "no products"), false;
    bool promoted = is_promoted(s);
    int batches = times_in(s->ptx, "wgmma.commit_group"), seen = 0;
    int per_batch = batches ? (all(s, HGMMA) + all(s, QGMMA)) / batches : 1;
    for (int i = first; i <= last; i++) {
        unsigned o = op(&s->code.v[i]);
        seen += is_product(&s->code.v[i]);
        if (is_product(&s->code.v[i]) || seen % per_batch == 0) continue;
        if (promoted && (o & 0x1ff) == FADD) continue;
        if (is_uniform(o))
            uniform++;
        else if (is_short(o))
            other++;
        else
            str_printf(why, "opcode 0x%03x between products; ", o);
    }
    int n = count(&s->code, HGMMA, first, last + 1) + count(&s->code, QGMMA, first, last + 1);
    if (other > A_LITTLE || uniform > UNIFORM_EACH * n)
        str_printf(why, "%d uniform and %d other instructions between %d products", uniform, other,
                   n);
    return !why->n;
}

/* The role, the stage and the descriptors are uniform all the way. */
static bool uniform_registers(const Subject *s, Str *why) {
    enum { BEFORE = 60, AFTER = 45, FEW = 6 };
    int first, last;
    if (!products(s, &first, &last)) return str_add(why, "no products"), false;
    int n = count(&s->code, R2UR, first - BEFORE, first) + count(&s->code, R2UR, first, last + 1) +
            count(&s->code, R2UR, last + 1, last + 1 + AFTER);
    if (n > FEW) str_printf(why, "%d moves to uniform registers near the products", n);
    return !why->n;
}

/* ---- memory ---- */

/* Boxes by TMA, whole matrices by stmatrix x4: 16 bytes or more at a time. Where more than the
 * factors are brought, one thread notes the coordinates of slabs in shared memory. */
static bool wide_accesses(const Subject *s, Str *why) {
    int loads = all(s, UTMALDG) + all(s, UTMALDG_MULTICAST);
    if (loads < s->maps_in) str_printf(why, "%d loads by TMA for %d maps; ", loads, s->maps_in);
    if (all(s, UTMASTG) < s->maps_out)
        str_printf(why, "%d stores by TMA for %d maps; ", all(s, UTMASTG), s->maps_out);
    bool parts = strstr(s->name, "_split") != NULL; /* these go past TMA */
    if (s->maps_out && all(s, STG) && !parts) str_printf(why, "%d stores past TMA; ", all(s, STG));
    if (!s->staged16) return !why->n;
    int notes = s->maps_in > 2 ? 2 : 0;
    if (all(s, STS) > notes) str_printf(why, "%d narrow stores to shared memory; ", all(s, STS));
    for (int i = 0; i < s->code.n; i++)
        if (op(&s->code.v[i]) == STSM && (s->code.v[i].hi >> 8 & 3) != 2)
            str_add(why, "an stmatrix of less than four; ");
    if (!all(s, STSM)) str_add(why, "no stmatrix");
    return !why->n;
}

const Rule gemm_rules[] = {
    {"launch", launch},
    {"setmaxnreg", setmaxnreg},
    {"no local memory", no_local_memory},
    {"products once", products_once},
    {"one batch", one_batch},
    {"products alone", products_alone},
    {"uniform registers", uniform_registers},
    {"wide accesses", wide_accesses},
    {NULL, NULL},
};

/* ---- subjects ---- */

bool subject_of(Subject *s, const FkmFn *f, const FkmVariant *v, const FkmKernel *k, Arena *a) {
    int rows = 0, cols = 0;
    const FkmLaunch *l = &v->launches[0];
    const char *size = v->name + strcspn(v->name, "_");
    if (sscanf(size, "_%dx%d", &rows, &cols) != 2 || !k->n_cubins) return false;
    *s = (Subject){.name = v->name, .ptx = k->ptx, .threads = (int)l->block[0]};
    s->groups = s->threads / 128 - 1;
    s->blocks = (strncmp(v->name, "pingpong", 8) ? rows / s->groups : rows) / 64;
    int outs = 0, bits16 = 0;
    for (uint32_t i = 0; i < f->n_tensors; i++) outs += f->tensors[i].is_output;
    for (uint32_t i = 0; i < l->n_params; i++) {
        const FkmParam *p = &l->params[i];
        if (p->kind != FKM_PARAM_TMAP) continue;
        bool out = !p->map.temp && f->tensors[p->index].is_output;
        s->maps_in += !out;
        s->maps_out += out;
        bits16 += out && fkm_dtype_bits((FkmDtype)f->tensors[p->index].dtype) == 16;
    }
    if (!strncmp(v->name, "swap", 4)) s->blocks *= s->maps_in - 1; /* of each sum; x is a map */
    s->staged16 = outs && bits16 == outs;
    return sass_read(a, k->cubins[0].bytes, k->cubins[0].size, k->name, &s->code);
}
