"""Real data with outliers put in: the numbers of DESIGN section 3, or better.

"Times oracle": the mean residual of the good samples over that of a least-squares fit which is
told who is good. 1.000 is perfect.
"""

import numpy as np
import pytest
from PIL import Image

from corrtensor import CorrTensor
from corrtensor.methods import make

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def yale(data_dir):
    """The 165 faces, 100 x 100, in [0, 1]."""
    with np.load(data_dir / "yale.npz", allow_pickle=False) as stored:
        faces = stored["images"]
    small = [Image.fromarray(face).resize((100, 100), Image.Resampling.BOX) for face in faces]
    return np.stack([np.asarray(face) for face in small]) / 255.0


def with_noise(X, n, seed):
    """Add n images of uniform noise."""
    noise = np.random.default_rng(seed).random((n, *X.shape[1:]))
    return np.concatenate([X, noise]), np.arange(len(X) + n) < len(X)


def with_blocks(X, n, seed):
    """Cover n of the images in part by a rectangle of black and white dots."""
    rng = np.random.default_rng(seed)
    X, good = X.copy(), np.ones(len(X), bool)
    for i in rng.choice(len(X), n, replace=False):
        height, width = rng.integers(30, 71, size=2)
        top, left = rng.integers(0, 101 - height), rng.integers(0, 101 - width)
        X[i, top : top + height, left : left + width] = rng.integers(0, 2, size=(height, width))
        good[i] = False
    return X, good


def with_magnified(X, n, seed):
    """Add n of the images, drawn with repetition, times 50."""
    drawn = np.random.default_rng(seed).integers(0, len(X), size=n)
    return np.concatenate([X, 50 * X[drawn]]), np.arange(len(X) + n) < len(X)


@pytest.fixture(scope="module")
def times_oracle():
    """The function that fits a model and compares; an oracle is fitted once."""
    known = {}

    def compare(model, X, good):
        key = (model.ranks, X[good].tobytes())
        if key not in known:
            known[key] = make("MPCA", ranks=model.ranks).fit(X[good]).residuals_.mean()
        return model.fit(X).residuals(X[good]).mean() / known[key]

    return compare


CASES = {
    # spoil, how many, ranks, DESIGN section 3's number, section 7's bar for the defaults
    "30 noise, 50x50": (with_noise, 30, 50, 1.003, 1.02),
    "30 noise, 70x70": (with_noise, 30, 70, 1.002, 1.02),
    "30 blocks, 70x70": (with_blocks, 30, 70, 1.001, 1.02),
    "160 noise, 50x50": (with_noise, 160, 50, 1.001, 1.05),
    "160 times 50, 20x20": (with_magnified, 160, 20, 1.000, 1.05),
}
cases = pytest.mark.parametrize(
    ("spoil", "n", "rank", "number", "bar"), CASES.values(), ids=CASES.keys()
)


@cases
def test_yale_with_the_settings_of_the_design(yale, times_oracle, spoil, n, rank, number, bar):
    X, good = spoil(yale, n, seed=0)
    model = CorrTensor((rank, rank), alpha=2.0, beta=2.0, scale="median")
    # the third decimal depends on how the images were resized, which DESIGN does not say
    assert times_oracle(model, X, good) <= number + 0.0015
    assert model.weights_[~good].max() < 0.02
    assert model.weights_[good].min() > 0.5


@pytest.mark.parametrize("seed", [0, 1])
@cases
def test_yale_at_the_defaults(yale, times_oracle, spoil, n, rank, number, bar, seed):
    X, good = spoil(yale, n, seed)
    model = CorrTensor((rank, rank))
    ratio = times_oracle(model, X, good)
    assert ratio <= bar
    # the numbers of DESIGN section 3, which has three decimals, or better
    assert round(ratio, 3) <= number
    assert model.weights_[~good].max() < 0.05


@cases
def test_yale_needs_robustness(yale, times_oracle, spoil, n, rank, number, bar):
    """The outliers are no small matter: least squares is far off."""
    X, good = spoil(yale, n, seed=0)
    assert times_oracle(make("2DSVD", ranks=(rank, rank)), X, good) > 1.5


@pytest.mark.parametrize("rank", [20, 50, 70])
def test_yale_without_outliers(yale, times_oracle, rank):
    """Robustness must cost nothing where nothing is wrong."""
    good = np.ones(len(yale), bool)
    assert times_oracle(CorrTensor((rank, rank)), yale, good) <= 1.02


def accuracy_of_centres(model, X, y, X_test, y_test):
    """Share of test images whose core is nearest to the weighted centre of its own class."""
    cores = model.fit(X).transform(X).reshape(len(X), -1)
    centres = np.stack(
        [np.average(cores[y == c], axis=0, weights=model.weights_[y == c]) for c in range(10)]
    )
    tested = model.transform(X_test).reshape(len(X_test), -1)
    distances = np.stack([np.linalg.norm(tested - centre, axis=1) for centre in centres])
    return np.mean(distances.argmin(axis=0) == y_test)


def test_mnist_with_magnified_digits(data_dir):
    """Five per cent of the training images times 50, ranks 15 x 15: 0.816 to 0.820."""
    with np.load(data_dir / "mnist.npz", allow_pickle=False) as stored:
        pool, labels = stored["x_train"], stored["y_train"]
        X_test, y_test = stored["x_test"] / 255.0, stored["y_test"]
    rng = np.random.default_rng(0)
    drawn = np.concatenate(
        [rng.choice(np.flatnonzero(labels == digit), 500, replace=False) for digit in range(10)]
    )
    X, y = pool[drawn] / 255.0, labels[drawn]
    bad = rng.choice(len(X), 250, replace=False)
    X[bad] *= 50
    model = CorrTensor((15, 15))
    assert accuracy_of_centres(model, X, y, X_test, y_test) >= 0.815
    assert model.weights_[bad].max() < 1e-6
    assert accuracy_of_centres(make("2DSVD", ranks=(15, 15)), X, y, X_test, y_test) < 0.4
