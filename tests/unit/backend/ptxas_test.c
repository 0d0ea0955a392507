/* ptxas_test.c - the assembler as the outside world: absent, refusing, dying, and its report. Shell
 * scripts stand in for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/backend/build.h"

static char dir[] = "/tmp/fkptxas-XXXXXX";
static Arena arena;

static int setup(void **state) {
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    int left = rmdir(dir);
    arena_free(&arena);
    return left;
}

/* Runs a script of this body as ptxas; it sees ptxas's arguments. */
static PtxasStatus with_script(const char *body, Kernel *k, const char **message) {
    const char *path = arena_printf(&arena, "%s/ptxas", dir);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "#!/bin/sh\n%s\n", body);
    fclose(f);
    assert_int_equal(chmod(path, 0755), 0);
    *k = (Kernel){.name = "k", .ptx = "// the text\n"};
    PtxasStatus st = ptxas_run(&arena, path, k, "sm_90a", message);
    unlink(path);
    return st;
}

static void must_say(const char *message, const char *part) {
    if (!strstr(message, part)) fail_msg("no '%s' in: %s", part, message);
}

static void absent(void **state) {
    (void)state;
    Kernel k = {.name = "k", .ptx = ""};
    const char *message;
    assert_int_equal(ptxas_run(&arena, "/no/such/ptxas", &k, "sm_80", &message), PTXAS_ABSENT);
    must_say(message, "/no/such/ptxas");
    must_say(message, "--ptxas");
    assert_int_equal(k.cubins.n, 0);
}

static void report_is_read(void **state) {
    (void)state;
    Kernel k;
    const char *message;
    const char *body =
        "case \"$*\" in *-arch=sm_90a*) ;; *) exit 9;; esac\n"
        "for last; do :; done\n" /* -o FILE is at the end */
        "cp \"$3\" \"$last\"\n"
        "echo \"ptxas info    : 77 bytes gmem\" >&2\n"
        "echo \"ptxas info    : (C7519) Potential Performance Loss: fence added\" >&2\n"
        "echo \"ptxas info    : (C7510) Potential Performance Loss: serialised\" >&2\n"
        "echo \"    16 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads\" >&2\n"
        "echo \"ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem\" >&2";
    PtxasStatus st = with_script(body, &k, &message);
    if (st != PTXAS_OK) fail_msg("%s", message);
    assert_int_equal(k.stats.regs, 40);
    assert_int_equal(k.stats.spill_bytes, 20);
    assert_int_equal(k.stats.stack, 16);
    assert_int_equal(k.stats.smem, 1024);
    assert_int_equal(k.stats.warning, 7510);
    assert_int_equal(k.cubins.n, 1);
    assert_string_equal(k.cubins.v[0].arch, "sm_90a");
    assert_int_equal(k.cubins.v[0].size, strlen(k.ptx));
    assert_memory_equal(k.cubins.v[0].data, k.ptx, strlen(k.ptx));
}

static void refused(void **state) {
    (void)state;
    Kernel k;
    const char *message;
    PtxasStatus st = with_script("echo 'ptxas k.ptx, line 7; fatal   : Unsupported .version 8.5; "
                                 "current version is 8.0' >&2\n"
                                 "exit 255",
                                 &k, &message);
    assert_int_equal(st, PTXAS_REFUSED);
    must_say(message, "exit code 255");
    must_say(message, "line 7");
    must_say(message, "--ptx-version");
    assert_int_equal(k.cubins.n, 0);
}

static void crashed(void **state) {
    (void)state;
    Kernel k;
    const char *message;
    assert_int_equal(with_script("kill -SEGV $$", &k, &message), PTXAS_CRASHED);
    must_say(message, "signal 11");
    assert_int_equal(with_script("exit 0", &k, &message), PTXAS_CRASHED); /* and no cubin */
    must_say(message, "left no cubin");
}

static void found(void **state) {
    (void)state;
    assert_string_equal(ptxas_find(&arena, "/named"), "/named");
    setenv("FKC_PTXAS", "/by/environment", 1);
    assert_string_equal(ptxas_find(&arena, NULL), "/by/environment");
    unsetenv("FKC_PTXAS");
}

static void no_room(void **state) {
    (void)state;
    setenv("TMPDIR", "/no/such/folder", 1);
    Kernel k = {.name = "k", .ptx = ""};
    const char *message;
    assert_int_equal(ptxas_run(&arena, "/bin/true", &k, "sm_80", &message), PTXAS_CRASHED);
    must_say(message, "/no/such/folder");
    unsetenv("TMPDIR");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(absent),  cmocka_unit_test(report_is_read), cmocka_unit_test(refused),
        cmocka_unit_test(crashed), cmocka_unit_test(found),          cmocka_unit_test(no_room),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
