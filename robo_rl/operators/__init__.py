"""People beside a robot: panels, takeovers, questions, and what re-arms a stopped robot."""
