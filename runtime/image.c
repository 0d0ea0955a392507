// Which image of a kernel runs on a device, and loading it.
//
// A cubin for sm_XY runs on X.Z with Z >= Y; one for sm_XYa on X.Y only; one for sm_XYf on its
// family, X.Z. PTX for sm_XY runs on everything from X.Y on, for sm_XYa on X.Y only. The newest
// cubin that fits is tried first, then the PTX: a driver that does not know a cubin's format may
// still compile the PTX.
#include "runtime/runtime_int.h"

#include <string.h>

static bool cubin_fits(FkmArch a, int device) {
    if (a.suffix == 'a') return a.number == device;
    return a.number / 10 == device / 10 && a.number <= device;
}

static bool ptx_fits(FkmArch a, int device) {
    if (a.suffix == 'a') return a.number == device;
    if (a.suffix == 'f') return cubin_fits(a, device);
    return a.number <= device;
}

// The better of two cubins that fit: the newer, and of equals the more specific.
static bool better(FkmArch a, FkmArch b) {
    return a.number != b.number ? a.number > b.number : a.suffix && !b.suffix;
}

static void choose_image(const FkmKernel *k, const FkDeviceFacts *facts, FkLoaded *out) {
    const fk_device_info *info = &facts->info;
    FkmArch arch, best = {0, 0};
    out->cubin = -1;
    for (uint32_t i = 0; i < k->n_cubins && !facts->ptx_only; i++) {
        fkm_arch(k->cubins[i].arch, &arch);
        if (!cubin_fits(arch, info->arch) || (out->cubin >= 0 && !better(arch, best))) continue;
        out->cubin = (int)i;
        best = arch;
    }
    bool fits = k->ptx && fkm_arch(k->arch, &arch) && ptx_fits(arch, info->arch);
    bool readable = k->major * 10 + k->minor <= info->ptx_version;
    out->ptx = fits && readable;
    out->ptx_too_new = fits && !readable;
}

static bool usable(const fk_module *m, const FkmVariant *v) {
    FkmArch arch;
    fkm_arch(v->arch, &arch);
    if (!ptx_fits(arch, m->device->facts.info.arch)) return false;
    for (uint32_t i = 0; i < v->n_launches; i++) {
        if (!m->device->facts.tensor_maps && fk_tmap_count(&v->launches[i])) return false;
        const FkLoaded *k = &m->kernels[v->launches[i].kernel];
        if (k->cubin < 0 && !k->ptx) return false;
    }
    return true;
}

void fk_choose_images(fk_module *m) {
    for (uint32_t i = 0; i < m->tree->n_kernels; i++)
        choose_image(&m->tree->kernels[i], &m->device->facts, &m->kernels[i]);
    for (uint32_t i = 0; i < m->tree->n_fns; i++) {
        const FkmFn *fn = &m->tree->fns[i];
        for (uint32_t s = 0; s < fn->n_steps; s++)
            for (uint32_t v = 0; v < fn->steps[s].n_variants; v++)
                if (usable(m, &fn->steps[s].variants[v])) m->fns[i].usable[s] |= (uint64_t)1 << v;
    }
}
_Static_assert(FKM_MAX_VARIANTS <= 64, "fk_fn.usable has a bit for each variant");

// Tries the cubin, then the PTX.
static fk_status load_image(const fk_device *d, const FkmKernel *k, FkLoaded *l) {
    fk_status s = FK_ERROR_ARCH;
    if (l->cubin >= 0) {
        const FkmImage *i = &k->cubins[l->cubin];
        s = d->ops->module_load(d->self, i->bytes, i->size, false, &l->module, fk_error());
        if (s != FK_ERROR_ARCH && s != FK_ERROR_DRIVER_TOO_OLD) return s;
    }
    if (l->ptx)
        s = d->ops->module_load(d->self, k->ptx, strlen(k->ptx) + 1, true, &l->module, fk_error());
    return s;
}

static fk_status load(fk_module *m, uint32_t kernel) {
    const fk_device *d = m->device;
    FkLoaded *l = &m->kernels[kernel];
    const FkmKernel *k = &m->tree->kernels[kernel];
    fk_status s = load_image(d, k, l);
    if (!s) s = d->ops->function(d->self, l->module, k->name, &l->loaded, fk_error());
    if (!s) {
        atomic_store_explicit(&l->function, &l->loaded, memory_order_release);
        return FK_OK;
    }
    if (l->module) d->ops->module_unload(d->self, l->module);
    l->module = NULL;
    char why[sizeof(FkError)];
    snprintf(why, sizeof why, "%s", fk_last_error());
    return fk_fail(s, "kernel '%s': %.3900s", k->name, why);
}

fk_status fk_kernel_function(fk_module *m, uint32_t kernel, bool may_load, const FkFunction **f) {
    FkLoaded *l = &m->kernels[kernel];
    fk_status s = FK_OK;
    *f = atomic_load_explicit(&l->function, memory_order_acquire);
    if (*f) return FK_OK;
    if (!may_load)
        return fk_fail(FK_ERROR_CAPTURE,
                       "kernel '%s' is not loaded yet, and the stream is capturing; call "
                       "fk_fn_prepare with such tensors before the capture begins",
                       m->tree->kernels[kernel].name);
    pthread_mutex_lock(&m->loading);
    *f = atomic_load_explicit(&l->function, memory_order_acquire);
    if (!*f) s = load(m, kernel);
    pthread_mutex_unlock(&m->loading);
    if (!s) *f = &l->loaded;
    return s;
}
