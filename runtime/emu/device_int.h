// The device, as device.c and launch.c see it.
#ifndef RUNTIME_EMU_DEVICE_INT_H
#define RUNTIME_EMU_DEVICE_INT_H

#include "runtime/emu/ptx_int.h"
#include "runtime/emu/tmap_int.h"

typedef struct Emu {
    const Form *forms;
    uint32_t n_forms, sms;
    uint64_t seed, limit;
    bool stats, lax;
    struct EmuGraph *graph; // that a stream captures; NULL: none does
    void *capturing;
} Emu;

enum {
    MAX_SHARED = 232448,
    SM_THREADS = 2048,
    SM_CTAS = 32,
    SM_SHARED = 233472,
    CTA_RESERVED = 1024
};

fk_status emu_begin(void *self, const FkRegion *regions, uint32_t n, void **call, FkError *error);
void emu_end(void *self, void *call);
fk_status emu_launch(void *self, const FkFunction *f, const FkGrid *grid, void **params,
                     int n_params, void *call, void *stream, FkError *error);

fk_status emu_run(const Emu *e, const FkFunction *f, const FkGrid *grid, void **params,
                  int n_params, void *call, FkError *error);
void emu_call_free(void *call);
void emu_call_fresh(void *call); // as at its begin: nothing is written yet

// ---- graph.c ----
fk_status emu_graph_begin(void *self, void *stream, FkError *error);
fk_status emu_graph_end(void *self, void *stream, void **graph, FkError *error);
fk_status emu_graph_launch(void *self, void *graph, void *stream, FkError *error);
void emu_graph_free(void *self, void *graph);
// Instead of a launch; and of the end of a call: false if no stream captures.
fk_status emu_graph_note(Emu *e, const FkFunction *f, const FkGrid *grid, void **params, int n,
                         void *call, FkError *error);
bool emu_graph_keep(Emu *e, void *call);

#endif
