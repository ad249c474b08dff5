"""Logistic regression in closed form: the gradient, and recall of both classes."""

import numpy as np

from repro.models.logistic import gradient, recall


def test_the_gradient_is_that_of_the_loss():
    rng = np.random.default_rng(1)
    models, batch, gamma = rng.normal(size=(2, 3, 4)), rng.normal(size=(2, 5, 4)), 0.3

    def loss(w):
        margins = np.einsum("ibm,ikm->ikb", batch, w)
        return np.logaddexp(0, -margins).mean(axis=-1) + gamma * (w**2).sum(axis=-1)

    found = gradient(models, batch, gamma)
    for c in range(4):
        step = 1e-6 * np.eye(4)[c]
        difference = (loss(models + step) - loss(models - step)) / 2e-6
        np.testing.assert_allclose(found[..., c], difference, rtol=1e-5, atol=1e-8)
    assert np.isfinite(gradient(1e4 * models, batch, 0.0)).all()


def test_recall_counts_both_classes_and_ties_answer_class_0():
    features, labels = np.array([[1.0], [2.0], [-1.0], [3.0]]), np.array([1, 0, 0, 1])
    found = recall(np.array([[[1.0]], [[-1.0]], [[0.0]]]), features, labels)
    assert found[:, 0].tolist() == [[0.5, 1.0], [0.5, 0.0], [1.0, 0.0]]
    many = np.random.default_rng(0).normal(size=(700, 5))
    rng = np.random.default_rng(7)
    rows = rng.normal(size=(54, 5))
    answers = (rows[:, 0] + rng.normal(size=54) > 0).astype(np.int64)
    plain = [((rows[answers == 1] @ w) > 0).mean() for w in many]
    np.testing.assert_allclose(recall(many, rows, answers)[:, 1], plain)
