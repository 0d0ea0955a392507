// The CUDA driver as a device: memory, streams, events, graphs.
#include "runtime/cuda_int.h"

// ---- memory, streams, events ----

fk_status fk_cuda_memory(void *self, size_t *bytes_free, size_t *bytes_total, FkError *error) {
    CALL(cuMemGetInfo, bytes_free, bytes_total);
}

static CUdeviceptr address(const void *p) {
    return (CUdeviceptr)(uintptr_t)p;
}

fk_status fk_cuda_alloc(void *self, size_t bytes, void **ptr, FkError *error) {
    CUdeviceptr p = 0;
    bool pushed;
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    s = fk_cuda_check(fk_cu.cuMemAlloc(&p, bytes), "cuMemAlloc", error);
    fk_cuda_leave(pushed);
    *ptr = (void *)(uintptr_t)p;
    return s;
}

fk_status fk_cuda_free(void *self, void *ptr, FkError *error) {
    CALL(cuMemFree, address(ptr));
}

// A copy's call may return while its last part is still on the way to the device; a launch on a
// stream of its own would not wait for that, so fk_copy does.
fk_status fk_cuda_copy(void *self, void *dst, const void *src, size_t n, fk_copy_kind kind,
                       FkError *error) {
    bool pushed;
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    if (kind == FK_TO_DEVICE)
        s = fk_cuda_check(fk_cu.cuMemcpyHtoD(address(dst), src, n), "cuMemcpyHtoD", error);
    if (kind == FK_FROM_DEVICE)
        s = fk_cuda_check(fk_cu.cuMemcpyDtoH(dst, address(src), n), "cuMemcpyDtoH", error);
    if (kind == FK_ON_DEVICE)
        s = fk_cuda_check(fk_cu.cuMemcpyDtoD(address(dst), address(src), n), "cuMemcpyDtoD", error);
    if (!s) s = fk_cuda_check(fk_cu.cuStreamSynchronize(NULL), "cuStreamSynchronize", error);
    fk_cuda_leave(pushed);
    return s;
}

fk_status fk_cuda_clear(void *self, void *ptr, size_t bytes, void *stream, FkError *error) {
    CALL(cuMemsetD8Async, address(ptr), 0, bytes, stream);
}

fk_status fk_cuda_stream_create(void *self, void **stream, FkError *error) {
    CALL(cuStreamCreate, (CUstream *)stream, STREAM_NON_BLOCKING);
}

fk_status fk_cuda_stream_destroy(void *self, void *stream, FkError *error) {
    CALL(cuStreamDestroy, stream);
}

fk_status fk_cuda_stream_sync(void *self, void *stream, FkError *error) {
    CALL(cuStreamSynchronize, stream);
}

// The default stream answers with a capture error while another stream captures: as good as yes.
fk_status fk_cuda_stream_capturing(void *self, void *stream, bool *capturing, FkError *error) {
    CUstreamCaptureStatus now = 0;
    bool pushed;
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    s = fk_cuda_check(fk_cu.cuStreamIsCapturing(stream, &now), "cuStreamIsCapturing", error);
    fk_cuda_leave(pushed);
    *capturing = now || s == FK_ERROR_CAPTURE;
    return s == FK_ERROR_CAPTURE ? FK_OK : s;
}

// ---- graphs ----

static bool has_graphs(void) {
    return fk_cu.cuStreamBeginCapture && fk_cu.cuStreamEndCapture &&
           fk_cu.cuGraphInstantiateWithFlags && fk_cu.cuGraphLaunch && fk_cu.cuGraphExecDestroy &&
           fk_cu.cuGraphDestroy;
}

fk_status fk_cuda_graph_begin(void *self, void *stream, FkError *error) {
    if (!has_graphs())
        return FK_FAIL(error, FK_ERROR_UNSUPPORTED,
                       "the driver has no graphs: they need CUDA 11.4 or later");
    CALL(cuStreamBeginCapture, stream, CAPTURE_THREAD);
}

fk_status fk_cuda_graph_end(void *self, void *stream, void **graph, FkError *error) {
    bool pushed;
    CUgraph g = NULL;
    CUgraphExec exec = NULL;
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    s = fk_cuda_check(fk_cu.cuStreamEndCapture(stream, &g), "cuStreamEndCapture", error);
    if (!s)
        s = fk_cuda_check(fk_cu.cuGraphInstantiateWithFlags(&exec, g, 0),
                          "cuGraphInstantiateWithFlags", error);
    if (g) fk_cu.cuGraphDestroy(g);
    fk_cuda_leave(pushed);
    *graph = exec;
    return s;
}

fk_status fk_cuda_graph_launch(void *self, void *graph, void *stream, FkError *error) {
    CALL(cuGraphLaunch, graph, stream);
}

void fk_cuda_graph_free(void *self, void *graph) {
    FkError error;
    bool pushed;
    if (fk_cuda_enter(self, &pushed, &error)) return;
    fk_cu.cuGraphExecDestroy(graph);
    fk_cuda_leave(pushed);
}

fk_status fk_cuda_event_create(void *self, void **event, FkError *error) {
    CALL(cuEventCreate, (CUevent *)event, 0);
}

fk_status fk_cuda_event_destroy(void *self, void *event, FkError *error) {
    CALL(cuEventDestroy, event);
}

fk_status fk_cuda_event_record(void *self, void *event, void *stream, FkError *error) {
    CALL(cuEventRecord, event, stream);
}

fk_status fk_cuda_event_elapsed(void *self, void *start, void *stop, float *ms, FkError *error) {
    bool pushed;
    fk_status s = fk_cuda_enter(self, &pushed, error);
    if (s) return s;
    s = fk_cuda_check(fk_cu.cuEventSynchronize(stop), "cuEventSynchronize", error);
    if (!s)
        s = fk_cuda_check(fk_cu.cuEventElapsedTime(ms, start, stop), "cuEventElapsedTime", error);
    fk_cuda_leave(pushed);
    return s;
}
