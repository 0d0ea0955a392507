#!/usr/bin/env python3
"""fkc's matrix products against cuBLAS, cuBLASLt and inductor, as torch calls them: every bar of them.

    tests/bench/gemm.py BUILD [SUITE...] [options]     BUILD: build-gpu (tests/gpu/pack.sh makes it)

Suites: nine, orders, unseen (needs --seed), gated, odd, fp8, thin; default: all. Each row checks our
output against an f32 product and between two launches, then times both sides in turn (benchlib.py
says how) and prints our variant, both figures and theirs/ours as times. Bars last. Every row goes to
DIR/bench.jsonl, from which table.py makes the tables of RESULTS.md.

The rows run in a process of their own: one that crashes, hangs or breaks the GPU's context costs its
row; the rest goes on in a new process. With --variants nothing is compared: every variant of each
row's fn is timed, beside what the rule predicts of it.
"""
import argparse
import json
import math
import os
import queue
import subprocess
import sys
import threading
import time

import suites
import variants

HERE = os.path.dirname(os.path.abspath(__file__))


# ---- the process with the GPU ----

def measure(torch, lib, row, o):
    import benchlib
    torch.manual_seed(1)
    case = suites.CASES[row.fn](torch, row)
    ours = benchlib.Ours(lib, os.path.join(o.build, "modules", row.module + ".fkm"), row.fn,
                         case.inputs + [case.out])
    variant = ours.variants()
    e = benchlib.checked(ours, case.out, case.want, case.norm, case.most)
    result = {"variant": variant, "error": e}
    try:
        want = case.want if case.theirs_want is None else case.theirs_want
        result["their error"], _ = benchlib.error(case.theirs(), want)
        if not result["their error"] < case.theirs_norm:
            raise ValueError(f"they compute something else: error {result['their error']:.3g}")
        calls = [ours, case.theirs]
    except Exception as x:  # ours can still be timed
        result["their failure"] = f"{type(x).__name__}: {x}".splitlines()[0][:200]
        torch.cuda.synchronize()
        calls = [ours]
    case.want = case.theirs_want = None
    times, how = benchlib.timed(calls, o.rounds, row.launches, row.flush, row.sleep)
    result.update(how)
    for side, t in zip(("ours", "theirs"), times):
        result[side + " us"], result[side + " quartiles us"] = t[0] * 1e3, [t[1] * 1e3, t[2] * 1e3]
        result[side] = suites.per_ms(row, t[0])
    if len(times) == 2:
        result["ratio"] = times[1][0] / times[0][0]
    return result


def child(o, rows):
    """Speaks to its parent in lines: '@' and JSON."""
    def say(**k):
        print("@" + json.dumps(k), flush=True)
    import torch
    import benchlib
    torch.set_grad_enabled(False)
    torch.zeros(1, device="cuda")
    lib = benchlib.Lib(os.path.join(o.build, "libfk.so"))
    say(ready=f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for i in o.child:
        say(start=i)
        try:
            result = (variants.measure if o.variants else measure)(torch, lib, rows[i], o)
        except Exception as x:
            result = {"failure": f"{type(x).__name__}: {x}"[:600]}
        say(row=i, result=result)
        try:
            torch.cuda.synchronize()
            torch.cuda.empty_cache()
        except Exception:  # the context is lost: the parent starts another process
            os._exit(7)


# ---- the parent ----

def put(row, r):
    head = f"{row.fn:9s} {row.shape:17s}"
    if "failure" in r:
        print(f"{head} FAILED {r['failure']}", flush=True)
        return
    theirs = f"theirs {r['theirs']:7.2f} {row.unit:7s} ratio {r['ratio']:.3f}" if "ratio" in r else \
        f"{row.unit:7s} theirs FAILED {r.get('their failure')}"
    note = " (host-bound?)" if r["host"] else ""
    print(f"{head} {r['variant']:18s} ours {r['ours']:7.2f} {theirs}  {r['ours us']:.1f} us"
          f"  err {r['error']:.2e} x{r['rounds']} {row.flush} {row.against}{note}", flush=True)


class Children:
    """Runs rows in child processes, in order; on_row(i, result) for each."""

    def __init__(self, o, argv, on_row, limit_of, log):
        self.o, self.argv, self.on_row, self.limit_of, self.log = o, argv, on_row, limit_of, log

    def spawn(self, todo):
        command = [sys.executable, "-u", os.path.join(HERE, "gemm.py"), *self.argv,
                   "--child", ",".join(map(str, todo))]
        self.p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.lines = queue.Queue()

        def read(p, lines):
            for line in p.stdout:
                lines.put(line)
            lines.put(None)
        threading.Thread(target=read, args=(self.p, self.lines), daemon=True).start()

    def one(self, todo):
        """Until the process ends, or hangs and is killed. Returns the rows left, or None: it never began."""
        self.spawn(todo)
        left, now, deadline, began = list(todo), None, time.time() + 180, False
        while True:
            try:
                line = self.lines.get(timeout=max(0.1, deadline - time.time()))
            except queue.Empty:
                line, why = None, "it took too long: stopped"
            else:
                why = "the process died"
            if line is None:
                self.p.kill()
                self.p.wait()
                if now is not None:
                    self.on_row(now, {"failure": f"{why} (see bench.log)"})
                    left.remove(now)
                return left if began else None
            if not line.startswith("@"):
                self.log.write(line)
                continue
            m = json.loads(line[1:])
            if "ready" in m:
                began = True
                print(m["ready"], flush=True)
            elif "start" in m:
                now, deadline = m["start"], time.time() + self.limit_of(m["start"])
            else:
                self.on_row(m["row"], m["result"])
                left.remove(m["row"])
                now, deadline = None, time.time() + 60
            if not left:
                deadline = time.time() + 10

    def run(self, todo):
        while todo:
            left = self.one(todo)
            if left is None or left == todo:
                print("the GPU process does not start: see bench.log", flush=True)
                return False
            todo = left
        return True


def put_bars(rows, results):
    ok = True
    for bar in suites.BARS:
        mine = [(row, results.get(i, {})) for i, row in enumerate(rows)
                if row.suite == bar.suite and row.group == bar.group]
        if not mine:
            continue
        ratios = [r["ratio"] for _, r in mine if "ratio" in r]
        speeds = [r["ours"] for _, r in mine if "ours" in r]
        text, passed = f"{bar.suite} {bar.group}: {len(ratios)} of {len(mine)} rows", len(ratios) == len(mine)
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            text += f", mean {mean:.3f}" + (f" (bar {bar.mean})" if bar.mean else "")
            text += f", least {min(ratios):.3f}" + (f" (bar {bar.least})" if bar.least else "")
            passed &= not (bar.mean and mean < bar.mean) and not (bar.least and min(ratios) < bar.least)
        if bar.tbs:
            text += f", {min(speeds, default=0):.2f} TB/s (bar {bar.tbs})"
            passed = len(speeds) == len(mine) and min(speeds) >= bar.tbs
        has_bar = bar.mean or bar.least or bar.tbs
        print(f"{'PASS' if passed else 'FAIL'}  {text}" if has_bar else f"info  {text}", flush=True)
        ok &= bool(passed or not has_bar)
    return ok


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("suite", nargs="*")
    p.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "25")))
    p.add_argument("--seed", type=int, help="of the shapes of `unseen`")
    p.add_argument("--only", default="", help="rows whose 'fn shape' contains this text")
    p.add_argument("--out", default=os.environ.get("OUT", ""), help="folder of bench.jsonl (default: $OUT, else BUILD)")
    p.add_argument("--variants", action="store_true", help="time every variant of ours, compare nothing")
    p.add_argument("--list", action="store_true", help="print the rows, run none")
    p.add_argument("--child", type=lambda s: [int(v) for v in s.split(",")], help=argparse.SUPPRESS)
    o = p.parse_args()
    unknown = [s for s in o.suite if s not in suites.SUITES]
    if unknown:
        p.error(f"no suite {unknown[0]}; there are {', '.join(suites.SUITES)}")
    o.suite = o.suite or list(suites.SUITES)
    return o


def main():
    o = arguments()
    if "unseen" in o.suite and o.seed is None:
        print("unseen: skipped, its shapes need --seed=N")
    rows = [r for s in o.suite if s != "unseen" or o.seed is not None for r in suites.SUITES[s](o.seed)]
    rows = [r for r in rows if o.only in f"{r.fn} {r.shape}"]
    if o.child:
        return child(o, rows)
    if o.list:
        for r in rows:
            print(f"{r.suite:7s} {r.group:20s} {r.module}:{r.fn} {r.shape} against {r.against}")
        return 0
    unpack = os.path.join(HERE, "..", "gpu", "unpack.sh")
    subprocess.run(["bash", unpack], env={**os.environ, "BUILD_GPU": o.build}, check=True)
    out = o.out or o.build
    results = {}
    head = {"date": time.strftime("%Y-%m-%d %H:%M"), "seed": o.seed}
    with open(os.path.join(out, "bench.jsonl"), "a") as data, open(os.path.join(out, "bench.log"), "a") as log:
        def on_row(i, result):
            results[i] = result
            data.write(json.dumps({**head, **vars(rows[i]), **result}) + "\n")
            data.flush()
            if i == 0 or rows[i].suite != rows[i - 1].suite:
                print(f"---- {rows[i].suite}")
            (variants.put if o.variants else put)(rows[i], result)
        children = Children(o, sys.argv[1:], on_row, lambda i: rows[i].limit, log)
        children.run(list(range(len(rows))))
    return 0 if o.variants or put_bars(rows, results) else 1


if __name__ == "__main__":
    sys.exit(main())
