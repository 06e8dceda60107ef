"""Parts of agents: networks, policies, encoders, the optimiser, native kernels and losses, one of each."""
