"""Recordings: episodes of a backend into a data set, by an expert, a policy or random play."""
