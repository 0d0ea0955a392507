// Is a module consistent? The packer asks before it writes and the reader before it believes, so
// everything after may index without looking: every index is in range, every expression evaluates
// within bounds and mentions only what is known where it stands, every limit of a launch holds.
#include "runtime/fkm.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *text;
    int bits;
} dtypes[FKM_DTYPES] = {
#define DTYPE(name, text, code, bits) {text, bits},
#include "runtime/dtype.def"
#undef DTYPE
};

const char *fkm_dtype_name(FkmDtype t) {
    return dtypes[t].text;
}

int fkm_dtype_bits(FkmDtype t) {
    return dtypes[t].bits;
}

int fkm_dtype_named(const char *text) {
    for (int i = 0; i < FKM_DTYPES; i++)
        if (!strcmp(text, dtypes[i].text)) return i;
    return -1;
}

bool fkm_arch(const char *text, FkmArch *arch) {
    if (strncmp(text, "sm_", 3)) return false;
    const char *p = text + 3;
    int n = 0, digits = 0;
    for (; *p >= '0' && *p <= '9' && digits < 4; p++, digits++) n = n * 10 + (*p - '0');
    *arch = (FkmArch){n, *p};
    if (*p == 'a' || *p == 'f') p++;
    return digits >= 2 && !*p;
}

typedef struct {
    FkmError *error;
    const FkmModule *m;
    const FkmFn *fn; // NULL outside
} Check;

__attribute__((format(printf, 2, 3))) static bool refuse(const Check *c, const char *format, ...) {
    char what[160];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    snprintf(c->error->text, sizeof c->error->text, "%s%.60s%s%s", c->fn ? "fn '" : "",
             c->fn && c->fn->name ? c->fn->name : "", c->fn ? "': " : "", what);
    return false;
}

static bool limit(const Check *c, const char *what, uint32_t n, uint32_t most) {
    return n <= most || refuse(c, "it has %u %s, the most is %u", n, what, most);
}

static bool named(const Check *c, const char *what, const char *name) {
    return (name && *name) || refuse(c, "a %s without a name", what);
}

static bool expr(const Check *c, const char *what, const FkmExpr *e, bool required,
                 FkmScope scope) {
    scope.fn = c->fn;
    const char *wrong = required && !e->n ? "no expression" : fkm_expr_check(e, &scope);
    return !wrong || refuse(c, "%s has %s", what, wrong);
}

static const FkmScope sizes_only = {0}, with_extents = {.extents = true},
                      everything = {.extents = true, .layout = true};

static bool check_tensors(const Check *c, FkmFn *f) {
    uint32_t first = 0;
    bool outputs = false;
    for (uint32_t i = 0; i < f->n_tensors; i++) {
        FkmTensor *t = &f->tensors[i];
        if (!named(c, "tensor", t->name)) return false;
        if (t->dtype >= FKM_DTYPES) return refuse(c, "'%s' has an unknown dtype", t->name);
        if (outputs && !t->is_output) return refuse(c, "an input follows an output");
        outputs = t->is_output;
        t->first_dim = first;
        if (!limit(c, "dimensions of a tensor", t->rank, FKM_MAX_RANK)) return false;
        first += t->rank;
        for (uint32_t d = 0; d < t->rank; d++) {
            if (!t->dims[d].text) return refuse(c, "a dimension without its text");
            if (!expr(c, "a dimension", &t->dims[d].size, true, sizes_only)) return false;
        }
    }
    f->n_dims = first;
    return limit(c, "dimensions", first, FKM_MAX_DIMS);
}

// Sizes, and that the solves in order find every one that is not bound.
static bool check_solves(const Check *c, const FkmFn *f) {
    bool known[FKM_MAX_SIZES] = {false};
    for (uint32_t i = 0; i < f->n_sizes; i++) {
        if (!named(c, "size", f->sizes[i].name)) return false;
        if (f->sizes[i].bound < -1) return refuse(c, "%s is negative", f->sizes[i].name);
        known[i] = f->sizes[i].bound >= 0;
    }
    for (uint32_t i = 0; i < f->n_solves; i++) {
        const FkmSolve *s = &f->solves[i];
        if (s->size >= f->n_sizes || s->tensor >= f->n_tensors ||
            s->dim >= f->tensors[s->tensor].rank)
            return refuse(c, "an equation names what does not exist");
        FkmScope number = {.known = known, .extents = true}, divisor = {.known = known};
        if (!expr(c, "an equation", &s->number, true, number)) return false;
        if (!expr(c, "an equation's divisor", &s->divisor, false, divisor)) return false;
        if (known[s->size]) return refuse(c, "%s is solved twice", f->sizes[s->size].name);
        known[s->size] = true;
    }
    for (uint32_t i = 0; i < f->n_sizes; i++)
        if (!known[i]) return refuse(c, "no equation solves %s", f->sizes[i].name);
    return true;
}

static bool check_checks(const Check *c, const FkmFn *f) {
    for (uint32_t i = 0; i < f->n_checks; i++) {
        const FkmCheck *k = &f->checks[i];
        if (!k->text) return refuse(c, "a check without its text");
        if (!expr(c, "a check", &k->value, true, everything) ||
            !expr(c, "a check's 'unless'", &k->unless, false, everything) ||
            !expr(c, "a check's needed value", &k->needed, false, everything) ||
            !expr(c, "a check's found value", &k->found, false, everything))
            return false;
    }
    return true;
}

static bool check_temp(const Check *c, const FkmTemp *t) {
    if (!expr(c, "a temporary", &t->bytes, true, with_extents)) return false;
    if (t->dtype >= FKM_DTYPES) return refuse(c, "a temporary has an unknown dtype");
    if (!limit(c, "dimensions of a temporary", t->rank, FKM_MAX_RANK)) return false;
    for (uint32_t d = 0; d < t->rank; d++)
        if (!expr(c, "a dimension of a temporary", &t->dims[d], true, sizes_only)) return false;
    return true;
}

// A tensor map that the hardware can express at all: the rest comes with a launch.
static bool check_map(const Check *c, const FkmFn *f, const FkmParam *p) {
    const FkmMap *m = &p->map;
    if (p->index >= (m->temp ? f->n_temps : f->n_tensors))
        return refuse(c, "a tensor map of nothing");
    uint32_t rank = m->temp ? f->temps[p->index].rank : f->tensors[p->index].rank, seen = 0;
    uint32_t bits =
        (uint32_t)dtypes[m->temp ? f->temps[p->index].dtype : f->tensors[p->index].dtype].bits;
    uint32_t row = m->box[0] * bits / 8;
    if (p->value.n) return refuse(c, "a tensor map with an offset");
    if (m->rank < 1 || m->rank > FKM_MAP_RANK) return refuse(c, "a tensor map of rank %u", m->rank);
    for (int i = 0; i < m->rank; i++) {
        if (m->dim[i] >= rank || seen >> m->dim[i] & 1)
            return refuse(c, "a tensor map over dimension %u, absent or taken twice", m->dim[i]);
        seen |= (uint32_t)1 << m->dim[i];
        if (!m->box[i] || m->box[i] > FKM_MAP_BOX)
            return refuse(c, "a tensor map with a box of %u elements", m->box[i]);
    }
    if (m->swizzle && m->swizzle != 32 && m->swizzle != 64 && m->swizzle != 128)
        return refuse(c, "a tensor map with a swizzle of %u bytes", m->swizzle);
    if (bits < 8 && m->dim[0] != rank - 1)
        return refuse(c, "a tensor map of half bytes that do not lie side by side");
    if (row % 16 || (m->swizzle && row > m->swizzle))
        return refuse(c, "a tensor map whose box is %u bytes wide", row);
    return true;
}

static bool check_param(const Check *c, const FkmFn *f, const FkmParam *p) {
    if (p->kind >= FKM_PARAM_KINDS) return refuse(c, "a parameter of an unknown kind");
    bool tensor = p->kind == FKM_PARAM_TENSOR || p->kind == FKM_PARAM_SCALAR;
    if (tensor && p->index >= f->n_tensors) return refuse(c, "a parameter names no tensor");
    if (p->kind == FKM_PARAM_SCALAR &&
        (f->tensors[p->index].rank || f->tensors[p->index].is_output))
        return refuse(c, "a scalar parameter names '%s', which is none", f->tensors[p->index].name);
    if (p->kind == FKM_PARAM_TENSOR && !f->tensors[p->index].rank &&
        !f->tensors[p->index].is_output)
        return refuse(c, "'%s' may be on the CPU and has no address", f->tensors[p->index].name);
    if (p->kind == FKM_PARAM_TEMP && p->index >= f->n_temps)
        return refuse(c, "a parameter names no temporary");
    if (p->kind == FKM_PARAM_TMAP) return check_map(c, f, p);
    return expr(c, "a parameter", &p->value, p->kind == FKM_PARAM_VALUE, everything);
}

static bool check_launch(const Check *c, const FkmFn *f, const FkmLaunch *l) {
    uint64_t threads = 1;
    uint32_t n = 0, maps = 0, unit = FKM_MAP_ALIGN / 8;
    if (l->kernel >= c->m->n_kernels) return refuse(c, "a launch names no kernel");
    for (int i = 0; i < 3; i++) {
        if (!expr(c, "a grid", &l->grid[i], true, everything)) return false;
        if (!l->block[i] || l->block[i] > 1024)
            return refuse(c, "a block of %u threads", l->block[i]);
        threads *= l->block[i];
    }
    if (threads > 1024) return refuse(c, "a block of %u threads", (unsigned)threads);
    if (!expr(c, "shared memory", &l->shared, false, everything)) return false;
    if (!limit(c, "parameters of a kernel", l->n_params, FKM_MAX_PARAMS)) return false;
    for (uint32_t i = 0; i < l->n_params; i++) {
        if (!check_param(c, f, &l->params[i])) return false;
        bool is_map = l->params[i].kind == FKM_PARAM_TMAP;
        if (is_map) n = (n + unit - 1) / unit * unit;
        n += is_map ? FKM_MAP_BYTES / 8 : l->params[i].kind == FKM_PARAM_SCALAR ? 2 : 1;
        maps += is_map;
    }
    return limit(c, "tensor maps of a kernel", maps, FKM_MAX_MAPS) &&
           limit(c, "parameters of a kernel", n, FKM_MAX_PARAMS);
}

static bool check_step(const Check *c, const FkmFn *f, const FkmStep *s) {
    FkmArch arch;
    if (!s->n_variants) return refuse(c, "a step without variants");
    if (!limit(c, "variants of a step", s->n_variants, FKM_MAX_VARIANTS)) return false;
    for (uint32_t i = 0; i < s->n_variants; i++) {
        const FkmVariant *v = &s->variants[i];
        if (!v->arch || !fkm_arch(v->arch, &arch))
            return refuse(c, "a variant for no architecture");
        if (!v->n_launches) return refuse(c, "a variant that launches nothing");
        if (!limit(c, "launches of a variant", v->n_launches, FKM_MAX_LAUNCHES)) return false;
        if (!expr(c, "a guard", &v->guard, false, everything)) return false;
        if (!expr(c, "a cost", &v->cost, false, everything)) return false;
        if (!expr(c, "a scratch size", &v->scratch, false, everything)) return false;
        for (uint32_t j = 0; j < v->n_launches; j++)
            if (!check_launch(c, f, &v->launches[j])) return false;
    }
    return true;
}

static bool check_fn(Check *c, FkmFn *f) {
    c->fn = f;
    if (!named(c, "fn", f->name)) return false;
    if (!limit(c, "tensors", f->n_tensors, FKM_MAX_TENSORS) ||
        !limit(c, "sizes", f->n_sizes, FKM_MAX_SIZES) ||
        !limit(c, "temporaries", f->n_temps, FKM_MAX_TEMPS) ||
        !limit(c, "steps", f->n_steps, FKM_MAX_STEPS))
        return false;
    if (!check_tensors(c, f) || !check_solves(c, f) || !check_checks(c, f)) return false;
    if (!expr(c, "the workspace's head", &f->head, false, with_extents)) return false;
    for (uint32_t i = 0; i < f->n_temps; i++)
        if (!check_temp(c, &f->temps[i])) return false;
    for (uint32_t i = 0; i < f->n_steps; i++)
        if (!check_step(c, f, &f->steps[i])) return false;
    return true;
}

static bool check_kernel(const Check *c, const FkmKernel *k) {
    FkmArch arch;
    if (!named(c, "kernel", k->name)) return false;
    if (k->ptx && (!k->arch || !fkm_arch(k->arch, &arch)))
        return refuse(c, "PTX of kernel '%s' has no architecture", k->name);
    for (uint32_t i = 0; i < k->n_cubins; i++)
        if (!k->cubins[i].arch || !fkm_arch(k->cubins[i].arch, &arch) || !k->cubins[i].size)
            return refuse(c, "a cubin of kernel '%s' has no architecture or no bytes", k->name);
    return k->ptx || k->n_cubins || refuse(c, "kernel '%s' has no code", k->name);
}

bool fkm_check(FkmModule *m, FkmError *error) {
    Check c = {error, m, NULL};
    for (uint32_t i = 0; i < m->n_kernels; i++)
        if (!check_kernel(&c, &m->kernels[i])) return false;
    for (uint32_t i = 0; i < m->n_left_out; i++) {
        if (!named(&c, "left-out fn", m->left_out[i].name)) return false;
        if (!m->left_out[i].reason) return refuse(&c, "a left-out fn without a reason");
    }
    for (uint32_t i = 0; i < m->n_fns; i++)
        if (!check_fn(&c, &m->fns[i])) return false;
    return true;
}
