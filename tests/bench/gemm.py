#!/usr/bin/env python3
"""GEMM + epilogue of fkc against cuBLASLt's fused kernels (as torch calls them), in one process.

    tests/bench/gemm.py LIBFK.so GEMM.fkm [SHAPE...]      SHAPE: MxNxK; default: the nine of the bars

For each shape and fn: our output is checked against an f32 product (norm of the error below 3e-3),
then ours and theirs are timed in turn, the L2 overwritten before each sample, the queue kept full
by a sleep kernel, medians of ROUNDS. Prints TFLOP/s and the ratio; the geometric mean last.
"""
import ctypes as C
import math
import os
import random
import statistics
import sys

import torch

ROUNDS = int(os.environ.get("ROUNDS", "15"))
SHAPES = ["4096x4096x4096", "8192x8192x8192", "8192x8192x1024", "8192x8192x512", "16384x4096x4096",
          "1000x4104x4096", "512x4096x4096", "256x4096x4096", "64x4096x4096"]


class DLTensor(C.Structure):
    _fields_ = [("data", C.c_void_p), ("device_type", C.c_int), ("device_id", C.c_int), ("ndim", C.c_int),
                ("code", C.c_uint8), ("bits", C.c_uint8), ("lanes", C.c_uint16),
                ("shape", C.POINTER(C.c_int64)), ("strides", C.POINTER(C.c_int64)),
                ("byte_offset", C.c_uint64)]


CODES = {torch.bfloat16: (4, 16), torch.float16: (2, 16), torch.float32: (2, 32)}


def dl(t):
    n = t.dim()
    shape, strides = (C.c_int64 * n)(*t.shape), (C.c_int64 * n)(*t.stride())
    code, bits = CODES[t.dtype]
    d = DLTensor(t.data_ptr(), 2, 0, n, code, bits, 1, shape, strides, 0)
    d.keep = (shape, strides, t)
    return d


class Fn:
    def __init__(self, lib, module, name):
        self.lib, self.h = lib, C.c_void_p()
        check(lib, lib.fk_module_fn(module, name.encode(), C.byref(self.h)))

    def bind(self, tensors):
        ts = [dl(t) for t in tensors]
        args = (C.POINTER(DLTensor) * len(ts))(*[C.pointer(t) for t in ts])
        size = C.c_size_t()
        check(self.lib, self.lib.fk_fn_workspace_size(self.h, args, len(ts), C.byref(size)))
        ws = torch.zeros(max(size.value, 256), dtype=torch.uint8, device="cuda")
        stream = C.c_void_p(torch.cuda.current_stream().cuda_stream)
        check(self.lib, self.lib.fk_workspace_init(self.h, args, len(ts), C.c_void_p(ws.data_ptr()),
                                                   size, stream))

        def launch():
            check(self.lib, self.lib.fk_launch(self.h, args, len(ts), C.c_void_p(ws.data_ptr()), size, stream))
        launch.keep = (ts, ws)
        return launch


def check(lib, status):
    if status:
        lib.fk_last_error.restype = C.c_char_p
        raise SystemExit("libfk: " + lib.fk_last_error().decode())


flush = None


def sample(launch):
    a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    flush.zero_()
    torch.cuda._sleep(200000)
    a.record()
    launch()
    b.record()
    return a, b


def timed(launches):
    for f in launches:
        for _ in range(2):
            f()
    torch.cuda.synchronize()
    marks = [[] for _ in launches]
    for _ in range(ROUNDS):
        order = list(range(len(launches)))
        random.shuffle(order)
        for i in order:
            marks[i].append(sample(launches[i]))
    torch.cuda.synchronize()
    return [statistics.median(a.elapsed_time(b) for a, b in m) for m in marks]


def main():
    global flush
    lib = C.CDLL(sys.argv[1])
    for name in ("fk_launch", "fk_module_fn", "fk_device_open"):
        getattr(lib, name).restype = C.c_int
    torch.manual_seed(1)
    random.seed(1)
    torch.zeros(1, device="cuda")
    flush = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    device, module = C.c_void_p(), C.c_void_p()
    check(lib, lib.fk_device_open(b"cuda", C.byref(device)))
    check(lib, lib.fk_module_load_file(device, sys.argv[2].encode(), C.byref(module)))
    fns = {n: Fn(lib, module, n) for n in ("plain", "gelu_bias", "relu_bias")}
    ratios = {n: [] for n in fns}
    print(torch.cuda.get_device_name(), torch.__version__)
    for shape in sys.argv[3:] or SHAPES:
        m, n, k = map(int, shape.split("x"))
        x = torch.randn(m, k, device="cuda").bfloat16()
        w = (torch.randn(n, k, device="cuda") * 2 / math.sqrt(k)).bfloat16()
        b = torch.randn(n, device="cuda").bfloat16()
        y = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        z = x.float() @ w.float().t()
        lt = torch.ops.aten._addmm_activation
        theirs = {"plain": lambda: torch.mm(x, w.t()), "gelu_bias": lambda: lt(b, x, w.t(), use_gelu=True),
                  "relu_bias": lambda: lt(b, x, w.t(), use_gelu=False)}
        want = {"plain": z, "gelu_bias": torch.nn.functional.gelu(z + b.float(), approximate="tanh"),
                "relu_bias": torch.relu(z + b.float())}
        for name, fn in fns.items():
            ours = fn.bind([x, w, y] if name == "plain" else [x, w, b, y])
            y.fill_(float("nan"))
            ours()
            torch.cuda.synchronize()
            err = ((y.float() - want[name]).norm() / want[name].norm()).item()
            first = y.clone()
            ours()
            torch.cuda.synchronize()
            same = torch.equal(first.view(torch.int16), y.view(torch.int16))
            if not err < 3e-3 or not same:
                print(f"WRONG {name} {shape}: error {err:.3g}, repeat {'same' if same else 'DIFFERS'}")
                continue
            mine, other = timed([ours, theirs[name]])
            flops = 2 * m * n * k / 1e9
            ratios[name].append(other / mine)
            print(f"{name:10s} {shape:16s} ours {flops / mine:7.1f}  theirs {flops / other:7.1f} TFLOP/s"
                  f"  ratio {other / mine:.3f}  error {err:.2e}", flush=True)
        del z, want
    for name, r in ratios.items():
        if r:
            mean = math.exp(sum(map(math.log, r)) / len(r))
            print(f"{name:10s} geometric mean {mean:.3f}, least {min(r):.3f}, of {len(r)}")


main()
