/* tool_int.h - what the programs fkc and fkrun share: reading and publishing files, colour, and the
 * last words of a crash. */
#ifndef FK_COMPILER_TOOL_INT_H
#define FK_COMPILER_TOOL_INT_H

#include "ir/base/base.h"

enum { EXIT_PROGRAM = 1, EXIT_USAGE = 2, EXIT_OUTSIDE = 3, EXIT_BUG = 70 };

/* A whole file ("-": standard input) with a NUL behind it. NULL and one line in `why` if it cannot
 * be read. */
char *tool_read(Arena *a, const char *path, size_t *size, Str *why);

/* Writes a file so that no reader ever sees a part of it: aside, in the same folder, then rename.
 * "-" is standard output; binary bytes are not written to a terminal. An existing path that is no
 * plain file (/dev/null, a pipe) is written to as it is. */
bool tool_publish(const char *path, const void *bytes, size_t size, bool binary, Str *why);

/* choice: 0 auto, 1 always, 2 never. Auto is a terminal on `fd` that is not "dumb", without
 * NO_COLOR. */
bool tool_color(int choice, int fd);

/* From now on abort() and crashes end the process with EXIT_BUG, after the command line that shows
 * it. Temporary files of tool_publish are removed, then and on SIGINT, SIGTERM, SIGHUP. */
void tool_last_words(const char *program, int argc, char **argv);

#endif
