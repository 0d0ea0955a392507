// Do two runs of a test agree? And the text that a run is stored as: of exact arrays four hashes,
// each of a quarter of the bytes; of others the values, as their bounds need them.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/emu_agrees/agrees.h"

enum { QUARTERS = 4 };

static uint32_t hash(uint32_t h, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (size_t k = 0; k < n; k++) h = (h ^ p[k]) * 16777619u;
    return h ^ h >> 15;
}

uint32_t test_digest(const Test *t) {
    uint8_t *in = test_input(t);
    uint32_t h = hash(2166136261u, t->ptx, strlen(t->ptx));
    if (in) h = hash(h, in, t->in_bytes);
    free(in);
    return h;
}

// ---- as text ----

static bool is_value(const Output *o) {
    return o->type != TYPE_EXACT && o->type != TYPE_SCALE;
}

// The q-th quarter of every exact array.
static uint32_t quarter(const Test *t, const Result *r, uint32_t q) {
    uint32_t h = 2166136261u;
    for (uint32_t k = 0; k < t->n_out; k++) {
        const Output *o = &t->out[k];
        uint32_t first = o->count * q / QUARTERS, last = o->count * (q + 1) / QUARTERS;
        if (o->type != TYPE_EXACT) continue;
        h = hash(h, r->bytes + o->at + (size_t)first * o->unit, (size_t)(last - first) * o->unit);
    }
    return h;
}

char *result_text(const Test *t, const Result *r) {
    size_t room = 64;
    bool exact = false;
    for (uint32_t k = 0; k < t->n_out; k++) {
        exact |= t->out[k].type == TYPE_EXACT;
        if (is_value(&t->out[k])) room += 2 * (size_t)t->out[k].unit * t->out[k].count;
    }
    char *text = keep_alloc(room), *s = text;
    for (uint32_t q = 0; q < QUARTERS && exact; q++)
        s += sprintf(s, "%s%08x", q ? " " : "#", quarter(t, r, q));
    for (uint32_t k = 0; k < t->n_out; k++) {
        const Output *o = &t->out[k];
        if (!is_value(o)) continue;
        if (s == text || s[-1] == ' ') *s++ = '=';
        for (uint32_t b = 0; b < o->unit * o->count; b++)
            s += sprintf(s, "%02x", r->bytes[o->at + b]);
    }
    return text;
}

// The values of a text, put where a run has them; false: it is of another test.
static bool parse_values(const Test *t, const char *text, uint8_t *bytes) {
    if (*text++ != '=') return false;
    for (uint32_t k = 0; k < t->n_out; k++) {
        const Output *o = &t->out[k];
        for (uint32_t b = 0; is_value(o) && b < o->unit * o->count; b++, text += 2) {
            unsigned v;
            if (sscanf(text, "%2x", &v) != 1) return false;
            bytes[o->at + b] = (uint8_t)v;
        }
    }
    return !*text;
}

// ---- numbers ----

static double number(Type type, const uint8_t *p) {
    uint16_t h;
    uint32_t w;
    float f;
    if (type == TYPE_F32) {
        memcpy(&f, p, 4);
        return f;
    }
    memcpy(&h, p, 2);
    w = (uint32_t)h << 16;
    memcpy(&f, &w, 4);
    if (type == TYPE_BF16) return f;
    int exponent = h >> 10 & 31;
    double v = exponent == 31 ? (h & 0x3ff ? NAN : INFINITY)
               : exponent     ? ldexp(1024 + (h & 0x3ff), exponent - 25)
                              : ldexp(h & 0x3ff, -24);
    return h >> 15 ? -v : v;
}

static bool close_to(double x, double y, double scale, const Bound *b) {
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (isinf(x) || isinf(y) || x == y) return x == y;
    return fabs(x - y) <= b->relative * fabs(scale) + b->absolute;
}

// The array of scales that belongs to the k-th array, or NULL.
static const Output *scale_of(const Test *t, uint32_t k) {
    uint32_t nth = 0;
    for (uint32_t i = 0; i < k; i++) nth += is_value(&t->out[i]);
    for (uint32_t i = 0; i < t->n_out; i++)
        if (t->out[i].type == TYPE_SCALE && !nth--) return &t->out[i];
    return NULL;
}

// ---- messages ----

typedef struct Differences {
    char text[3000];
    size_t n;
    uint32_t count;
} Differences;

static void add(Differences *d, const char *text) {
    d->n += (size_t)snprintf(d->text + d->n, sizeof d->text - d->n, "%s", text);
    if (d->n >= sizeof d->text) d->n = sizeof d->text - 1;
}

static const char *hex(const uint8_t *p, uint32_t unit) {
    static char text[4][36];
    static int next;
    char *s = text[next++ % 4];
    for (uint32_t k = 0; k < unit && k < 16; k++) sprintf(s + 2 * k, "%02x", p[unit - 1 - k]);
    return s;
}

// The element's inputs, if the test has one of each for every case.
static void add_inputs(Differences *d, const Test *t, const uint8_t *in, const Output *o,
                       uint32_t i) {
    for (uint32_t k = 0; k < t->n_in && k < 8; k++) {
        const Input *x = &t->in[k];
        if (x->count != o->count || x->fill || !in) continue;
        add(d, " ");
        add(d, hex(in + x->at + (size_t)i * x->unit, x->unit));
    }
}

static void add_difference(Differences *d, const Test *t, const uint8_t *in, uint32_t k, uint32_t i,
                           const Result *a, const Result *b) {
    enum { MOST = 6 };
    const Output *o = &t->out[k];
    char text[128];
    if (d->count++ >= MOST) return;
    size_t at = o->at + (size_t)i * o->unit;
    snprintf(text, sizeof text, "    array %u, element %u: %s, not %s; input", k, i,
             hex(a->bytes + at, o->unit), hex(b->bytes + at, o->unit));
    add(d, text);
    add_inputs(d, t, in, o, i);
    add(d, "\n");
}

static bool element_agrees(const Test *t, uint32_t k, uint32_t i, const Result *a,
                           const Result *b) {
    const Output *o = &t->out[k], *s = scale_of(t, k);
    const uint8_t *x = a->bytes + o->at + (size_t)i * o->unit,
                  *y = b->bytes + o->at + (size_t)i * o->unit;
    if (o->type == TYPE_EXACT) return !memcmp(x, y, o->unit);
    uint32_t step = o->type == TYPE_F32 ? 4 : 2;
    for (uint32_t at = 0; at < o->unit; at += step) {
        double v = number((Type)o->type, x + at), w = number((Type)o->type, y + at);
        double scale = s ? number((Type)o->type, a->bytes + s->at + (size_t)i * o->unit + at) : v;
        if (!close_to(v, w, scale, &t->bound)) return false;
    }
    return true;
}

static const char *finish(const Differences *d) {
    return d->count ? text_of("%u outputs differ\n%s", d->count, d->text) : "";
}

const char *compare_results(const Test *t, const Result *a, const Result *b) {
    uint8_t *in = test_input(t);
    Differences d = {.n = 0};
    for (uint32_t k = 0; k < t->n_out; k++)
        for (uint32_t i = 0; i < t->out[k].count && t->out[k].type != TYPE_SCALE; i++)
            if (!element_agrees(t, k, i, a, b)) add_difference(&d, t, in, k, i, a, b);
    free(in);
    return finish(&d);
}

// The worst difference as a share of what is allowed, for choosing bounds.
double worst_share(const Test *t, const Result *a, const Result *b) {
    double worst = 0;
    for (uint32_t k = 0; k < t->n_out; k++) {
        const Output *o = &t->out[k], *s = scale_of(t, k);
        uint32_t step = o->type == TYPE_F32 ? 4 : 2;
        if (!is_value(o)) continue;
        for (uint32_t at = o->at; at < o->at + o->unit * o->count; at += step) {
            double v = number((Type)o->type, a->bytes + at),
                   w = number((Type)o->type, b->bytes + at);
            double scale = s ? number((Type)o->type, a->bytes + s->at + at - o->at) : v;
            double allowed = t->bound.relative * fabs(scale) + t->bound.absolute;
            if (!isfinite(v) || !isfinite(w) || v == w) continue;
            double share = allowed > 0 ? fabs(v - w) / allowed : INFINITY;
            if (share > worst) worst = share;
        }
    }
    return worst;
}

const char *compare_stored(const Test *t, const Result *r, const char *text) {
    char *mine = result_text(t, r);
    if (!strcmp(mine, text)) return "";
    if (*text == '#')
        for (uint32_t q = 0; q < QUARTERS; q++)
            if (strncmp(mine + 9 * q, text + 9 * q, 9))
                return text_of("the outputs of cases %u of %u quarters differ, and maybe more\n",
                               q + 1, QUARTERS);
    Result stored = {.bytes = calloc(1, t->out_bytes + 1)};
    bool ok = stored.bytes && parse_values(t, text, stored.bytes);
    const char *what =
        ok ? compare_results(t, r, &stored) : "the stored values are of another test\n";
    free(stored.bytes);
    return what;
}
