"""A constant in a module of its own."""

BITS_PER_BYTE = 8
