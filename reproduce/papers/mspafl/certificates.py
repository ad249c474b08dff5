"""MS-PAFL: points that contradict the paper.

Models have one public number, clipped to C. A client's record, if drawn, moves its upload from -C to C; "noise" is the
variance of the noise on an upload, somewhat more than (6) asks for.
"""

from reproduce.certificates import Point, half_line

LOCAL = {"C": "1", "e": "1", "d": "1/10000"}
NOISY = LOCAL | {"noise": "76"}
JOINT = {"e": "1", "d": "1/10000", "N": "100", "beta": "1/4"}


def within(bound: str) -> dict[str, list]:
    """The event that the averaged model is close to zero."""
    return {"average": [[f"-{bound}", bound]]}


POINTS = [
    Point(
        "lemma-1-minimal",
        "Two thirds of the variance suffice: the exact delta of the Gaussian mechanism, on the right, is below the "
        "stated one.",
        LOCAL | {"noise": "50"},
    ),
    Point(
        "lemma-1-minimal--wide",
        "At a large epsilon the stated variance is too little.",
        LOCAL | {"e": "12", "noise": "0.53"},
        half_line("4.25"),
    ),
    Point(
        "thm-1-wr",
        "Two records, from which eight are drawn with replacement; published is the noisy sum of the drawn records. "
        "One of the two is a number of twice C, or zero. It is drawn several times, which moves the sum several times "
        "as far as the local guarantee covers.",
        LOCAL | {"C": "1/2", "e": "1/2", "noise": "76", "records": "2", "draws": "8"},
        half_line("20"),
    ),
    Point(
        "thm-1-wr--single",
        "One record, drawn three times.",
        LOCAL | {"C": "1/2", "e": "1/2", "noise": "76", "records": "1", "draws": "3"},
        half_line("27"),
    ),
    Point(
        "sec-3a",
        "What the server receives in a round: an upload of the client, or none. The promise is that of a set of "
        "participants that remains unknown.",
        NOISY | {"p": "1/10", "q": "1/10", "N": "100", "beta": "1/2"},
        half_line("25", outcome="upload"),
    ),
    Point(
        "eq-17",
        "The expected weight of the first of two clients in the average; the second checks in every other time.",
        {"chances": ["1", "1/2"]},
    ),
    Point(
        "private-half",
        "The fifth round of one client, at epsilon zero: its private submodel remembers a record that was drawn in any "
        "of the five rounds. If it contributed nothing, the leak would be the delta here.",
        NOISY | {"q": "1/10", "t": "5"},
        half_line("1"),
    ),
    Point(
        "thm-2",
        "One client, which checks in every tenth time and then draws a record with probability one tenth. The event is "
        "a large averaged model. If the client stays away, nothing is published, and nobody hides it.",
        NOISY | {"p": "1/10", "q": "1/10", "N": "1", "beta": "3"},
        half_line("250", outcome="average"),
    ),
    Point(
        "thm-2--always",
        "A client that uses all its records when it checks in.",
        NOISY | {"p": "1/10", "q": "1", "N": "1", "beta": "3"},
        half_line("190", outcome="average"),
    ),
    Point(
        "cor-1",
        "Two equal clients that hardly ever check in: whoever does is alone. The second one uploads zero.",
        NOISY | {"p": "1/100", "q": "1/10", "N": "2", "beta": "3"},
        half_line("1200", outcome="average"),
    ),
    Point(
        "thm-2-joint",
        "A tenth of the records is drawn, clients take part often: the joint bound is above that of data sampling "
        "alone, as the probability is divided by one minus the slip.",
        JOINT | {"p": "9/10", "q": "1/10", "beta": "1/10"},
    ),
    Point(
        "thm-2-joint--printed",
        "The same with the number of clients and the free parameter of the paper's experiments: clients almost always "
        "take part.",
        JOINT | {"p": "999999/1000000", "q": "1/10"},
    ),
    Point(
        "eq-21",
        "The bound of the round against its linear form.",
        JOINT | {"p": "1/10", "q": "1/10"},
    ),
    Point(
        "thm-3",
        "One client that always takes part and keeps a private submodel; from the round on in which its record is "
        "drawn first, all uploads are moved. P and Q are the sum of its uploads of ten rounds. The constant is a "
        "little above that of the proof.",
        NOISY | {"T": "10", "q": "1/10", "c0": "1/2"},
        half_line("22"),
    ),
    Point(
        "thm-3--larger",
        "The same with a constant that is twenty times that of the proof: a constant can only be too small for rare "
        "drawing.",
        NOISY | {"T": "60", "q": "1/10000", "c0": "10"},
        half_line("160"),
    ),
    Point(
        "thm-3-p",
        "The delta of one round for a client that takes part every tenth time, against a client that always does.",
        NOISY | {"p": "1/10", "at": "1/2"},
        half_line("20"),
    ),
    Point(
        "thm-4-sublinear",
        "The total over the number of rounds, after a million of them, never falls below its linear term.",
        {"e": "1/10", "T": "1000000", "slack": "1/10000"},
    ),
    Point(
        "thm-4-applied",
        "Two clients that always take part, with a private submodel kept: the sum of forty averaged models. The other "
        "client uploads zero.",
        NOISY | {"p": "1", "q": "1/100", "N": "2", "beta": "3", "T": "40", "slack": "1/10000"},
        half_line("90"),
    ),
    Point(
        "remark-3",
        "The second round of one client, at epsilon zero: with a private submodel kept, a record drawn in the first "
        "round still moves the upload; without, the leak is at most the delta here.",
        NOISY | {"q": "1/10", "t": "2"},
        half_line("1"),
    ),
    Point(
        "eq-a1",
        "Five clients that all take part and upload nothing but noise, against four: the average of five is narrower.",
        NOISY | {"p": "1", "q": "1/100", "N": "5", "beta": "2"},
        within("4"),
    ),
    Point(
        "lemma-3",
        "Three clients of which two always take part, against these two; all upload nothing but noise.",
        NOISY | {"p": "1/2", "q": "1/100"},
        within("5"),
    ),
    Point(
        "eq-b4",
        "A set of two clients against a set of one; all upload nothing but noise.",
        NOISY | {"q": "1/100"},
        within("7"),
    ),
    Point(
        "eq-b1-b2",
        "Two clients, each there with probability one half; their number is near its mean if it is one. Left: the "
        "other is there, given that and that the first is away; right: given that alone.",
        {"chances": ["1/2", "1/2"], "reach": "1"},
    ),
    Point(
        "eq-b5",
        "The same, given that the first client is there.",
        {"chances": ["1/2", "1/2"], "reach": "1"},
    ),
    Point(
        "eq-c1-c2",
        "The first log moment of the sampled Gaussian mechanism at the noise of Lemma one, in closed form, against the "
        "printed one.",
        LOCAL | {"q": "1/10"},
    ),
    Point(
        "eq-c4",
        "The log moment of taking part every other time is above half the log moment.",
        {"T": "1", "p": "1/2", "L": "1"},
    ),
    Point(
        "eq-c9",
        "The loss that solves the equation before it, after a thousand rounds doubled, and after four thousand.",
        LOCAL | {"p": "1", "q": "1/2", "T": "1000"},
    ),
]
