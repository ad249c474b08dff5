"""Model and data partitioning: points that contradict the paper.

All with order two and one block of d; "square" is the square of the clip over the noise's deviation. What is printed as
left for a reverse divergence is a lower bound of it, from the moments of the likelihood ratio up to "degree".
"""

from reproduce.certificates import Point, half_line

TWO = {"d": "2", "square": "1/10", "degree": "5"}
MANY = {"d": "10", "square": "1/4", "degree": "7"}

POINTS = [
    Point(
        "lem-3.18",
        "Two blocks: the divergence of the centred mixture is nearly twice that of the wider Gaussian.",
        TWO,
    ),
    Point(
        "lem-3.18--blocks",
        "Ten blocks.",
        MANY,
    ),
    Point(
        "a.7-all-blocks",
        "Ten blocks, with the Gaussian in one dimension less, in which the mixture lives and the argument for two "
        "blocks is right.",
        MANY,
    ),
    Point(
        "cor-3.19",
        "Two blocks: the divergence is nearly twice the closed form.",
        TWO,
    ),
    Point(
        "thm-3.1-second",
        "Three blocks: the divergence in the reverse direction is above the second term, which is printed as its "
        "bound.",
        {"d": "3", "square": "1/10", "degree": "5"},
    ),
    Point(
        "rem-3.2-likewise",
        "Three blocks: the divergence in the reverse direction, the second term of the first line, is above the second "
        "term of the second line.",
        {"d": "3", "square": "1/10", "degree": "5"},
    ),
    Point(
        "sec-3.2.2",
        "A split part with three blocks and an unsplit part, after Poisson sampling with one coin for both: the cost "
        "of both together is above the sum of their costs.",
        {"d": "3", "square": "1", "split": "1", "rate": "1/10"},
    ),
    Point(
        "cor-3.7",
        "All of the gradient's norm lies in a parameter that no dropout layer touches.",
        {"square": "1"},
    ),
    Point(
        "bis-delta",
        "Two iterations, one participation, little noise: the sum of both outputs shows the record more often than "
        "Poisson sampling uses it at all.",
        {"T": "2", "k": "1", "shift": "8", "e": "1/2"},
        half_line("4"),
    ),
    Point(
        "limit-poisson",
        "The total variation between the iterations that a record takes part in, at a rate of one tenth: it rises with "
        "the number of iterations.",
        {"T": ["10", "1000"], "rates": ["1/10", "1/10"]},
    ),
    Point(
        "limit-poisson--once",
        "The same if the record takes part once.",
        {"T": ["10", "1000"], "rates": ["1/10", "1/1000"]},
    ),
]
