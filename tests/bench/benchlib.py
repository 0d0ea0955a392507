"""libfk through ctypes, and timing on one stream. Used by the rows of suites.py, on the GPU.

A sample: the L2 is overwritten (`zero`: 256 MiB written, which leaves it full of dirty lines; `read`:
256 MiB read, which leaves it full of clean ones), a sleep kernel keeps the queue full while the host
enqueues, then some launches back to back between two events. The sides of a comparison take turns
in an order drawn anew in every round; what counts is the median.
"""
import ctypes as C
import random
import statistics
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


CODES = {torch.bfloat16: (4, 16), torch.float16: (2, 16), torch.float32: (2, 32), torch.float8_e4m3fn: (10, 8)}


def dl(t):
    n = t.dim()
    shape, strides = (C.c_int64 * n)(*t.shape), (C.c_int64 * n)(*t.stride())
    code, bits = CODES[t.dtype]
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


# ---- right or wrong ----

def error(y, want):
    """Norm of the error as a share of the norm of `want`; the largest error of an element, as a share of
    itself and a quarter of the root mean square."""
    d = y.float() - want
    norm = (d.norm() / want.norm()).item()
    d = d.abs_().div_(want.abs() + 0.25 * want.square().mean().sqrt())
    most = d.max().item()  # NaN stays NaN
    return norm, most


def checked(ours, y, want, norm, most):
    """Launches twice on poisoned memory; the error of the first, or an exception that says what is wrong."""
    bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[y.element_size()]
    y.fill_(float("nan"))
    ours()
    torch.cuda.synchronize()
    e, m = error(y, want)
    if not e < norm or not m < most:
        raise FkError(f"WRONG: error {e:.3g} (bar {norm:g}), largest {m:.3g} (bar {most:g})")
    first = y.clone()
    y.fill_(float("nan"))
    ours()
    torch.cuda.synchronize()
    if not torch.equal(first.view(bits), y.view(bits)):
        raise FkError("WRONG: a second launch gave other bits")
    return e
