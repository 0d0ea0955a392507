"""What gemm.py and attention.py share: rows are measured in a process of their own, held against bars.

The process that measures speaks to its parent in lines. One that crashes, hangs or breaks the GPU's
context costs its row; the rest goes on in a new one. The parent prints the rows, writes them to
bench.jsonl and compares them with the bars. Handed to main: a module with BARS, SUITES (name: function
of the seed, to rows) and CASES (fn: function of torch, row and Maker, to a Case).
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
from dataclasses import dataclass, field

import variants

FLOP_CYCLE = 4096  # dense bf16 and f16, of a multiprocessor of sm_90
HERE = os.path.dirname(os.path.abspath(__file__))


@dataclass
class Bar:
    """What the rows of a group must reach. With none of these it only shows them."""
    suite: str
    group: str
    mean: float = None       # of the ratios, geometric
    least: float = None      # none below
    tbs: float = None        # TB/s, least
    tflops: float = None     # TFLOP/s, least
    error: float = None      # of the first output, most
    second: float = None     # of the second output, most
    workspace: float = None  # bytes, most
    util: float = None       # share of the tensor cores' peak by cycles, least
    share: float = None      # of the speed of a copy of as many bytes, least


@dataclass
class Out:
    """An output of ours, what it must be (f32), and by how much it may be off."""
    tensor: object
    want: object
    norm: float = 3e-3  # bf16 rounds with 1.66e-3
    most: float = 0.02
    by_row: bool = False  # benchlib.error


@dataclass
class Case:
    inputs: list
    outs: list           # of Out
    theirs: object       # a call that returns their first output; None: nothing to compare with
    theirs_want: object = None  # where it differs
    theirs_norm: float = 2e-2   # only: is it the same function? (partial sums of theirs may be bf16)
    keep: list = field(default_factory=list)
    notes: dict = field(default_factory=dict)  # go into the row's results


class Maker:
    """Binds fns of modules in BUILD to tensors."""

    def __init__(self, benchlib, lib, build):
        self.benchlib, self.lib, self.build = benchlib, lib, build

    def path(self, module):
        return os.path.join(self.build, "modules", module + ".fkm")

    def ours(self, module, fn, tensors):
        return self.benchlib.Ours(self.lib, self.path(module), fn, tensors)


def per_ms(row, ms):
    """TFLOP/s or TB/s of a launch that takes so long."""
    return row.work / ms / 1e9


# ---- the process with the GPU ----

def measure(suites, torch, maker, row, o):
    benchlib = maker.benchlib
    torch.manual_seed(1)
    case = suites.CASES[row.fn](torch, row, maker)
    ours = maker.ours(row.module, row.fn, case.inputs + [out.tensor for out in case.outs])
    result = {"variant": ours.variants(), "workspace": ours.size.value}
    errors = benchlib.checked(ours, case.outs)
    result["error"], result["errors"] = errors[0], errors
    calls = [ours]
    try:
        if case.theirs:
            want = case.outs[0].want if case.theirs_want is None else case.theirs_want
            result["their error"], _ = benchlib.error(case.theirs(), want)
            if not result["their error"] < case.theirs_norm:
                raise ValueError(f"they compute something else: error {result['their error']:.3g}")
            calls = [ours, case.theirs]
    except Exception as x:  # ours can still be timed
        result["their failure"] = f"{type(x).__name__}: {x}".splitlines()[0][:200]
        torch.cuda.synchronize()
    case.theirs_want = None
    for out in case.outs:
        out.want = None
    times, how = benchlib.timed(calls, min(o.rounds, getattr(row, "rounds", o.rounds)), row.launches, row.flush,
                                row.sleep)
    result.update(how, **case.notes)
    if getattr(row, "util", None):
        sms = torch.cuda.get_device_properties(0).multi_processor_count
        for side, call in zip(("", "their "), calls):
            result[side + "cycles"], gap = benchlib.cycles(call)
            result[side + "util"] = row.work / (sms * FLOP_CYCLE * (result[side + "cycles"] - gap))
    for side, t in zip(("ours", "theirs"), times):
        result[side + " us"], result[side + " quartiles us"] = t[0] * 1e3, [t[1] * 1e3, t[2] * 1e3]
        result[side] = per_ms(row, t[0])
    if len(times) == 2:
        result["ratio"] = times[1][0] / times[0][0]
    return result


def child(suites, o, rows):
    """Speaks to its parent in lines: '@' and JSON."""
    def say(**k):
        print("@" + json.dumps(k), flush=True)
    import torch
    import benchlib
    torch.set_grad_enabled(False)
    torch.zeros(1, device="cuda")
    maker = Maker(benchlib, benchlib.Lib(os.path.join(o.build, "libfk.so")), o.build)
    say(ready=f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    for i in o.child:
        say(start=i)
        try:
            result = (variants.measure if o.variants else measure)(suites, torch, maker, rows[i], o)
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
    theirs = f"theirs {r['theirs']:7.2f} {row.unit:7s} ratio {r['ratio']:.3f}" if "ratio" in r else row.unit
    if "their failure" in r:
        theirs += f" theirs FAILED {r['their failure']}"
    note = " (host-bound?)" if r["host"] else ""
    errors = " ".join(f"{e:.2e}" for e in r["errors"])
    if "util" in r:
        note += " util" + "".join(f" {100 * r[s]:.1f} %" for s in ("util", "their util") if s in r)
    if "copy" in r:
        note += f" {100 * r['ours'] / r['copy']:.1f} % of a copy"
    if "their scales" in r:
        note += f" theirs with {r['their scales']} scales"
    if "their kernels" in r:
        note += f" kernels {r['variant'].count('+') + 1}, theirs {r['their kernels']}"
    if r["workspace"] > 1 << 20:
        note += f" workspace {r['workspace'] / 2**20:.0f} MB"
    print(f"{head} {r['variant']:18s} ours {r['ours']:7.2f} {theirs}  {r['ours us']:.1f} us"
          f"  err {errors} x{r['rounds']} {row.flush} {row.against}{note}", flush=True)


class Children:
    """Runs rows in child processes, in order; on_row(i, result) for each."""

    def __init__(self, command, on_row, limit_of, log):
        self.command, self.on_row, self.limit_of, self.log = command, on_row, limit_of, log

    def spawn(self, todo):
        command = [sys.executable, "-u", *self.command, "--child", ",".join(map(str, todo))]
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


class Judged:
    """Collects one bar's line and verdict."""

    def __init__(self, bar, mine):
        self.bar, self.mine, self.text, self.passed = bar, mine, "", True

    def ask(self, what, wanted, values, reached, form="{:.3f}"):
        """One figure of the bar. `wanted` None: shown only; values missing: not passed."""
        if not values and wanted is None:
            return
        seen = form.format(what[1](values)) if values else "none"
        self.text += f", {what[0]} {seen}" + (f" (bar {wanted:g})" if wanted is not None else "")
        if wanted is not None:
            self.passed &= len(values) == len(self.mine) and reached(what[1](values), wanted)


def geometric(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def judge(bar, mine):
    j = Judged(bar, mine)
    of = lambda key: [r[key] for _, r in mine if key in r]  # noqa: E731
    errors = [r["errors"] for _, r in mine if "errors" in r]
    wants = [bar.mean, bar.least, bar.tbs, bar.tflops, bar.error, bar.second, bar.workspace, bar.util, bar.share]
    ratios = of("ratio")
    above, below = (lambda a, b: a >= b), (lambda a, b: a <= b)
    if ratios or bar.mean or bar.least:
        j.ask(("mean", geometric), bar.mean, ratios, above)
        j.ask(("least", min), bar.least, ratios, above)
    if bar.tflops:
        j.ask(("TFLOP/s", min), bar.tflops, of("ours"), above, "{:.0f}")
    if bar.tbs:
        j.ask(("TB/s", min), bar.tbs, of("ours"), above, "{:.2f}")
    if bar.tflops:
        j.ask(("TFLOP/s", min), bar.tflops, of("ours"), above, "{:.0f}")
    if bar.error:
        j.ask(("error", max), bar.error, [e[0] for e in errors], below, "{:.2e}")
    if bar.second:
        j.ask(("of the second output", max), bar.second, [e[1] for e in errors if len(e) > 1], below, "{:.2e}")
    if bar.workspace:
        j.ask(("workspace", max), bar.workspace, of("workspace"), below, "{:.0f}")
    if bar.util:
        j.ask(("util", min), bar.util, of("util"), above)
    if bar.share:
        j.ask(("of a copy", min), bar.share, [r["ours"] / r["copy"] for _, r in mine if "copy" in r and "ours" in r], above)
    done = len(of("ours"))
    has_bar = any(w is not None for w in wants)
    passed = j.passed and done == len(mine)
    word = ("PASS" if passed else "FAIL") if has_bar else "info"
    print(f"{word}  {bar.suite} {bar.group}: {done} of {len(mine)} rows{j.text}", flush=True)
    return passed or not has_bar


def put_bars(suites, rows, results):
    ok = True
    for bar in suites.BARS:
        mine = [(row, results.get(i, {})) for i, row in enumerate(rows)
                if row.suite == bar.suite and row.group == bar.group]
        ok &= not mine or judge(bar, mine)
    return ok


# ---- without a GPU: are the modules there, with these fns, for these sizes? ----

def dry(rows, o):
    bad = 0
    for row in rows:
        module = os.path.join(o.build, "modules", row.module + ".fkm")
        sizes = [f"-s{name}={v}" for name, v in row.free.items()]
        try:
            text = variants.fkrun(o, "--list", "--fn", row.fn, *sizes, module)
            names = [line.split()[0].split("=")[1] for line in text.splitlines()
                     if line.startswith("  variant=") and "not for these" not in line]
            said = f"{text.count('LIST ')} steps, {len(names)} variants"
        except Exception as x:
            said, bad = f"FAILED {x}", bad + 1
        print(f"{row.suite:10s} {row.module}:{row.fn} {row.shape}: {said}", flush=True)
    print(f"{len(rows) - bad} of {len(rows)} rows have their module")
    return 1 if bad else 0


def arguments(suites, doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("suite", nargs="*")
    p.add_argument("--rounds", type=int, default=int(os.environ.get("ROUNDS", "25")))
    p.add_argument("--seed", type=int, help="of the shapes of `unseen`")
    p.add_argument("--only", default="", help="rows whose 'fn shape' contains this text")
    p.add_argument("--out", default=os.environ.get("OUT", ""), help="folder of bench.jsonl (default: $OUT, else BUILD)")
    p.add_argument("--variants", action="store_true", help="time every variant of ours, compare nothing")
    p.add_argument("--list", action="store_true", help="print the rows, run none")
    p.add_argument("--dry", action="store_true", help="no GPU: look whether each row's module is there and takes its sizes")
    p.add_argument("--child", type=lambda s: [int(v) for v in s.split(",")], help=argparse.SUPPRESS)
    if hasattr(suites, "bound"):
        p.add_argument("--bound", action="store_true", help="modules with every size bound (default: the head dim)")
    o = p.parse_args()
    unknown = [s for s in o.suite if s not in suites.SUITES]
    if unknown:
        p.error(f"no suite {unknown[0]}; there are {', '.join(suites.SUITES)}")
    o.suite = o.suite or list(suites.SUITES)
    return o


def rows_of(suites, o):
    if "unseen" in o.suite and o.seed is None:
        print("unseen: skipped, its shapes need --seed=N")
    rows = [r for s in o.suite if s != "unseen" or o.seed is not None for r in suites.SUITES[s](o.seed)]
    rows = [r for r in rows if o.only in f"{r.fn} {r.shape}"]
    return [suites.bound(r) for r in rows] if getattr(o, "bound", False) else rows


def main(suites, script, doc):
    o = arguments(suites, doc)
    rows = rows_of(suites, o)
    if o.child:
        return child(suites, o, rows)
    if o.list:
        for r in rows:
            print(f"{r.suite:7s} {r.group:20s} {r.module}:{r.fn} {r.shape} against {r.against}")
        return 0
    unpack = os.path.join(HERE, "..", "gpu", "unpack.sh")
    subprocess.run(["bash", unpack], env={**os.environ, "BUILD_GPU": o.build}, check=True)
    if o.dry:
        return dry(rows, o)
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
        command = [os.path.abspath(script), *sys.argv[1:]]
        children = Children(command, on_row, lambda i: rows[i].limit, log)
        children.run(list(range(len(rows))))
    return 0 if o.variants or put_bars(suites, rows, results) else 1
