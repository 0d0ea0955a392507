"""libfk through ctypes, and timing on one stream. Used by the rows of suites.py, on the GPU.

A sample: the L2 is overwritten (`zero`: 256 MiB written, which leaves it full of dirty lines; `read`:
256 MiB read, which leaves it full of clean ones), a sleep kernel keeps the queue full while the host
enqueues, then some launches back to back between two events. The sides of a comparison take turns
in an order drawn anew in every round; what counts is the median.
"""
import ctypes as C
import os
import random
import statistics
import sys
import time

import torch


class FkError(Exception):
    pass


class DLTensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int), ("device_id", C.c_int), ("ndim", C.c_int),
                ("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16),
                ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)),
                ("byte_offset", C.c_uint64)]


class FnInfo(C.Structure):
    _fields_ = [("name", C.c_char_p), ("n_params", C.c_int), ("n_inputs", C.c_int), ("n_sizes", C.c_int),
                ("n_steps", C.c_int), ("graph", C.c_char_p)]


CODES = {torch.bfloat16: (4, 16), torch.float16: (2, 16), torch.float32: (2, 32), torch.float8_e4m3fn: (10, 8),
         torch.int32: (0, 32), torch.uint8: (1, 8)}


def dl(t):
    n = t.dim()
    shape, strides = (C.c_int64 * n)(*t.shape), (C.c_int64 * n)(*t.stride())
    code, bits = CODES[t.dtype]
    if getattr(t, "nibbles", False):  # two in a byte, of which torch knows nothing; its bytes are dense
        bits = 4
        shape[n - 1] *= 2
        for d in range(n - 1):
            strides[d] *= 2
    d = DLTensor(t.data_ptr(), 2, 0, n, code, bits, 1, shape, strides, 0)
    d.keep = (shape, strides, t)
    return d


class Lib:
    def __init__(self, path):
        self.c = C.CDLL(path)
        self.c.fk_last_error.restype = C.c_char_p
        self.c.fk_fn_describe.restype = None
        self.device = C.c_void_p()
        self.modules = {}
        self.call("fk_device_open", b"cuda", C.byref(self.device))

    def call(self, name, *args):
        if getattr(self.c, name)(*args):
            raise FkError(f"{name}: {self.c.fk_last_error().decode()}")

    def fn(self, module_path, name):
        if module_path not in self.modules:
            m = C.c_void_p()
            self.call("fk_module_load_file", self.device, module_path.encode(), C.byref(m))
            self.modules[module_path] = m
        h = C.c_void_p()
        self.call("fk_module_fn", self.modules[module_path], name.encode(), C.byref(h))
        return h


class Ours:
    """A fn bound to tensors (inputs, then outputs); calling it launches it."""

    def __init__(self, lib, module_path, name, tensors):
        self.lib, self.h = lib, lib.fn(module_path, name)
        self.ts = [dl(t) for t in tensors]
        self.n = len(self.ts)
        self.args = (C.POINTER(DLTensor) * self.n)(*[C.pointer(t) for t in self.ts])
        self.size = C.c_size_t()
        lib.call("fk_fn_workspace_size", self.h, self.args, self.n, C.byref(self.size))
        self.memory = torch.zeros(max(self.size.value, 256), dtype=torch.uint8, device="cuda")
        self.ws = C.c_void_p(self.memory.data_ptr())
        self.stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        lib.call("fk_workspace_init", self.h, self.args, self.n, self.ws, self.size, self.stream)
        lib.call("fk_fn_prepare", self.h, self.args, self.n)

    def __call__(self):
        self.lib.call("fk_launch", self.h, self.args, self.n, self.ws, self.size, self.stream)

    def variants(self):
        """Names of the variants taken, a step each."""
        info, names, name = FnInfo(), [], C.c_char_p()
        self.lib.c.fk_fn_describe(self.h, C.byref(info))
        for step in range(info.n_steps):
            self.lib.call("fk_fn_variant", self.h, self.args, self.n, step, C.byref(name))
            names.append(name.value.decode())
        return "+".join(names)


# ---- timing ----

flush_memory = None


def flush(kind):
    global flush_memory
    if flush_memory is None:
        flush_memory = torch.zeros(64 << 20, dtype=torch.float32, device="cuda")
    if kind == "read":
        flush_memory.sum()
    else:
        flush_memory.zero_()


def sample(call, launches, kind, sleep):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush(kind)
    torch.cuda._sleep(sleep)
    a.record()
    for _ in range(launches):
        call()
    b.record()
    return a, b


def timed(calls, rounds, launches=1, kind="zero", sleep=200000, seconds=4.0):
    """Median milliseconds of a launch of each, the quartiles, and what was done: rounds are fewer when
    they would take longer than `seconds`."""
    first = []
    for f in calls:
        f()
        a, b = sample(f, 1, kind, sleep)
        torch.cuda.synchronize()
        first.append(a.elapsed_time(b))
    if sum(first) > 100:
        launches = 1
    rounds = max(3, min(rounds, int(seconds * 1000 / (launches * sum(first) + 0.3 * len(calls)))))
    marks = [[] for _ in calls]
    start = time.perf_counter()
    for _ in range(rounds):
        order = list(range(len(calls)))
        random.shuffle(order)
        for i in order:
            marks[i].append(sample(calls[i], launches, kind, sleep))
    enqueued = time.perf_counter() - start
    torch.cuda.synchronize()
    waited = time.perf_counter() - start - enqueued
    result = []
    for m in marks:
        times = sorted(a.elapsed_time(b) / launches for a, b in m)
        result.append((statistics.median(times), times[len(times) // 4], times[-1 - len(times) // 4]))
    # Had the host been the slower one, nothing would have been left to wait for at the end.
    return result, {"rounds": rounds, "launches": launches, "flush": kind, "host": waited < 0.02 * enqueued}


# ---- cycles ----

STAMP = b"""
.version 8.0
.target sm_80
.address_size 64
.visible .entry stamp(.param .u64 to)
{
    .reg .pred %p;
    .reg .u32 %t, %s;
    .reg .u64 %a, %o, %c;
    mov.u64 %c, %clock64;
    mov.u32 %t, %tid.x;
    setp.ne.u32 %p, %t, 0;
    @%p ret;
    mov.u32 %s, %smid;
    ld.param.u64 %a, [to];
    mul.wide.u32 %o, %s, 8;
    add.u64 %a, %a, %o;
    st.global.u64 [%a], %c;
    ret;
}
"""
stamp_kernel = None


def stamp(to):
    """Each multiprocessor writes its cycle counter to its place in `to`: two CTAs each, which fill it."""
    global stamp_kernel
    cuda = C.CDLL("libcuda.so.1")
    if stamp_kernel is None:
        module, kernel = C.c_void_p(), C.c_void_p()
        if cuda.cuModuleLoadData(C.byref(module), STAMP + b"\0") or \
                cuda.cuModuleGetFunction(C.byref(kernel), module, b"stamp"):
            raise FkError("the kernel that reads cycle counters does not load")
        stamp_kernel = kernel
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    place = C.c_void_p(to.data_ptr())
    args = (C.c_void_p * 1)(C.cast(C.pointer(place), C.c_void_p))
    stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
    if cuda.cuLaunchKernel(stamp_kernel, 2 * sms, 1, 1, 1024, 1, 1, 0, stream, args, None):
        raise FkError("the kernel that reads cycle counters does not start")


def cycles(call, rounds=9):
    """Cycles of a multiprocessor from the end of one stamp to the next with `call` between them, and with
    nothing between them: medians of rounds, of the multiprocessors of a round. The counters follow the
    clock, so this knows neither clock nor power."""
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    stamps = torch.zeros(rounds, 3, sms, dtype=torch.int64, device="cuda")
    for r in range(rounds):
        flush("zero")
        torch.cuda._sleep(400000)
        stamp(stamps[r, 0])
        stamp(stamps[r, 1])
        call()
        stamp(stamps[r, 2])
    wait()
    seen = [t for t in stamps.tolist()]
    between = lambda r, i: statistics.median(b - a for a, b in zip(r[i], r[i + 1]) if a and b)  # noqa: E731
    return (statistics.median(between(r, 1) for r in seen), statistics.median(between(r, 0) for r in seen))


# ---- right or wrong ----

def error(y, want, by_row=False):
    """Norm of the error as a share of the norm of `want`; the largest error of an element, as a share of
    itself and a quarter of the root mean square (by_row: of the last dimension, where rows differ: under a
    causal mask the first are averages of few)."""
    d = y.float() - want
    norm = (d.norm() / want.norm()).item()
    d = d.abs_().div_(want.abs() + 0.25 * want.square().mean(*(((-1,), True) if by_row else ())).sqrt())
    most = d.max().item()  # NaN stays NaN
    return norm, most


def wait(seconds=10.0):
    """For all that was launched. A kernel that hangs ends the process, and so costs its row, not the lease."""
    done = torch.cuda.Event()
    done.record()
    end = time.perf_counter() + seconds
    while not done.query():
        if time.perf_counter() > end:
            print(f"hangs: not done after {seconds} s", file=sys.stderr, flush=True)
            os._exit(8)
        time.sleep(0.0005)


def checked(ours, outs):
    """Launches twice on poisoned memory; the errors of the first, an output each, or an exception that
    says what is wrong."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}
    first, errors = [], []
    for turn in range(2):
        for out in outs:
            out.tensor.fill_(float("nan"))
        ours()
        wait()
        for i, out in enumerate(outs):
            y = out.tensor
            if turn == 1:
                kind = bits[y.element_size()]
                if not torch.equal(first[i].view(kind), y.view(kind)):
                    raise FkError(f"WRONG: a second launch gave other bits (output {i})")
                continue
            first.append(y.clone())
            e, m = error(y, out.want, out.by_row)
            if not e < out.norm or not m < out.most:
                raise FkError(f"WRONG: output {i}: error {e:.3g} (bar {out.norm:g}), "
                              f"largest {m:.3g} (bar {out.most:g})")
            errors.append(e)
    return errors
