"""Training runs: preparation, local, asynchronous and Ray drivers, evaluations, checkpoints and results."""
