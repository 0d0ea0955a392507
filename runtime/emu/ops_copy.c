// cp.async.bulk: boxes of tensor maps and rows of bytes, to shared memory and from it; their
// groups.
#include "runtime/emu/copy_int.h"
#include "runtime/emu/memory_int.h"
#include "runtime/emu/ops_int.h"
#include "runtime/emu/race_int.h"
#include "runtime/emu/sync_int.h"

static Step coordinates(Warp *w, const Ins *i, int l, const Opd *list, Copy *c) {
    if (c->map->rank != list->offset || c->map->rank != i->number)
        return report(w, i, l, REPORT_TMAP, "%d coordinates for a tensor map of rank %u",
                      list->offset, c->map->rank);
    for (int k = 0; k < list->offset; k++)
        c->at[k] = (int32_t)((const uint32_t *)operand(w, element(w, list, k)))[l];
    if ((int64_t)c->at[0] * c->map->unit % 16)
        return report(
            w, i, l, REPORT_MISALIGNED,
            "the box begins with element %d of its rows, of %d bytes each: hardware takes "
            "multiples of 16 bytes only",
            c->at[0], c->map->unit);
    c->bytes = tmap_rows(c->map) * tmap_row_bytes(c->map);
    return NEXT;
}

// Boxes may end outside of a tensor; to begin before it is for loads only.
static Step begins_inside(Warp *w, const Ins *i, int l, const Copy *c) {
    for (uint32_t d = 0; d < c->map->rank; d++)
        if (c->at[d] < 0)
            return report(w, i, l, REPORT_TMAP,
                          "coordinate %u of the box is %d: a box that is stored may not begin "
                          "before the tensor",
                          d, c->at[d]);
    return NEXT;
}

// The shared end of a copy: in bounds, and aligned to what the swizzle repeats by.
static Step shared_end(Warp *w, const Ins *i, int l, const Opd *o, Copy *c) {
    uint32_t a = (uint32_t)address_in(w, o, l);
    uint32_t align = !c->map ? 16 : c->map->swizzle ? 8u * c->map->swizzle : 128;
    c->cta = memory_shared(w, i, l, a, c->bytes, &c->shared);
    if (!c->cta) return STOP;
    if (a % align)
        return report(w, i, l, REPORT_DESCRIPTOR,
                      "the shared address %u is no multiple of %u, which this copy needs", a,
                      align);
    return NEXT;
}

// The mbarrier of a load: the last operand that is an address.
static Step counted_on(Warp *w, const Ins *i, int l, Copy *c, Mbar **bar) {
    Cta *owner;
    Mbar *b = *bar = sync_mbar(w, i, l, (uint32_t)address_in(w, &i->o[3], l), &owner);
    if (!b) return STOP;
    if (owner != c->cta)
        return report(w, i, l, REPORT_MBARRIER, "the mbarrier is not in the CTA of the bytes");
    c->bar = b->at;
    return race_mbar_used(w, i, l, b, true);
}

// To the same place in every CTA of a mask.
static Step multicast(Warp *w, const Ins *i, int l, const Copy *c) {
    Cluster *cluster = w->cta->cluster;
    uint32_t mask = ((const uint32_t *)operand(w, &i->o[4]))[l];
    bool again = false;
    if (!mask || mask >> cluster->n_ctas)
        return report(w, i, l, REPORT_TMAP, "a multicast mask of 0x%x in a cluster of %u", mask,
                      cluster->n_ctas);
    for (uint32_t k = 0; k < cluster->n_ctas; k++) {
        Copy each = *c;
        if (!(mask >> k & 1)) continue;
        Mbar *b = sync_mbar_find(each.cta = &cluster->ctas[k], c->bar);
        if (!b)
            return report(w, i, l, REPORT_MBARRIER,
                          "CTA %u of the cluster has no mbarrier at shared address %u", k,
                          c->bar + SHARED_BASE);
        each.again = again, again = true;
        if (race_mbar_used(w, i, l, b, true) == STOP || copy_load(cluster, &each, b) == STOP)
            return STOP;
    }
    return NEXT;
}

// [to], [map, {coordinates}], [mbarrier] (, mask of CTAs) (, cache policy); arg: 1 with a mask
RUN(tensor_load) {
    EACH_LANE(m) {
        int l = LANE;
        Copy c = {.i = i, .warp = w, .lane = l};
        Mbar *b;
        if (!(c.map = tmap_at(w, i, l, address_in(w, &i->o[1], l)))) return STOP;
        if (coordinates(w, i, l, &i->o[2], &c) == STOP) return STOP;
        if (shared_end(w, i, l, &i->o[0], &c) == STOP) return STOP;
        if (counted_on(w, i, l, &c, &b) == STOP) return STOP;
        if ((i->form->arg ? multicast(w, i, l, &c) : copy_load(w->cta->cluster, &c, b)) == STOP)
            return STOP;
    }
    return NEXT;
}

// [map, {coordinates}], [from]; arg: 1 to add
RUN(tensor_store) {
    EACH_LANE(m) {
        int l = LANE;
        Copy c = {.i = i, .warp = w, .lane = l, .add = i->form->arg};
        if (!(c.map = tmap_at(w, i, l, address_in(w, &i->o[0], l)))) return STOP;
        if (coordinates(w, i, l, &i->o[1], &c) == STOP) return STOP;
        if (begins_inside(w, i, l, &c) == STOP) return STOP;
        if (shared_end(w, i, l, &i->o[2], &c) == STOP) return STOP;
        if (copy_store(w, &c) == STOP) return STOP;
    }
    return NEXT;
}

static Step row(Warp *w, const Ins *i, int l, const Opd *shared, const Opd *global,
                const Opd *bytes, Copy *c) {
    c->bytes = ((const uint32_t *)operand(w, bytes))[l];
    c->global = address_in(w, global, l);
    if (c->bytes % 16 || c->global % 16)
        return report(w, i, l, REPORT_MISALIGNED,
                      "%u bytes at 0x%llx, both must be multiples of 16", c->bytes,
                      (unsigned long long)c->global);
    return shared_end(w, i, l, shared, c);
}

// [to], [from], bytes, [mbarrier] (, mask of CTAs) (, cache policy); arg: 1 with a mask
RUN(bulk_load) {
    EACH_LANE(m) {
        int l = LANE;
        Copy c = {.i = i, .warp = w, .lane = l};
        Mbar *b;
        if (row(w, i, l, &i->o[0], &i->o[1], &i->o[2], &c) == STOP) return STOP;
        if (counted_on(w, i, l, &c, &b) == STOP) return STOP;
        if ((i->form->arg ? multicast(w, i, l, &c) : copy_load(w->cta->cluster, &c, b)) == STOP)
            return STOP;
    }
    return NEXT;
}

// [to], [from], bytes; arg: 1 and an AtomicType to add
RUN(bulk_store) {
    EACH_LANE(m) {
        int l = LANE;
        Copy c = {.i = i, .warp = w, .lane = l, .add = i->form->arg};
        if (c.add) c.type = (AtomicType)(i->form->arg - 1);
        if (row(w, i, l, &i->o[1], &i->o[0], &i->o[2], &c) == STOP) return STOP;
        if (copy_store(w, &c) == STOP) return STOP;
    }
    return NEXT;
}

RUN(bulk_commit) {
    (void)i;
    EACH_LANE(m) copy_commit(w, LANE);
    return NEXT;
}

// arg: 1 for .read
RUN(bulk_wait) {
    EACH_LANE(m)
    if (copy_wait(w, i, LANE, (uint32_t)i->o[0].offset, i->form->arg) == STOP) return STOP;
    return NEXT;
}

RUN(prefetch_map) {
    EACH_LANE(m)
    if (!tmap_at(w, i, LANE, address_in(w, &i->o[0], LANE))) return STOP;
    return NEXT;
}
