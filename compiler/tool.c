/* tool.c - files, colour and last words for fkc and fkrun. */
#include "compiler/tool_int.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- reading -----------------------------------------------------------------------------------
 */

static char *slurp(Arena *a, int fd, size_t *size, const char **why) {
    Str all = {0};
    char part[65536];
    for (;;) {
        ssize_t n = read(fd, part, sizeof part);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            *why = strerror(errno);
            str_free(&all);
            return NULL;
        }
        if (n == 0) break;
        str_addn(&all, part, (size_t)n);
    }
    char *text = arena_alloc(a, all.n + 1);
    if (all.n) memcpy(text, all.s, all.n);
    *size = all.n;
    str_free(&all);
    return text;
}

char *tool_read(Arena *a, const char *path, size_t *size, Str *why) {
    bool standard = !strcmp(path, "-");
    const char *reason = NULL;
    char *text = NULL;
    int fd = standard ? 0 : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0)
        reason = strerror(errno);
    else if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
        reason = "it is a directory";
    else
        text = slurp(a, fd, size, &reason);
    if (fd >= 0 && !standard) close(fd);
    if (!text) str_printf(why, "cannot read %s: %s", path, reason);
    return text;
}

/* ---- publishing --------------------------------------------------------------------------------
 */

/* The file being written aside; a signal handler unlinks it, so it is a plain global buffer. */
static char aside[4096];

static bool write_all(int fd, const void *bytes, size_t size) {
    const char *p = bytes;
    while (size) {
        ssize_t n = write(fd, p, size);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return false;
        p += n;
        size -= (size_t)n;
    }
    return true;
}

static bool refuse(Str *why, const char *path) {
    str_printf(why, "cannot write %s: %s", path, strerror(errno));
    return false;
}

static bool write_directly(const char *path, int fd, const void *bytes, size_t size, Str *why) {
    bool ok = fd >= 0 && write_all(fd, bytes, size);
    if (!ok) refuse(why, path);
    if (fd > 2) close(fd);
    return ok;
}

bool tool_publish(const char *path, const void *bytes, size_t size, bool binary, Str *why) {
    struct stat st;
    if (!strcmp(path, "-")) {
        if (binary && isatty(1)) {
            str_add(why, "will not write binary to a terminal; give -o FILE, or pipe it");
            return false;
        }
        return write_directly("standard output", 1, bytes, size, why);
    }
    if (!stat(path, &st) && !S_ISREG(st.st_mode)) {
        if (S_ISDIR(st.st_mode)) {
            errno = EISDIR;
            return refuse(why, path);
        }
        return write_directly(path, open(path, O_WRONLY | O_CLOEXEC), bytes, size, why);
    }
    if (snprintf(aside, sizeof aside, "%s.XXXXXX", path) >= (int)sizeof aside) {
        aside[0] = 0;
        errno = ENAMETOOLONG;
        return refuse(why, path);
    }
    int fd = mkostemp(aside, O_CLOEXEC);
    if (fd < 0) {
        aside[0] = 0;
        return refuse(why, path);
    }
    mode_t mask = umask(0);
    umask(mask);
    bool ok = write_all(fd, bytes, size) && !fchmod(fd, 0666 & ~mask);
    int saved = errno;
    if (close(fd) && ok) ok = false, saved = errno;
    if (ok && rename(aside, path)) ok = false, saved = errno;
    if (!ok) unlink(aside);
    aside[0] = 0;
    errno = saved;
    return ok || refuse(why, path);
}

/* ---- colour ------------------------------------------------------------------------------------
 */

bool tool_color(int choice, int fd) {
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    if (choice == 1) return true;
    if (choice == 2 || (no && *no)) return false;
    return isatty(fd) && term && strcmp(term, "dumb") != 0;
}

/* ---- last words --------------------------------------------------------------------------------
 */

static char words[8192];

static void say(const char *s) {
    ssize_t ignored = write(2, s, strlen(s));
    (void)ignored;
}

static void on_bug(int sig) {
    (void)sig;
    if (aside[0]) unlink(aside);
    say(words);
    _exit(EXIT_BUG);
}

static void on_stop(int sig) {
    if (aside[0]) unlink(aside);
    signal(sig, SIG_DFL);
    raise(sig);
}

void tool_last_words(const char *program, int argc, char **argv) {
    static char stack[65536]; /* a handler for a stack that ran out needs another */
    Str s = {0};
    str_printf(&s,
               "%s: this is a bug in %s, not in your program. Please report it with the input, the "
               "lines above, and this command line:\n   ",
               program, program);
    for (int i = 0; i < argc; i++) str_printf(&s, " %s", argv[i]);
    str_add(&s, "\n");
    snprintf(words, sizeof words, "%s", str_get(&s));
    str_free(&s);

    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    struct sigaction bug = {.sa_handler = on_bug, .sa_flags = SA_ONSTACK};
    sigaction(SIGABRT, &bug, NULL);
#ifndef __SANITIZE_ADDRESS__ /* which reports these better */
    static const int crash[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < sizeof crash / sizeof *crash; i++) sigaction(crash[i], &bug, NULL);
#endif
    static const int stop[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction ended = {.sa_handler = on_stop};
    for (size_t i = 0; i < sizeof stop / sizeof *stop; i++) sigaction(stop[i], &ended, NULL);
}
