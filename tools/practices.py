"""Today's practices that Deep500 lacks, for docs/explanation/compared-with-deep500.md."""

from __future__ import annotations

from dataclasses import dataclass

TODAY = """
## Against today's practice

Deep500 lacks every practice of this table. Each operator in a row is an operator of Level 0, with
a reference of higher precision, gradients, bounds of the norm and of each element, FLOPs and bytes.
Unless the row says otherwise, the operator runs in torch, numpy, TensorFlow, XLA, JAX and ONNX
Runtime. The catalogue's networks use none of these operators yet.

| # | practice | state | capsule | shown by |
|--:|---|---|---|---|
"""

_BOUNDS = (
    "levels/operators/test_modern::test_odd_shapes_stay_within",
    "levels/operators/test_faults::test_a_planted_fault_leaves_the_bound",
)


@dataclass(frozen=True)
class Practice:
    """One thing that is usual today.

    Attributes:
        name: The thing.
        state: `yes`, `in part` or `no`.
        ours: State in capsule, with its limits.
        tests: As in `Row`; none if it is missing.
    """

    name: str
    state: str
    ours: str
    tests: tuple[str, ...] = ()


PRACTICES = (
    Practice("attention with grouped queries, masks, unequal lengths, key/value cache, sliding "
        "window", "yes", "`grouped_attention`, with any combination; a cache consists of keys "
        "before the first query, their number in each sequence is an input; without paged caches "
        "and masks that are added to scores",
        ("levels/operators/test_modern::test_attention_sees_what_it_is_to_see",
         "levels/operators/test_modern::test_a_step_with_a_cache_is_the_last_row_of_the_whole",
         "levels/operators/test_modern::test_attention_by_blocks_of_keys_stays_within", *_BOUNDS)),
    Practice("rotary embedding", "yes", "`rotary`, of halves or of neighbours, by given tables; "
        "without stretching tables for longer texts",
        ("levels/operators/test_modern::test_rotary_keeps_lengths_and_its_gradient_turns_back",
         *_BOUNDS)),
    Practice("RMSNorm, SwiGLU", "yes", "`rms_norm`; `swiglu`, the two products and the gate",
        ("levels/operators/test_modern::test_a_norm_that_is_stored_before_its_weight_stays_within",
         "levels/operators/test_modern::test_a_gate_by_tanh_stays_within", *_BOUNDS)),
    Practice("top-k, gather, scatter", "yes", "`top_k`, with values compared directly and places "
        "compared by the gradient alone; `gather` and `scatter_add` along rows, with equal "
        "indices; without scattering that replaces values",
        ("levels/operators/test_modern::"
         "test_additions_in_another_order_in_memory_stay_within_and_one_left_out_does_not",
         *_BOUNDS)),
    Practice("einsum", "in part", "`einsum` of one equation, the projection to heads, forward and "
        "its two gradients; for another equation, write an operator of your own", _BOUNDS),
    Practice("FFT", "in part", "`rfft`, one axis of real rows of any length, float32 and float64; "
        "no inverse, no more axes, no 16 bits; ONNX Runtime is refused, because its error is 1.6 "
        "times the bound of an element at a length of 251",
        ("levels/operators/test_modern::test_a_transform_is_numpys",
         "levels/operators/test_modern::test_other_right_transforms_stay_within", *_BOUNDS)),
    Practice("int8 products with scales", "yes", "`int8_matmul`: summed exactly in 32 bits, a "
        "scale for each row and column; no offsets (asymmetric), no 4 bits", _BOUNDS),
    Practice("fp8 products with scales", "in part", "`fp8_matmul`: stored as float8_e4m3fn and "
        "multiplied in float32, as CPUs do, in torch, numpy and JAX alone; in 16 bits by torch on "
        "NVIDIA's tensor cores (compute capability 8.9 and later); without e5m2 and blocks of "
        "scales (MX)",
        ("levels/operators/test_modern::test_the_bits_of_float8_are_torchs",
         "levels/operators/test_modern::test_fp8_products_of_any_size_fit_what_cuda_takes",
         *_BOUNDS)),
    Practice("record of the kernel that ran (math, flash, cuDNN)", "in part", "for both attentions "
        "in torch, with and without gradients, sealed beside the trial; for other operators and "
        "frameworks only the switches and the versions of libraries",
        ("levels/frameworks/test_kernels::test_the_kernel_that_ran_is_named",
         "levels/frameworks/test_kernels::test_its_name_is_sealed_with_the_trial_and_shown")),
    Practice("`torch.compile` for single operators", "yes", "each operator forward and backward, "
        "compiled before the first timed call; networks are compiled whole, and trained compiled",
        ("levels/frameworks/test_compiled::"
         "test_an_operator_is_compiled_before_it_is_timed_and_held_to_its_bounds",)),
    Practice("roofline of the machine, and each operator's share of it", "yes", "measured beside "
        "an operator that asks for it, in the trial's dtype; products in 8 bits are therefore not "
        "compared with the roofline",
        ("levels/test_roofs::test_a_share_is_the_time_that_the_roofs_leave_least",
         "levels/test_roofs::test_what_has_products_of_another_type_is_not_doubted",
         "journeys/test_roofline::test_each_operator_s_share_is_shown_and_sealed")),
    Practice("latency as served: p90 and p99, single stream, server, offline", "yes", "of "
        "networks of the catalogue, on one machine: no batching of queries by a server, and no "
        "generation token by token",
        ("levels/test_serving::test_queries_come_as_the_scenario_says",
         "levels/level1/test_served::test_an_answer_that_was_kept_is_no_answer",
         "journeys/test_serving::test_tails_are_sealed_shown_and_judged")),
    Practice("models by name from torchvision, timm, transformers", "in part",
        "three examples in `manifests/models`, two classifiers of pictures and a language model, "
        "to be copied, for Level 1 in torch; no weights, no detectors",
        ("journeys/test_models::test_they_pass_lint",
         "journeys/test_models::test_an_image_without_the_library_is_told_of_in_one_line",
         "levels/level1/test_attention::"
         "test_it_is_held_and_differentiated_with_and_without_dropout",
         "long/test_models::test_a_model_by_name_is_sealed_within_its_bounds_and_verified")),
)  # fmt: skip
