"""Comparison with Deep500 and with today's practice: docs/explanation/compared-with-deep500.md.

    python tools/features.py            writes it
    python tools/features.py --check    ends with 1 when the committed file is another one

Every test that a row names must be there; whether it passes, the tests themselves tell.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from practices import PRACTICES, TODAY

from capsule.levels import catalog

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "explanation" / "compared-with-deep500.md"

HEAD = """# Compared with Deep500

**For** reviewers. Which features does capsule have that Deep500 lacks, and which practices of today
does capsule lack? Deep500 means version 0.2.0 and the last commit (May 2022) on Python 3.11. One
command writes this page. The command ends with an error if a row names a missing test:

    python tools/features.py

Each row names the tests that confirm the column capsule. Level 3 has thirteen schemes in torch on
CPUs, tested with up to four ranks on two virtual nodes. Tensor parallelism (layers split across
ranks) is not supported.

## Feature by feature

| # | level | feature | Deep500 | capsule | shown by |
|--:|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Row:
    """One feature.

    Attributes:
        level: Of Deep500, or `all`.
        name: The feature.
        theirs: Its state in Deep500.
        ours: capsule's state.
        tests: `file::function` below tests/, with `.py` left out.
    """

    level: str
    name: str
    theirs: str
    ours: str
    tests: tuple[str, ...] = ()


ROWS = (
    Row("0", "user's operator, forward and backward in Python", "works", "a Python file with one "
        "formula, which is reference, gradient and error bound in one; its shipped example is run "
        "and reproduced",
        ("levels/operators/test_user::test_a_formula_is_judged_like_ours",
         "levels/operators/test_user::test_a_wrong_derivative_is_caught_by_central_differences",
         "journeys/test_own_operator::test_the_worked_example_is_sealed_and_reproduced_on_the_host")),
    Row("0", "user's operator in C++ and CUDA, one source for several frameworks", "C++ in the "
        "PyTorch adapter no longer compiles; a prebuilt library is refused", "C++ by ctypes for "
        "every framework, or torch's extension builder; a prebuilt library is loaded; CUDA sources "
        "go to nvcc, not tested here",
        ("levels/operators/test_user::test_cpp_beside_the_file_is_compiled_and_checked",
         "journeys/test_own_operator::test_torchs_own_extension_builder_compiles_in_the_image",
         "journeys/test_own_operator::test_a_kernel_that_is_wrong_fails_its_claims")),
    Row("0", "a framework's own operator without copies; cost per call measured", "0.3 to 0.7 us a "
        "call", "the native function on native tensors; one "
        "clock reading a call; `python benchmarks/harness/overhead.py` measures the cost, with "
        "intervals; each process records what an empty call takes (`empty_call_ns`)",
        ("levels/operators/test_operators::test_timing_runs_each_call_alone_with_the_collector_at_rest",
         "benchmarks/test_overhead::test_the_harness_is_compared_with_a_bare_loop_of_the_same_calls")),
    Row("0", "forward check: L1, L2, maximum, heat map", "reports norms, decides nothing",
        "the same norms, and an a-priori bound of the error for each dtype that decides",
        ("levels/frameworks/test_frameworks::test_every_operator_and_dtype_stays_within_its_bounds",
         "levels/operators/test_faults::test_a_planted_fault_leaves_the_bound",
         "levels/operators/test_faults::test_the_heat_map_shows_where_the_error_is",
         "journeys/test_faults::test_each_fault_makes_its_own_claim_different")),
    Row("0", "gradient check by central differences", "full Jacobian, unseeded, noise of 0.11 for "
        "float32 with its default step", "along directions (each element of small ones) of the "
        "reference in float64, seeded, with a bound",
        ("levels/operators/test_user::test_a_wrong_derivative_is_caught_by_central_differences",
         "levels/operators/test_faults::test_a_planted_fault_leaves_the_bound")),
    Row("0", "repeatability", "variance map that is always zero", "five more calls must give "
        "equal bits",
        ("levels/operators/test_faults::test_a_result_that_changes_from_call_to_call_is_told",
         "levels/level1/test_level1::test_two_processes_with_one_seed_yield_the_same_bits",
         "levels/test_deep500_mistakes::test_one_element_that_varies_in_its_last_bit_is_seen")),
    Row("0", "wall time: repetitions, median, raw values", "median of averages; no interval, no "
        "warm-up, no waiting for the device; samples of two calls mixed", "every call's duration "
        "is kept; warm-up apart; waits for the device; nonparametric interval and coefficient of "
        "variation of the calls; claims with intervals over runs",
        ("levels/test_deep500_mistakes::test_every_sample_holds_the_work_of_the_device",
         "levels/test_deep500_mistakes::test_slow_first_calls_are_warm_up",
         "levels/test_deep500_mistakes::test_a_second_trial_has_samples_of_its_own",
         "levels/test_run::test_each_trial_has_its_own_calls_warmup_first",
         "report/test_report::test_show_tells_how_the_calls_of_a_run_lie")),
    Row("0", "DeepBench's shapes", "94 convolutions, 160 products, on CUDA only",
        "the same, and DeepBench's 107 and 75 for inference, on any device",
        ("levels/operators/test_catalog::test_deepbench_is_whole",)),
    Row("0", "reference operators", "18 in Python; a loss without its softmax",
        f"{len(catalog.OPERATORS)}, forward and backward, in more bits than the dtype",
        ("levels/operators/test_reference::test_formulas_and_derivatives_agree_with_torch",
         "levels/test_deep500_mistakes::test_the_loss_has_its_softmax")),
    Row("1", "ONNX import, losses added to the graph", "fails on what torch exports today; "
        "overwrites weights that are listed as inputs", "ONNX in and out; nodes without an "
        "operation of Level 0 are compared with ONNX's own reference; weights stay those of the "
        "file; classifiers get their loss",
        ("levels/networks/test_onnx::test_what_torch_exports_runs_everywhere",
         "levels/networks/test_onnx_others::test_every_framework_is_within_bounds_that_notice_a_thousandth",
         "journeys/test_own_operator::test_one_onnx_file_runs_in_every_framework",
         "levels/networks/test_onnx::test_a_file_without_a_loss_gets_one_on_the_scores_before_its_softmax",
         "levels/test_deep500_mistakes::test_weights_of_an_onnx_file_stay_those_of_the_file",
         "levels/frameworks/test_tensorflow::test_a_network_that_was_an_onnx_file_runs")),
    Row("1", "executors: inference, and with gradients; several frameworks", "PyTorch's inference "
        "test fails on any version; Caffe2 no longer exists", "one graph in numpy, torch, torch "
        "compiled, TensorFlow, XLA, JAX; inference in ONNX Runtime",
        ("levels/frameworks/test_executors::test_outputs_loss_and_gradients_are_the_references",
         "levels/frameworks/test_executors::test_onnx_runtime_infers_the_whole_network")),
    Row("1", "network check: outputs and gradients against a reference", "outputs against values "
        "of the caller; the reference's gradients fail", "both, with a bound that follows from "
        "each node's own",
        ("levels/networks/test_torch::test_torch_stays_within_the_bounds",
         "levels/networks/test_bounds::test_a_gradient_left_out_lies_beyond",
         "levels/networks/test_bounds::test_a_wrong_axis_or_option_lies_beyond")),
    Row("1", "overhead of a network against the sum of its operators", "in the paper, missing "
        "from the code", "metric `framework_overhead`, and the time of each layer",
        ("levels/level1/test_level1::test_every_node_has_its_time_and_the_rest_is_overhead",)),
    Row("1", "micro-batches: a transformed graph, checked", "in the paper, missing from the "
        "code", "minibatches are split to fit a limit of memory, and compared with the reference "
        "of the whole minibatch",
        ("levels/level1/test_microbatch::test_parts_are_held_to_the_reference",
         "levels/level1/test_microbatch::test_the_parts_gradients_add_up_to_the_minibatch_s",
         "levels/level1/test_microbatch::test_a_limit_is_kept_and_its_parts_are_counted",
         "levels/level1/test_microbatch::test_a_minibatch_that_does_not_fit_is_trained_in_parts")),
    Row("1", "executor events; ONNX backend tests as oracle", "three hooks; 1884 node tests are "
        "listed", "no hooks: each layer's time is a metric; of ONNX's 1884 node tests at least "
        "1537 load and agree, counted by the test",
        ("levels/networks/test_onnx_nodes::test_onnxs_own_node_tests_load_agree_and_run_in_torch",
         "levels/test_deep500_mistakes::test_every_metric_that_is_due_is_reported")),
    Row("2", "datasets", "downloaded without a digest", "by digest; IDX, CIFAR, tokens, TFRecord, "
        "HDF5 and image folders as published, each sample read when needed, or made by a generator "
        "in any of these formats",
        ("levels/formats/test_layouts::test_a_network_gets_what_it_takes",
         "levels/formats/test_writers::test_a_network_takes_what_is_written",
         "journeys/test_formats::test_lenet_learns_from_files_of_mnist")),
    Row("2", "samplers", "four; unseeded by default", "ordered, shuffled, bucketed and weighted, "
        "from the seed and the epoch alone on any number of ranks, recomputed by `check`",
        ("archive/test_trainings::test_an_unshuffled_order_is_found",
         "archive/test_orders::test_orders_are_made_again_by_the_reader",
         "levels/test_samplers::"
         "test_any_number_of_ranks_takes_the_same_samples_in_the_same_steps")),
    Row("2", "latency and bandwidth of a dataset", "times its sampler; its paper compares formats",
        "a generated dataset, written and read in every format that can store it, one file per "
        "sample or packed, from storage and from memory (counted, not assumed): latency of each "
        "minibatch, samples and bytes a second; a digest proves that all formats gave the same "
        "samples",
        ("levels/level2/test_reading::test_every_format_gives_the_same_samples",
         "levels/level2/test_reading::test_cold_is_read_from_storage_and_warm_from_memory",
         "archive/test_readings::test_what_does_not_follow_is_damage")),
    Row("2", "optimizers", "reference Adam is wrong; RMSProp fails", "SGD, momentum, Nesterov, "
        "Adam, AdamW, AdaGrad, RMSProp, L-BFGS as formulas that agree with torch; LAMB by its "
        "paper and by NVIDIA's code, AcceleGrad by its paper",
        ("levels/level2/test_optimizers::test_the_formula_is_that_of_torch",
         "levels/level2/test_optimizers::test_lbfgs_is_that_of_torch",
         "levels/level2/test_optimizers::test_lamb_is_that_of_another_library",
         "levels/level2/test_optimizers::test_accelegrad_is_the_algorithm_of_its_paper")),
    Row("2", "user's optimizer", "a Python class of three steps", "a Python file with "
        "an optimizer of torch and, if its author has one, a formula that trains in numpy and "
        "checks the first steps; the shipped example is an optimizer of another library",
        ("journeys/test_own_optimizer::"
         "test_it_is_sealed_checked_and_verified_by_the_sealed_file",
         "journeys/test_own_optimizer::test_a_step_that_is_not_its_formulas_breaks_the_bound",
         "levels/level2/test_own_optimizers::test_the_example_is_that_of_another_library",
         "levels/level2/test_own_optimizers::"
         "test_it_goes_on_from_a_checkpoint_to_the_same_values")),
    Row("2", "optimizer check", "fails on every call with a metric", "the first steps of every "
        "training against a reference in double precision, in the trial's precision "
        "(`trajectory_error`) and in double (`exact_trajectory_error`), and node by node, the "
        "optimizer as one node, each with a bound (`node_error_ratio`); faults of the network "
        "itself, which the reference shares, by `network_fingerprint`",
        ("levels/level2/test_faults::test_a_fault_is_noticed",
         "levels/level2/test_nodes::test_a_small_fault_of_one_operator_lies_beyond_them",
         "levels/level2/test_training::test_torch_and_numpy_go_the_same_way",
         "levels/networks/test_fingerprint::test_the_slope_of_an_activation_counts",
         "levels/level2/test_tensorflow::test_every_optimizer_goes_the_way_of_the_reference")),
    Row("2", "accuracy, loss curve, epoch and step time, sampler latency and bias",
        "average loss divides by N + 1", "curves of loss and quality, seconds of an epoch, "
        "throughput, wait for data per step, its share and bytes a second, how often each class "
        "was taken; `check` recomputes the last qualities from predictions; workers gather ahead, "
        "and leave every bit of the training unchanged",
        ("levels/level2/test_training::test_clocks_with_and_without_evaluation_and_the_way_of_the_data",
         "levels/level2/test_training::test_classes_are_counted_as_they_were_taken",
         "levels/level2/test_workers::test_what_is_trained_does_not_depend_on_them",
         "levels/level2/test_training::test_the_target_is_when_it_was_first_reached",
         "archive/test_trainings::test_a_quality_that_its_predictions_do_not_give_is_damage")),
    Row("2", "augmentations: crop, flip, cutout", "yes, unseeded", "shifted, mirrored and "
        "covered pictures that follow from seed, epoch and place",
        ("levels/level2/test_augmentation::test_a_picture_depends_on_its_own_place_alone",
         "levels/level2/test_augmentation::test_a_square_of_zeros_has_its_centre_anywhere",
         "levels/level2/test_augmentation::test_frameworks_take_the_same_pictures")),
    Row("2", "time to accuracy, stops, schedules", "stops and schedules; no metric",
        "epochs, samples and seconds to a target; constant, step, multi-step, cosine and "
        "polynomial rates with a warm-up",
        ("levels/level2/test_training::test_the_target_is_when_it_was_first_reached",
         "levels/level2/test_optimizers::test_schedules_are_those_of_torch")),
    Row("2", "searches of hyper-parameters", "none", "grid, random and Halton, drawn once and "
        "sealed as numbers; the score is the median over studies, never the best of all; quality "
        "against budget; the winner is run again under seeds that follow from the search",
        ("manifest/test_search::test_what_was_drawn_is_written_and_never_drawn_anew",
         "journeys/test_search::test_a_search_is_sealed_and_judged_by_its_score",
         "journeys/test_search::test_a_winner_runs_under_seeds_that_nobody_chose",
         "journeys/test_search::test_a_crash_costs_one_trial_and_a_kill_none")),
    Row("2", "recipes: fixed and mutable parts, acceptable values", "higher is better only",
        "targets and thresholds in either direction; `verify --set` changes what the author made "
        "mutable or the closed division of MLPerf HPC tunes, and refuses the rest with a reason",
        ("manifest/test_mutable::test_the_rest_is_fixed_for_a_reason",
         "manifest/test_mutable::test_rules_make_mutable_what_entrants_tune",
         "journeys/test_set::test_resources_leave_quality_judged_and_the_machine_reported",
         "journeys/test_set::test_another_recipe_is_held_to_thresholds_and_bounds_alone",
         "journeys/test_set::test_a_capsule_that_claims_another_setting_than_it_made_is_refused")),
    Row("2", "shipped recipes", "CIFAR-10 ResNet-44 at 93 %, ImageNet ResNet-50 at 75 %",
        "both, CosmoFlow and DeepCAM of MLPerf HPC by its closed division, CosmoGAN, and a "
        "language model, "
        "as manifests for machines that have the data (`manifests/full`, which says what they "
        "leave out), and minis that two cores train on generated data, three by ranks "
        "together too; of MLPerf HPC, OpenCatalyst and OpenFold are left out",
        ("journeys/test_full_size::test_a_full_recipe_is_valid_and_says_what_is_missing",
         "journeys/test_training::test_a_mini_is_a_whole_recipe",
         "journeys/test_training::test_ranks_share_the_recipe_of_a_mini")),
    Row("2", "CSV, box plot, loss plot", "the CSV writer fails",
        "`capsule export csv` writes every value with seed and step; `capsule export figure` draws "
        "curves of runs with their mean, and boxes of their values",
        ("journeys/test_export::test_every_value_is_a_row_that_reads_as_it_was_measured",
         "journeys/test_export::test_curves_and_boxes_are_pictures_that_are_the_same_again")),
    Row("3", "schemes of distributed training", "five run; the parameter server loses rank "
        "0's gradient, the neighbours are not D-PSGD",
        "thirteen: the five of Deep500, sharded state, slabs of each sample with halos, a pipeline "
        "of stages and others; the first steps of each are compared with one process, and planted "
        "mistakes are noticed; torch on the CPU, over gloo or MPI",
        ("levels/level3/test_over_mpi::test_a_scheme_computes_and_exchanges_the_same",
         "levels/level3/test_splits::test_parts_compute_what_the_whole_network_does",
         "levels/level3/test_ranks::test_nothing_is_wrong_with_what_is_right",
         "levels/level3/test_faults::test_a_fault_is_noticed")),
    Row("3", "replicated and partitioned sampling", "yes", "ranks share each batch, or each "
        "takes all data in an order of its own",
        ("levels/level3/test_ranks::test_nothing_is_wrong_with_what_is_right",
         "levels/level3/test_instances::test_the_first_instance_is_the_trial_itself")),
    Row("3", "communication volume, MPI profiling", "counters of the node's network card; needs "
        "ifstat", "bytes and messages of each rank in each step, counted at the call and compared "
        "with the scheme by `check`; collective operations and ping-pong alone, over gloo or "
        "MPI: latency, bandwidth and bytes, each result compared with the correct one",
        ("levels/level3/test_ranks::test_bytes_are_those_of_the_rule",
         "levels/level3/test_collectives::test_each_rank_has_a_time_for_each_call_and_bytes_by_the_rule",
         "levels/level3/test_collectives::test_other_numbers_than_are_due_fail_the_trial",
         "archive/test_exchanges::test_what_no_scheme_exchanges_is_refused")),
    Row("3", "strong and weak scaling", "in the paper", "one manifest "
        "trains at several numbers of ranks, with one batch for all or one for each: speed-up, "
        "efficiency and share of communication with intervals, claims on them, and ranks that "
        "share cores named; many independent trainings at once, as MLPerf HPC measures throughput",
        ("test_scaling::test_a_ratio_is_of_runs_under_one_seed",
         "test_scaling::test_claims_on_efficiency_are_judged",
         "journeys/test_scaling::test_every_size_is_a_world_that_met",
         "levels/level3/test_instances::test_those_that_reach_their_target_are_counted")),
    Row("all", "several frameworks behind one interface", "TensorFlow 1 interface, PyTorch, Caffe2 "
        "(gone), a reference", "numpy, torch, torch compiled, TensorFlow, XLA, JAX, ONNX Runtime",
        ("levels/frameworks/test_frameworks::test_every_operator_and_dtype_stays_within_its_bounds",
         "levels/frameworks/test_tensorflow::test_every_network_stays_within_its_bounds",
         "levels/frameworks/test_executors::test_outputs_loss_and_gradients_are_the_references",)),
    Row("all", "overhead under 1 % at the sizes of its paper", "under 1 % from 60 us on",
        "under 1 us a call: 0.07 us on an idle machine, 0.2 us where the clock is slow, which is "
        "2 % of 10 us; after subtracting the recorded empty call, under 1 % from 10 us on, by "
        "`python benchmarks/harness/overhead.py`",
        ("benchmarks/test_overhead::test_the_harness_is_compared_with_a_bare_loop_of_the_same_calls",)),
)  # fmt: skip


def page() -> str:
    """The whole of docs/explanation/compared-with-deep500.md.

    Raises:
        ValueError: A row names a test that there is none of.
    """
    if missing := sorted(set(_named()) - set(_tests())):
        raise ValueError(f"there is no test {', '.join(missing)}")
    lines = []
    for number, row in enumerate(ROWS, 1):
        shown = "<br>".join(f"`{each}`" for each in row.tests)
        cells = (str(number), row.level, row.name, row.theirs, row.ours, shown)
        lines.append(f"| {' | '.join(cells)} |\n")
    lines += [TODAY]
    for number, practice in enumerate(PRACTICES, 1):
        shown = "<br>".join(f"`{each}`" for each in practice.tests)
        cells = (str(number), practice.name, practice.state, practice.ours, shown)
        lines.append(f"| {' | '.join(cells)} |\n")
    return HEAD + "".join(lines)


def _named() -> Iterator[str]:
    for row in (*ROWS, *PRACTICES):
        yield from row.tests


def _tests() -> Iterator[str]:
    folder = ROOT / "tests"
    for path in folder.rglob("test_*.py"):
        name = path.relative_to(folder).with_suffix("").as_posix()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{name}::{node.name}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        print(f"{PAGE.name} is out of date: python tools/features.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
