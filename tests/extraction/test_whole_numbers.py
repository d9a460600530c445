"""A pattern's group takes the whole number as it stands in the line, or the trial fails."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from capsule import extraction
from capsule.extraction import Extract
from capsule.extraction.whole import Fault, Whole, judge
from capsule.manifest.sources import Column, LogKey, Occurrence, Pattern, Pointer, Source
from capsule.patterns import PatternError, compile_pattern, replace_value
from tests.support.properties import examples

DIGITS = "([0-9.]+)"
LOSS = f"loss: {DIGITS}"
NUMBER = "loss: {number}"


def read(pattern: str, text: str, *, occurrence: Occurrence = "last", unit: str = "1") -> Extract:
    source = Pattern(text="stdout", pattern=pattern, occurrence=occurrence, unit=unit)
    return read_from(source, text)


def read_from(source: Source, text: str) -> Extract:
    return extraction.extract({"x": source}, {source.text: text.encode()})


def values(extract: Extract) -> list[float]:
    assert extract.reason is None, extract.message
    return [value.value for value in extract.values["x"]]


WHOLE = [
    ("spelled comma", "sst2,0.91", f"^sst2,{DIGITS}", "1", 0.91),
    ("spelled comma behind digits", "sst2,91", f"^sst2,{DIGITS}", "1", 91),
    ("spelled letter", "Epoch12 done", "Epoch([0-9]+)", "1", 12),
    ("letter of another case", "EPOCH12", "(?i)epoch([0-9]+)", "1", 12),
    ("hyphen behind a letter", "checkpoint-500", "checkpoint.([0-9]+)", "1", 500),
    ("row of points", "acc......0.91", rf"acc\.+{DIGITS}", "1", 0.91),
    ("row of points behind", "acc 5...", "acc ([0-9]+)", "1", 5),
    ("another metric behind", "loss: 0.25 acc: 0.91", LOSS, "1", 0.25),
    ("bracket behind", "93.1 (best 94.0)", f"^{DIGITS}", "1", 93.1),
    ("of a total", "step 500/1000", "step ([0-9]+)", "1", 500),
    ("the total", "step 500/1000", "step [0-9]+/([0-9]+)", "1", 1000),
    ("comma and a name", "lr=1e-3,loss=0.5", f"loss={DIGITS}", "1", 0.5),
    ("comma and a name behind", "loss=0.5,lr=1e-3", f"loss={DIGITS}", "1", 0.5),
    ("list", "[0.1, 0.2]", rf"\[{DIGITS}", "1", 0.1),
    ("list without spaces", "[1,2]", r"\[([0-9]+)", "1", 1),
    ("table of commas", "3,250,0.91", "^([0-9]+),", "1", 3),
    ("table of points", "0.5,0.25", f"^{DIGITS}", "1", 0.5),
    ("comma behind a point", "1.5,250", f"^{DIGITS}", "1", 1.5),
    ("parentheses", "loss (0.5)", rf"\({DIGITS}", "1", 0.5),
    ("semicolon", "0.5;0.6", f"^{DIGITS}", "1", 0.5),
    ("end of a sentence", "epoch 5.", "epoch ([0-9]+)", "1", 5),
    ("end of a sentence behind digits", "loss: 0.25.", NUMBER, "1", 0.25),
    ("Rust", "loss: 0.25;", NUMBER, "1", 0.25),
    ("Fortran point", "loss: 5.", NUMBER, "1", 5),
    ("numpy", "loss: [5.e-03]", r"loss: \[{number}", "1", 0.005),
    ("point first", "loss: .5", LOSS, "1", 0.5),
    ("sign", "loss: +3", NUMBER, "1", 3),
    ("exponent", "loss: 1.5e+03", NUMBER, "1", 1500),
    ("small exponent", "loss: 1E-7", NUMBER, "1", 1e-7),
    ("minus sign of typography", "loss: \N{MINUS SIGN}0.5", NUMBER, "1", -0.5),
    ("scalar of numpy", "'acc': np.float64(0.901)}", r"acc\D*64\({number}", "1", 0.901),
    ("tensor", "tensor(0.9, device='cuda:0')", r"tensor\({number}", "1", 0.9),
    ("percent of the unit", "acc 93.1%", f"acc {DIGITS}", "%", 93.1),
    ("percent of the pattern", "acc 93.1%", f"acc {DIGITS}%", "1", 93.1),
    ("percent that may be", "acc 93.1%", f"acc {DIGITS}%?", "1", 93.1),
    ("full-width percent", "acc 93.1％", "acc {number}", "%", 93.1),
    ("unit", "12ms", f"^{DIGITS}", "ms", 12),
    ("unit of the pattern", "12ms", f"^{DIGITS}ms", "1", 12),
    ("one of two units", "12ms", f"^{DIGITS}(?:s|ms)", "1", 12),
    ("unit of UCUM", "3.2GB/s", f"^{DIGITS}", "GBy/s", 3.2),
    ("rate of another spelling", "3.2GB/sec", f"^{DIGITS}", "GBy/s", 3.2),
    ("micro sign", "3.2µs", f"^{DIGITS}", "us", 3.2),
    ("long unit", "3.2sec", f"^{DIGITS}", "s", 3.2),
    ("time of an iteration", "3.51s/it", f"^{DIGITS}", "s", 3.51),
    ("rate of tqdm", "45/100 [00:12<00:15, 3.51it/s, loss=0.2]", ", {number}it/s", "1", 3.51),
    ("loss of tqdm", "45/100 [00:12<00:15, 3.51it/s, loss=0.2]", "loss={number}", "1", 0.2),
    ("plus-minus", "loss: 0.91±0.02", LOSS, "1", 0.91),
    ("plus-minus of ASCII", "loss: 0.91+/-0.02", LOSS, "1", 0.91),
    ("arrow", "loss: 0.5->0.4", LOSS, "1", 0.5),
    ("deviation that is spelled out", "rmse:0.34+0.01", r"rmse:{number}\+", "1", 0.34),
    ("dictionary", "{3:0.5}", r"\{([0-9]+)", "1", 3),
    ("Chinese", "损失0.25，准确率0.9", f"损失{DIGITS}", "1", 0.25),
    ("Greek", "απώλεια=0.25", f"απώλεια={DIGITS}", "1", 0.25),
    ("word behind white space", "12 images", f"^{DIGITS}", "1", 12),
    ("colours", "loss: \x1b[32m0.25\x1b[0m", LOSS, "1", 0.25),
    ("colours reset as by tput", "loss: \x1b(B\x1b[m0.\x1b(B25", LOSS, "1", 0.25),
    ("colours that are asked for", "\x1b[32m0.25", rf"\x1b\[32m{DIGITS}", "1", 0.25),
    ("byte order mark", "\ufeffloss: 0.25", f"^{LOSS}", "1", 0.25),
    ("cell behind digits and a letter", "sst2,123.4", f"{DIGITS}$", "1", 123.4),
    ("cell behind no thousands", "5,0.91", f"{DIGITS}$", "1", 0.91),
    ("cell behind a spelled comma", "12,345.6", f",{DIGITS}$", "1", 345.6),
    ("minus behind a spelled letter", "delta-5", "delta{number}", "1", -5),
    ("minus behind a Chinese letter", "损失-5", "损失.*?{number}", "1", -5),
    ("unit alone", "took 5 min, 3 epochs", "took {number}", "min", 5),
    ("part of a time that is spelled out", "5 min 3 s", "[0-9]+ min {number}", "s", 3),
    (
        "field of HPL",
        "WR11C2R4  29184  192  2  2  33.01  5.021e+02",
        r"^WR.*\s{number}$",
        "1",
        502.1,
    ),
    (
        "record of fairseq",
        "| epoch 001 | loss 3.2 | lr 6.25e-06 |",
        r"\| lr {number}",
        "1",
        6.25e-6,
    ),
    ("record of a trainer", "{'eval_loss': 1.2e-05, 'epoch': 3.0}", "loss': {number}", "1", 1.2e-5),
    ("drawn anew", "1%\rloss: 2\rloss: 1\r\n", LOSS, "1", 1),
]


@pytest.mark.parametrize(
    ("line", "pattern", "unit", "value"), [row[1:] for row in WHOLE], ids=[row[0] for row in WHOLE]
)
def test_a_whole_number_is_taken(line: str, pattern: str, unit: str, value: float) -> None:
    assert values(read(pattern, f"{line}\n", unit=unit)) == [value]


CUT = [
    ("sign", "loss -12.5", f"loss.*?{DIGITS}", "1", "sign"),
    ("greedy", "loss -12.5", f"loss.*{DIGITS}", "1", "point"),
    ("plus", "loss +12.5", f"loss .{DIGITS}", "1", "sign"),
    ("minus sign of typography", "loss \N{MINUS SIGN}12.5", f"loss.*?{DIGITS}", "1", "sign"),
    ("type of numpy", "'acc': np.float64(0.901)", rf"acc\D*{DIGITS}", "1", "word"),
    ("type of numpy with the placeholder", "acc: np.float32(0.9)", r"acc\D*{number}", "1", "word"),
    ("integer of numpy", "n: np.int64(901)", r"n: \D*([0-9]+)", "1", "word"),
    ("type of C++", "acc uint8_t 5", r"acc\D*([0-9]+)", "1", "word"),
    ("letter before", "top5 0.9", r"t[a-z]+([0-9]+)", "1", "word"),
    ("Chinese letter before", "损失值5", r"损\D*([0-9]+)", "1", "word"),
    ("exponent", "loss: 3.2e-07", LOSS, "1", "exponent"),
    ("exponent without a sign", "loss: 3E5", LOSS, "1", "exponent"),
    ("exponent of Fortran", "loss: 1D+02", NUMBER, "1", "exponent"),
    ("exponent behind a point", "loss: 5.e-03", "loss: ([0-9]+)", "1", "exponent"),
    ("digits of an exponent", "loss: 1e-5", "loss: .*-([0-9])", "1", "sign"),
    ("digits of an exponent without a sign", "loss: 1e5", "loss: 1e([0-9])", "1", "exponent"),
    ("power of ten", "loss: 1.5*10^-3", NUMBER, "1", "exponent"),
    ("power of ten in type", "loss: 1.5 × 10³", NUMBER, "1", "exponent"),
    ("power", "n: 10^5", "n: {number}", "1", "exponent"),
    ("underscore", "n: 1_000", "n: {number}", "1", "underscore"),
    ("behind an underscore", "n: 1_000", r"n: 1\D([0-9]+)", "1", "underscore"),
    ("thousands", "n: 1,234.5", "n: {number}", "1", "group"),
    ("thousands alone", "n: 1,234", "n: {number}", "1", "group"),
    ("behind thousands", "n: 1,234", r"n: 1\D([0-9]+)", "1", "comma"),
    ("German thousands", "n: 1.234,5", "n: {number}", "1", "comma"),
    ("Swiss thousands", "n: 1'234.5", "n: {number}", "1", "group"),
    ("French thousands", "n: 1\N{NARROW NO-BREAK SPACE}234", "n: {number}", "1", "group"),
    ("decimal comma", "loss: 0,91", NUMBER, "1", "comma"),
    ("behind a decimal comma", "loss: 0,91", r"loss: 0\D([0-9]+)", "1", "comma"),
    ("hours", "time: 1:03:11.5", "time: {number}", "s", "clock"),
    ("seconds of a clock", "time: 1:03:11.5", r"time: .*?\D03\D([0-9.]+)", "s", "clock"),
    ("minutes in letters", "time: 45m12s", "time: {number}", "s", "clock"),
    ("hours in letters", "time: 1h3m", "time: {number}", "h", "clock"),
    ("percent", "acc 93.1%", "acc {number}", "1", "percent"),
    ("per mille", "acc 93.1‰", "acc {number}", "%", "percent"),
    ("milliseconds for seconds", "12ms", "^{number}", "s", "unit"),
    ("bytes a second for bytes", "12B/s", "^{number}", "By", "unit"),
    ("times", "5.3x", "^{number}", "1", "unit"),
    ("half of a unit", "12ms", "^{number}m", "1", "unit"),
    ("letters of a class", "12ms", "^{number}[a-z]+", "1", "unit"),
    ("hexadecimal", "n: 0x1F", "n: ([0-9]+)", "1", "clock"),
    ("complex", "z: 0.5j", "z: {number}", "1", "unit"),
    ("thousand in a letter", "n: 1.2k", "n: {number}", "1", "unit"),
    ("Japanese unit", "12秒", "^{number}", "s", "unit"),
    ("version", "v1.2.3", "v([0-9]+)", "1", "point"),
    ("end of a version", "v1.2.3", r"v.*\.([0-9]+)", "1", "point"),
    ("point first", "loss: .5", "loss: .([0-9]+)", "1", "point"),
    ("date", "2024-01-05", "^([0-9]+)", "1", "sign"),
    ("range", "n: 10-20", "n: {number}", "1", "sign"),
    ("complex sum", "z: 1+2j", "z: {number}", "1", "sign"),
    ("deviation", "rmse:0.34+0.01", "rmse:{number}", "1", "sign"),
    ("sign that is spelled out", "loss: -0.5", "loss: -{number}", "1", "sign"),
    ("greedy digits", "n: 125", "n: .*([0-9])", "1", "digit"),
    ("few digits", "n: 125", "n: ([0-9]{2})", "1", "digit"),
    ("behind thousands with a point", "12,345.6 images", f"{DIGITS} images", "1", "group"),
    ("behind millions with a point", "n: 1,012,345.6 images", "{number} images", "1", "group"),
    ("hyphen of a word", "checkpoint-500", "checkpoint.*?{number}", "1", "sign"),
    ("hyphen of a word that begins", "GPU-0: 512.3", "GPU.*?{number}", "1", "sign"),
    ("exponent of Julia", "loss: 1.0f-5", f"{NUMBER}f", "1", "exponent"),
    ("exponent of four words", "loss: 1.0Q+02", f"{NUMBER}Q", "1", "exponent"),
    ("exponent of Mathematica", "loss: 1.5*^-7", NUMBER, "1", "exponent"),
    ("exponent without a letter", "loss: 0.123-100", NUMBER, "1", "sign"),
    ("minutes and seconds", "time: 5 min 3 s", "time: {number}", "min", "clock"),
    ("hours and minutes", "time: 1h 3m", "time: {number}", "h", "clock"),
    ("full-width digits", "n: 5５", "n: ([0-9]+)", "1", "digit"),
    ("superscript", "n: 10³", "n: ([0-9]+)", "1", "digit"),
    ("fraction", "n: 5½", "n: ([0-9]+)", "1", "digit"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "pattern", "unit", "kind"), [row[1:] for row in CUT], ids=[row[0] for row in CUT]
)
def test_a_part_of_a_number_fails_and_the_line_is_quoted(
    line: str, pattern: str, unit: str, kind: str
) -> None:
    compiled, data = compile_pattern(pattern), line.encode()
    match = compiled.search(data)
    assert match is not None
    group = compiled.names.get("value", 1)
    judged = judge(data, match.span(group), compiled, group, unit)
    assert isinstance(judged, Fault)
    assert judged.kind == kind
    extract = read(pattern, f"{line}\n", unit=unit)
    assert (extract.reason, dict(extract.values)) == ("bad-result", {})
    assert f"the line is {line!a}" in extract.message


@pytest.mark.parametrize(
    "word", ["1,000", "1_000", "1e3", "1k", "50%", "v2", "-3", "1.5.2", "1:30"]
)
@pytest.mark.parametrize("step", ["(?P<step>[0-9]+)", "(?P<step>[0-9]+(?:[.][0-9]+)?)"])
def test_a_step_is_whole_too(word: str, step: str) -> None:
    pattern = f"step .*?{step}.* loss (?P<value>{{number}})"
    extract = read(pattern, f"step {word} loss 0.5\n", occurrence="all")
    assert (extract.reason, extract.values) == ("bad-result", {})
    assert "the step in line 1" in extract.message
    spelled = read(
        "step (?P<step>{number})(?:k|%|/9) loss {number}", "step 5% loss 1", occurrence="all"
    )
    assert [value.step for value in spelled.values["x"]] == [5]


@pytest.mark.parametrize("word", ["1,000", "1_000", "1'000", "1e3", "1k", "1.2M", "np.int64(5)"])
@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        ("step (?P<step>[0-9]+) loss {number}", "step {} loss {}\n"),
        ("step (?P<step>[0-9]+): loss {number}", "step {}: loss {}\n"),
        ("^(?P<step>[0-9]+) (?P<value>{number})", "{} {}\n"),
    ],
)
def test_a_step_of_another_spelling_does_not_end_a_curve(
    word: str, pattern: str, line: str
) -> None:
    extract = read(pattern, line.format(999, 2) + line.format(word, 1), occurrence="all")
    assert (extract.reason, "the step in line 2" in extract.message) == ("bad-result", True)


@pytest.mark.parametrize("line", ["step 3[10/391] loss 9", "step 3/9 loss 9", "step 3.5 loss 9",
                                  "step all loss 9"])  # fmt: skip
def test_a_line_of_another_kind_is_none_of_a_curve(line: str) -> None:
    pattern = "step (?P<step>[0-9]+) loss {number}"
    assert values(read(pattern, f"step 3 loss 2\n{line}\n", occurrence="all")) == [2]


@pytest.mark.parametrize(
    ("line", "pattern", "unit", "better", "value"),
    [
        ("loss -12.5", f"loss.*{DIGITS}", "1", "loss {number}", -12.5),
        (
            "acc: np.float64(0.901)",
            rf"acc\D*{DIGITS}",
            "1",
            r"acc: np\.float[0-9]+\({number}",
            0.901,
        ),
        ("loss: 3.2e-07", LOSS, "1", NUMBER, 3.2e-7),
        ("loss: -0.5", LOSS, "1", NUMBER, -0.5),
        ("acc 93.1%", f"acc {DIGITS}", "1", "acc {number}%", 93.1),
        ("12ms", f"^{DIGITS}", "s", "{number}ms", 12),
        ("loss: tensor(0.5)", LOSS, "1", r"loss: tensor\({number}", 0.5),
        ("loss: 0.25.", LOSS, "1", NUMBER, 0.25),
        ("checkpoint-500", "checkpoint.*?{number}", "1", "checkpoint-{number}", 500),
        ("batch-5 images", "{number} images", "1", "batch-{number}", 5),
    ],
)
def test_a_pattern_that_is_suggested_takes_the_number(
    line: str, pattern: str, unit: str, better: str, value: float
) -> None:
    message = read(pattern, f"loss: 1\n{line}\n" if "loss: -" in line else line, unit=unit).message
    assert f"use the pattern {better}" in message
    assert values(read(better, line, unit=unit)) == [value]


@pytest.mark.parametrize("pattern", [LOSS, NUMBER])
@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("loss: nan", math.nan),
        ("loss: NaN, acc: 0.5", math.nan),
        ("loss: -nan(ind)", math.nan),
        ("loss: \x1b[31mnan\x1b[0m", math.nan),
        ("loss: inf", math.inf),
        ("loss: -Inf", -math.inf),
        ("loss: Infinity.", math.inf),
        *((f"loss: {word}", None) for word in ("-", "--", "n/a", "N/A", "na", "None", "null", "")),
        ("loss:", None),
        ("loss: None, acc: 0.5", None),
    ],
)
def test_a_missing_last_number_is_not_replaced_by_an_earlier_one(
    pattern: str, line: str, value: float | None
) -> None:
    extract = read(pattern, f"loss: 1.8\n{line}\nother\n")
    if value is None:
        assert (extract.reason, "line 2" in extract.message) == ("bad-result", True)
    else:
        assert repr(values(extract)) == repr([float(value)])
        assert extract.lines == {"x": 2}
    only = read(pattern, f"loss: 1.8\n{line}\n", occurrence="only")
    assert (only.reason, "2 lines" in only.message) == ("bad-result", True)


@pytest.mark.parametrize(
    "line",
    ["loss: cross_entropy", "loss: nano", "loss: none_reduction", "loss: nan-safe mode",
     "the loss: see below", "Losses: none", "loss_fn: nan"],
)  # fmt: skip
@pytest.mark.parametrize("pattern", [LOSS, NUMBER, r"loss: (\S+)"])
def test_a_line_with_another_word_in_the_place_is_none(pattern: str, line: str) -> None:
    assert values(read(pattern, f"loss: 1.8\n{line}\n")) == [1.8]
    assert values(read(pattern, f"{line}\nloss: 1.8\n", occurrence="only")) == [1.8]


def test_words_before_the_first_number_are_skipped_with_a_note_and_later_ones_fail() -> None:
    for pattern in (LOSS, NUMBER, r"loss: (\S+)"):
        first = read(pattern, "loss: cross_entropy\nloss: 2\nloss: 1\n", occurrence="all")
        assert values(first) == [2, 1]
        assert [note.count("'cross_entropy'") for note in first.notes] == [1]
        later = read(pattern, "loss: 2\nloss: cross_entropy\nloss: 1\n", occurrence="all")
        assert (later.reason, "'cross_entropy'" in later.message) == ("bad-result", True)


@pytest.mark.parametrize(
    ("pattern", "text", "value"),
    [
        (r"loss\D*([0-9.]+)", "loss: 0.5\nloss: nan acc: 0.9", math.nan),
        ("loss.*?{number}", "loss 0.5\nloss nan acc 0.9", math.nan),
        (r"loss\D*([0-9.]+)", "loss: 0.5\nloss: np.nan", math.nan),
        (r"loss\D*([0-9.]+)", "loss: 0.5\nloss: None acc: 0.9", None),
        (r"loss\D*([0-9.]+)", "loss: 0.5\nloss: -", None),
        (r"loss\D*([0-9.]+)", "loss - 0.5", 0.5),
        (r"loss\D*([0-9.]+)", "loss: 0.5\nloss - computing", 0.5),
        (r"loss\D*([0-9.]+)", "loss: 0.5\nloss reduction: none", 0.5),
        (r"loss\D*([0-9.]+)", "loss: 0.5\nbest loss so far, info", 0.5),
        ("loss.*?{number}", "loss function: info 0.5", 0.5),
        ("([0-9.]+) img/s", "9 img/s\nnan img/s", math.nan),
        ("([0-9.]+) img/s", "9 img/s\n-- img/s", None),
        ("^([0-9.]+)$", "9\nnan", math.nan),
        ("^([0-9.]+)$", "9\n  \nend", 9),
        ("^[^,]*,([0-9.]+)", "a,0.5\nb,", None),
        ("step time {number}ms", "step time 5ms\nstep time nanms", math.nan),
        (LOSS, "loss: 1\nloss: ０．５", None),
        ("loss: ([0-9]+[.][0-9]+)", "loss: 1.5\nloss: 3e-07", None),
        ("loss: ([0-9]+) s", "loss: 15 s\nloss: 1,234 s", None),
        # numbers of a fixed width have more white space before them the smaller they are
        (NUMBER, "loss: 12.50\nloss:  9.80", None),
        (NUMBER, "loss: 12.50\nloss:   nan", math.nan),
        ("loss: {number} acc", "loss: 12.50 acc\nloss:  9.80 acc", None),
        ("loss: {number} acc", "loss: 12.50 acc\nloss:  acc", None),
        (NUMBER, "loss: 12.50\nloss:  of what", 12.5),
        ("loss={number}", "loss=1\nloss=tensor(nan, device='cuda:0')", None),
        ("loss={number}", "loss=1\nloss=1.#QNAN", None),
        ("loss={number}", "loss=1\nloss=-1.#IND", None),
        ("loss={number}", "loss=1\nloss=∞", None),
        ("loss={number}", "loss=1\nloss= ****", None),
        ("loss={number}", "loss=1\nloss='nan'", None),
        ("loss={number}", "loss=1\nloss=[-inf]", None),
        ("loss: {number}$", "loss: 1\nloss: -.inf", None),
        ("loss: {number}", "loss: 1\nloss: .nan", None),
        ("loss.*?{number}", "loss=1\nloss=- lr=3", None),
        ("loss.*?{number}", "loss=1\nloss = - 0.5", None),
        ("b={number}", "a=- b=3", 3),
        # what ends the line is what the pattern ends with
        (r"\({number}\)$", "(1)\n(nan)", math.nan),
        (r"loss: {number}\]$", "loss: 5]\nloss: None]", None),
        ("^{number}$", "5\n--", None),
        ("^{number}$", "5\n-----", 5),
        ("loss: {number}s", "loss: 5s\nloss: -s", None),
        ("loss: {number}%", "loss: 5%\nloss: --%", None),
        ("'{number}'", "'5'\n'-'", None),
        ("<td>{number}</td>", "<td>5</td>\n<td>-</td>", None),
        ("^(?:[^;]*;){2}{number}", "a;b;5;\na;b;-;", None),
        ("损失：{number}", "损失：5\n损失：-", None),
        # the group takes a part of the word
        ("loss: ([-+0-9.eE]+)", "loss: 5\nloss: -inf", -math.inf),
        ("loss: ([-+0-9.eE]+)", "loss: 5\nloss: -v", 5),
        ("loss: ([-+0-9.eE]+)", "loss: 5\nloss: --help", 5),
        (r"loss: (\w+)", "loss: 5\nloss: n/a", None),
        (r"loss: (\w+)", "loss: 5\nloss: none-reduction", 5),
        # a number with something behind it, where the pattern goes on
        *(
            ("loss: {number} acc", f"loss: 5 acc\nloss: {word} acc", None)
            for word in ("5ms", "5ms,", "0x1F", "5+-1", "5±1", "1.5*10^-3", "12it/s", "1.5x10^3")
        ),
        *(
            ("loss: {number} acc", f"loss: 5 acc\nloss: {word} acc", 5)
            for word in ("L2", "v3", "4-bit", "mse", "weights.0.5", "2024-01-05")
        ),
        ("^([0-9.]+)$", "0.5\n1e-7", None),
        ("^([0-9.]+)$", "0.5\n-0.5", None),
        ("^([0-9.]+)$", "0.5\n1,234", None),
        ("^([0-9.]+)$", "0.5\n3 epochs", 0.5),
        # columns of a fixed width
        ("^.{10}{number}", "name      0.5\nname      -", None),
        ("^.{10}{number}", "name      0.5\nother     words", 0.5),
    ],
)  # fmt: skip
def test_what_loose_patterns_are_about(pattern: str, text: str, value: float | None) -> None:
    extract = read(pattern, text)
    if value is None:
        assert (extract.reason, extract.values) == ("bad-result", {})
    else:
        assert repr(values(extract)) == repr([float(value)])


@pytest.mark.parametrize(
    ("unit", "text", "told"),
    [
        ("1", "loss: 12 ms", True), ("1", "loss: 12 %", True), ("1", "loss: 3 GB/s", True),
        ("ms", "loss: 12 ms", False), ("%", "loss: 12 %", False), ("1", "loss: 12 images", False),
    ],
)  # fmt: skip
def test_a_unit_behind_white_space_is_noted(unit: str, text: str, told: bool) -> None:
    extract = read(NUMBER, text, unit=unit)
    assert len(values(extract)) == 1
    assert bool(extract.notes) == told
    assert not read("loss: {number} (?:ms|%|GB/s|images)", text).notes


@pytest.mark.parametrize("text", ["t: 5 µs\nt: 6 us\n", "t: 5 KB\nt: 6 kB\n", "t: 5 %\nt: 6 ％\n"])
def test_a_unit_of_two_spellings_is_one(text: str) -> None:
    assert values(read("t: {number}", text, occurrence="all")) == [5, 6]
    table = text.replace("t: 5", "s,t\n1,5").replace("t: 6", "2,6")
    assert values(read_from(Column(text="out/a", column="t", step="s"), table)) == [5, 6]


def test_a_scale_that_changes_fails() -> None:
    extract = read("t: {number}(?:k|M)", "t: 900k\nt: 1.2M\n")
    assert (extract.reason, "k in line 1, M in line 2" in extract.message) == ("bad-result", True)


@pytest.mark.parametrize("occurrence", ["last", "all"])
@pytest.mark.parametrize("pattern", ["t: {number}", "t: {number} ?(?:m?s)"])
def test_a_unit_that_changes_fails(pattern: str, occurrence: Occurrence) -> None:
    extract = read(pattern, "t: 900 ms\nt: 1.2 s\n", occurrence=occurrence)
    assert (extract.reason, "ms in line 1, s in line 2" in extract.message) == ("bad-result", True)


@pytest.mark.parametrize(
    ("source", "text", "value"),
    [
        (Column(text="out/a", column="b"), "a,b\n1,2\n2,nan\n", math.nan),
        (Column(text="out/a", column="b"), "a,b\n1,2\n2,None\n", None),
        (Column(text="out/a", column="b"), "a,b\n1,2\n2,1e-07\n", 1e-7),
        (Column(text="out/a", column="b"), 'a,b\n1,"1,234"\n', None),
        (Column(text="out/a", column="b"), "a,b\n1,1,234\n", None),
        (Column(text="out/a", column="b"), "a;b\n1;0,91\n", None),
        (Column(text="out/a", column="b"), "a,b\n1,1:03:11\n", None),
        (Column(text="out/a", column="b"), "a,b\n1,93.1%\n", None),
        (Column(text="out/a", column="b", unit="%"), "a,b\n1,93.1%\n", 93.1),
        (Column(text="out/a", column="b"), "a,b\n1,12ms\n", None),
        (Column(text="out/a", column="b", unit="ms"), "a,b\n1,12ms\n", 12),
        (Column(text="out/a", column="b", unit="ms"), "a,b\n1,12 ms\n", 12),
        (Column(text="out/a", column="b"), "a,b\n1,12 ms x\n", None),
        (Column(text="out/a", column="b", step="a"), "a,b\n1,900 ms\n2,1.2 s\n", None),
        (Column(text="out/a", column="b", step="a"), 'a,b\n"1,000",5\n', None),
        (Pointer(text="out/a", pointer="/b"), '{"b": NaN}', math.nan),
        (Pointer(text="out/a", pointer="/b"), '\ufeff{"b": 1.5}', 1.5),
        (Pointer(text="out/a", pointer="/b"), '{"b": null}', None),
        (Pointer(text="out/a", pointer="/b"), '{"b": "nan"}', None),
        (Pointer(text="out/a", pointer="/b"), '{"b": "12 ms"}', None),
        (LogKey(text="stdout", key="k"), ':::MLLOG {"key": "k", "value": NaN}', math.nan),
        (LogKey(text="stdout", key="k"), ':::MLLOG {"key": "k", "value": "0.5"}', None),
    ],
)
def test_the_same_holds_for_tables_and_documents(
    source: Source, text: str, value: float | None
) -> None:
    extract = read_from(source, text)
    if value is None:
        assert (extract.reason, extract.values) == ("bad-result", {})
    else:
        assert repr(values(extract)) == repr([float(value)])


def test_a_last_cell_that_is_empty_is_told() -> None:
    extract = read_from(Column(text="out/a", column="b"), "a,b\n1,2\n2,\n")
    assert values(extract) == [2]
    assert len(extract.notes) == 1


def test_a_number_on_the_other_stream_is_told() -> None:
    texts = {"stdout": b"step 1\n", "stderr": b"loss: 0.5\n"}
    source = Pattern(text="stdout", pattern=NUMBER)
    extract = extraction.extract({"x": source}, texts, load=texts.get)
    assert extract.reason == "no-result"
    assert '"stream": "stderr"' in extract.message
    without = extraction.extract({"x": source}, texts, load={"stderr": b"other"}.get)
    assert '"stream"' not in without.message


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:.4f}"),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda x: f"{x:+.3e}"),
    st.integers(-(10**9), 10**9).map(str),
    st.sampled_from(["nan", "inf", "-inf", "NaN", "5.", ".5", "-0.0"]),
)
BEFORE = st.sampled_from(
    ["loss: ", "loss=", "epoch 3/10 loss ", "[loss: ", "(", "'loss': ", "→ ", "损失: "]
)
BEHIND = st.sampled_from(
    ["", " ", ", acc 0.9", ")", "]", "; x", "/10", " (best 0.1)", "\t7", "|", "}"]
)
TOUCHING = st.sampled_from(["e-07", "E5", "D+02", "5", "_000", "x", "µm", "%", "½", "e"])


@given(BEFORE, NUMBERS, BEHIND)
@examples(200)
def test_any_number_between_any_words_is_read_whole(before: str, number: str, behind: str) -> None:
    escaped = before.replace("(", r"\(").replace("[", r"\[")
    found = values(read(escaped + "{number}", f"{before}{number}{behind}\n"))
    assert repr(found) == repr([float(number)])


@given(BEFORE, NUMBERS, TOUCHING)
@examples(200)
def test_what_goes_on_is_never_read_in_part(before: str, number: str, touching: str) -> None:
    escaped = before.replace("(", r"\(").replace("[", r"\[")
    line = f"{before}{number}{touching}"
    extract = read(escaped + "{number}", line)
    if extract.reason is None:
        # a longer number as a whole, and nothing else; a percentage of nothing is nothing
        line = line.removesuffix("%") if not math.isfinite(float(number)) else line
        assert repr(values(extract)) == repr([float(line.removeprefix(before))])


@given(NUMBERS, st.data())
@examples(200)
def test_no_group_of_fewer_characters_gives_another_number(
    number: str, data: st.DataObject
) -> None:
    assume(len(number) > 1 and number[0].isdigit())
    size = data.draw(st.integers(1, len(number) - 1))
    line = f"loss {number} end".encode()
    part = number[:size]
    judged = judge(line, (5, 5 + size))
    if isinstance(judged, Whole):
        # nothing but a point without digits may be left out
        assert float(part) == float(number)


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        ("loss: {number}", 1), ("(?P<value>{number})", 1), ("(?i)loss {number}", 1),
        (r"\{number\} (a)", 1), ("[{number}](a)", 1), (r"\Q{number}(\E(a)", 1),
        ("(?:a|b) {number}", 1), ("((?:a|{number}))", 1), ("(?P<step>{number}) {number}", 2),
        ("{number} {number}", 2),
    ],
)  # fmt: skip
def test_the_placeholder_is_a_group_unless_it_stands_in_one(pattern: str, groups: int) -> None:
    assert compile_pattern(pattern).groups == groups


@pytest.mark.parametrize("pattern", ["loss: {number} (", "{number}(?=a)", "(?P<value>{number}"])
def test_what_is_wrong_with_a_pattern_is_told_in_its_own_words(pattern: str) -> None:
    with pytest.raises(PatternError) as raised:
        compile_pattern(pattern)
    assert "[0-9]" not in str(raised.value)


def test_what_holds_the_number_can_be_replaced() -> None:
    assert replace_value(r"(?:a|\() ([0-9]+)%", "{number}") == r"(?:a|\() {number}%"
    assert replace_value("(?P<step>a)(?P<value>b(c))", "x") == "(?P<step>a)(?P<value>x)"
    assert replace_value("(a)(b)", "x") is None
