"""Losses: slopes by differences, concavity, densities known from elsewhere, errors."""

import math
import re
from decimal import Decimal, localcontext

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import gennorm, norm

from corrtensor.correntropy import (
    corr_loss,
    corr_ploss,
    generalized_correntropy,
    generalized_gaussian,
    ggd_constants,
)
from corrtensor.losses import Correntropy, Power
from corrtensor.losses.scale import upper_edge, weighted_quantiles

ALPHAS = (0.5, 1.0, 1.6, 2.0, 3.0, 4.0, 7.0, 15.0, 50.0)
PS = (0.5, 1.0, 2.0, 3.0, 8.0, 20.0)
BETAS = (0.3, 1.0, 40.0)


def at(loss, u):
    """The squared residuals at which the kernel's exponent is ``u``."""
    return loss.width**2 * np.asarray(u) ** (2 / loss.alpha)


def central_slope(f, s, h):
    return (f(s * (1 + h)) - f(s * (1 - h))) / (2 * h * s)


def exact_slope(s, alpha, beta, p):
    """Slope of DESIGN's phi by differences in 400 digits: it holds where doubles saturate."""
    with localcontext() as context:
        context.prec = 400
        alpha, beta, p, s = (Decimal(float(x)) for x in (alpha, beta, p, s))
        h = s * Decimal(10) ** -40

        def phi(s):
            return (1 - (-((s / beta**2) ** (alpha / 2))).exp()) ** (p / 2)

        return float(((phi(s + h) - phi(s - h)) / (2 * h)).ln())


@pytest.mark.parametrize("cap", [True, False])
@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_log_weight_is_log_slope_of_value(alpha, p, beta, cap):
    loss = Correntropy(alpha, beta, p, scale=None, cap=cap)
    s = at(loss, np.geomspace(1e-3, 4, 23))
    h = 1e-5 / (1 + alpha / 4 + alpha * p / 8)
    if loss.peak:
        s = s[np.abs(s / loss.peak - 1) > 2 * h]
    slope = central_slope(loss.value, s, h)
    # differences are good to h**2 times the curvature, and eps over h times the slope
    assert_allclose(loss.log_weight(s), np.log(slope), rtol=0, atol=1e-7)


@pytest.mark.parametrize("u", [1e-30, 1e-9, 0.5, 30.0, 600.0])
@pytest.mark.parametrize(
    ("alpha", "p"), [(0.5, 0.5), (0.5, 20), (1.6, 2), (2, 2), (7, 8), (50, 0.5), (50, 20)]
)
def test_log_weight_where_the_value_saturates(alpha, p, u):
    loss = Correntropy(alpha, 0.8, p, scale=None, cap=False)
    s = at(loss, u)
    expected = exact_slope(s, alpha, 0.8, p)
    assert_allclose(loss.log_weight(s), expected, rtol=1e-11, atol=1e-10)


@pytest.mark.parametrize("p", PS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_capped_loss_is_concave(alpha, p):
    loss = Correntropy(alpha, 1.3, p, scale=None)
    s = np.concatenate([np.geomspace(1e-12, 1e6, 4000), np.geomspace(0.5, 4, 4000)])
    s.sort()
    weight = loss.log_weight(s)
    assert np.all(np.diff(weight) <= 1e-12 * np.abs(weight[:-1]) + 1e-12)
    value = loss.value(s)
    assert np.all(np.diff(value) >= -1e-15)
    middle = loss.value((s[:-1] + s[1:]) / 2)
    assert np.all(middle >= (value[:-1] + value[1:]) / 2 - 1e-14)


@pytest.mark.parametrize(
    ("alpha", "p"),
    [(a, p) for a in ALPHAS for p in PS] + [(1, 4), (0.2, 20), (8, 0.5), (1.9, 2.1), (2, 2.1)],
)
def test_printed_loss_is_concave_exactly_when_alpha_p_is_at_most_4(alpha, p):
    loss = Correntropy(alpha, 1.3, p, scale=None, cap=False)
    weight = loss.log_weight(at(loss, np.geomspace(1e-9, 50, 4000)))
    falling = np.all(np.diff(weight) <= 1e-12 * np.abs(weight[:-1]) + 1e-12)
    assert falling == (alpha * p <= 4)


@pytest.mark.parametrize(("alpha", "p"), [(1, 2), (2, 2), (4, 1), (1.6, 2.5)])
def test_cap_changes_nothing_where_the_printed_loss_is_concave(alpha, p):
    s = np.geomspace(1e-12, 1e3, 500)
    capped, printed = (Correntropy(alpha, 0.8, p, scale=None, cap=cap) for cap in (True, False))
    assert np.array_equal(capped.log_weight(s), printed.log_weight(s))
    assert np.array_equal(capped.value(s), printed.value(s))


@pytest.mark.parametrize(("alpha", "p"), [(4, 2), (2, 8), (50, 20)])
def test_cap_leaves_the_weight_alone_beyond_its_peak(alpha, p):
    capped, printed = (Correntropy(alpha, 0.8, p, scale=None, cap=cap) for cap in (True, False))
    s = at(capped, np.geomspace(1e-6, 20, 4001))
    peak = printed.log_weight(s).argmax()
    expected = printed.log_weight(s)
    expected[:peak] = expected[peak]
    # the grid meets the peak to one part in 400, and the peak is flat
    assert_allclose(capped.log_weight(s), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0])
def test_power_log_weight_is_log_slope(p):
    s = np.geomspace(1e-6, 1e6, 25)
    for loss in (Power(p), Power(p).calibrate(s)):
        slope = central_slope(loss.value, s, 1e-5)
        assert_allclose(loss.log_weight(s), np.log(slope), rtol=0, atol=1e-8)


def test_power_by_hand():
    s = np.array([0.0, 1.0, 4.0])
    assert_allclose(Power(2).value(s), s)
    assert_allclose(Power(1).value(s), [0, 1, 2])
    assert_allclose(np.exp(Power(2).log_weight(s)), [1, 1, 1])
    assert_allclose(np.exp(Power(1).log_weight(s[1:])), [0.5, 0.25])


@pytest.mark.parametrize(
    "loss", [Power(1), Correntropy(1.0, scale="median"), Correntropy(p=1.0, scale="median")]
)
def test_calibrated_weights_are_finite_at_zero(loss):
    frozen = loss.calibrate(np.array([1.0, 2.0, 3.0]))
    weight = frozen.log_weight(np.array([0.0, 1e-300, 1e-30, 1e-3, 1.0, 1e300]))
    assert np.all(np.isfinite(weight))
    assert np.all(np.diff(weight) <= 0)
    # the smoothing must not be felt at the size of the residuals themselves
    s = np.array([0.5, 1.0, 3.0])
    sharp = (
        loss
        if isinstance(loss, Power)
        else Correntropy(loss.alpha, loss.beta * math.sqrt(2), loss.p, scale=None)
    )
    assert_allclose(frozen.log_weight(s), sharp.log_weight(s), rtol=0, atol=1e-8)


S = np.array([9.0, 1.0, 4.0, 100.0, 25.0])


@pytest.mark.parametrize(("scale", "width"), [("median", 6.0), (None, 2.0), (0.7, 1.4), (3, 6.0)])
def test_bandwidth_is_beta_times_scale(scale, width):
    assert Correntropy(beta=2.0, scale=scale).calibrate(S).width == pytest.approx(width, rel=1e-15)


def test_median_scale_is_one_of_the_residuals():
    """Of an even number the lower middle one, so that repeated samples change nothing."""
    loss = Correntropy(beta=1.0, scale="median")
    assert loss.calibrate(S[:4]).width == 2.0
    assert loss.calibrate(np.repeat(S[:4], 3)).width == 2.0


def test_automatic_scale_sees_good_residuals_only():
    """It follows the spread of the smaller residuals, whatever the largest fifth does."""
    spread = norm.ppf((np.arange(200) + 0.5) / 200)
    widths = []
    for sigma in (0.3, 0.5, 0.7):
        s = np.exp(sigma * spread)
        good = Correntropy(scale="auto").calibrate(s)
        assert np.all(good.log_weight(s[:190]) > good.log_weight(s[:1]) + math.log(0.05))
        s[160:] = 1e9 * s[160:]
        spoiled = Correntropy(scale="auto").calibrate(s)
        assert spoiled.width == pytest.approx(good.width, rel=1e-12)
        assert np.all(spoiled.log_weight(s[160:]) < spoiled.log_weight(s[:1]) - 500)
        widths.append(good.width)
    assert widths == sorted(widths)


@pytest.mark.parametrize("scale", ["auto", "median", None, 0.5])
@pytest.mark.parametrize("s", [[0.0] * 5, [0.0, 0.0, 0.0, 1.0, 2.0], [0.0, 0.0, 1.0, 1.0, 1.0]])
def test_calibration_survives_residuals_of_zero(s, scale):
    s = np.array(s)
    loss = Correntropy(scale=scale).calibrate(s)
    assert loss.width > 0
    assert np.all(np.isfinite(loss.value(s)))
    assert np.all(np.isfinite(loss.log_weight(s)))


@pytest.mark.parametrize("scale", ["auto", "median"])
def test_calibration_follows_the_units_of_the_data(scale):
    loss = Correntropy(3.0, 1.5, 4.0, scale)
    small, large = loss.calibrate(S), loss.calibrate(S * 1e200)
    assert_allclose(large.value(S * 1e200), small.value(S), rtol=1e-12)
    difference = large.log_weight(S * 1e200) - small.log_weight(S)
    assert_allclose(difference, -math.log(1e200), rtol=1e-12)


def test_calibration_leaves_the_original_alone():
    loss = Correntropy(beta=2.0)
    loss.calibrate(S)
    assert loss == Correntropy(beta=2.0)
    assert repr(loss) == repr(Correntropy(beta=2.0))


X = np.linspace(-6, 6, 101)


@pytest.mark.parametrize("beta", BETAS)
def test_alpha_2_is_the_gaussian(beta):
    expected = norm.pdf(X, scale=beta / math.sqrt(2))
    assert_allclose(generalized_gaussian(X, 2.0, beta), expected, rtol=1e-12)
    assert ggd_constants(2.0, beta)[0] == pytest.approx(1 / (beta * math.sqrt(math.pi)), rel=1e-14)
    assert ggd_constants(2.0, beta)[1] == pytest.approx(beta**-2, rel=1e-14)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_density_is_scipys(alpha, beta):
    expected = gennorm.pdf(X, alpha, scale=beta)
    # subnormal numbers have few digits
    assert_allclose(generalized_gaussian(X, alpha, beta), expected, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("beta", BETAS)
@pytest.mark.parametrize("alpha", ALPHAS)
def test_density_integrates_to_one(alpha, beta):
    far = beta * 40 ** (1 / alpha)
    half, _ = quad(generalized_gaussian, 0, far, args=(alpha, beta), points=[beta], limit=200)
    # beyond `far` the density has fallen by exp(-40)
    assert 2 * half == pytest.approx(1, rel=1e-8)


@pytest.mark.parametrize("beta", [0.8, 1.25])
def test_large_alpha_is_the_uniform_density(beta):
    density = generalized_gaussian([0.99 * beta, 1.01 * beta], 1e6, beta)
    assert_allclose(density, [1 / (2 * beta), 0], rtol=1e-5)


@pytest.mark.parametrize("beta", [1e-7, 1e7])
def test_density_at_alpha_50_neither_fails_nor_warns(beta):
    """1/beta**50 and (e/beta)**50 leave the range of doubles long before the density does."""
    e = np.array([0.0, 0.5 * beta, 1e8 * beta])
    expected = gennorm.pdf(0, 50, scale=beta) * np.array([1, math.exp(-(0.5**50)), 0])
    assert_allclose(generalized_gaussian(e, 50.0, beta), expected, rtol=1e-12)


PAIRS = np.random.default_rng(5).normal(size=(2, 40))


@pytest.mark.parametrize("alpha", [0.5, 1.6, 2.0, 5.0])
def test_correntropy_is_the_mean_density_of_the_differences(alpha):
    a, b = PAIRS
    terms = [gennorm.pdf(x - y, alpha, scale=0.8) for x, y in zip(a, b, strict=True)]
    estimate = math.fsum(terms) / len(terms)
    assert generalized_correntropy(a, b, alpha, 0.8) == pytest.approx(estimate, rel=1e-12)
    gamma = gennorm.pdf(0, alpha, scale=0.8)
    assert corr_loss(a, b, alpha, 0.8) == pytest.approx(gamma - estimate, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 1.6, 2.0, 5.0])
def test_corr_ploss(alpha):
    a, b = PAIRS
    assert corr_ploss(a, b, alpha, 0.8, p=2) == corr_loss(a, b, alpha, 0.8)
    gamma = gennorm.pdf(0, alpha, scale=0.8)
    for p in (0.5, 1.0, 4.0):
        # eq. 36 from its first line: the distance in the kernel space is sqrt(2 G(0) - 2 G(e))
        distances = [
            math.sqrt(2 * gamma - 2 * gennorm.pdf(x - y, alpha, scale=0.8))
            for x, y in zip(a, b, strict=True)
        ]
        expected = 2 ** (-p / 2) * math.fsum(d**p for d in distances) / len(distances)
        assert corr_ploss(a, b, alpha, 0.8, p=p) == pytest.approx(expected, rel=1e-10)


def test_corr_loss_is_bounded():
    gamma, _ = ggd_constants(1.6, 0.8)
    assert corr_loss([1.0, 2.0], [1.0, 2.0], 1.6, 0.8) == 0
    assert corr_loss([1e9, 0.0], [0.0, -1e9], 1.6, 0.8) == pytest.approx(gamma, rel=1e-15)


@pytest.mark.parametrize("value", [0, -1.5, math.nan, math.inf, np.float32(-2)])
@pytest.mark.parametrize("name", ["alpha", "beta", "p"])
def test_parameters_must_be_positive(name, value):
    with pytest.raises(ValueError, match=rf"{name}=.*{value}"):
        Correntropy(**{name: value})


@pytest.mark.parametrize("value", ["wide", None, True, 1j, [1.0]])
@pytest.mark.parametrize("name", ["alpha", "beta", "p"])
def test_parameters_must_be_numbers(name, value):
    with pytest.raises(TypeError, match=name) as error:
        Correntropy(**{name: value})
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("scale", ["mad", 0, -1.0, math.nan, math.inf])
def test_scale_must_be_known_or_positive(scale):
    with pytest.raises(ValueError, match=rf"scale=.*{scale}"):
        Correntropy(scale=scale)


@pytest.mark.parametrize("p", [0, -1, math.nan, 2.5])
def test_power_must_be_concave(p):
    with pytest.raises(ValueError, match=f"p={p}"):
        Power(p)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ggd_constants(-1.0, 1.0),
        lambda: generalized_gaussian([0.0], -1.0, 1.0),
        lambda: generalized_correntropy([0.0], [0.0], 1.0, -1.0),
        lambda: corr_loss([0.0], [0.0], 1.0, -1.0),
        lambda: corr_ploss([0.0], [0.0], 1.0, 1.0, p=-1.0),
    ],
)
def test_functions_name_a_bad_parameter(call):
    with pytest.raises(ValueError, match=r"(alpha|beta|p)=-1\.0"):
        call()


SQUARES = np.array([0.0, 1.0, 2.0, 3.0, 4.0])


def relative_weights(loss, s):
    log_w = loss.log_weight(s)
    return np.exp(log_w - log_w.max())


@pytest.mark.parametrize("alpha", [0.5, 2.0, 4.0, 15.0])
@pytest.mark.parametrize(
    "wide",
    [{"beta": 1e200}, {"scale": 1e160}, {"beta": 1e200, "scale": 1e160}, {"beta": 1e300}],
    ids=str,
)
def test_a_bandwidth_beyond_all_numbers_is_least_squares_from_the_cap_on(alpha, wide):
    loss = Correntropy(alpha, **{"p": 8.0, **wide}).calibrate(SQUARES)
    assert np.isfinite(loss.value(SQUARES)).all()
    assert_allclose(relative_weights(loss, SQUARES), 1.0, rtol=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 2.0, 4.0, 15.0])
@pytest.mark.parametrize("p", [1.0, 2.0, 8.0])
@pytest.mark.parametrize(
    "narrow", [{"beta": 1e-200, "scale": None}, {"beta": 1e-200, "scale": 1e-160}], ids=str
)
def test_a_bandwidth_below_all_numbers_leaves_exact_fits_alone(alpha, p, narrow):
    loss = Correntropy(alpha, p=p, **narrow).calibrate(SQUARES)
    assert np.isfinite(loss.value(SQUARES)).all()
    w = relative_weights(loss, np.append(SQUARES, 0.0))
    assert w.tolist() == [1.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def test_far_beyond_the_bandwidth_weights_still_fall():
    loss = Correntropy(4.0, 1e-100, scale=None)
    log_w = loss.log_weight(np.geomspace(1e-190, 1e300, 200))
    assert np.isfinite(log_w).all()
    assert (np.diff(log_w) < 0).all()


@pytest.mark.parametrize("p", [600.0, 800.0, 1e4, 1e9])
@pytest.mark.parametrize("alpha", [1.0, 4.0, 15.0])
def test_peak_of_a_high_order(alpha, p):
    """Far out ``1 - 2/alpha = u - (p/2 - 1) u / (e^u - 1)``: the slope vanishes at the peak."""
    loss = Correntropy(alpha, 1.0, p, scale=None)
    u = loss.peak ** (alpha / 2)
    assert u == pytest.approx(1 - 2 / alpha + (p / 2 - 1) * u / math.expm1(u), rel=1e-9)
    assert np.isfinite(loss.value(loss.peak * SQUARES)).all()
    around = loss._log_weight(loss.peak * np.array([0.9, 1.0, 1.1]))
    assert around.argmax() == 1


def test_peak_where_alpha_p_is_next_to_4():
    assert Correntropy(200.00000000000003, p=0.02).peak == 0.0
    for p in np.geomspace(0.01, 800, 400):
        alpha = 4 / p
        for _ in range(3):
            loss = Correntropy(alpha, 1.0, p, scale=None)
            assert 0 <= loss.peak < 1
            alpha = np.nextafter(alpha, np.inf)


def test_printed_defaults_are_the_defaults():
    """A docstring that says ``alpha : float, default=2.0`` must not be about ``alpha=4.0``."""
    for cls in (Correntropy, Power):
        for name, field in cls.__dataclass_fields__.items():
            if field.repr:
                assert re.search(
                    rf"^    {name} : .*default={field.default!r}$".replace("'", '"'),
                    cls.__doc__,
                    re.MULTILINE,
                ), name


@pytest.mark.parametrize("reach", [0, -1.0, math.nan, math.inf])
def test_reach_must_be_positive(reach):
    with pytest.raises(ValueError, match=f"reach={reach}"):
        Correntropy(reach=reach)


def log_normal(sigma, n=1001):
    """Residuals at the quantiles of a log-normal distribution about 3."""
    return 3 * np.exp(sigma * norm.ppf((np.arange(n) + 0.5) / n))


@pytest.mark.parametrize("spoiled", ["nothing", "large ones", "small ones"])
def test_good_residuals_end_by_the_nearer_quartile(spoiled):
    """Four standard deviations of the logarithm above the median, also where a quartile lies."""
    s = log_normal(0.5)
    if spoiled == "large ones":
        s[700:] *= 1e6
    elif spoiled == "small ones":
        s[:300] *= 1e-6
    assert_allclose(upper_edge(s, 4.0), 3 * np.exp(4 * 0.5), rtol=0.01)


def test_good_residuals_end_between_two_bounds():
    assert_allclose(upper_edge(log_normal(0.01), 4.0), 3 * 1.5, rtol=1e-6)
    assert_allclose(upper_edge(log_normal(3.0), 4.0), 3 * 64, rtol=1e-6)


@pytest.mark.parametrize("each", [1.0, 0.25])
def test_equal_weights_give_plain_quantiles(each):
    s = np.random.default_rng(0).exponential(size=777)
    found = weighted_quantiles(s, np.full(777, each))
    levels = (np.arange(2001) + 0.5) / 2001
    assert_allclose(found, np.quantile(s, levels, method="inverted_cdf"), rtol=0)
    # As if the first counted hardly otherwise: the way of weights that differ.
    weights = np.r_[each * (1 + 1e-13), np.full(776, each)]
    assert_allclose(found, weighted_quantiles(s, weights), rtol=0)
