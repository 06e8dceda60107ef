"""The products of a dense layer in the native library, against NumPy in float64."""

import ctypes

import numpy as np
import pytest

from robo_rl.agents.parts.native import available, library_path

PRECISIONS = [
    pytest.param(name, marks=pytest.mark.skipif(not available(name)[0], reason=available(name)[1]))
    for name in ("float32", "bfloat16")
]
SIZES = [(1, 1, 1), (2, 3, 5), (13, 17, 15), (14, 16, 32), (15, 33, 31), (28, 47, 256), (29, 100, 64), (256, 256, 14)]


def products(precision, x, w, g):
    """Return y = x w, dx = g w^T and dw = x^T g of the library."""
    library = ctypes.CDLL(str(library_path()))
    (rows, inputs), outputs = x.shape, w.shape[1]
    results = [np.full(shape, np.nan, np.float32) for shape in ((rows, outputs), (rows, inputs), (inputs, outputs))]
    library.robo_rl_dense_products(
        precision == "bfloat16",
        rows,
        inputs,
        outputs,
        *(a.ctypes.data_as(ctypes.c_void_p) for a in (x, w, g, *results)),
    )
    return results


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_products_of_a_dense_layer(sizes, precision):
    rows, inputs, outputs = sizes
    generator = np.random.default_rng(sum(sizes))
    x, w, g = (
        generator.standard_normal(shape).astype(np.float32)
        for shape in ((rows, inputs), (inputs, outputs), (rows, outputs))
    )
    x64, w64, g64 = (a.astype(np.float64) for a in (x, w, g))
    rounding = 2.0**-7 if precision == "bfloat16" else 2.0**-20  # of two factors of 8 bits; of sums of 24
    for got, left, right in zip(products(precision, x, w, g), (x64, g64, x64.T), (w64, w64.T, g64), strict=True):
        terms = np.abs(left) @ np.abs(right)
        assert (np.abs(got - left @ right) <= rounding * terms + 1e-30).all()


@pytest.mark.skipif(not available("bfloat16")[0], reason=available("bfloat16")[1])
def test_bfloat16_is_exact_where_factors_are_short():
    """Small integers are bfloat16 numbers, and their sums are exact in float32."""
    generator = np.random.default_rng(0)
    x, w, g = (generator.integers(-9, 10, shape).astype(np.float32) for shape in ((37, 21), (21, 45), (37, 45)))
    y, dx, dw = products("bfloat16", x, w, g)
    assert (y == x @ w).all()
    assert (dx == g @ w.T).all()
    assert (dw == x.T @ g).all()
