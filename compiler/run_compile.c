/* run_compile.c - fkrun on a .fk: runs fkc, found beside fkrun or in PATH, into a temporary file.
 */
#include "compiler/run_int.h"
#include "compiler/tool_int.h"

#include <errno.h>
#include <libgen.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static const char *find_fkc(Arena *a, const char *given) {
    char self[4096];
    if (given) return given;
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (n > 0) {
        self[n] = 0;
        const char *beside = arena_printf(a, "%s/fkc", dirname(self));
        if (!access(beside, X_OK)) return beside;
    }
    return "fkc";
}

/* Runs and waits; its messages go where ours go. Exit status, or -1. */
static int run(char *const *argv, Str *why) {
    pid_t pid;
    int status;
    int error = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);
    if (error) {
        str_printf(why, "cannot run %s: %s (--fkc=PATH)", argv[0], strerror(error));
        return -1;
    }
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    str_printf(why, "%s was ended by signal %d", argv[0], WTERMSIG(status));
    return -1;
}

/* With these fkc would write something else than our module, or elsewhere. */
static const char *no_module(const OptMany *more) {
    static const char *const options[] = {"--emit", "--output",  "--stop-after", "--run-pass",
                                          "--help", "--version", "--list-"};
    for (int i = 0; i < more->n; i++) {
        const char *s = more->v[i];
        for (size_t k = 0; k < sizeof options / sizeof *options; k++)
            if (!strncmp(s, options[k], strlen(options[k]))) return s;
        if (s[0] == '-' && (s[1] == 'o' || s[1] == 'h')) return s;
    }
    return NULL;
}

void *compile_with_fkc(Arena *a, const RunOptions *o, const OptMany *more, const char *path,
                       size_t *size, int *code, Str *why) {
    const char *folder = getenv("TMPDIR"), *other = no_module(more);
    if (other) {
        str_printf(why, "-- %s: fkrun needs a module of fkc; run fkc by itself for other outputs",
                   other);
        *code = EXIT_USAGE;
        return NULL;
    }
    char *temporary = arena_printf(a, "%s/fkrun-XXXXXX", folder && *folder ? folder : "/tmp");
    int fd = mkstemp(temporary);
    *code = EXIT_OUTSIDE;
    if (fd < 0) {
        str_printf(why, "cannot make a file in %s: %s", folder ? folder : "/tmp", strerror(errno));
        return NULL;
    }
    close(fd);
    VEC(char *) argv = {0};
    vec_push(a, &argv, (char *)find_fkc(a, o->fkc));
    vec_push(a, &argv, (char *)path);
    vec_push(a, &argv, "-o");
    vec_push(a, &argv, temporary);
    for (int i = 0; i < more->n; i++) vec_push(a, &argv, (char *)more->v[i]);
    vec_push(a, &argv, NULL);
    int status = run(argv.v, why);
    void *bytes = status == 0 ? tool_read(a, temporary, size, why) : NULL;
    unlink(temporary);
    if (status > 0) *code = status;
    return bytes;
}
