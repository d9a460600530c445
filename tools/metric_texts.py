"""Metrics of the catalogue for the reference: who reports each, and what it means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from capsule.levels import catalog
from capsule.levels.catalog import (
    MetricFacts,
    collectives,
    reading,
    schemes,
    serving,
    training,
    users,
)
from capsule.manifest import scaling
from capsule.manifest.energy import ENERGY
from capsule.manifest.model import Metric


class MetricKey(NamedTuple):
    """What tells two metrics of one name apart."""

    name: str
    unit: str
    kind: str
    direction: str


def rows() -> Iterator[tuple[str, ...]]:
    """Yield a row for each metric, sorted by name."""
    found: dict[MetricKey, tuple[list[str], list[str]]] = {}
    for subject, key, per in _reported():
        counts, names = found.setdefault(key, ([], []))
        counts += [per] * (per not in counts)
        names += [subject] * (subject not in names)
    for key, (counts, names) in sorted(found.items()):
        reporters = ", ".join(names)
        yield (f"`{key.name}`", *key[1:], " or ".join(counts), reporters, METRIC_TEXTS[key.name])


def _reported() -> Iterator[tuple[str, MetricKey, str]]:
    """Yield each subject with a metric that it reports, and what has one value of it."""
    for subject, facts in _subjects():
        for one in facts:
            kind = "quality" if one.kind == "portable" else one.kind
            yield subject, MetricKey(one.name, one.unit, kind, one.direction), one.per
    for name in serving.PERCENTILES:
        key = MetricKey(name, "s", "machine", "lower")
        yield from ((f"L1 serving `{how}`", key, "trial") for how in ("single-stream", "server"))
    for subject in ("command", "L0 operator", "L1 serving", "L2 training", "L3 training"):
        yield subject, MetricKey(ENERGY.name, ENERGY.unit, ENERGY.kind, ENERGY.direction), "trial"
    for name in ("final_QUALITY", "best_QUALITY"):
        yield "L2 training", MetricKey(name, "1", "quality", "as QUALITY"), "trial"
    yield "search", MetricKey("score", "as its metric", "as its metric", "as its metric"), "trial"


def _subjects() -> Iterator[tuple[str, Iterable[MetricFacts | Metric]]]:
    """Yield the subjects and the metrics that the catalogue lists for each."""
    yield "L0 operator", catalog.OPERATOR_METRICS
    yield "L0 with `roofline`", catalog.ROOFLINE_METRICS
    yield "L1 network", catalog.NETWORK_METRICS
    yield "L1 module", users.MODULE_METRICS
    for scenario, facts in serving.METRICS.items():
        yield f"L1 serving `{scenario}`", facts
    for network, quality in training.QUALITY.items():
        how = {"has_target": True, "stops": True, "copies": True}
        ours = training.metrics(quality, **how)
        module = training.metrics(quality, **how, is_module=True)
        yield f"L2 `{network}`", [one for one in ours if one.name == quality]
        yield "L2 training", [one for one in ours if one in module and one.name != quality]
        yield "L2 training of a catalogue network", [one for one in ours if one not in module]
        yield "L2 training of a module", [one for one in module if one not in ours]
    yield "L2 reading", reading.METRICS
    for name, scheme in schemes.SCHEMES.items():
        kind = "`independent`" if scheme.independent else "training by several ranks"
        yield f"L3 {kind}", schemes.metrics(name)
    yield "L3 collective", collectives.METRICS
    yield "L3 with `scaling`", (scaling.SPEEDUP, scaling.EFFICIENCY, scaling.SHARE)


METRIC_TEXTS = {
    "accuracy": "Share of test samples, pixels or tokens that get the right class.",
    "auc": "Area under the ROC curve of the test samples. 0.5 is chance, 1 is perfect.",
    "backward_latency": "On a GPU only: time of a single gradient call from its launch to its end.",
    "backward_time": "Duration of one gradient call. On a GPU: device time without launches.",
    "bandwidth": "Size of the message divided by the latency of the call.",
    "batch_latency": "Time that a step waits for its minibatch. In a reading: time to read one"
    " minibatch.",
    "best_QUALITY": "Best value of the quality over all evaluations.",
    "bound_share": "Largest bound divided by the quantity that it bounds. Above 0.1 a kept bound"
    " confirms nothing.",
    "bus_bandwidth": "Bandwidth of the links that the operation uses, by the rule of NVIDIA's"
    " nccl-tests, comparable between operations and world sizes.",
    "busy_share": "Share of the time that the server spends on queries. Near 1 the queue of queries"
    " grows.",
    "bytes_received": "Bytes that the rank receives. One value per step or call.",
    "bytes_sent": "Bytes that the rank sends. One value per step or call.",
    "class_counts": "Number of labels of each class in the first epoch.",
    "communication_share": "Seconds of communication divided by seconds of steps, of all ranks"
    " together.",
    "communication_time": "Time of a step in which an exchange is under way.",
    "compile_time": "Time to the first result: build the callable and call it once, forward and"
    " backward.",
    "consensus_distance": "Root mean square distance of the ranks' parameters from their mean, for"
    " schemes that let them differ.",
    "copy_time": "Mean time of the copy of a minibatch to the GPU, by CUDA events. Copies and steps"
    " overlap. Only on a GPU.",
    "data_bytes_per_second": "Bytes of samples per second, as the network takes them.",
    "data_share": "Share of the epoch's time that the host waits for the next minibatch, without"
    " copies to a GPU.",
    "efficiency": "`speedup` divided by the ratio of the numbers of ranks. 1 is perfect.",
    "element_error_ratio": "Largest error of one element divided by its bound. Right results"
    " stay at or below 1.",
    "energy": "Energy of the whole GPUs of a run during its timed part, by their counters. Without"
    " GPUs: of the whole processor packages of its nodes, which other programs use too. Absent if a"
    " counter cannot be read or may have wrapped, under MIG, and if another process used a GPU.",
    "epoch_time": "Duration of the training in one epoch, evaluation left out.",
    "epochs_to_target": "First epoch after which the target is reached.",
    "error_heatmap": "Largest error in each of at most 64 blocks of the result.",
    "evaluation_error": "Error of an evaluation in double precision after the first steps, against"
    " the reference.",
    "evaluation_time": "Duration of one evaluation.",
    "exact_trajectory_error": "`trajectory_error` of the same steps taken in double precision."
    " Right trainings stay below 1e-9.",
    "final_QUALITY": "Mean of the last three values of the quality.",
    "forward_bytes": "Bytes of the operands and results of one call.",
    "forward_bytes_per_second": "`forward_bytes` divided by the duration of the call.",
    "forward_flops": "Floating-point operations of one forward pass.",
    "forward_flops_per_second": "`forward_flops` divided by the duration of the call.",
    "forward_latency": "On a GPU only: time of a single forward call from its launch to its end.",
    "forward_time": "Duration of one forward call. On a GPU: device time without launches.",
    "framework_overhead": "Inference time beyond the sum of the layers' times, as a share of that"
    " sum. On a GPU the device's waits for launches are in it. Below 0 if compilation saves time.",
    "grad_element_error_ratio": "`element_error_ratio` of the gradients.",
    "grad_l2_error_ratio": "`l2_error_ratio` of the gradients.",
    "gradient_check": "Difference between gradients and central differences divided by its bound."
    " Right gradients stay at or below 1.",
    "inference_latency": "On a GPU only: time of a single inference from its launch to its end.",
    "inference_throughput": "Examples per second of inference.",
    "inference_time": "Duration of one inference. On a GPU: of one of many that follow each other"
    " without a wait.",
    "initial_fingerprint": "48 bits of a SHA-256 of the module's initial values.",
    "instance_epochs": "Number of epochs that the rank trained.",
    "instance_quality": "Quality of the rank's network at its end.",
    "instance_reached": "1 if the rank reached its target, otherwise 0.",
    "instance_throughput": "Number of ranks that reached their target, per second.",
    "instance_time": "Time from the common start to the rank's end.",
    "instances": "Number of ranks that reached their target.",
    "l1_error": "L1 norm of the error against the reference, in the unit of the result.",
    "l2_error": "L2 norm of the error against the reference, in the unit of the result.",
    "l2_error_ratio": "L2 norm of the error divided by its bound. Right results stay at or below"
    " 1.",
    "largest_class_share": "Share of the most frequent class among the labels of the first epoch.",
    "latency": "Time from the arrival of a query to its answer. Of a collective: duration of one"
    " call; of `ping-pong` half of the round trip.",
    "latency_p90": "Latency that 90 % of the run's queries do not exceed. Needs 36 queries.",
    "latency_p99": "Latency that 99 % of the run's queries do not exceed. Needs 368 queries.",
    "layer_backward_time": "Duration of the gradient of one layer by itself. On a GPU: device time"
    " without launches.",
    "layer_time": "Duration of one layer by itself. On a GPU: device time without launches.",
    "learning_rate": "Mean learning rate of the epoch's steps.",
    "load_imbalance": "Working time of the busiest rank divided by the mean of all ranks, minus 1.",
    "loss": "Loss. In a training: loss on the test data after each epoch.",
    "machine_bytes_per_second": "Rate of copies of arrays that no cache holds.",
    "machine_flops_per_second": "Rate of products of square matrices in the operator's element"
    " type.",
    "max_error": "Largest error of one element, in the unit of the result.",
    "mean_absolute_error": "Mean absolute error on the test data.",
    "mean_average_precision": "Mean over the classes of the average precision on the test data.",
    "mean_iou": "Mean over the classes of intersection over union on the test data.",
    "messages": "Number of messages that the rank exchanges. One value per step or call.",
    "micro_batches": "Number of parts into which a minibatch is split to keep the memory limit.",
    "network_fingerprint": "48 bits of a SHA-256 of operators, shapes, wiring, initial values and"
    " losses. Claim it with `exact`.",
    "node_error_ratio": "Largest error of one node divided by its bound, forward and backward, with"
    " the reference's operands. Right trainings stay at or below 1.",
    "offline_throughput": "Examples per second where all queries are present at once.",
    "open_time": "Time to open the files of the dataset, for each epoch.",
    "order_fingerprint": "48 bits of a SHA-256 of the order of samples in the first two epochs.",
    "parameters": "Number of trainable parameters.",
    "peak_memory_bytes": "Most memory that the trial uses.",
    "queueing_time": "Time that a query waits before its turn, as part of its latency.",
    "rank_difference": "Largest difference between the parameters of two ranks after each epoch."
    " 0 is right.",
    "reference_error_ratio": "Error of the first steps against one process that does the work of"
    " all ranks, divided by its bound. Right trainings stay at or below 1.",
    "relative_error": "L2 norm of the error divided by the L2 norm of the reference.",
    "repeatable": "1 if repeated calls give the same bits, otherwise 0.",
    "resident_share": "Share of the files' pages in memory when the epoch begins.",
    "roofline_share": "Least time that the machine's measured rates allow, divided by the"
    " operator's time. 1 is the roofline.",
    "sample_bytes": "Bytes of one sample as the network takes it.",
    "samples_fingerprint": "48 bits of a SHA-256 of all samples. Equal for every format and order.",
    "samples_per_second": "Samples read per second, opening included.",
    "samples_to_target": "Number of samples trained on until the target is reached.",
    "score": "Median over the studies of the best value of each study, for each seed.",
    "service_time": "Time that one query takes by itself.",
    "spectrum_distance": "Mean of |log(a / b)| over wave numbers, a and b the mean power spectra of"
    " generated maps and test maps.",
    "speedup": "Throughput divided by that of the case with the fewest ranks.",
    "staleness": "Most steps that a rank is ahead of the slowest one in the epoch.",
    "state_bytes": "Bytes that the rank keeps between steps: parameters, gradients, optimizer,"
    " scheme.",
    "step_time": "Duration of one step.",
    "stored_bytes": "Bytes of all files of the dataset in this format, test data included.",
    "stored_files": "Number of files of the dataset in this format, test data included.",
    "straggler": "Rank that waits least in the epoch, from 0. The other ranks wait for it.",
    "test_fingerprint": "48 bits of a SHA-256 of the test data. Claim it with `exact`.",
    "threads_per_core": "Threads for each core that the rank may use. Above 1 ranks share cores.",
    "time_to_target": "Training time until the target is reached, evaluations left out.",
    "time_to_train_all": "Time until the last rank that reaches its target reaches it.",
    "total_time": "Duration of the training, evaluations included.",
    "total_time_to_target": "Training time until the target is reached, evaluations included.",
    "train_loss": "Mean loss of the epoch's steps.",
    "train_time": "Duration of the training, evaluations left out.",
    "training_latency": "On a GPU only: time of a single forward and backward pass from launch to"
    " end.",
    "training_samples": "Number of samples of the training data.",
    "training_throughput": "Samples trained per second.",
    "training_time": "Duration of one forward and backward pass. On a GPU: of one of many that"
    " follow each other without a wait.",
    "trajectory_error": "Distance of the parameters from the reference's after the first three"
    " steps, divided by the distance that the reference moved.",
    "untrained_loss": "Loss of the first step, before any parameter changes.",
    "update_error": "Distance of the first three steps from the optimizer's formula, in double"
    " precision.",
    "wait_time": "Time of a step in which the rank only waits for an exchange.",
    "world_size": "Number of ranks in the world, as the rank sees it.",
}
