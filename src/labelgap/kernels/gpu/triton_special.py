"""Special functions inside Triton's kernels, each as the one instruction that the GPU has for it.

What Triton's own functions add to it, for numbers too small to matter here and for the last digit, takes as
long as the rest of the work on an entry. In Triton's interpreter, which knows no instructions of a GPU, they
are Triton's own.
"""

from __future__ import annotations

import os

import triton
import triton.language as tl


@triton.jit
def multiply(a, b):
    """A product, for reductions."""
    return a * b


if os.environ.get("TRITON_INTERPRET") == "1":

    @triton.jit
    def reciprocal(x):
        """1/x of float32 numbers; 0 where x is infinite."""
        return 1.0 / x

    @triton.jit
    def rough_log2(x):
        """The logarithm of base 2 of float32 numbers."""
        return tl.log2(x)

else:

    @triton.jit
    def reciprocal(x):
        """1/x of float32 numbers, to the last digit but one; 0 where x is infinite."""
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )

    @triton.jit
    def rough_log2(x):
        """The logarithm of base 2 of float32 numbers, to six digits after the point."""
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
