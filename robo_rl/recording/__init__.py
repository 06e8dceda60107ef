"""Recording of episodes into data sets: by a scripted expert, a person, a policy or play."""
