"""Parameters of small tables 1 and 2 and of a small section 4.2, for tests."""

TABLE = {
    "profile": "quick", "data": "digits", "model": "small_digits", "device": "cpu", "memory": 256,
    "start": "pretrained", "pretrain_classes": 8, "pretrain_target": 0.3, "pretrain_epochs": 1,
    "pretrain_batch": 96, "pretrain_rate": 0.1, "pretrain_drop": 0.5, "augment": False,
    "records": 60, "submodels": [3, 8], "first": 1, "last": 1, "sampling": "poisson",
    "iterations": 3, "participations": 1, "samples_per_user": 1, "local_iterations": 2,
    "local_rate": 0.1, "epsilon": 8.0, "delta": 1e-5, "clip": 0.5, "unsplit_clip": 0.5,
    "sigma_baseline": 0.7, "sigma_amplified": [0.6, 0.5], "learning_rate": 0.1,
    "learning_rate_unclipped": 0.05, "momentum": 0.9,
    "evaluate_every": 2, "seeds": 2,
}  # fmt: skip
SAMPLING = {k: v for k, v in TABLE.items() if k not in ("sigma_baseline", "sigma_amplified")} | {
    "scratch_model": "small_digits", "scratch_records": 50, "scratch_iterations": 4,
    "scratch_participations": 2, "scratch_rate": 0.2, "scratch_evaluate_every": 2,
    "scratch_sigma": [1.0, 0.9], "tuned_sigma": [0.7, 0.65],
}  # fmt: skip
