#!/usr/bin/env python3
"""The same mask of dropout in every kernel: fused and not, by every variant, on the emulated device.

    dropout.py BUILD

Where an output of dropout.fk is 0 is the mask of rand(seed, m, n) < keep, which is made here from the
language's definition (Philox4x32-10), in `scores` by way of the identity as v. All of it is compared.
"""
import ast
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SEED, KEEP = 5_000_000_007, 0.6
SIZES = {"mapped": {"M": 37, "N": 132}, "rows": {"M": 9, "N": 200}, "linear": {"M": 70, "N": 136, "K": 64},
         "scores": {"M": 70, "N": 64}}


def philox(key, counter):
    """Philox4x32-10: four words."""
    k0, k1, c = key & 0xFFFFFFFF, key >> 32, list(counter)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [b >> 32 ^ c[1] ^ k0, b & 0xFFFFFFFF, a >> 32 ^ c[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = k0 + 0x9E3779B9 & 0xFFFFFFFF, k1 + 0xBB67AE85 & 0xFFFFFFFF
    return c


def mask(rows, cols):
    """By row and column: is it kept?"""
    keep = struct.unpack("f", struct.pack("f", KEEP))[0]
    bits = []
    for m in range(rows):
        for n in range(0, cols, 4):
            words = philox(SEED, (n // 4, m, 0, 0))
            bits += [(w >> 8) * 2.0 ** -24 < keep for w in words][: cols - n]
    return bits


def write(path, shape, kind, values):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    data = struct.pack("<" + {"<f4": "f", "<i8": "q"}[kind] * len(values), *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + data)


def read(path):
    data = path.read_bytes()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10 : 10 + size].decode())
    count = (len(data) - 10 - size) // 4
    assert head["descr"] == "<f4"
    return struct.unpack(f"<{count}f", data[10 + size :])


class Test:
    def __init__(self, build, work):
        self.build, self.work, self.runs, self.failed = Path(build), work, 0, 0
        write(work / "seed.npy", (), "<i8", [SEED])
        write(work / "keep.npy", (), "<f4", [KEEP])
        write(work / "v.npy", (64, 64), "<f4", [float(i == j) for i in range(64) for j in range(64)])

    def fkrun(self, *args):
        return subprocess.run([self.build / "fkrun", *args], capture_output=True, text=True)

    def variants(self, module, fn, sizes):
        said = self.fkrun("--list", f"--fn={fn}", *sizes, module).stdout.splitlines()
        lines = [line for line in said if line.startswith("  variant=") and "not for these" not in line]
        return sorted({line.split()[0].split("=")[1] for line in lines})

    def run(self, module, fn, variant, how):
        sizes = [f"-s{k}={v}" for k, v in SIZES[fn].items()]
        args = [f"--fn={fn}", "--device=emu", f"--in=seed={self.work}/seed.npy", f"--in=keep={self.work}/keep.npy",
                f"--out=y={self.work}/y.npy", f"--variant={variant}", *sizes, module]
        if fn == "scores":
            args.insert(0, f"--in=v={self.work}/v.npy")
        said = self.fkrun(*args)
        self.runs += 1
        rows, cols = SIZES[fn]["M"], SIZES[fn]["N"]
        if said.returncode:
            self.failed += 1
            print(f"FAIL {fn} {how} {variant}: {said.stderr.strip()[:500]}")
            return
        got = [v != 0 for v in read(self.work / "y.npy")]
        wrong = sum(a != b for a, b in zip(got, mask(rows, cols), strict=True))
        if wrong:
            self.failed += 1
            print(f"FAIL {fn} {how} {variant}: {wrong} of {rows * cols} elements have another mask")

    def all(self):
        for how in ("", "--no-fuse", "--strict", "--arch=sm_80"):
            module = self.work / "m.fkm"
            options = [how] if how else []
            subprocess.run([self.build / "fkc", "--ptxas=none", *options, HERE / "dropout.fk", "-o", module],
                           check=True, stderr=subprocess.DEVNULL)
            for fn, sizes in SIZES.items():
                names = self.variants(module, fn, [f"-s{k}={v}" for k, v in sizes.items()])
                for variant in names if not how else names[:2]:
                    self.run(module, fn, variant, how or "fused")
        print(f"{self.runs} runs, {self.failed} failed")
        return 1 if self.failed or self.runs < 30 else 0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.exit(Test(sys.argv[1], Path(folder)).all())
