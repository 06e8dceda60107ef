"""Operators beside a robot: panels, takeovers, questions, and the release of a stopped robot."""
