"""Triton kernels for GPUs. Tests compare each with the plain version next to its caller.

Strides and sizes of rows are compile-time constants, so that the compiler knows how many bytes it can load at once.
"""
