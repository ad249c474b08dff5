"""PM-SFL: points that contradict the paper."""

from reproduce.certificates import Point, half_line

CANCEL = {"e": "1", "x": ["1", "1"]}
"""Two inputs of which the weights 1 and -0.9 leave little, unless a mask drops the second."""

POINTS = [
    Point(
        "step-2-init",
        "The chance that a score is finite after one round with ten clients, each of which keeps a weight with "
        "probability one half.",
        {"K": "10", "theta": "1/2"},
    ),
    Point(
        "eq-4",
        "One weight and a linear loss: the printed slope, and the slope of the expected loss, which is that of the "
        "straight-through estimator.",
        {"theta": "1/4", "w": "2", "slope": "3"},
    ),
    Point(
        "eq-7-indicator",
        "Two records, of which the first is replaced, and three coordinates: the coordinate with the largest change is "
        "another one, and is sent without noise.",
        {
            "updates": [["0.06", "0", "0"], ["0", "0.01", "0"]],
            "replaced": [["0", "0.06", "0"], ["0", "0.01", "0"]],
            "d": "1/100000",
        },
        {"first": []},
    ),
    Point(
        "thm-1",
        "Two inputs, two outputs; two of the four mask bits are certain. Every guess can be inverted.",
        {
            "w": ["1", "1/100", "-100", "1"],
            "mask": ["0", "1", "1", "0"],
            "keep": ["1/2", "1", "1", "1/2"],
            "x": ["0", "1"],
        },
    ),
    Point(
        "thm-1-nonzero",
        "The guess differs from the mask in one row: the difference is singular, and its least eigenvalue is zero.",
        {"w": ["1", "2", "3", "4"], "mask": ["1", "1", "1", "1"], "guess": ["0", "0", "1", "1"]},
    ),
    Point(
        "eq-26",
        "Two columns, so that the weights are not square: the least singular value of the product (the inverse is the "
        "pseudo-inverse) is less than the quotient of the least and the largest singular value.",
        {"A": ["3", "4"], "B": ["4", "-2"]},
    ),
    Point(
        "def-3",
        "A mechanism that publishes its input beside one of four random labels: no single result is likely, all of "
        "them together give the input away.",
        {"labels": "4", "d": "1/4"},
        {f"own {name}": [] for name in "abcd"},
    ),
    Point(
        "lemma-2",
        "Inputs of which the weights leave little, and a mask that drops the second.",
        CANCEL | {"w": [["1", "-0.9"]], "keep": ["1", "0"]},
        half_line("0.5"),
    ),
    Point(
        "lemma-3",
        "The same inputs: densities of the masked and of the empty mechanism at the masked output.",
        {"w": ["1", "-0.9"], "x": ["1", "1"], "mask": ["1", "0"], "e": "1"},
    ),
    Point(
        "eq-54",
        "One weight: what the line before implies, and what is claimed.",
        {"c": "0.3", "d": "1", "e": "1"},
    ),
    Point(
        "thm-2",
        "Inputs of which the weights leave little, against zero; each weight is kept more often than not.",
        CANCEL | {"w": [["1", "-0.9"]], "keep": ["0.6", "0.6"]},
        half_line("0.5"),
    ),
    Point(
        "masked-shared",
        "Two outputs that share two mask bits; P has the input zero. The event is a pair of outputs close to zero.",
        {
            "e": "0.1",
            "x": ["1", "1"],
            "w": [["0.5", "0.5"], ["0.5", "-0.5"]],
            "keep": ["0.7", "0.7"],
        },
        {"output": [["-0.1", "0.1"], ["-0.1", "0.1"]]},
    ),
    Point(
        "thm-2-batch",
        "Two images of a batch pass one mask of one weight. The first image is one or zero, the second is one; the "
        "event is that both noisy outputs lie above it.",
        {"e": "1", "x": ["1"], "w": [["1"], ["1"]], "keep": ["0.7"]},
        {"output": [["1", "inf"]] * 2},
    ),
    Point(
        "eq-59",
        "Two gradients, of which one is replaced by the opposite one: the mean before and after.",
        {"batch": ["1", "1"], "other": ["1", "-1"], "Gamma": "1"},
    ),
    Point(
        "eq-59--added",
        "A gradient is added to two others, and the mean divides by the size of the batch at hand. The sensitivity "
        "claimed is that of the smaller batch, the larger of both values.",
        {"batch": ["1", "1"], "other": ["1", "1", "-1"], "Gamma": "1"},
    ),
    Point(
        "eq-60",
        "One step, a gradient added to a sum with a public divisor: at a large epsilon the noise is too little.",
        {
            "e": "12",
            "d": "1/100000",
            "R": "1",
            "Gamma": "1",
            "Q": "1",
            "noise": "0.164",
            "other": "0",
        },
        half_line("2.47"),
    ),
    Point(
        "eq-61",
        "Many randomised responses: the number of ones, with the truth on either side.",
        {"R": "200", "keep": "3/4", "ones": "140", "d": "1/100000"},
    ),
    Point(
        "eq-63",
        "Four noisy steps on batches of two; in each, a gradient is replaced by the opposite one.",
        {
            "e": "1",
            "d": "1/100000",
            "R": "4",
            "Gamma": "1",
            "Q": "2",
            "noise": "24",
            "other": "-1",
        },
        half_line("26"),
    ),
    Point(
        "eq-63--added",
        "One step, a gradient added: at a large epsilon the noise is too little for this, too.",
        {
            "e": "16",
            "d": "1/100000",
            "R": "1",
            "Gamma": "1",
            "Q": "1",
            "noise": "0.09",
            "other": "0",
        },
        half_line("2"),
    ),
    Point(
        "eq-68",
        "Four coordinates that all change by the width of the interval.",
        {"c": "0.1", "d": "4"},
    ),
    Point(
        "eq-70",
        "A hundred coordinates that all change by the width of the interval; the event is a number of kept weights.",
        {"c": "0.1", "d": "1/100000", "e": "1", "n": "100", "ones": "60"},
    ),
    Point(
        "amp-renyi",
        "One bit, kept with probability nine tenths or one tenth: the formula as meant, with the second term of a "
        "divergence of order two, as an epsilon.",
        {"alpha": "2", "c": "0.1", "d": "1/20"},
        {"one": []},
    ),
    Point(
        "batch-norm",
        "A batch of three numbers, of which the first is replaced: the last one after normalisation.",
        {"batch": ["1", "2", "3"], "replaced": ["5", "2", "3"]},
    ),
    Point(
        "labels",
        "A picture is replaced by one with another label; the label is sent along, as the algorithm prints it.",
        {"d": "1/100000"},
        {"cat": []},
        P=[{"weight": "1", "outcome": "cat"}],
        Q=[{"weight": "1", "outcome": "dog"}],
    ),
    Point(
        "run-smashed",
        "Two releases of the smashed data of one record in a run, each with the noise for the whole budget.",
        {"e": "1/10", "releases": "2"},
        {"output": [["1", "inf"]] * 2},
    ),
    Point(
        "run-total",
        "A hundred rounds, the noise of each is that for the whole budget; a gradient is added to a sum with a public "
        "divisor.",
        {
            "e": "5.1",
            "d": "1/100000",
            "R": "1",
            "T": "100",
            "Gamma": "1",
            "Q": "1",
            "noise": "0.922",
            "other": "0",
        },
        half_line("50"),
    ),
    Point(
        "run-adjacency",
        "Two releases of the smashed data of one record in a run, each with the noise for the whole budget.",
        {"e": "1/10", "releases": "2"},
        {"output": [["1", "inf"]] * 2},
    ),
    Point(
        "run-own",
        "Three activations of one record, each with the noise for the whole budget.",
        {"e": "1/10", "releases": "3"},
        {"output": [["1", "inf"]] * 3},
    ),
    Point(
        "run-pmsfl",
        "One weight, kept with probability one half, and two inputs; the masked output is sent without noise. It is "
        "zero, or gives the input away.",
        {"d": "1/100000"},
        {"own": []},
        P=[{"weight": "1/2", "outcome": "zero"}, {"weight": "1/2", "outcome": "own"}],
        Q=[{"weight": "1/2", "outcome": "zero"}, {"weight": "1/2", "outcome": "other"}],
    ),
]
