// What a launch was found to do wrong. The first report of a kind at a PTX line counts; the launch
// fails with the texts. Of one kind at several lines of the same instruction, as an unrolled loop
// has them, the first has a text and the others are named.
#ifndef RUNTIME_EMU_REPORT_INT_H
#define RUNTIME_EMU_REPORT_INT_H

#include <pthread.h>

#include "runtime/emu/ptx_int.h"

typedef enum ReportKind {
#define REPORT(name, text, ends) REPORT_##name,
#include "runtime/emu/report.def"
#undef REPORT
    REPORT_KINDS
} ReportKind;

enum { MAX_REPORTS = 64 };

typedef struct Reported {
    ReportKind kind;
    uint32_t line, first; // first: which report has the text
    size_t end;           // of the text, if this has it
    char op[32];
} Reported;

typedef struct Reports {
    pthread_mutex_t lock;
    uint32_t n;
    Reported seen[MAX_REPORTS];
    size_t used;
    char text[3584];
    _Atomic int ended; // a report that ends the launch was made
} Reports;

// Reports what lane `lane` of the warp (-1: no one lane) did at instruction i. Gives STOP if such a
// report ends the launch, else NEXT.
__attribute__((format(printf, 5, 6))) Step report(Warp *w, const Ins *i, int lane, ReportKind kind,
                                                  const char *format, ...);

// All of them, one a line, in room bytes.
void report_put_all(const Reports *r, char *out, size_t room);

// Whether one of this kind at this line was made, or there is no room for more.
bool report_known(Reports *r, ReportKind kind, uint32_t line);

#endif
