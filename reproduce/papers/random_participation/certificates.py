"""Random participation: points that contradict the paper, found by a search over half-lines."""

from reproduce.certificates import Point, half_line

HALF = {"p": "1/2", "q": "1/2"}

POINTS = [
    Point(
        "eq-4",
        "One record with a gradient twice as long as the clip: the mean of the algorithm's estimate, and the gradient.",
        {"others": ["2"]},
    ),
    Point(
        "sec-5-unneeded",
        "A client with one other record, of gradient C. The promise is the loss of a client without other records, "
        "which is that of Poisson sampling.",
        HALF | {"noise": "1", "alpha": "9", "others": ["1"]},
        half_line("3"),
    ),
    Point(
        "eq-27",
        "One other record with gradient zero: the reduction to collinear gradients of full norm, which move P and Q "
        "together, bounds too little. P is the client's sum with the added record, Q the mixture on the right.",
        {"p": "1", "q": "1/2", "noise": "1/4", "alpha": "9", "others": ["0"]},
        half_line("1"),
    ),
    Point(
        "thm-4.1",
        "A client with one other record, whose gradient is zero, takes part or not; a record with a gradient of norm C "
        "is added. The event is a sum of at least C.",
        HALF | {"noise": "1/4", "alpha": "9", "others": ["0"]},
        half_line("1"),
    ),
    Point(
        "thm-4.1--more",
        "Three other records without gradient: the printed delta falls with every record, the leak stays the same.",
        HALF | {"noise": "1/2", "alpha": "9", "others": ["0", "0", "0"]},
        half_line("1.5"),
    ),
    Point(
        "cs-independence",
        "One client, for which shuffling is the identity; its other record points along the added one. Records that "
        "lie at one client are drawn together, not independently.",
        HALF | {"noise": "1", "alpha": "9", "others": ["1"]},
        half_line("3"),
    ),
]
