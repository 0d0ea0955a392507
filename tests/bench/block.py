#!/usr/bin/env python3
"""A transformer block (block.fk) against torch.compile, and how many kernels each takes.

    PACK_ONLY=block tests/gpu/pack.sh build tests/bench     here
    tests/bench/block.py BUILD [SUITE...] [options]      there; BUILD: build-gpu

Suites: block (d 4096, 32 heads of 128, F 14336, T 4096), short (T 1024). Ours is compiled with these sizes
bound. Rows are checked against f32 mathematics with the program's roundings, then timed in turn
(benchlib.py says how). COMPILE_MODE: torch.compile's mode.
"""
import sys

import block_suites
import runner

if __name__ == "__main__":
    sys.exit(runner.main(block_suites, __file__, __doc__))
