"""Graphs as ONNX models: `exchange` reads and writes files, the rest knows each node."""
