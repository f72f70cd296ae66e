"""Triton kernels, for machines with a GPU; each has a plain version beside its caller, which is its reference.

Strides and sizes of rows are constants of a kernel: with them the compiler knows how many bytes it may load at once.
"""
