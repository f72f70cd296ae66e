"""Triton kernels for GPUs. Each has a plain version next to its caller, against which it is tested.

Strides and sizes of rows are compile-time constants, so that the compiler knows how many bytes it can load at once.
"""
