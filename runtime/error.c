// Statuses and the calling thread's error text.
#include "runtime/runtime_int.h"

#include <stdarg.h>

static _Thread_local FkError last;

FkError *fk_error(void) {
    return &last;
}

fk_status fk_fail(fk_status status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(last.text, sizeof last.text, format, args);
    va_end(args);
    return status;
}

const char *fk_last_error(void) {
    return last.text;
}

int fk_version(void) {
    return FK_VERSION;
}

const char *fk_status_name(fk_status status) {
    switch ((int)status) {
#define STATUS(name, value, meaning)                                                               \
    case FK_##name: return "FK_" #name;
#include "runtime/fk_status.def"
#undef STATUS
    }
    return "an unknown status";
}
