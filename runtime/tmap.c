// Tensor maps of a launch: what to ask the device for, and a cache of what it answered.
//
// A map depends on nothing but the values in its request, so the cache is never stale. It belongs
// to a fn, has a fixed size, and is locked only to compare and copy: the device is asked outside of
// the lock, and two threads that ask for the same map at once both store the same bytes.
#include "runtime/runtime_int.h"

#include <stdlib.h>
#include <string.h>

_Static_assert((int)FKM_MAP_BYTES == (int)FK_TMAP_BYTES &&
                   (int)FKM_MAP_ALIGN == (int)FK_TMAP_ALIGN &&
                   (int)FKM_MAP_RANK == (int)FK_TMAP_RANK,
               "a module's tensor maps are the device's");
_Static_assert(sizeof(FkTmap) == 11 * 8 + 8 * 4, "requests are compared as bytes: no padding");

uint32_t fk_tmap_count(const FkmLaunch *l) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n_params; i++) n += l->params[i].kind == FKM_PARAM_TMAP;
    return n;
}

bool fk_tmap_wanted(const FkmFn *fn) {
    for (uint32_t s = 0; s < fn->n_steps; s++)
        for (uint32_t v = 0; v < fn->steps[s].n_variants; v++)
            for (uint32_t l = 0; l < fn->steps[s].variants[v].n_launches; l++)
                if (fk_tmap_count(&fn->steps[s].variants[v].launches[l])) return true;
    return false;
}

// ---- the request ----

enum { ROW = 16 }; // bytes: what addresses and strides are multiples of
static const int64_t most_extent = (int64_t)1 << 31, end_stride = (int64_t)1 << 40;

// Extent and stride, in elements, of a dimension of the tensor or temporary.
static bool dimension(const FkBound *b, const FkmParam *p, uint32_t d, int64_t *extent,
                      int64_t *stride) {
    const FkmFn *f = b->fn->fn;
    if (!p->map.temp) {
        *extent = b->extent[f->tensors[p->index].first_dim + d];
        *stride = b->stride[f->tensors[p->index].first_dim + d];
        return true;
    }
    const FkmTemp *t = &f->temps[p->index];
    *stride = 1;
    for (uint32_t k = t->rank - 1; k > d; k--) {
        int64_t inner;
        if (!fkm_eval(&t->dims[k], &b->env, &inner)) return false;
        if (__builtin_mul_overflow(*stride, inner, stride)) return false;
    }
    return fkm_eval(&t->dims[d], &b->env, extent);
}

// Of an extent of 1 the stride is never used, but must be one that hardware takes: past the
// dimension before it.
static uint64_t any_stride(uint64_t extent, uint64_t stride) {
    uint64_t n = (extent * stride + ROW - 1) / ROW * ROW;
    return n < (uint64_t)end_stride ? n : ROW;
}

bool fk_tmap_describe(const FkBound *b, const FkmParam *p, uint64_t address, FkTmap *map) {
    const FkmFn *f = b->fn->fn;
    const FkmMap *m = &p->map;
    FkmDtype type = (FkmDtype)(m->temp ? f->temps[p->index].dtype : f->tensors[p->index].dtype);
    int64_t bits = fkm_dtype_bits(type), align = m->temp ? FKM_ALIGN : b->align[p->index];
    bool half = bits == 4; // hardware takes whole bytes
    *map = (FkTmap){.address = address,
                    .rank = m->rank,
                    .swizzle = m->swizzle,
                    .dtype = fk_dl_types[half ? FKM_U8 : type]};
    if (align < ROW || address % ROW) return false;
    for (int i = 0; i < m->rank; i++) {
        int64_t extent, stride;
        if (!dimension(b, p, m->dim[i], &extent, &stride)) return false;
        if (extent < 1 || extent > most_extent) return false;
        map->extent[i] = (uint64_t)extent;
        map->box[i] = m->box[i];
        if (half && !i) map->extent[0] = (uint64_t)(extent + 1) / 2, map->box[0] /= 2;
        if (i && extent == 1) {
            map->stride[i] = any_stride(map->extent[i - 1], map->stride[i - 1]);
            continue;
        }
        if (extent == 1) stride = 1;
        if (i ? stride < 1 || stride >= 8 * end_stride / bits || stride * bits % 8 : stride != 1)
            return false;
        map->stride[i] = i ? (uint64_t)(stride * bits / 8) : (uint64_t)(half ? 1 : bits / 8);
        if (i && map->stride[i] % ROW) return false;
    }
    return true;
}

// ---- the cache ----

enum { SETS = 16, WAYS = 4 };

typedef struct {
    _Alignas(FKM_MAP_ALIGN) unsigned char map[FKM_MAP_BYTES];
    FkTmap key; // rank 0: empty
} Slot;

struct FkTmapCache {
    Slot slot[SETS][WAYS];
    uint8_t next[SETS]; // the way to be replaced
    pthread_mutex_t lock;
};

struct FkTmapCache *fk_tmap_cache_new(void) {
    struct FkTmapCache *c = aligned_alloc(_Alignof(struct FkTmapCache), sizeof *c);
    if (!c) return NULL;
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

void fk_tmap_cache_free(struct FkTmapCache *c) {
    if (!c) return;
    pthread_mutex_destroy(&c->lock);
    free(c);
}

// Tensors of one call differ in address, tensors at one address in extents.
static uint32_t set_of(const FkTmap *key) {
    uint64_t h = key->address >> 4;
    for (int i = 0; i < FK_TMAP_RANK; i++) h = h * 31 + key->extent[i] + key->box[i];
    return (uint32_t)(h * 0x9e3779b97f4a7c15u >> 60);
}
_Static_assert(SETS == 16, "set_of gives 4 bits");

static bool find(struct FkTmapCache *c, uint32_t set, const FkTmap *key, void *out) {
    bool found = false;
    pthread_mutex_lock(&c->lock);
    for (int w = 0; w < WAYS && !found; w++) {
        const Slot *s = &c->slot[set][w];
        found = !memcmp(&s->key, key, sizeof *key);
        if (found) memcpy(out, s->map, FKM_MAP_BYTES);
    }
    pthread_mutex_unlock(&c->lock);
    return found;
}

static void keep(struct FkTmapCache *c, uint32_t set, const FkTmap *key, const void *map) {
    pthread_mutex_lock(&c->lock);
    Slot *s = &c->slot[set][c->next[set]++ % WAYS];
    s->key = *key;
    memcpy(s->map, map, FKM_MAP_BYTES);
    pthread_mutex_unlock(&c->lock);
}

fk_status fk_tmap_get(const fk_fn *fn, const FkTmap *map, void *out) {
    const fk_device *d = fn->module->device;
    uint32_t set = set_of(map);
    if (find(fn->tmaps, set, map, out)) return FK_OK;
    fk_status s = d->ops->tensor_map(d->self, map, out, fk_error());
    if (!s) keep(fn->tmaps, set, map, out);
    return s;
}
