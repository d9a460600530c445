"""What measures: clocks, memory, whether a trial fits into it, errors against a reference."""
