"""Values of critics with bins against plain sums."""

import numpy as np
import torch

from robo_rl.agents.xqc.categorical import output_values


def test_a_value_is_the_mean_of_the_centres() -> None:
    logits = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    shares = np.exp(logits.numpy()) / np.exp(logits.numpy()).sum(-1, keepdims=True)
    expected = shares @ np.array([-0.8, -0.4, 0.0, 0.4, 0.8])
    np.testing.assert_allclose(output_values(logits, (-1.0, 1.0)).numpy(), expected, rtol=1e-12)
