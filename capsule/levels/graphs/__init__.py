"""The language of networks: graphs of Level 0 operators, however they came to be.

graph           what a network is: inputs, parameters, nodes, outputs, loss
builder         how one is written
structure       operators that networks need beside Level 0's
values          inputs and weights from a seed
reference       forward and backward in numpy, in more bits than the dtype has
bounds          how far a right implementation can be off
onnx            reads and writes the exchange format
"""
