"""AdaBelief (Zhuang et al., NeurIPS 2020, algorithm 2): Adam, whose steps are long where gradients
are what their mean says. An optimizer of one's own, with the formula that it is held to.
"""

numbers = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
slots = 2


def formula(step, state, parameter, gradient):
    import numpy

    one, two, epsilon = (step.numbers[name] for name in ("beta1", "beta2", "epsilon"))
    mean = one * state[0] + (1 - one) * gradient
    spread = two * state[1] + (1 - two) * (gradient - mean) ** 2 + epsilon
    length = numpy.sqrt(spread / (1 - two**step.number)) + epsilon
    return -step.rate * mean / (1 - one**step.number) / length, (mean, spread)


def torch(parameters, numbers):
    import torch

    class AdaBelief(torch.optim.Optimizer):
        @torch.no_grad()
        def step(self):
            for group in self.param_groups:
                one, two, epsilon = (group[name] for name in ("beta1", "beta2", "epsilon"))
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    kept = self.state[parameter]
                    if not kept:
                        kept["step"] = 0
                        kept["mean"] = torch.zeros_like(parameter)
                        kept["spread"] = torch.zeros_like(parameter)
                    kept["step"] += 1
                    mean, spread = kept["mean"], kept["spread"]
                    mean.lerp_(parameter.grad, 1 - one)
                    off = parameter.grad - mean
                    spread.mul_(two).addcmul_(off, off, value=1 - two).add_(epsilon)
                    length = (spread / (1 - two ** kept["step"])).sqrt_().add_(epsilon)
                    rate = group["lr"] / (1 - one ** kept["step"])
                    parameter.addcdiv_(mean, length, value=-rate)

    return AdaBelief(parameters, numbers)
