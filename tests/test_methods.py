"""Published methods by name: every row works as ``make`` offers it, and no row can change."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from corrtensor import METHODS, make

ONE_SIDED = [name for name, method in METHODS.items() if method.one_sided]
RIVALS = [name for name in ONE_SIDED if name != "2DPCA"]


@pytest.mark.parametrize("name", METHODS)
def test_every_method_fits_at_the_defaults_of_make(clean_images, name):
    X = clean_images.reshape(60, -1) if name == "PCA" else clean_images
    model = make(name).fit(X)
    lost = np.square(X - model.inverse_transform(model.transform(X))).sum()
    # GLRAM takes no mean: its share is one of the whole energy.
    origin = 0 if name == "GLRAM" else X.mean(axis=0)
    assert lost < 0.2 * np.square(X - origin).sum()


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95, 0.999, np.float32(0.8), "auto"])
def test_a_share_of_energy_gives_the_rank_of_2dpca(clean_images, name, share):
    model = make(name, share).fit(clean_images)
    wanted = make("2DPCA", share).fit(clean_images).ranks_
    assert model.core_shape_ == wanted
    assert model.rank_ == wanted[1] == model.factors_[1].shape[1]
    fixed = make(name, wanted[1]).fit(clean_images)
    assert_allclose(model.factors_[1], fixed.factors_[1], atol=1e-12)


def test_a_share_of_energy_by_hand(clean_images):
    D = clean_images - clean_images.mean(axis=0)
    energies = np.linalg.svd(D.reshape(-1, 7), compute_uv=False) ** 2
    for share in (0.5, 0.9, 0.97):
        k = make("L1-2DPCA", share).fit(1e140 * clean_images).rank_
        assert energies[:k].sum() >= share * energies.sum() > energies[: k - 1].sum()


@pytest.mark.parametrize("name", ONE_SIDED)
@pytest.mark.parametrize("ranks", [None, (None, None), [None, None]])
def test_a_method_of_columns_needs_a_rank(clean_images, name, ranks):
    with pytest.raises(ValueError, match=r"None.* projects no mode of the samples"):
        make(name, ranks).fit(clean_images)


@pytest.mark.parametrize("name", ONE_SIDED)
def test_ranks_in_arrays(clean_images, name):
    for ranks in (np.array(2), np.array([None, 2]), [None, 2], np.int64(2)):
        assert make(name, ranks).fit(clean_images).core_shape_ == (8, 2)
    with pytest.raises(ValueError, match=r"ranks=\[3, 2\] must be one value or \(None, k\)"):
        make(name, np.array([3, 2]))


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize(
    ("rank", "kind"),
    [
        (np.array(2), TypeError),
        (np.array([2, 3]), TypeError),
        ((2, 3), TypeError),
        (True, TypeError),
        ("all", TypeError),
        (1.0, ValueError),
        (2.0, ValueError),
        (np.nan, ValueError),
        (-1, ValueError),
    ],
    ids=repr,
)
def test_a_wrong_rank_is_named(clean_images, name, rank, kind):
    model = make(name, 1).set_params(rank=rank)
    with pytest.raises(kind) as error:
        model.fit(clean_images)
    assert f"rank={rank!r}" in str(error.value)


def test_the_table_cannot_be_changed():
    for method in METHODS.values():
        with pytest.raises(TypeError):
            method.settings["order"] = 7
    with pytest.raises(TypeError):
        METHODS["PCA"] = None
