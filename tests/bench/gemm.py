#!/usr/bin/env python3
"""fkc's matrix products against cuBLAS, cuBLASLt and inductor, as torch calls them: every bar of them.

    tests/bench/gemm.py BUILD [SUITE...] [options]     BUILD: build-gpu (tests/gpu/pack.sh makes it)

Suites: nine, orders, unseen (needs --seed), gated, swiglu, qkv, odd, fp8, fp8block, thin, w4a16, sm80; default: all. Each row checks our
output against an f32 product and between two launches, then times both sides in turn (benchlib.py
says how) and prints our variant, both figures and theirs/ours as times. Bars last. Every row goes to
DIR/bench.jsonl, from which table.py makes the tables of RESULTS.md.

With --variants nothing is compared: every variant of each row's fn is timed, beside what the rule
predicts of it.
"""
import sys

import runner
import suites

if __name__ == "__main__":
    sys.exit(runner.main(suites, __file__, __doc__))
