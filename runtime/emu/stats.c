// See stats_int.h. HACKING.md tells what is printed.
#include "runtime/emu/stats_int.h"

#include <stdlib.h>

enum { SECTOR = 32, BANKS = 32, WORD = 4, SHOWN = 5 };

typedef uint8_t Touched; // 1 for a byte that was

struct Stats {
    pthread_mutex_t lock;
    Hits *hits;           // by instruction
    Traffic *traffic;     // by region
    Touched **touched[2]; // by region, a byte each; clusters set them at the same time, only to 1
};

void stats_free(Stats *s) {
    if (!s) return;
    for (int k = 0; k < 2; k++) {
        for (Touched **t = s->touched[k]; t && *t; t++) free(*t);
        free(s->touched[k]);
    }
    free(s->hits);
    free(s->traffic);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

Stats *stats_new(const Grid *g) {
    Stats *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    pthread_mutex_init(&s->lock, NULL);
    s->hits = calloc(g->f->n, sizeof *s->hits);
    s->traffic = calloc(g->n_regions + 1, sizeof *s->traffic);
    bool ok = s->hits && s->traffic;
    for (int k = 0; k < 2 && ok; k++) {
        ok = (s->touched[k] = calloc(g->n_regions + 1, sizeof *s->touched[k])) != NULL;
        for (uint32_t r = 0; r < g->n_regions && ok; r++)
            ok = (s->touched[k][r] = calloc(1, g->regions[r].bytes + 1)) != NULL;
    }
    if (ok) return s;
    stats_free(s);
    return NULL;
}

void stats_add(const Cluster *c) {
    const Grid *g = c->grid;
    Stats *s = g->stats;
    pthread_mutex_lock(&s->lock);
    for (uint32_t k = 0; k < g->f->n; k++) {
        Hits *to = &s->hits[k];
        const Hits *from = &c->hits[k];
        to->warps += from->warps, to->lanes += from->lanes;
        to->wavefronts += from->wavefronts, to->extra += from->extra;
    }
    for (uint32_t r = 0; r < g->n_regions; r++)
        for (int k = 0; k < 2; k++) {
            s->traffic[r].bytes[k] += c->traffic[r].bytes[k];
            s->traffic[r].sectors[k] += c->traffic[r].sectors[k];
        }
    pthread_mutex_unlock(&s->lock);
}

// ---- global memory ----

// An update reads and writes.
static void touch(Cluster *c, uint32_t r, uint64_t a, uint32_t bytes, uint64_t sectors,
                  Access access) {
    for (int k = 0; k < 2; k++) {
        if (access == (k ? READ : WRITE)) continue;
        memset(c->grid->stats->touched[k][r] + (a - c->grid->regions[r].at), 1, bytes);
        c->traffic[r].bytes[k] += bytes;
        c->traffic[r].sectors[k] += sectors;
    }
}

void stats_row(Warp *w, uint64_t a, uint32_t bytes, Access access) {
    Cluster *c = w->cta->cluster;
    const Region *r = memory_region(c->grid, a, bytes);
    if (!r) return; // a tensor map
    uint64_t sectors = (a + bytes - 1) / SECTOR - a / SECTOR + 1;
    touch(c, (uint32_t)(r - c->grid->regions), a, bytes, sectors, access);
}

void stats_global(Warp *w, uint32_t m, const uint64_t *a, uint32_t bytes, Access access) {
    Cluster *c = w->cta->cluster;
    uint64_t seen[LANES];
    uint32_t n = 0;
    for (uint32_t left = m; left; left &= left - 1) {
        int l = __builtin_ctz(left);
        const Region *r = memory_region(c->grid, a[l], bytes);
        uint64_t sector = a[l] / SECTOR; // of all of the lane's bytes, which are aligned
        uint32_t k = n;
        while (k && seen[k - 1] != sector) k--;
        if (!k) seen[n++] = sector;
        if (r) touch(c, (uint32_t)(r - c->grid->regions), a[l], bytes, !k, access);
    }
}

// ---- shared memory ----

// Lanes are served in groups that ask for up to 128 bytes: all 32, 16 of 8 bytes, 8 of 16. A group
// needs as many wavefronts as the busiest bank has words to give.
static uint32_t wavefronts(uint32_t m, const uint64_t *a, uint32_t bytes) {
    uint64_t seen[LANES];
    uint32_t n = 0, busy[BANKS] = {0}, most = 0;
    for (uint32_t left = m; left; left &= left - 1)
        for (uint32_t b = 0; b < bytes; b += WORD) {
            uint64_t word = (a[__builtin_ctz(left)] + b) / WORD;
            uint32_t k = n;
            while (k && seen[k - 1] != word) k--;
            if (k) continue;
            seen[n++] = word;
            uint32_t *bank = &busy[word % BANKS];
            if (++*bank > most) most = *bank;
        }
    return most;
}

void stats_shared(Warp *w, const Ins *i, uint32_t m, const uint64_t *a, uint32_t bytes) {
    Cluster *c = w->cta->cluster;
    Hits *h = &c->hits[i - c->grid->f->code];
    uint32_t lanes = bytes <= WORD ? LANES : LANES * WORD / bytes;
    for (uint32_t first = 0; first < LANES; first += lanes) {
        uint32_t group = lanes == LANES ? ALL_LANES : ((1u << lanes) - 1) << first;
        uint32_t n = wavefronts(m & group, a, bytes);
        h->wavefronts += n;
        h->extra += n ? n - 1 : 0;
    }
}

// ---- the end ----

// Operations of an instruction of the tensor cores, of one warp: 16 rows of a wgmma's 64.
static uint64_t operations(const Ins *i) {
    const char *name = i->form->name, *shape = strstr(name, ".m64n"), *k = strchr(name, '#');
    bool wg = shape != NULL;
    if (!wg && !(shape = strstr(name, ".m16n8k"))) return 0;
    uint64_t columns = wg ? i->number : 8;
    return 2 * 16 * columns * strtoull(wg ? k + 2 : shape + 7, NULL, 10);
}

static uint64_t count(const Touched *t, uint64_t bytes) {
    uint64_t n = 0;
    for (uint64_t b = 0; b < bytes; b++) n += t[b];
    return n;
}

static void put_kinds(const Grid *g, FILE *to) {
    static const char *const texts[] = {
#define FORM_KIND(name, text) text,
#include "runtime/emu/kind.def"
#undef FORM_KIND
    };
    Hits kind[FORM_KINDS] = {{0}};
    for (uint32_t k = 0; k < g->f->n; k++) {
        Hits *h = &kind[g->f->code[k].form->kind];
        h->warps += g->stats->hits[k].warps, h->lanes += g->stats->hits[k].lanes;
    }
    for (int k = 0; k < FORM_KINDS; k++)
        if (kind[k].warps)
            fprintf(to, "emu: instructions kind=\"%s\" warps=%llu lanes=%llu\n", texts[k],
                    (unsigned long long)kind[k].warps, (unsigned long long)kind[k].lanes);
}

static void put_global(const Grid *g, FILE *to) {
    static const char *const verbs[] = {"read", "written"};
    const Stats *s = g->stats;
    for (uint32_t r = 0; r < g->n_regions; r++)
        for (int k = 0; k < 2; k++)
            if (s->traffic[r].bytes[k])
                fprintf(to, "emu: %s of=\"%s\" bytes=%llu total=%llu sectors=%llu\n", verbs[k],
                        g->regions[r].name,
                        (unsigned long long)count(s->touched[k][r], g->regions[r].bytes),
                        (unsigned long long)s->traffic[r].bytes[k],
                        (unsigned long long)s->traffic[r].sectors[k]);
}

static bool is_op(const Ins *i, const char *op) {
    size_t n = strlen(op);
    return !strncmp(i->form->name, op, n) && i->form->name[n] == '.';
}

static void put_shared(const Grid *g, FILE *to) {
    static const char *const ops[] = {"ld",       "st",   "ldmatrix", "stmatrix",
                                      "cp.async", "atom", "red"};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        Hits sum = {0};
        for (uint32_t k = 0; k < g->f->n; k++) {
            const Hits *h = &g->stats->hits[k];
            if (!h->wavefronts || !is_op(&g->f->code[k], ops[o])) continue;
            sum.warps += h->warps, sum.wavefronts += h->wavefronts, sum.extra += h->extra;
        }
        if (sum.warps)
            fprintf(to, "emu: shared op=%s warps=%llu wavefronts=%llu extra=%llu\n", ops[o],
                    (unsigned long long)sum.warps, (unsigned long long)sum.wavefronts,
                    (unsigned long long)sum.extra);
    }
}

// The instructions whose conflicts cost most, by falling cost.
static void put_conflicts(const Grid *g, FILE *to) {
    uint64_t below = UINT64_MAX;
    for (int shown = 0; shown < SHOWN;) {
        uint64_t most = 0;
        for (uint32_t k = 0; k < g->f->n; k++) {
            uint64_t extra = g->stats->hits[k].extra;
            if (extra < below && extra > most) most = extra;
        }
        for (uint32_t k = 0; k < g->f->n && most && shown < SHOWN; k++) {
            char line[100];
            const Ins *i = &g->f->code[k];
            if (g->stats->hits[k].extra != most) continue;
            fprintf(to, "emu: conflicts line=%u extra=%llu '%s'\n", i->line,
                    (unsigned long long)most, emu_line(g->f->module, i->line, line, sizeof line));
            shown++;
        }
        if (!most) return;
        below = most;
    }
}

static void put_tensor(const Grid *g, FILE *to) {
    static const char *const ops[] = {"mma", "wgmma"};
    for (int o = 0; o < 2; o++) {
        uint64_t warps = 0, flops = 0;
        for (uint32_t k = 0; k < g->f->n; k++) {
            const Ins *i = &g->f->code[k];
            uint64_t each = is_op(i, ops[o]) ? operations(i) : 0, n = g->stats->hits[k].warps;
            if (each) warps += n, flops += n * each;
        }
        if (warps)
            fprintf(to, "emu: tensor op=%s instructions=%llu flops=%llu\n", ops[o],
                    (unsigned long long)(o ? warps / GROUP_WARPS : warps),
                    (unsigned long long)flops);
    }
}

// In one piece, so that launches of several threads do not mix.
void stats_put(const Grid *g, FILE *to) {
    char *text = NULL;
    size_t size = 0;
    FILE *all = open_memstream(&text, &size);
    if (!all) return;
    fprintf(all, "emu: kernel %.*s grid=%ux%ux%u block=%ux%ux%u cluster=%u shared=%u\n",
            (int)g->f->name_n, g->f->name, g->dim[0], g->dim[1], g->dim[2], g->block[0],
            g->block[1], g->block[2], g->f->cluster ? g->f->cluster : 1,
            g->f->shared_bytes + (g->shared_bytes - g->f->dynamic_at));
    put_kinds(g, all);
    put_global(g, all);
    put_shared(g, all);
    put_conflicts(g, all);
    put_tensor(g, all);
    if (!fclose(all)) fwrite(text, 1, size, to);
    free(text);
}
