"""Frameworks whose results, or calls, something is done to on their way."""


class Operators:
    """Capabilities of a framework, with a function of what each hands out.

    `change` takes the method's name and its call, and returns a call.
    """

    def __init__(self, right, change):
        self._right = right
        self._change = change

    def operation(self, *arguments):
        return self._change("operation", self._right.operation(*arguments))

    def gradient(self, *arguments):
        return self._change("gradient", self._right.gradient(*arguments))


class Networks:
    """See `Operators`."""

    def __init__(self, right, change):
        self._right = right
        self._change = change

    def inference(self, *arguments):
        return self._change("inference", self._right.inference(*arguments))

    def alone(self, *arguments):
        return self._change("inference", self._right.alone(*arguments))

    def training(self, *arguments):
        return self._change("training", self._right.training(*arguments))


def change(framework, how):
    """Let `how` change every call that a framework hands out."""
    framework.operators = Operators(framework.operators, how)
    framework.networks = Networks(framework.networks, how)
