/* run_cases.c - fkrun --cases: every line of a file is a command line of fkrun, run as if by itself
 * but on one device, whose start takes longer than most cases. After what a case prints stands
 *
 *     CASE 17 exit 0: --check --fn linear -s M=7 linear.fkm
 *
 * with the number of the line. A case that takes too long ends the process (its exit is 124), and
 * after one that leaves the device broken the rest is left: the caller goes on at the next line in
 * a fresh process.
 */
#include "compiler/run_int.h"
#include "compiler/tool_int.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TOO_LONG = 124 };

static char late[4096]; /* what a case that takes too long leaves to say */

static void on_alarm(int sig) {
    (void)sig;
    ssize_t ignored = write(1, late, strlen(late));
    (void)ignored;
    _exit(TOO_LONG);
}

/* The words of a line, after the name of the program. */
static int words_of(Arena *a, char *line, char ***argv) {
    VEC(char *) words = {0};
    vec_push(a, &words, "fkrun");
    for (char *w = strtok(line, " \t\r"); w; w = strtok(NULL, " \t\r")) vec_push(a, &words, w);
    vec_push(a, &words, NULL);
    *argv = words.v;
    return words.n - 1;
}

/* A device that a kernel has broken refuses everything. */
static bool still_works(fk_device *d) {
    char byte = 0;
    void *p;
    if (!d) return true;
    if (fk_alloc(d, 1, &p)) return false;
    bool ok = !fk_copy(d, p, &byte, 1, FK_TO_DEVICE);
    return !fk_free(d, p) && ok;
}

static int run_line(const char *text, int number, int seconds, RunCommand *command,
                    fk_device **held) {
    Arena a = {0};
    char **argv;
    int argc = words_of(&a, arena_strdup(&a, text), &argv);
    snprintf(late, sizeof late, "CASE %d exit %d: %s\n", number, TOO_LONG, text);
    alarm((unsigned)seconds);
    int code = command(held, argc, argv);
    alarm(0);
    printf("CASE %d exit %d: %s\n", number, code, text);
    fflush(stdout);
    arena_free(&a);
    return code;
}

int run_cases(const char *path, int seconds, RunCommand *command) {
    Arena a = {0};
    Str why = {0};
    size_t size;
    fk_device *held = NULL;
    int worst = 0, number = 0;
    char *text = tool_read(&a, path, &size, &why);
    if (!text) {
        fprintf(stderr, "fkrun: error: %s\n", str_get(&why));
        str_free(&why);
        return EXIT_OUTSIDE;
    }
    signal(SIGALRM, on_alarm);
    for (char *line = text, *end; line && *line; line = end) {
        end = strchr(line, '\n');
        if (end) *end++ = 0;
        number++;
        if (!line[strspn(line, " \t\r")] || *line == '#') continue;
        int code = run_line(line, number, seconds < 0 ? 120 : seconds, command, &held);
        if (code > worst) worst = code;
        if (code != EXIT_OUTSIDE || still_works(held)) continue;
        fprintf(stderr, "fkrun: error: the device is broken after line %d; the rest is left\n",
                number);
        break;
    }
    fk_device_close(held);
    arena_free(&a);
    return worst;
}
