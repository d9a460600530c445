"""What the reference says of each warning and note: sample facts, why it is printed, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class WarningText(NamedTuple):
    """What stands beside the sentence of a code.

    Attributes:
        why: The condition that prints it, and what follows from that.
        remedy: What its reader does.
        facts: Sample facts, from which the program words the sentence.
    """

    why: str
    remedy: str
    facts: Mapping[str, object] = {}


_IMAGE = "docker://registry.example/torch:1.0"
_CAPSULE = "3aea3db4ecc4" + "0" * 52

WARNING_TEXTS = {
    "author-unnamed": WarningText(
        "The manifest still has the author that `capsule init` writes. A sealed capsule cannot"
        " change.",
        "Write your name under `authors` and your licence under `license`.",
        {"name": "Your Name"},
    ),
    "one-seed": WarningText(
        "One run has no spread. Without a spread no claim on a mean can be confirmed.",
        "Name at least five seeds.",
    ),
    "no-claims": WarningText(
        "A verdict judges claims. Without a claim a verification of the capsule only measures.",
        "Add an entry to `claims`.",
    ),
    "no-primary-claim": WarningText(
        "Every claim says `\"primary\": false`. Only primary claims decide the capsule's verdict.",
        "Remove `\"primary\": false` from the claim that your paper makes.",
    ),
    "format-unused": WarningText(
        "Only a training reads a dataset by its `format`. A command gets the files unchanged.",
        "Remove `format`, or name the dataset in a benchmark of level 2.",
    ),
    "frameworks-left-out": WarningText(
        "`gpus_per_rank` asks for GPUs, and capsule runs these frameworks on CPUs only. A run"
        " measures the other frameworks, and leaves out claims on these frameworks alone.",
        "To measure these frameworks, run a copy of the manifest without `gpus_per_rank`.",
        {"frameworks": ["jax", "tensorflow"]},
    ),
    "too-few-seeds": WarningText(
        "The margin is a number of standard deviations. With this many runs a verification often"
        " ends INCONCLUSIVE although nothing changed.",
        "Use the number of seeds that the sentence names, or a wider margin.",
        {"seeds": 5, "rerun_seeds": 5, "look": "first", "margin": 2.0, "is_seldom": False,
         "needed": 6, "added": None},
    ),
    "threshold-on-bound": WarningText(
        "The claim is a `threshold` on an error ratio. A threshold judges the mean, which can"
        " hide a run that breaks the bound.",
        "Write `\"type\": \"bound\"`.",
    ),
    "paired-alone": WarningText(
        "The only claim on the metric is `paired`. The margin is meant for runs under equal"
        " seeds, and a verification judges fresh seeds by the same margin.",
        "Add a second claim on the metric without `paired`.",
    ),
    "search-unclaimed": WarningText(
        "No claim matches the score of the search, so a verification only reports the score.",
        "Claim the path that the sentence names.",
        {"path": "tune/search/*/score"},
    ),
    "failure-margin-narrow": WarningText(
        "This number of seeds leaves the rates of failed runs too uncertain for the"
        " `failure_margin`. The claim can never be REPRODUCED.",
        "Use more seeds, or a wider `failure_margin`.",
        {"seeds": 10, "margin": 0.1, "needed": 29},
    ),
    "machine-equivalence": WarningText(
        "The metric is of kind `machine`: a time, a rate or a memory size. Another machine gives"
        " another value.",
        "Write `\"type\": \"ratio\"`, which reports the ratio with its interval.",
    ),
    "curve-few-seeds": WarningText(
        "capsule judges a `curve` at every step, which needs more runs than a single value.",
        "Use at least five seeds.",
        {"found": 3, "seeds": 5},
    ),
    "margin-vague": WarningText(
        "The margin is at least as large as the mean, so almost any re-run gives REPRODUCED.",
        "Write a smaller margin.",
        {"written": "relative 1.5"},
    ),
    "margin-below-steps": WarningText(
        "The metric has a `resolution`, and the margin is narrower than 1.5 steps. Rounding can"
        " hide a shift.",
        "Measure with a finer resolution, or widen the margin.",
        {"margin": 0.01, "step": 0.01},
    ),
    "margin-on-step": WarningText(
        "The metric has a `resolution`, and the margin does not lie halfway between two steps. More"
        " verifications then end INCONCLUSIVE.",
        "Write the margin that the sentence names.",
        {"margin": 0.02, "step": 0.01, "better": 0.025},
    ),
    "image-local": WarningText(
        "The reference names an image of this machine's engine. No other machine can fetch this"
        " image.",
        "Push the image to a registry, or publish the file that `capsule image save` writes.",
        {"owner": "Docker", "reference": "docker-daemon:torch:cpu"},
    ),
    "image-undigested": WarningText(
        "The owner of a tag can move the tag to another image. Only a digest in the manifest always"
        " names the same image.",
        "Write the reference with the digest.",
        {"reference": _IMAGE},
    ),
    "image-unpublished": WarningText(
        "The runs used an image that only this machine's engine has.",
        "Push the image to a registry and run the pushed image by its digest.",
        {"reference": "docker-daemon:torch:cpu"},
    ),
    "image-file": WarningText(
        "The runs used an image file. A verifier needs the same file.",
        "Publish the file. Verifiers name it with `--image`.",
        {"reference": "images/torch.sif"},
    ),
    "image-loopback": WarningText(
        "The registry's address is this machine's own (`localhost`). No other machine reaches this"
        " registry.",
        "Push the image to a registry that verifiers reach. Run the pushed image by its digest.",
        {"reference": "docker://localhost:5000/torch:1.0"},
    ),
    "image-missing": WarningText(
        "The image file or folder that the manifest names is absent, or has another format.",
        "Correct the path, or write the file again.",
        {"reference": "images/torch.sif", "place": "/home/ada/images/torch.sif",
         "fault": "cannot read the image file: No such file or directory. Name an existing file,"
         " or an image of a registry: docker://HOST/NAME:TAG"},
    ),
    "dataset-undigested": WarningText(
        "Without a digest capsule cannot detect a change of the data.",
        "Write the digest that the command in the sentence prints.",
        {"dataset": "corpus", "command": "capsule data fetch"},
    ),
    "dataset-without-source": WarningText(
        "The data is too large for the capsule, and the manifest has no address of the data.",
        "Publish the data, and write its `url` or `doi`.",
        {"dataset": "corpus"},
    ),
    "pointer": WarningText(
        "A git clone without the data of Git LFS has small pointer files in place of large files.",
        "Fetch the large files, for example with `git lfs pull`.",
        {
            "description": "data/train.bin is a pointer of Git LFS without its data (11.8 MiB);"
            " to fetch the data: `git lfs pull`"
        },
    ),
    "more-pointers": WarningText(
        "`capsule lint` names only the first three pointer files.",
        "Fetch all large files of the clone.",
        {"files": 4},
    ),
    "seed-unused": WarningText(
        "The command does not use the seed, so every run computes the same.",
        "Pass `{seed}` in the command, read `CAPSULE_SEED`, or write `\"seeding\": \"inject\"`.",
    ),
    "parameter-unused": WarningText(
        "The command does not use this parameter of `cases`, so all values give the same runs.",
        "Write `{PARAMETER}` where the program expects the value, or remove the parameter.",
        {"parameter": "lr"},
    ),
    "ranks-apart": WarningText(
        "The program uses MPI, and no MPI launcher starts its ranks.",
        "Set `launcher` in the site file to `mpirun` or `srun`.",
        {"file": "train.py", "has_package": True, "ranks": 2},
    ),
    "ranks-alike": WarningText(
        "The command reads no rank. Each process probably does the whole work.",
        "Pass the rank to the program. For independent ranks write `\"ranks_independent\": true`.",
        {"ranks": 2, "unset": ["RANK", "WORLD_SIZE"]},
    ),
    "words-joined": WarningText(
        "The first entry of `command` holds a program and its arguments in one string.",
        "Write each word as a separate entry.",
        {"program": "python3 train.py", "instead": ["python3", "train.py"]},
    ),
    "shell-word": WarningText(
        "capsule starts the program without a shell, so `|`, `&&` or `>` are plain arguments.",
        "Move preparation into `setup`. Remove redirections: capsule keeps all printed lines.",
        {"word": "|"},
    ),
    "input-missing": WarningText(
        "A word of the command names a file that is not among `inputs`, so the program cannot"
        " read the file.",
        "Add the file to `inputs`.",
        {"word": "config.yaml"},
    ),
    "file-missing": WarningText(
        "A word of the command looks like a script, and no such file exists.",
        "Correct the name.",
        {"word": "tran.py", "near": "train.py"},
    ),
    "import-missing": WarningText(
        "The script imports a module from its own folder, and the module is not among `inputs`.",
        "Add the module to `inputs`.",
        {"script": "train.py", "module": "model.py"},
    ),
    "windows-lines": WarningText(
        "The first line of the script ends with a carriage return, so the kernel looks for an"
        " interpreter whose name ends with a carriage return.",
        "Save the file with Unix line ends.",
        {"file": "run.sh"},
    ),
    "byte-order-mark": WarningText(
        "A byte order mark precedes `#!`, so the kernel does not see that line.",
        "Save the file as UTF-8 without a byte order mark.",
        {"file": "run.sh"},
    ),
    "interpreter-missing": WarningText(
        "The script has no `#!` line, so the kernel cannot start the script.",
        "Add the line, or begin the command with the interpreter.",
        {"file": "run.sh", "starter": "bash"},
    ),
    "claim-contradicted": WarningText(
        "The author's own runs break the claim, so no verification can confirm the claim.",
        "Correct the claim or the program, then run again.",
        {"is_mean": False, "value": 1.3, "limit": "at_most 1"},
    ),
    "margin-missing": WarningText(
        "The margin follows from the spread of the runs, and too few runs have a value.",
        "Correct the cause of the failed trials, then run again.",
        {"values": 1, "runs": 5},
    ),
    "equal-values": WarningText(
        "Every seed gave the same value. Either the program ignores its seed, or the number does"
        " not depend on it.",
        "Let the program use the seed. For a number without randomness, claim `exact`.",
        {"runs": 5, "value": 0.25},
    ),
    "injection-unused": WarningText(
        "The benchmark says `\"seeding\": \"inject\"`. At the end of every run, no generator of"
        " `random`, numpy or torch had drawn a number since it was seeded.",
        "Pass `{seed}` to the program. For a number without randomness, remove `seeding` and claim"
        " `exact`.",
    ),
    "seeds-kept": WarningText(
        "The benchmark says `\"seeding\": \"inject\"`. A generator had the same seed in runs with"
        " different seeds, so the spread between runs lacks what this generator decides.",
        "Give the generator a seed that follows from `CAPSULE_SEED`. Keep a seed that all runs are"
        " meant to share, such as the seed of a fixed split of the data.",
        {"generators": [["torch.Generator.manual_seed", "42", "train.py:12"]], "more": 0},
    ),
    "one-run": WarningText(
        "One run has no spread, so no margin can be confirmed.",
        "Run with at least five seeds.",
    ),
    "margin-out-of-reach": WarningText(
        "The runs scatter too much for the margin. A verification will often end INCONCLUSIVE.",
        "Use the number of seeds that the sentence names, or a wider margin.",
        {"allowed": 0.01, "is_ratio": False, "runs": 5, "reruns": 10, "needed": 14, "added": None},
    ),
    "margin-above-mean": WarningText(
        "The margin is at least as large as the mean, so almost any re-run gives REPRODUCED.",
        "Use more seeds, or write the margin as a number.",
        {"margin": 0.4, "mean": 0.3},
    ),
    "busy": WarningText(
        "Other processes used the CPUs when the run began. Times are longer and scatter more.",
        "Run again on an idle machine.",
        {"load": "2 of 2 CPUs"},
    ),
    "rank-uses-one-gpu": WarningText(
        "Each process of levels 0 to 3 measures on one GPU. Its other GPUs would do nothing.",
        "Ask for one GPU for each process, and for more processes.",
        {"gpus": 4},
    ),
    "ran-without-gpu": WarningText(
        "In at least 5 s, no process of the run was on its GPU, and the memory of the GPU did not"
        " grow.",
        "Install software that supports the GPU, such as a build of the framework with CUDA.",
        {"runs": 3},
    ),
    "gpus-unused": WarningText(
        "The machine has GPUs, and the manifest asks for none.",
        "Write `gpus_per_rank` under `resources`.",
        {"count": 1, "model": "NVIDIA H100"},
    ),
}  # fmt: skip
"""By the code of a warning of `capsule lint`."""

NOTE_TEXTS = {
    "uncontained": WarningText(
        "The run used `--runtime host`, or no engine was found for a manifest without an image.",
        "For a number that others verify, name an image, and run with an engine.",
    ),
    "image-unused": WarningText(
        "The run used `--runtime host` although the manifest or the original has an image.",
        "Run with an engine.",
        {"verifies": False},
    ),
    "site-binds": WarningText(
        "The site file binds files of the machine into every container, so the results can depend"
        " on these files.",
        "Compare these files when verdicts differ between sites.",
        {"places": ["/opt/cray"]},
    ),
    "site-mpi": WarningText(
        "The site file replaces the image's MPI by the MPI of the machine.",
        "Compare the libraries when communication times differ between sites.",
        {"libraries": [["libmpi.so.12", "sha256:5d8fcb"]]},
    ),
    "keyring-kept": WarningText(
        "The run used `--keep-keyring`, for example because the program needs AFS tokens.",
        "Run untrusted code without this option.",
    ),
    "inputs-written": WarningText(
        "The program changed files among its inputs. capsule restored the inputs before the"
        " next start.",
        "Write to the folder that `CAPSULE_OUT` names, or start in a copy:"
        " `\"cwd\": {\"copy\": FOLDER}`.",
        {"path": "repo/cache.bin", "trial": "train/default/command/17", "files": 1, "starts": 1},
    ),
    "no-tensor-cores": WarningText(
        "Products in tf32, bfloat16, float16 or 8 bits are fast on tensor cores alone. One untimed"
        " call after the measurement used none.",
        "Choose sizes that are multiples of 16, and measure `fp8_matmul` in 16 bits. capsule is"
        " silent about kernels that it does not know, and about `torch-compile`.",
        {
            "dtype": "bfloat16",
            "case": "gemm/m5n7k33/torch",
            "kernel": "gemv2T_kernel_val",
            "cases": 1,
        },
    ),
    "seeds-kept": WarningText(
        "A generator had the same seed in runs with different seeds. An injected seed replaces no"
        " seed of a `torch.Generator`, a bit generator or seed sequence of numpy, or a key of JAX.",
        "Let the program take the seed from `CAPSULE_SEED`, unless all runs are meant to share it.",
        {
            "benchmark": "train",
            "seeds": 5,
            "generators": [["torch.Generator.manual_seed", "42", "train.py:12"]],
            "more": 0,
        },
    ),
    "injection-unused": WarningText(
        "The program drew no number from a generator that capsule had seeded.",
        "Pass `{seed}` to the program, or remove `seeding`.",
        {"benchmark": "train", "runs": 5},
    ),
    "memory-limit": WarningText(
        "The run used `--memory`. A limit can change times.",
        "To compare times, verify with the same limit.",
        {"most_bytes": 8 << 30, "is_held": True},
    ),
    "early-clock": WarningText(
        "The runs are dated before the release of capsule that made them, so the clock of the"
        " machine was wrong. All dates of this run are wrong.",
        "Set the clock and run again if the dates matter.",
        {"began": "2020-01-01T00:00:00+00:00", "release": "0.4.0"},
    ),
    "clocks": WarningText(
        "The runs of this capsule begin before the end of an earlier capsule, so the clock of one"
        " of the two machines was wrong.",
        "Set the clocks of both machines.",
        {"began": "2026-03-01T08:00:00+00:00", "ended": "2026-03-01T09:00:00+00:00",
         "whose": "the original"},
    ),
    "reduced-series": WarningText(
        "More than 64 ranks reported more values than a capsule can contain, so capsule sealed the"
        " series in reduced form. The value of each run is the same.",
        "Claim the metrics whose whole series you need: capsule reduces claimed metrics last.",
        {"metrics": [["step_time", 1]], "ranks": 1024},
    ),
    "ran-without-gpu": WarningText(
        "The runs asked for a GPU. In at least 5 s, no process was on it, the GPU was idle,"
        " and its memory grew by less than 50 MiB.",
        "Install software that supports the GPU. For a command, `\"gpu_required\": true` makes such"
        " a run fail.",
        {"benchmarks": [["train", 5]]},
    ),
    "narrowed": WarningText(
        "With `--frameworks`, or for lack of a device, the run measured only some frameworks of the"
        " manifest.",
        "Verify the capsule for these frameworks. For other frameworks run the manifest in another"
        " image.",
        {"frameworks": ["torch"], "whole": "sha256:5d8fcb"},
    ),
    "frameworks-left-out": WarningText(
        "The manifest asks for GPUs, and capsule runs these frameworks on CPUs only.",
        "To compare these frameworks, run a copy of the manifest without `gpus_per_rank`.",
        {"frameworks": ["jax", "tensorflow"]},
    ),
    "image-local": WarningText(
        "Only the engine of the author's machine has the image, so others cannot fetch it.",
        "Ask the author for the file that `capsule image save` writes.",
        {"reference": "docker-daemon:torch:cpu", "owner": "Docker"},
    ),
    "image-replaced": WarningText(
        "The run used `--image`, which replaced the image of the manifest or of the original.",
        "Apply the verdict to the new image only.",
        {"reference": _IMAGE},
    ),
    "image-named": WarningText(
        "The run used `--image`, and the manifest or the original has no image.",
        "Apply the verdict to this image only.",
        {"reference": _IMAGE, "verifies": False},
    ),
    "reread": WarningText(
        "`capsule reread` wrote this capsule from the runs of another capsule.",
        "Trust only the claims that the earlier capsule contains unchanged.",
        {"capsule": _CAPSULE, "later": 1, "gone": 0},
    ),
    "added-software": WarningText(
        "Runs without an image were added with `--add-seeds`, and the software has changed since.",
        "Run all seeds again on one installation, and seal a new capsule.",
    ),
    "seeds-added": WarningText(
        "`--add-seeds` wrote this capsule after the author had seen the first results.",
        "capsule gives no verdict on claims that cover all runs: read their values as information."
        " capsule still judges claims against a constant.",
        {"capsule": _CAPSULE, "first": 5, "added": 5, "later": 1},
    ),
    "online": WarningText(
        "A benchmark says `\"online\": true`, several ranks shared the machine's network, or the"
        " engine could not isolate the program from the network. Results can therefore depend on"
        " it.",
        "Check the data that the program downloads.",
        {"reason": "its ranks share this machine's network, to reach each other"},
    ),
    "oversubscribed": WarningText(
        "The processes asked for more threads than the machine has CPUs. Times are longer.",
        "Reduce `cpus_per_rank` or the number of ranks.",
        {"threads": 8, "ranks": 2, "cpus": 4},
    ),
    "unchecked": WarningText(
        "Another version of capsule wrote the note, so this version cannot check the text.",
        "Treat the note as an unverified statement of the person who sealed the capsule.",
        {"about": "some-code", "text": "some words"},
    ),
}  # fmt: skip
"""By the code of a note in a capsule."""
