// Modules and fns: loading, finding, describing.
#include "runtime/runtime_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void free_module(fk_module *m) {
    const fk_device *d = m->device;
    for (uint32_t i = 0; m->kernels && i < m->tree->n_kernels; i++)
        if (m->kernels[i].module) d->ops->module_unload(d->self, m->kernels[i].module);
    for (uint32_t i = 0; m->fns && i < m->tree->n_fns; i++) {
        free(m->fns[i].usable);
        free(m->fns[i].life);
        free(m->fns[i].order);
        fk_tmap_cache_free(m->fns[i].tmaps);
    }
    fkm_free(m->tree);
    free(m->kernels);
    free(m->fns);
    free(m->bytes);
    pthread_mutex_destroy(&m->loading);
    free(m);
}

static bool find_lives(fk_fn *fn) {
    const FkmFn *f = fn->fn;
    fn->life = calloc(f->n_temps + 1, sizeof *fn->life);
    fn->order = calloc(f->n_temps + 1, sizeof *fn->order);
    if (!fn->life || !fn->order) return false;
    fkm_lives(f, fn->life);
    fkm_order(fn->life, f->n_temps, f->n_steps, fn->order);
    return true;
}

static bool make_fns(fk_module *m) {
    const FkmModule *tree = m->tree;
    m->kernels = calloc(tree->n_kernels + 1, sizeof *m->kernels);
    m->fns = calloc(tree->n_fns + 1, sizeof *m->fns);
    if (!m->kernels || !m->fns) return false;
    for (uint32_t i = 0; i < tree->n_fns; i++) {
        m->fns[i] = (fk_fn){.module = m, .fn = &tree->fns[i]};
        m->fns[i].usable = calloc(tree->fns[i].n_steps + 1, sizeof(uint64_t));
        if (!m->fns[i].usable || !find_lives(&m->fns[i])) return false;
        if (!fk_tmap_wanted(&tree->fns[i])) continue;
        m->fns[i].tmaps = fk_tmap_cache_new();
        if (!m->fns[i].tmaps) return false;
    }
    return true;
}

// Takes over `bytes`, from malloc.
static fk_status load_owned(fk_device *d, void *bytes, size_t size, const char *path,
                            fk_module **module) {
    FkmError error;
    fk_module *m = calloc(1, sizeof *m);
    FkmModule *tree = m ? fkm_decode(bytes, size, &error) : NULL;
    if (!tree) {
        free(m);
        free(bytes);
        if (!m) return fk_fail(FK_ERROR_MEMORY, "out of memory for a module");
        return fk_fail(FK_ERROR_BAD_MODULE, "%s is not a module that libfk %d.%d.%d can read: %s",
                       path ? path : "the buffer", FK_VERSION / 10000, FK_VERSION / 100 % 100,
                       FK_VERSION % 100, error.text);
    }
    *m = (fk_module){.device = d, .bytes = bytes, .tree = tree};
    pthread_mutex_init(&m->loading, NULL);
    if (!make_fns(m)) {
        free_module(m);
        return fk_fail(FK_ERROR_MEMORY, "out of memory for a module");
    }
    fk_choose_images(m);
    atomic_fetch_add(&d->users, 1);
    *module = m;
    return FK_OK;
}

fk_status fk_module_load(fk_device *d, const void *bytes, size_t size, fk_module **module) {
    if (!d || !module || (!bytes && size))
        return fk_fail(FK_ERROR_ARGUMENT, "fk_module_load: a null argument");
    void *copy = malloc(size + 1);
    if (!copy) return fk_fail(FK_ERROR_MEMORY, "out of memory for a module of %zu bytes", size);
    if (size) memcpy(copy, bytes, size);
    return load_owned(d, copy, size, NULL, module);
}

// The whole of a file, from malloc; grows as it reads, so pipes work as well.
static fk_status read_file(const char *path, void **bytes, size_t *size) {
    FILE *f = fopen(path, "rb");
    size_t room = 1 << 16, n = 0, got;
    char *p = f ? malloc(room) : NULL;
    while (p && (got = fread(p + n, 1, room - n, f)) > 0) {
        n += got;
        if (n < room) continue;
        char *grown = realloc(p, room *= 2);
        if (!grown) free(p);
        p = grown;
    }
    fk_status s = FK_OK;
    if (!f || (p && ferror(f)))
        s = fk_fail(FK_ERROR_IO, "%s: %s", path, strerror(errno));
    else if (!p)
        s = fk_fail(FK_ERROR_MEMORY, "%s: out of memory", path);
    if (f) fclose(f);
    if (s) return free(p), s;
    *bytes = p;
    *size = n;
    return FK_OK;
}

fk_status fk_module_load_file(fk_device *d, const char *path, fk_module **module) {
    void *bytes;
    size_t size;
    if (!d || !path || !module)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_module_load_file: a null argument");
    fk_status s = read_file(path, &bytes, &size);
    return s ? s : load_owned(d, bytes, size, path, module);
}

void fk_module_unload(fk_module *m) {
    if (!m) return;
    fk_device *d = m->device;
    free_module(m);
    fk_device_release(d);
}

// The names of a module's fns, for the message that one is not among them.
static void list_fns(const FkmModule *tree, char *text, size_t room) {
    size_t n = 0;
    snprintf(text, room, "none");
    for (uint32_t i = 0; i < tree->n_fns && n < room; i++)
        n += (size_t)snprintf(text + n, room - n, "%s%.60s", i ? ", " : "", tree->fns[i].name);
}

fk_status fk_module_fn(fk_module *m, const char *name, fk_fn **fn) {
    char all[1024];
    if (!m || !name || !fn) return fk_fail(FK_ERROR_ARGUMENT, "fk_module_fn: a null argument");
    for (uint32_t i = 0; i < m->tree->n_fns; i++) {
        if (strcmp(m->tree->fns[i].name, name)) continue;
        *fn = &m->fns[i];
        return FK_OK;
    }
    for (uint32_t i = 0; i < m->tree->n_left_out; i++)
        if (!strcmp(m->tree->left_out[i].name, name))
            return fk_fail(FK_ERROR_NOT_BUILT,
                           "fn '%s' was left out when the module was compiled: %s", name,
                           m->tree->left_out[i].reason);
    list_fns(m->tree, all, sizeof all);
    return fk_fail(FK_ERROR_NO_FN, "the module has no fn '%s'; it has: %s", name, all);
}

int fk_module_fn_count(const fk_module *m) {
    return m ? (int)m->tree->n_fns : 0;
}

fk_fn *fk_module_fn_at(fk_module *m, int index) {
    return m && index >= 0 && (uint32_t)index < m->tree->n_fns ? &m->fns[index] : NULL;
}

// ---- describing a fn ----

void fk_fn_describe(const fk_fn *fn, fk_fn_info *info) {
    const FkmFn *f = fn->fn;
    *info = (fk_fn_info){.name = f->name, .graph = f->graph};
    info->n_params = (int)f->n_tensors;
    info->n_sizes = (int)f->n_sizes;
    info->n_steps = (int)f->n_steps;
    for (uint32_t i = 0; i < f->n_tensors; i++) info->n_inputs += !f->tensors[i].is_output;
}

static const FkmTensor *param(const fk_fn *fn, int i) {
    return fn && i >= 0 && (uint32_t)i < fn->fn->n_tensors ? &fn->fn->tensors[i] : NULL;
}

fk_status fk_fn_param(const fk_fn *fn, int i, fk_param_info *info) {
    const FkmTensor *t = param(fn, i);
    if (!t || !info)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_fn_param: a null argument, or no parameter %d", i);
    *info = (fk_param_info){.name = t->name, .dtype = fkm_dtype_name((FkmDtype)t->dtype)};
    info->dl = fk_dl_types[t->dtype];
    info->rank = (int)t->rank;
    info->is_output = t->is_output;
    return FK_OK;
}

const char *fk_fn_dim(const fk_fn *fn, int i, int dim) {
    const FkmTensor *t = param(fn, i);
    return t && dim >= 0 && (uint32_t)dim < t->rank ? t->dims[dim].text : NULL;
}

const char *fk_fn_size(const fk_fn *fn, int i, int64_t *bound) {
    if (!fn || i < 0 || (uint32_t)i >= fn->fn->n_sizes) return NULL;
    if (bound) *bound = fn->fn->sizes[i].bound;
    return fn->fn->sizes[i].name;
}

fk_status fk_fn_shape(const fk_fn *fn, const int64_t *sizes, int i, int64_t *shape) {
    const FkmTensor *t = param(fn, i);
    if (!t || !sizes || !shape)
        return fk_fail(FK_ERROR_ARGUMENT, "fk_fn_shape: a null argument, or no parameter %d", i);
    FkmEnv env = {.tensors = fn->fn->tensors, .size = sizes};
    for (uint32_t d = 0; d < t->rank; d++) {
        if (!fkm_eval(&t->dims[d].size, &env, &shape[d]))
            return fk_fail(FK_ERROR_OVERFLOW,
                           "fn '%s': dimension %u of '%s' (%s) leaves 64 bits or divides by "
                           "a number that is not positive",
                           fn->fn->name, d, t->name, t->dims[d].text);
        if (shape[d] < 0)
            return fk_fail(FK_ERROR_SHAPE, "fn '%s': dimension %u of '%s' (%s) would be %lld",
                           fn->fn->name, d, t->name, t->dims[d].text, (long long)shape[d]);
    }
    return FK_OK;
}
