/* ptxas.c - the assembler as a process: found, run on a temporary folder, its report read. That it
 * is missing, dies or refuses is the outside world's failure: a status and what to do.
 */
#include "backend/nvptx/sass_int.h"

#include "backend/backend.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool runnable(const char *path) {
    struct stat st;
    return path && !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

static const char *on_path(Arena *a) {
    const char *p = getenv("PATH");
    while (p && *p) {
        size_t n = strcspn(p, ":");
        const char *at = arena_printf(a, "%.*s/ptxas", (int)n, p);
        if (n && runnable(at)) return at;
        p += n + (p[n] == ':');
    }
    return NULL;
}

const char *ptxas_find(Arena *a, const char *path) {
    if (path) return path; /* named by the user: not there is an error of its own */
    const char *env = getenv("FKC_PTXAS");
    if (env && *env) return env;
    const char *found = on_path(a);
    if (found) return found;
    const char *home = getenv("CUDA_HOME");
    if (home && *home) {
        const char *at = arena_printf(a, "%s/bin/ptxas", home);
        if (runnable(at)) return at;
    }
    return runnable("/usr/local/cuda/bin/ptxas") ? "/usr/local/cuda/bin/ptxas" : NULL;
}

/* ---- files
 * ------------------------------------------------------------------------------------------- */

static bool write_file(const char *path, const char *text) {
    FILE *f = fopen(path, "wb");
    if (!f) return false;
    bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

static void *read_file(Arena *a, const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *data = NULL;
    if (!fseek(f, 0, SEEK_END)) {
        long size = ftell(f);
        rewind(f);
        if (size >= 0) {
            data = arena_alloc(a, (size_t)size + 1);
            *n = fread(data, 1, (size_t)size, f);
            if (*n != (size_t)size) data = NULL;
        }
    }
    fclose(f);
    return data;
}

/* ---- the process
 * --------------------------------------------------------------------------------------- */

typedef struct Ran {
    int error;  /* errno of a start that failed; 0 */
    int status; /* of waitpid */
    Str text;   /* both streams */
} Ran;

struct PtxasJob {
    const char *ptxas, *arch, *dir, *in, *out;
    const char *failed; /* before the process could be: why */
    pid_t pid;
    int pipe; /* what it prints */
    Ran ran;
};

static void drain(int fd, Str *text) {
    char buf[4096];
    for (;;) {
        ssize_t n = read(fd, buf, sizeof buf);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        str_addn(text, buf, (size_t)n);
    }
}

static void spawn(PtxasJob *j, const char *const *argv) {
    int p[2];
    j->pipe = -1;
    if (pipe2(p, O_CLOEXEC)) {
        j->ran.error = errno;
        return;
    }
    posix_spawn_file_actions_t fa;
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&fa, p[1], 1);
    posix_spawn_file_actions_adddup2(&fa, p[1], 2);
    j->ran.error = posix_spawnp(&j->pid, argv[0], &fa, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    close(p[1]);
    j->pipe = p[0];
}

static void reap(PtxasJob *j) {
    if (j->pipe < 0) return;
    if (!j->ran.error) {
        drain(j->pipe, &j->ran.text);
        while (waitpid(j->pid, &j->ran.status, 0) < 0 && errno == EINTR) {
        }
    }
    close(j->pipe);
}

/* ---- its report
 * ------------------------------------------------------------------------------------------ */

/* The number before `what`, e.g. 40 of "Used 40 registers"; 0 when it is not said. */
static int number_before(const char *text, const char *what) {
    const char *at = strstr(text, what);
    if (!at) return 0;
    while (at > text && at[-1] == ' ') at--;
    while (at > text && at[-1] >= '0' && at[-1] <= '9') at--;
    return atoi(at);
}

/* The number of the first C75xx: that setmaxnreg was ignored, that wgmma was serialised or waits
 * more often than written. Not C7519, which only says that a fence was added. 0: none. */
static int costly_warning(const char *text) {
    for (const char *at = text; (at = strstr(at, "C75")); at += 3) {
        int code = atoi(at + 1);
        if (code >= 7500 && code <= 7599 && code != 7519) return code;
    }
    return 0;
}

static KStats parse_stats(const char *text) {
    KStats s = {0};
    s.regs = number_before(text, " registers");
    s.spill_bytes =
        number_before(text, " bytes spill stores") + number_before(text, " bytes spill loads");
    s.smem = number_before(text, " bytes smem");
    s.stack = number_before(text, " bytes stack frame");
    s.warning = costly_warning(text);
    return s;
}

/* The first lines that matter of what it printed. */
static const char *excerpt(Arena *a, const char *text) {
    const char *at = strstr(text, "error");
    if (!at) at = strstr(text, "fatal");
    if (!at) at = text;
    while (at > text && at[-1] != '\n') at--;
    size_t n = 0;
    for (int lines = 0; at[n] && lines < 4 && n < 600; n++) lines += at[n] == '\n';
    while (n && (at[n - 1] == '\n' || at[n - 1] == ' ')) n--;
    return n ? arena_strndup(a, at, n) : "(it printed nothing)";
}

static const char *advice(const char *text) {
    if (strstr(text, "Unsupported .version"))
        return "; it is older than the PTX: use a newer one, or --ptx-version";
    if (strstr(text, "is not defined for option") || strstr(text, "not supported"))
        return "; it does not know this --arch: use a newer or older CUDA toolkit";
    return "";
}

static PtxasStatus judge(Arena *a, const char *ptxas, const Ran *r, const char *arch,
                         const char **message) {
    if (r->error == ENOENT || r->error == EACCES || r->error == ENOEXEC) {
        *message = arena_printf(a, "cannot run '%s': %s; name one with --ptxas or FKC_PTXAS", ptxas,
                                strerror(r->error));
        return PTXAS_ABSENT;
    }
    if (r->error) {
        *message = arena_printf(a, "cannot run '%s': %s", ptxas, strerror(r->error));
        return PTXAS_CRASHED;
    }
    if (WIFSIGNALED(r->status)) {
        *message = arena_printf(a, "'%s' died of signal %d (%s) for %s", ptxas, WTERMSIG(r->status),
                                strsignal(WTERMSIG(r->status)), arch);
        return PTXAS_CRASHED;
    }
    int code = WEXITSTATUS(r->status);
    if (code == 127 && !r->text.n) { /* the start failed after the fork */
        *message = arena_printf(a, "cannot run '%s'; name one with --ptxas or FKC_PTXAS", ptxas);
        return PTXAS_ABSENT;
    }
    if (code) {
        const char *text = str_get(&r->text);
        *message = arena_printf(a, "'%s' refused the kernel for %s (exit code %d)%s:\n%s", ptxas,
                                arch, code, advice(text), excerpt(a, text));
        return PTXAS_REFUSED;
    }
    return PTXAS_OK;
}

/* Its folder and its input. */
static bool prepare(Arena *a, PtxasJob *j, const char *ptx) {
    const char *tmp = getenv("TMPDIR");
    char *dir = arena_printf(a, "%s/fkc-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(dir)) {
        j->failed = arena_printf(a, "cannot make a folder in '%s': %s", tmp && *tmp ? tmp : "/tmp",
                                 strerror(errno));
        return false;
    }
    j->dir = dir;
    j->in = arena_printf(a, "%s/kernel.ptx", dir);
    j->out = arena_printf(a, "%s/kernel.cubin", dir);
    if (!write_file(j->in, ptx))
        j->failed = arena_printf(a, "cannot write '%s': %s", j->in, strerror(errno));
    return !j->failed;
}

PtxasJob *ptxas_start(Arena *a, const char *ptxas, const Kernel *k, const char *arch) {
    PtxasJob *j = ARENA_NEW(a, PtxasJob);
    *j = (PtxasJob){.ptxas = ptxas, .arch = arena_strdup(a, arch), .pipe = -1};
    if (!prepare(a, j, k->ptx)) return j;
    const char *target = arena_printf(a, "-arch=%s", arch);
    const char *const argv[] = {ptxas, target, "-v", j->in, "-o", j->out, NULL};
    spawn(j, argv);
    return j;
}

/* The cubin, and what its report says of it, to the kernel. */
static PtxasStatus take(Arena *a, PtxasJob *j, Kernel *k, const char **message) {
    Cubin c = {.arch = j->arch};
    c.data = read_file(a, j->out, &c.size);
    if (!c.data || !c.size) {
        *message = arena_printf(a, "'%s' left no cubin for %s", j->ptxas, j->arch);
        return PTXAS_CRASHED;
    }
    k->stats = parse_stats(str_get(&j->ran.text));
    k->stats.loop_spills = k->stats.spill_bytes ? -1 : 0;
    if (!strcmp(j->arch, "sm_90a")) /* the code that sass.c reads */
        k->stats.loop_spills = sass_loop_spills(a, c.data, c.size, k->name);
    c.stats = k->stats;
    vec_push(a, &k->cubins, c);
    return PTXAS_OK;
}

PtxasStatus ptxas_finish(Arena *a, PtxasJob *j, Kernel *k, const char **message) {
    PtxasStatus st = PTXAS_CRASHED;
    *message = j->failed ? j->failed : "";
    reap(j);
    if (!j->failed) st = judge(a, j->ptxas, &j->ran, j->arch, message);
    if (st == PTXAS_OK) st = take(a, j, k, message);
    str_free(&j->ran.text);
    if (j->dir) {
        unlink(j->in);
        unlink(j->out);
        rmdir(j->dir);
    }
    return st;
}

PtxasStatus ptxas_run(Arena *a, const char *ptxas, Kernel *k, const char *arch,
                      const char **message) {
    return ptxas_finish(a, ptxas_start(a, ptxas, k, arch), k, message);
}
