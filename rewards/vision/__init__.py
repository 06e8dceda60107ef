"""CLIP models through open_clip: loading, encoding, and training a small one on pictures of the simulations."""
