/* base.h - what every folder stands on: arenas, vectors, strings, maps, diagnostics.
 *
 * Memory goes by lifetime: everything made while one fn is compiled lives in one arena and dies
 * with it; nothing here is freed piecemeal. Out of memory ends the process (the compiler is a
 * process; the runtime library does not use this folder).
 */
#ifndef FK_IR_BASE_H
#define FK_IR_BASE_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#if defined(__GNUC__)
#define FK_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#define FK_NORETURN           __attribute__((noreturn))
#else
#define FK_PRINTF(fmt, first)
#define FK_NORETURN
#endif

/* ---- our own bugs: say where, then abort (exit code 70 belongs to the driver's handler) ------ */

FK_NORETURN void fk_bug(const char *file, int line, const char *fmt, ...) FK_PRINTF(3, 4);
#define FK_BUG(...) fk_bug(__FILE__, __LINE__, __VA_ARGS__)
#define FK_ASSERT(cond)                                                                            \
    do {                                                                                           \
        if (!(cond)) fk_bug(__FILE__, __LINE__, "assertion failed: %s", #cond);                    \
    } while (0)

/* ---- no memory: the outside world's failure. Ends the process with exit code 3. ----------------
 */

FK_NORETURN void fk_no_memory(void);

/* ---- arena ----------------------------------------------------------------------------------- */

typedef struct Arena {
    struct ArenaChunk *chunk;
    size_t total; /* bytes handed out */
} Arena;

/* A zeroed Arena is ready. Memory is zeroed and 16-byte aligned. */
void *arena_alloc(Arena *a, size_t size);
char *arena_strndup(Arena *a, const char *s, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *fmt, ...) FK_PRINTF(2, 3);
char *arena_vprintf(Arena *a, const char *fmt, va_list ap);
void arena_free(Arena *a); /* everything at once; the Arena is ready again */
#define ARENA_NEW(a, T)      ((T *)arena_alloc(a, sizeof(T)))
#define ARENA_ARRAY(a, T, n) ((T *)arena_alloc(a, sizeof(T) * (size_t)(n)))

/* ---- vector: VEC(int) v = {0}; vec_push(&arena, &v, 3); v.v[i], v.n ---- */

#define VEC(T)                                                                                     \
    struct {                                                                                       \
        T *v;                                                                                      \
        int n, cap;                                                                                \
    }
void *vec_grow(Arena *a, void *v, int n, int *cap, size_t elem);
#define vec_push(a, vec, x)                                                                        \
    do {                                                                                           \
        if ((vec)->n == (vec)->cap)                                                                \
            (vec)->v = vec_grow((a), (vec)->v, (vec)->n, &(vec)->cap, sizeof(*(vec)->v));          \
        (vec)->v[(vec)->n++] = (x);                                                                \
    } while (0)

/* ---- string builder: malloc'd, grows; str_free when done ---- */

typedef struct Str {
    char *s; /* always NUL-terminated once anything was added; NULL before */
    size_t n, cap;
} Str;

void str_printf(Str *s, const char *fmt, ...) FK_PRINTF(2, 3);
void str_vprintf(Str *s, const char *fmt, va_list ap);
void str_add(Str *s, const char *text);
void str_addn(Str *s, const char *text, size_t n);
void str_addc(Str *s, char c);
const char *str_get(const Str *s); /* "" when empty, never NULL */
void str_free(Str *s);

/* A real constant so that it reads back to the same bits: shortest of %.{1..17}g, "inf", "-inf",
 * "nan". */
void str_real(Str *s, double v);

/* ---- map: byte-string key to intptr_t, insertion only, in an arena ---- */

typedef struct Map {
    Arena *arena;
    struct MapSlot *slot;
    size_t cap, n;
} Map;

intptr_t *map_put(Map *m, const void *key, size_t n);       /* finds or inserts (0) */
intptr_t *map_get(const Map *m, const void *key, size_t n); /* NULL when absent */
intptr_t *map_puts(Map *m, const char *key);
intptr_t *map_gets(const Map *m, const char *key);
uint64_t hash_bytes(uint64_t seed, const void *p, size_t n);

/* ---- source text and diagnostics ---- */

/* One file. `text` has `len` bytes and a NUL behind them. */
typedef struct Source {
    const char *path; /* as shown to the user */
    const char *text;
    size_t len;
    int nlines;
    const size_t *line; /* byte offset of each line's start */
} Source;

/* Bytes [off, off + len) of src. src == NULL: no place. */
typedef struct Span {
    const Source *src;
    uint32_t off, len;
} Span;

Source *source_new(Arena *a, const char *path, const char *text, size_t len); /* copies both */
void source_place(Span sp, int *line, int *col); /* 1-based; columns are bytes */
Span span_join(Span a, Span b);                  /* from the start of a to the end of b */

typedef enum DiagLevel { DIAG_ERROR, DIAG_WARNING, DIAG_NOTE } DiagLevel;

typedef struct Diag {
    DiagLevel level;
    Span span;
    const char *text;
    const char *rule; /* short name of the language rule, e.g. "reduction-tail"; NULL for notes */
} Diag;

/* Diagnostics in order; a note belongs to the error or warning before it. */
typedef struct Diags {
    Arena *arena;
    VEC(Diag) list;
    int errors, warnings;
    int limit; /* errors after this many are counted, not kept; 0: 20 */
} Diags;

/* `rule` names the language rule that was broken; the tests of the messages are filed under it. */
void diag_error(Diags *d, Span sp, const char *rule, const char *fmt, ...) FK_PRINTF(4, 5);
void diag_warn(Diags *d, Span sp, const char *rule, const char *fmt, ...) FK_PRINTF(4, 5);
void diag_note(Diags *d, Span sp, const char *fmt, ...) FK_PRINTF(3, 4);

/* clang's layout: "path:line:col: error: text", the source line, a caret and tildes. */
void diag_print(const Diags *d, Str *out, bool color);

#endif
