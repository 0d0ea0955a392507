#!/usr/bin/env python3
"""fkc's attention and its kin against cuDNN (torch SDPA), FlexAttention and inductor: every bar of them.

    tests/bench/attention.py BUILD [SUITE...] [options]     BUILD: build-gpu (tests/gpu/pack.sh makes it)

Suites: forward (against cuDNN), f16 (against our bf16), mods (softcap, window, ALiBi, bias, documents,
against FlexAttention), decode, ce (linear + cross-entropy), accuracy, util (tensor utilisation by
cycles of the multiprocessors), edge (CASES A17), sm80 (against cuDNN, by mma.sync and cp.async: modules for
sm_80, which the driver compiles for this chip); default: all. Each row checks all our outputs, filled
with NaN before, against f32 mathematics and between two launches, then times both sides in turn
(benchlib.py says how). Modules have the head dim bound; with --bound every size. Every row goes to DIR/bench.jsonl, from which
table.py makes the tables of RESULTS.md. --dry looks at the modules without a GPU; tests/bench/util.sh
counts cycles with ncu instead. FLEX_MODE, COMPILE_MODE: torch.compile's mode.
"""
import sys

import attention_suites
import runner

if __name__ == "__main__":
    sys.exit(runner.main(attention_suites, __file__, __doc__))
