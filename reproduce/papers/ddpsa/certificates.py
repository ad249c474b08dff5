"""DDP-SA: points that contradict the paper."""

from reproduce.certificates import Point, half_line

POINTS = [
    Point(
        "eq-2-5",
        "Two clients with quadratic losses: averaging models after two local epochs is not two steps along averaged "
        "gradients.",
        {
            "slopes": ["1", "3"],
            "centres": ["0", "1"],
            "rate": "1/10",
            "start": "2",
            "epochs": "2",
        },
    ),
    Point(
        "quantisation-sum",
        "Two negative numbers whose sum is smaller than the modulus in size come back as a positive one.",
        {"p": "101", "numbers": ["-30", "-30"]},
    ),
    Point(
        "quantisation-sum--rounding",
        "Two encoded numbers are rounded in the same direction; their sum is off by more than one number may be.",
        {"SF": "10", "numbers": ["0.14", "0.14"]},
    ),
    Point(
        "alg-2-average",
        "A client with two records, of which one is removed: the division by the number of records changes the noise. "
        "The event is an average close to zero.",
        {"data": ["-1", "1"], "other": ["-1"], "clip": "1", "e": "1"},
        {"output": [["-0.25", "0.25"]]},
    ),
    Point(
        "median-clip",
        "Six gradients, of which a large one is removed: the median that sets clip and noise falls with it.",
        {
            "data": ["1", "1", "1", "9", "9", "9"],
            "other": ["1", "1", "1", "9", "9"],
            "e": "1",
        },
        half_line("9"),
    ),
    Point(
        "client-level",
        "Two data sets of a client with one record each, whose gradients point in opposite directions.",
        {"data": ["1"], "other": ["-1"], "clip": "1", "e": "1"},
        half_line("1"),
    ),
    Point(
        "client-level--records",
        "Two data sets of a client with three records each: the leak grows with their number.",
        {"data": ["1", "1", "1"], "other": ["-1", "-1", "-1"], "clip": "1", "e": "1/10"},
        half_line("3"),
    ),
    Point(
        "curious-clients",
        "Two clients: one subtracts its own upload from the sum and faces one client's noise instead of two.",
        {"e": "1"},
    ),
    Point(
        "less-budget",
        "Two noisy uploads, shared among three servers, summed, opened and averaged: the error is that of the same "
        "uploads averaged in the open.",
        {
            "p": "101",
            "SF": "10",
            "uploads": ["1.2", "-0.5"],
            "shares": [["40", "90", "84"], ["17", "33", "46"]],
            "truth": "0",
        },
    ),
    Point(
        "averaging",
        "The variance of the averaged noise, with the same records split among two clients or among six.",
        {"few": "2", "many": "6", "N": "6000", "clip": "1", "e": "1"},
    ),
    Point(
        "budget",
        "A run of two rounds on two records, of which one is removed: both outputs are above the sum of the gradients.",
        {"data": ["1", "1"], "other": ["1"], "clip": "1", "e": "1/10", "rounds": "2"},
        {"output": [["2", "inf"], ["2", "inf"]]},
    ),
    Point(
        "mixed-adversary",
        "One server is controlled and the link to the other is observed: the two shares add up to the secret, so that "
        "some pairs of them are impossible for another secret.",
        {"controlled": ["1"], "observed": ["2"], "p": "3", "secret": "0", "other": "1"},
        {"0 0": [], "1 2": [], "2 1": []},
    ),
    Point(
        "lemma-1-link",
        "Three servers and the link to each: a share is known where either is compromised.",
        {"q": "1/10", "m": "3"},
    ),
    Point(
        "advanced-better",
        "At a large epsilon advanced composition is above basic composition after a million rounds, and after any "
        "other number of them.",
        {"e": "1", "T": "1000000", "slack": "1/10000"},
    ),
    Point(
        "membership",
        "An attacker counts the rounds whose output is on the record's side, and says that the record was used if "
        "they are most. The chance to be right is the same with the record and without it.",
        {"e": "1/10", "T": "1217", "reliable": "9/10"},
    ),
]
