"""Instruments: clocks, memory, capacity, and errors against a reference."""
