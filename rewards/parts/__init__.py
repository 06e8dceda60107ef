"""Parts that reward modules are made of."""
