"""A perceptron with one hidden layer learns to tell two moons apart; plain Python, a second."""

import argparse
import math
import random
import time


def make_moons(rng, count):
    """Points on two half circles that reach into each other, with noise, and whose each is."""
    points = []
    for number in range(count):
        angle, label = rng.uniform(0, math.pi), number % 2
        x, y = math.cos(angle), math.sin(angle)
        if label:
            x, y = 1 - x, 0.5 - y
        points.append(((x + rng.gauss(0, 0.3), y + rng.gauss(0, 0.3)), label))
    return points


def predict(network, point):
    """Outputs of the hidden units, and the probability that the point is of the second moon."""
    hidden = [math.tanh(a * point[0] + b * point[1] + c) for a, b, c, _ in network]
    score = sum(network[number][3] * output for number, output in enumerate(hidden))
    return hidden, 1 / (1 + math.exp(-max(-30.0, min(30.0, score))))


def train(network, points, rate):
    """One epoch of stochastic gradient descent on the cross entropy; the mean loss."""
    loss = 0.0
    for point, label in points:
        hidden, probability = predict(network, point)
        loss -= math.log(max(1e-12, probability if label else 1 - probability))
        error = probability - label
        for number, output in enumerate(hidden):
            unit = network[number]
            inner = error * unit[3] * (1 - output * output)
            unit[3] -= rate * error * output
            unit[0] -= rate * inner * point[0]
            unit[1] -= rate * inner * point[1]
            unit[2] -= rate * inner
    return loss / len(points)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--epochs", type=int, default=20)
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)
    points, unseen = make_moons(rng, 1000), make_moons(rng, 20000)
    network = [[rng.gauss(0, 1) for _ in range(4)] for _ in range(8)]
    began = time.perf_counter()
    for epoch in range(arguments.epochs):
        rng.shuffle(points)
        print(f"epoch {epoch} loss: {train(network, points, arguments.lr):.5f}", flush=True)
    print(f"training took {time.perf_counter() - began:.3f} s")
    right = sum((predict(network, point)[1] > 0.5) == label for point, label in unseen)
    print(f"accuracy: {right / len(unseen):.4f}")


if __name__ == "__main__":
    main()
