/* base.c - arenas, vectors, strings, maps: the declarations say all that a caller needs. */
#include "ir/base/base.h"

#include <stdlib.h>
#include <string.h>
#include <math.h>

struct ArenaChunk {
    struct ArenaChunk *next;
    size_t used, cap;
    _Alignas(16) char data[];
};

struct MapSlot {
    const void *key;
    size_t len;
    uint64_t hash;
    intptr_t value;
};

void fk_bug(const char *file, int line, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    fflush(stdout);
    fprintf(stderr, "fkc: internal error at %s:%d: ", file, line);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "\nfkc: this is a bug of fkc, not of your program; please report it\n");
    va_end(ap);
    abort();
}

void fk_no_memory(void) {
    fflush(stdout);
    fputs("error: out of memory\n", stderr);
    _Exit(3);
}

static void *must(void *p) {
    if (!p) fk_no_memory();
    return p;
}

void *arena_alloc(Arena *a, size_t size) {
    size = (size + 15) & ~(size_t)15;
    struct ArenaChunk *c = a->chunk;
    if (!c || c->cap - c->used < size) {
        size_t cap = size > 65536 ? size : 65536;
        c = must(calloc(1, sizeof *c + cap));
        c->cap = cap;
        if (size > 32768 && a->chunk) { /* a big one of its own, behind the current chunk */
            c->next = a->chunk->next;
            a->chunk->next = c;
        } else {
            c->next = a->chunk;
            a->chunk = c;
        }
    }
    void *p = c->data + c->used;
    c->used += size;
    a->total += size;
    return p;
}

char *arena_strndup(Arena *a, const char *s, size_t n) {
    char *p = arena_alloc(a, n + 1);
    if (n) memcpy(p, s, n);
    return p;
}

char *arena_strdup(Arena *a, const char *s) {
    return arena_strndup(a, s, strlen(s));
}

char *arena_vprintf(Arena *a, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = arena_alloc(a, (size_t)n + 1);
    vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    char *p = arena_vprintf(a, fmt, ap);
    va_end(ap);
    return p;
}

void arena_free(Arena *a) {
    for (struct ArenaChunk *c = a->chunk, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    *a = (Arena){0};
}

void *vec_grow(Arena *a, void *v, int n, int *cap, size_t elem) {
    int want = *cap ? *cap * 2 : 8;
    void *p = arena_alloc(a, (size_t)want * elem);
    if (n) memcpy(p, v, (size_t)n * elem);
    *cap = want;
    return p;
}

void str_addn(Str *s, const char *text, size_t n) {
    if (s->n + n + 1 > s->cap) {
        s->cap = (s->n + n + 1) * 2;
        s->s = must(realloc(s->s, s->cap));
    }
    if (n) memcpy(s->s + s->n, text, n);
    s->n += n;
    s->s[s->n] = 0;
}

void str_add(Str *s, const char *text) {
    str_addn(s, text, strlen(text));
}

void str_addc(Str *s, char c) {
    str_addn(s, &c, 1);
}

void str_vprintf(Str *s, const char *fmt, va_list ap) {
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    if (s->n + (size_t)n + 1 > s->cap) {
        s->cap = (s->n + (size_t)n + 1) * 2;
        s->s = must(realloc(s->s, s->cap));
    }
    vsnprintf(s->s + s->n, (size_t)n + 1, fmt, again);
    s->n += (size_t)n;
    va_end(again);
}

void str_printf(Str *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    str_vprintf(s, fmt, ap);
    va_end(ap);
}

const char *str_get(const Str *s) {
    return s->s ? s->s : "";
}

void str_free(Str *s) {
    free(s->s);
    *s = (Str){0};
}

void str_real(Str *s, double v) {
    if (isnan(v)) {
        str_add(s, "nan");
        return;
    }
    if (isinf(v)) {
        str_add(s, v < 0 ? "-inf" : "inf");
        return;
    }
    char buf[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, sizeof buf, "%.*g", digits, v);
        if (strtod(buf, NULL) == v) break;
    }
    str_add(s, buf);
}

uint64_t hash_bytes(uint64_t seed, const void *p, size_t n) {
    const unsigned char *b = p;
    uint64_t h = seed ^ 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * 0x100000001b3u;
    h ^= h >> 29;
    h *= 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

static struct MapSlot *map_find(const Map *m, const void *key, size_t n, uint64_t h) {
    for (size_t i = h & (m->cap - 1);; i = (i + 1) & (m->cap - 1)) {
        struct MapSlot *s = &m->slot[i];
        if (!s->key) return s;
        if (s->hash == h && s->len == n && !memcmp(s->key, key, n)) return s;
    }
}

static void map_rehash(Map *m) {
    Map big = {.arena = m->arena, .cap = m->cap ? m->cap * 2 : 16};
    big.slot = ARENA_ARRAY(m->arena, struct MapSlot, big.cap);
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i].key)
            *map_find(&big, m->slot[i].key, m->slot[i].len, m->slot[i].hash) = m->slot[i];
    m->slot = big.slot;
    m->cap = big.cap;
}

intptr_t *map_put(Map *m, const void *key, size_t n) {
    if (2 * (m->n + 1) > m->cap) map_rehash(m);
    uint64_t h = hash_bytes(0, key, n);
    struct MapSlot *s = map_find(m, key, n, h);
    if (!s->key) {
        *s = (struct MapSlot){arena_strndup(m->arena, key, n), n, h, 0};
        m->n++;
    }
    return &s->value;
}

intptr_t *map_get(const Map *m, const void *key, size_t n) {
    if (!m->cap) return NULL;
    struct MapSlot *s = map_find(m, key, n, hash_bytes(0, key, n));
    return s->key ? &s->value : NULL;
}

intptr_t *map_puts(Map *m, const char *key) {
    return map_put(m, key, strlen(key));
}

intptr_t *map_gets(const Map *m, const char *key) {
    return map_get(m, key, strlen(key));
}
