// All arguments of a launch together: sizes solved, extents compared, checks evaluated, overlap.
#include "runtime/runtime_int.h"

#include <string.h>

// "argument 1 'w': dimension 0 (2*D) is 7" into text.
static const char *dim_text(const FkBound *b, uint32_t tensor, uint32_t dim, char *text,
                            size_t room) {
    const FkmTensor *t = &b->fn->fn->tensors[tensor];
    snprintf(text, room, "fn '%s', argument %u '%s': dimension %u (%s) is %lld", b->fn->fn->name,
             tensor, t->name, dim, t->dims[dim].text, (long long)b->extent[t->first_dim + dim]);
    return text;
}

static fk_status solve(FkBound *b, const FkmSolve *s) {
    char where[512];
    int64_t number, divisor = 1;
    const char *name = b->fn->fn->sizes[s->size].name;
    bool ok = fkm_eval(&s->number, &b->env, &number) &&
              (!s->divisor.n || fkm_eval(&s->divisor, &b->env, &divisor));
    if (ok && divisor > 0 && number >= 0 && number % divisor == 0) {
        b->size[s->size] = number / divisor;
        return FK_OK;
    }
    dim_text(b, s->tensor, s->dim, where, sizeof where);
    if (!ok)
        return fk_fail(FK_ERROR_OVERFLOW, "%s, from which %s cannot be computed in 64 bits", where,
                       name);
    if (divisor <= 0)
        return fk_fail(FK_ERROR_SIZE,
                       "%s, which leaves %s unknown: its factor must be positive, found %lld",
                       where, name, (long long)divisor);
    if (number < 0)
        return fk_fail(FK_ERROR_SIZE, "%s, which makes %s negative: %lld / %lld", where, name,
                       (long long)number, (long long)divisor);
    return fk_fail(FK_ERROR_DIVISIBLE,
                   "%s, which gives no whole %s: %lld must be divisible by %lld", where, name,
                   (long long)number, (long long)divisor);
}

// Where a size's value comes from, for the message that an extent disagrees with it.
static void origin(const FkBound *b, uint32_t size, char *text, size_t room) {
    const FkmFn *f = b->fn->fn;
    if (f->sizes[size].bound >= 0) snprintf(text, room, " (fixed when the module was compiled)");
    for (uint32_t i = 0; i < f->n_solves; i++)
        if (f->solves[i].size == size)
            snprintf(text, room, " (from argument %u '%s', dimension %u)", f->solves[i].tensor,
                     f->tensors[f->solves[i].tensor].name, f->solves[i].dim);
}

static fk_status check_dim(const FkBound *b, uint32_t tensor, uint32_t dim) {
    char where[512], from[256] = "";
    const FkmTensor *t = &b->fn->fn->tensors[tensor];
    const FkmDim *d = &t->dims[dim];
    int64_t needed;
    bool ok = fkm_eval(&d->size, &b->env, &needed);
    if (ok && needed == b->extent[t->first_dim + dim]) return FK_OK;
    dim_text(b, tensor, dim, where, sizeof where);
    if (!ok)
        return fk_fail(FK_ERROR_OVERFLOW,
                       "%s, but %s leaves 64 bits or divides by a number that is not positive",
                       where, d->text);
    if (d->size.n == 1 && d->size.code[0].op == FKM_OP_SIZE)
        origin(b, d->size.code[0].a, from, sizeof from);
    return fk_fail(FK_ERROR_SIZE, "%s, but %s is %lld%s", where, d->text, (long long)needed, from);
}

// `text` with {needed} and {found} replaced.
static void fill_in(const char *text, int64_t needed, int64_t found, char *out, size_t room) {
    size_t n = 0;
    while (*text && n + 1 < room) {
        bool is_needed = !strncmp(text, "{needed}", 8), is_found = !strncmp(text, "{found}", 7);
        if (is_needed || is_found) {
            n += (size_t)snprintf(out + n, room - n, "%lld",
                                  (long long)(is_needed ? needed : found));
            text += is_needed ? 8 : 7;
        } else {
            out[n++] = *text++;
        }
    }
    out[n < room ? n : room - 1] = 0;
}

static fk_status check(const FkBound *b, const FkmCheck *c) {
    char text[1024];
    int64_t value, skip = 0, needed = 0, found = 0;
    if (c->unless.n && fkm_eval(&c->unless, &b->env, &skip) && skip) return FK_OK;
    bool ok = fkm_eval(&c->value, &b->env, &value);
    if (ok && value >= 0) return FK_OK;
    bool numbers = fkm_eval(&c->needed, &b->env, &needed);
    numbers = fkm_eval(&c->found, &b->env, &found) && numbers;
    fill_in(c->text, needed, found, text, sizeof text);
    if (!numbers || !ok)
        return fk_fail(FK_ERROR_OVERFLOW,
                       "fn '%s': %s (a number here leaves 64 bits, or is divided by one that is "
                       "not positive)",
                       b->fn->fn->name, text);
    return fk_fail(FK_ERROR_CHECK, "fn '%s': %s", b->fn->fn->name, text);
}

static void set_env(FkBound *b, uint64_t *room) {
    const FkmFn *f = b->fn->fn;
    b->size = (int64_t *)room;
    b->extent = b->size + f->n_sizes;
    b->stride = b->extent + f->n_dims;
    b->align = b->stride + f->n_dims;
    b->address = (uint64_t *)(b->align + f->n_tensors);
    b->low = b->address + f->n_tensors;
    b->high = b->low + f->n_tensors;
    b->temp = b->high + f->n_tensors;
    b->temp_bytes = b->temp + f->n_temps;
    b->live = b->temp_bytes + f->n_temps;
    b->scratch = b->live + f->n_temps;
    b->scratch_bytes = b->scratch + f->n_steps;
    b->env = (FkmEnv){f->tensors, b->size,  b->extent,
                      b->stride,  b->align, b->fn->module->device->facts.info.sm_count};
    for (uint32_t i = 0; i < f->n_sizes; i++) b->size[i] = f->sizes[i].bound;
}

fk_status fk_bind(const fk_fn *fn, DLTensor *const *args, int n, bool need_data, uint64_t *room,
                  FkBound *b) {
    fk_status s = FK_OK;
    const FkmFn *f = fn->fn;
    if (n < 0 || (uint32_t)n != f->n_tensors)
        return fk_fail(FK_ERROR_COUNT, "fn '%s' takes %u tensors (inputs, then outputs), found %d",
                       f->name, f->n_tensors, n);
    if (n && !args)
        return fk_fail(FK_ERROR_ARGUMENT, "fn '%s': the list of arguments is null", f->name);
    b->fn = fn;
    b->args = args;
    b->addresses = true;
    set_env(b, room);
    for (uint32_t i = 0; i < f->n_tensors && !s; i++) s = fk_bind_tensor(b, i, need_data);
    for (uint32_t i = 0; i < f->n_solves && !s; i++) s = solve(b, &f->solves[i]);
    for (uint32_t i = 0; i < f->n_tensors && !s; i++)
        for (uint32_t d = 0; d < f->tensors[i].rank && !s; d++) s = check_dim(b, i, d);
    for (uint32_t i = 0; i < f->n_checks && !s; i++) s = check(b, &f->checks[i]);
    return s;
}
